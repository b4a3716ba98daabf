//! Calls about the gateway itself, and what it logs.

use ceph_nvmeof::{
    DisableSpdkNvmfLogsReq, GatewayInfo, GatewayLogLevelInfo, GetGatewayInfoReq, GetGatewayLogLevelReq,
    GetSpdkNvmfLogFlagsAndLevelReq, GwLogLevel, ReqStatus, SetGatewayLogLevelReq, SetSpdkNvmfLogsReq,
    SpdkNvmfLogFlagsAndLevelInfo,
};
use engine::limits::{HOSTS_MAX, NAMESPACES_MAX, SUBSYSTEMS_MAX};
use gateway::GroupStatus;
use libc::EINVAL;
use serde_json::json;

use super::failed::Failed;
use super::native::Native;
use super::subsystems::group_name;

/// Version of ceph-nvmeof that has these calls; its command compares it with its own.
pub(super) const VERSION: &str = "1.7.0";
/// Log level by default.
const USUAL_LEVEL: &str = "warn";

pub(super) async fn info(native: Native, request: GetGatewayInfoReq) -> Result<GatewayInfo, Failed> {
    let group = native.group().await?;
    let name = host_name(group.as_ref());
    let own =
        group.as_ref().and_then(|group| group.gateways.iter().find(|known| known.name == group.gateway));
    let (subsystems, hosts) = (u32::try_from(SUBSYSTEMS_MAX).ok(), u32::try_from(HOSTS_MAX).ok());
    let in_all = |most: u32| subsystems.map(|subsystems| subsystems.saturating_mul(most));
    let listener = native.ports().await?.first().map(|port| port.address);
    Ok(GatewayInfo {
        cli_version: request.cli_version.unwrap_or_default(),
        version: VERSION.to_owned(),
        name: name.clone(),
        group: group.as_ref().map(group_name).unwrap_or_default().to_owned(),
        addr: listener.map(|address| address.ip().to_canonical().to_string()).unwrap_or_default(),
        port: native.service.to_string(),
        load_balancing_group: own.map_or(1, |own| own.number.into()),
        hostname: name,
        max_subsystems: subsystems,
        max_namespaces: in_all(NAMESPACES_MAX),
        max_namespaces_per_subsystem: Some(NAMESPACES_MAX),
        max_hosts: hosts.and_then(in_all),
        max_hosts_per_subsystem: hosts,
        gateway_initialization_over: Some(true),
        io_stats_enabled: Some(true),
        location: own.and_then(|own| own.location.clone()),
        ..GatewayInfo::default()
    })
}

/// The name by which this gateway is known.
pub(super) fn host_name(group: Option<&GroupStatus>) -> String {
    group.map_or_else(gateway::host_name, |group| group.gateway.clone())
}

pub(super) async fn log_level(
    native: Native,
    _: GetGatewayLogLevelReq,
) -> Result<GatewayLogLevelInfo, Failed> {
    let level = match level(&native).await?.as_str() {
        "error" => GwLogLevel::Error,
        "warn" => GwLogLevel::Warning,
        "debug" | "trace" => GwLogLevel::Debug,
        _ => GwLogLevel::Info,
    };
    Ok(GatewayLogLevelInfo { log_level: level as i32, ..GatewayLogLevelInfo::default() })
}

/// Log level of the whole program; levels of single modules are left out.
async fn level(native: &Native) -> Result<String, Failed> {
    let shown = native.ask("GET", "/v1/log", None).await?;
    let all = shown["level"].as_str().unwrap_or_default();
    Ok(all.split(',').find(|part| !part.contains('=')).unwrap_or(USUAL_LEVEL).to_owned())
}

async fn set_level(native: &Native, level: &str) -> Result<ReqStatus, Failed> {
    native.ask("PUT", "/v1/log", Some(json!({ "level": level }))).await?;
    Ok(ReqStatus::default())
}

pub(super) async fn set_log_level(
    native: Native,
    request: SetGatewayLogLevelReq,
) -> Result<ReqStatus, Failed> {
    let level = match request.log_level {
        10 => "debug",
        20 => "info",
        30 => "warn",
        40 | 50 => "error",
        other => return Err(Failed::new(EINVAL, format!("Unknown log level {other}"))),
    };
    set_level(&native, level).await
}

/// There is one log; SPDK's levels are a part of it, and it has none of SPDK's flags.
pub(super) async fn spdk_level(
    native: Native,
    _: GetSpdkNvmfLogFlagsAndLevelReq,
) -> Result<SpdkNvmfLogFlagsAndLevelInfo, Failed> {
    let level = match level(&native).await?.as_str() {
        "error" => 0,
        "warn" => 1,
        "debug" | "trace" => 4,
        _ => 3,
    };
    let both =
        SpdkNvmfLogFlagsAndLevelInfo { log_level: level, log_print_level: level, ..Default::default() };
    Ok(both)
}

pub(super) async fn set_spdk_level(native: Native, request: SetSpdkNvmfLogsReq) -> Result<ReqStatus, Failed> {
    let level = match request.log_level.or(request.print_level) {
        Some(0) => "error",
        Some(1) => "warn",
        Some(2 | 3) | None => "info",
        Some(4) => "debug",
        Some(other) => return Err(Failed::new(EINVAL, format!("Unknown log level {other}"))),
    };
    set_level(&native, level).await
}

pub(super) async fn disable_spdk_logs(
    native: Native,
    _: DisableSpdkNvmfLogsReq,
) -> Result<ReqStatus, Failed> {
    set_level(&native, USUAL_LEVEL).await
}
