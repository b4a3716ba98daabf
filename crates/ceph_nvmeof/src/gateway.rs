//! The gateway itself, and what it logs.

#[derive(Clone, PartialEq, prost::Message)]
pub struct ReqStatus {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetGatewayInfoReq {
    #[prost(string, optional, tag = "1")]
    pub cli_version: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GatewayInfo {
    #[prost(string, tag = "1")]
    pub cli_version: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub group: String,
    #[prost(string, tag = "5")]
    pub addr: String,
    #[prost(string, tag = "6")]
    pub port: String,
    #[prost(bool, tag = "7")]
    pub bool_status: bool,
    #[prost(int32, tag = "8")]
    pub status: i32,
    #[prost(string, tag = "9")]
    pub error_message: String,
    #[prost(string, optional, tag = "10")]
    pub spdk_version: Option<String>,
    #[prost(uint32, tag = "11")]
    pub load_balancing_group: u32,
    #[prost(string, tag = "12")]
    pub hostname: String,
    #[prost(uint32, optional, tag = "13")]
    pub max_subsystems: Option<u32>,
    #[prost(uint32, optional, tag = "14")]
    pub max_namespaces: Option<u32>,
    #[prost(uint32, optional, tag = "15")]
    pub max_hosts_per_subsystem: Option<u32>,
    #[prost(uint32, optional, tag = "16")]
    pub max_namespaces_per_subsystem: Option<u32>,
    #[prost(uint32, optional, tag = "17")]
    pub max_hosts: Option<u32>,
    #[prost(bool, optional, tag = "18")]
    pub gateway_initialization_over: Option<bool>,
    #[prost(bool, optional, tag = "19")]
    pub io_stats_enabled: Option<bool>,
    #[prost(string, optional, tag = "20")]
    pub location: Option<String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetGatewayLogLevelReq {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SetGatewayLogLevelReq {
    #[prost(int32, tag = "1")]
    pub log_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GatewayLogLevelInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(int32, tag = "3")]
    pub log_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetSpdkNvmfLogFlagsAndLevelReq {
    #[prost(bool, optional, tag = "1")]
    pub all_log_flags: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DisableSpdkNvmfLogsReq {
    #[prost(string, repeated, tag = "1")]
    pub extra_log_flags: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SetSpdkNvmfLogsReq {
    #[prost(int32, optional, tag = "1")]
    pub log_level: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub print_level: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    pub extra_log_flags: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SpdkLogFlagInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bool, tag = "2")]
    pub enabled: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SpdkNvmfLogFlagsAndLevelInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub nvmf_log_flags: Vec<SpdkLogFlagInfo>,
    #[prost(int32, tag = "4")]
    pub log_level: i32,
    #[prost(int32, tag = "5")]
    pub log_print_level: i32,
}
