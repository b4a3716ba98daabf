//! `selvedge namespace`: adds, removes, lists, shows, resizes and changes namespaces of a running target.

use engine::target::{NamespaceConfig, QosConfig, SubsystemConfig, Visibility, WriteProtection};
use hyper::Method;
use nvme::discovery::Nqn;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ask::{client, done, tell};
use super::image;
use super::namespace_states::States;
use super::subsystem::subsystems;
use crate::control::client::encode;
use crate::failure::Failure;
use crate::flags::control::ControlFlags;
use crate::flags::image::ImageFlags;
use crate::flags::subsystem::{Limit, NamespaceAction, NamespaceSettings, OwnerFlag};
use crate::report::table::{Side, Table};
use crate::spec::namespace::describe;
use crate::spec::size::Size;

/// Does what was typed.
pub(super) fn run(action: &NamespaceAction) -> Result<(), Failure> {
    match action {
        NamespaceAction::Add { subsystem, spec, image, settings, control } => {
            let body = add_body(spec.as_deref(), image, settings)?;
            let json: Value = client(control)?.change(Method::POST, &path(subsystem, None), &body.into())?;
            let nsid = json.get("nsid").cloned().unwrap_or_default();
            done(control, format!("namespace {nsid} of {subsystem} is added"), &json)
        }
        NamespaceAction::Remove { subsystem, nsid, removal, control } => {
            let (query, what) = match (removal.delete_image, removal.rbd_trash_image) {
                (true, _) => ("?delete_image=true", "removed with its image"),
                (_, true) => ("?trash_image=true", "removed, and its image is in the trash"),
                _ => ("", "removed"),
            };
            let client = client(control)?;
            let path = format!("{}{query}", path(subsystem, Some(*nsid)));
            image::follow(&client, client.order(Method::DELETE, &path)?)?;
            done(control, format!("namespace {nsid} of {subsystem} is {what}"), &json!({ "removed": nsid }))
        }
        NamespaceAction::List { subsystem, control } => list(subsystem.as_ref(), control),
        NamespaceAction::Show { subsystem, nsid, control } => show(subsystem, *nsid, control),
        NamespaceAction::Reopen { subsystem, nsid, control } => {
            let path = format!("{}/reopen", path(subsystem, Some(*nsid)));
            let json: Value = client(control)?.order(Method::POST, &path)?;
            done(control, format!("namespace {nsid} of {subsystem} is reopened; writes are accepted"), &json)
        }
        NamespaceAction::Reservations { subsystem, nsid, control } => reservations(subsystem, *nsid, control),
        NamespaceAction::ClearReservations { subsystem, nsid, host, control } => {
            let (part, whose) = match host {
                Some(host) => (format!("/{}", encode(host)), format!("registration of {host}")),
                None => (String::new(), "registrations".to_owned()),
            };
            let path = format!("{}/reservations{part}", path(subsystem, Some(*nsid)));
            client(control)?.order(Method::DELETE, &path)?;
            let text = format!("namespace {nsid} of {subsystem}: {whose} cleared");
            done(control, text, &json!({ "cleared": nsid }))
        }
        NamespaceAction::Resize { subsystem, nsid, size, shrink, control } => {
            let body = json!({ "size": size.0, "shrink": shrink });
            let client = client(control)?;
            let changed = client.change(Method::PATCH, &path(subsystem, Some(*nsid)), &body);
            let json = image::follow(&client, changed.map_err(say_shrink)?)?;
            done(control, format!("namespace {nsid} of {subsystem} has {size}"), &json)
        }
        NamespaceAction::Snapshot { subsystem, nsid, snapshot, remove, control } => {
            image::snapshot(subsystem, nsid, snapshot.as_deref(), *remove, control)
        }
        NamespaceAction::Clone { subsystem, nsid, clone, settings, control } => {
            image::clone(subsystem, *nsid, clone, settings, control)
        }
        NamespaceAction::Flatten { subsystem, nsid, no_wait, control } => {
            image::flatten(subsystem, *nsid, *no_wait, control)
        }
        NamespaceAction::Tasks { control } => image::tasks(control),
        NamespaceAction::Set { subsystem, nsid, settings, control } => {
            let body = body(settings);
            if body.is_empty() {
                return Err(Failure::usage("no setting is given: add one, such as --iops 10000"));
            }
            let path = path(subsystem, Some(*nsid));
            let json: Value = client(control)?.change(Method::PATCH, &path, &body.into())?;
            done(control, format!("namespace {nsid} of {subsystem} is changed"), &json)
        }
    }
}

fn list(subsystem: Option<&Nqn>, control: &ControlFlags) -> Result<(), Failure> {
    let client = client(control)?;
    let states = States::of(&client)?;
    if let Some(nqn) = subsystem {
        let mut json: Value = client.get(&path(nqn, None))?;
        let list = json.get("namespaces").cloned().unwrap_or_default();
        let namespaces: Vec<NamespaceConfig> = serde_json::from_value(list).map_err(Failure::failed)?;
        states.add_to(nqn, &mut json["namespaces"]);
        let subsystem = SubsystemConfig::new(nqn, "", "").with(namespaces);
        return tell(control, table(&subsystem, &states, 0), &json);
    }
    let mut json: Value = client.get("/v1/subsystems")?;
    let mut text = String::new();
    for subsystem in subsystems(&json)? {
        text += &format!("{}\n{}", subsystem.nqn, table(&subsystem, &states, 2));
    }
    for subsystem in json["subsystems"].as_array_mut().into_iter().flatten() {
        let nqn = subsystem["nqn"].as_str().unwrap_or_default().to_owned();
        states.add_to(&nqn, &mut subsystem["namespaces"]);
    }
    tell(control, text, &json)
}

fn show(subsystem: &Nqn, nsid: u32, control: &ControlFlags) -> Result<(), Failure> {
    let client = client(control)?;
    let (json, states): (Value, _) = (client.get(&path(subsystem, Some(nsid)))?, States::of(&client)?);
    let config = NamespaceConfig::deserialize(&json).map_err(Failure::failed)?;
    let mut shown = json!([json]);
    states.add_to(subsystem, &mut shown);
    tell(control, whole(&config, subsystem, &states), &shown[0])
}

fn reservations(subsystem: &Nqn, nsid: u32, control: &ControlFlags) -> Result<(), Failure> {
    let path = format!("{}/reservations", path(subsystem, Some(nsid)));
    let json: Value = client(control)?.get(&path)?;
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let columns = [("host", Side::Left), ("hostid", Side::Left), ("holds", Side::Left)];
    let mut table = Table::new(&columns);
    for host in json["registrants"].as_array().into_iter().flatten() {
        let holds = if host["holds"] == true { text_of(&json["type"]) } else { "-".to_owned() };
        table.row(vec![text_of(&host["host_nqn"]), text_of(&host["host_id"]), holds]);
    }
    tell(control, table.to_string(), &json)
}

/// The API's word for it is a field; here it is a flag.
pub(super) fn say_shrink(failure: Failure) -> Failure {
    match failure {
        Failure::Failed(what) => Failure::Failed(what.replace("set \"shrink\": true", "add --shrink")),
        other => other,
    }
}

pub(super) fn path(subsystem: &str, nsid: Option<u32>) -> String {
    let path = format!("/v1/subsystems/{}/namespaces", encode(subsystem));
    nsid.map_or(path.clone(), |nsid| format!("{path}/{nsid}"))
}

/// The body that adds a namespace by a specification, or by flags in its place.
fn add_body(
    spec: Option<&NamespaceConfig>,
    flags: &ImageFlags,
    settings: &NamespaceSettings,
) -> Result<Map<String, Value>, Failure> {
    let mut body = match spec {
        Some(spec) => new(spec, settings)?,
        None => new(&image::spec(flags)?, settings)?,
    };
    match image::create(flags) {
        Some(create) => {
            body.insert("create_image".into(), create);
        }
        None if flags.new.is_given() => {
            return Err(Failure::usage("these flags need a new image: add --rbd-create-image --size SIZE"));
        }
        None => {}
    }
    Ok(body)
}

/// The body of a namespace: what it says itself, and what the settings say.
fn new(config: &NamespaceConfig, settings: &NamespaceSettings) -> Result<Map<String, Value>, Failure> {
    let mut whole = match serde_json::to_value(config).map_err(Failure::failed)? {
        Value::Object(whole) => whole,
        other => return Err(Failure::failed(format!("{other} is not a namespace"))),
    };
    // What is not said is the target's to choose.
    whole.remove("ana_group");
    if config.nsid == 0 {
        whole.remove("nsid");
    }
    whole.extend(body(settings));
    Ok(whole)
}

pub(super) fn body(settings: &NamespaceSettings) -> Map<String, Value> {
    let number = |limit: &Limit<u64>| match limit {
        Limit::None => Value::Null,
        Limit::To(number) => json!(number),
    };
    let bytes = |limit: &Limit<Size>| match limit {
        Limit::None => Value::Null,
        Limit::To(Size(bytes)) => json!(bytes),
    };
    let limits = [
        ("iops", settings.iops.as_ref().map(number)),
        ("read_iops", settings.read_iops.as_ref().map(number)),
        ("write_iops", settings.write_iops.as_ref().map(number)),
        ("bytes", settings.bw.as_ref().map(bytes)),
        ("read_bytes", settings.read_bw.as_ref().map(bytes)),
        ("write_bytes", settings.write_bw.as_ref().map(bytes)),
    ];
    let given = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?)));
    let qos: Map<String, Value> = given.collect();
    let mut body = Map::new();
    if !qos.is_empty() {
        body.insert("qos".into(), qos.into());
    }
    if let Some(group) = settings.ana_group {
        body.insert("ana_group".into(), json!(group));
    }
    if let Some(location) = &settings.location {
        body.insert("location".into(), json!(Some(location).filter(|name| *name != "none")));
    }
    let names = |hosts: &[nvme::discovery::Nqn]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
    if !settings.visible_to.is_empty() {
        body.insert("visible".into(), json!({ "only": names(&settings.visible_to) }));
    } else if !settings.hidden_from.is_empty() || settings.visible_to_all {
        body.insert("visible".into(), json!({ "all_except": names(&settings.hidden_from) }));
    }
    for (name, protection) in [
        ("write_protection", settings.write_protection),
        ("host_write_protection", settings.host_write_protection),
    ] {
        if let Some(protection) = protection {
            body.insert(name.into(), json!(WriteProtection::from(protection)));
        }
    }
    if let Some(OwnerFlag(owner)) = &settings.owner {
        body.insert("owner".into(), json!(owner));
    }
    body
}

/// A table of a subsystem's namespaces.
pub(super) fn table(subsystem: &SubsystemConfig, states: &States, indent: usize) -> String {
    let columns = [
        ("nsid", Side::Right),
        ("size", Side::Right),
        ("block", Side::Right),
        ("ana", Side::Right),
        ("state", Side::Left),
        ("backend", Side::Left),
        ("remarks", Side::Left),
        ("uuid", Side::Left),
    ];
    let mut table = Table::new(&columns).indented(indent);
    for config in &subsystem.namespaces {
        table.row(vec![
            config.nsid.to_string(),
            states.size(&subsystem.nqn, config.nsid).unwrap_or_else(|| "-".to_owned()),
            block_size(config).map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            config.ana_group.to_string(),
            states.state(&subsystem.nqn, config.nsid).0.to_owned(),
            describe(&config.backend),
            remarks(config).join(", "),
            states.text(&subsystem.nqn, config.nsid, "uuid").unwrap_or("-").to_owned(),
        ]);
    }
    table.to_string()
}

fn remarks(config: &NamespaceConfig) -> Vec<String> {
    let mut remarks = Vec::new();
    match &config.visible {
        Visibility::AllExcept(hosts) if hosts.is_empty() => {}
        Visibility::AllExcept(hosts) => remarks.push(format!("hidden from {}", hosts.len())),
        Visibility::Only(hosts) => remarks.push(format!("visible to {}", hosts.len())),
    }
    if !config.qos.is_unlimited() {
        remarks.push(limits(&config.qos));
    }
    if !config.write_protection.is_none() {
        let by = if config.protected_by_host { " by a host" } else { "" };
        remarks.push(format!("write protected{by}"));
    }
    match &config.owner {
        Some(owner) => remarks.push(format!("owned by {}", owner.nqn)),
        None if config.created_by_host => remarks.push("created by a host".to_owned()),
        None => {}
    }
    remarks
}

fn whole(config: &NamespaceConfig, subsystem: &str, states: &States) -> String {
    let visible = match &config.visible {
        Visibility::AllExcept(hosts) if hosts.is_empty() => "to all hosts".to_owned(),
        Visibility::AllExcept(hosts) => format!("to all but {}", hosts.join(", ")),
        Visibility::Only(hosts) if hosts.is_empty() => "to no host".to_owned(),
        Visibility::Only(hosts) => format!("to {}", hosts.join(", ")),
    };
    let protection = match config.write_protection {
        WriteProtection::None if states.is_write_protected(subsystem, config.nsid) == Some(true) => {
            "yes, since its storage can only be read"
        }
        WriteProtection::None => "no",
        WriteProtection::On => "yes",
        WriteProtection::UntilRestart => "until the target starts again",
        WriteProtection::Permanent => "forever",
    };
    let by = if config.protected_by_host { ", set by a host" } else { "" };
    let state = match states.state(subsystem, config.nsid) {
        (state, Some(reason)) => format!("{state}: {reason}"),
        (state, None) => state.to_owned(),
    };
    let not_there = || "not known while it is absent".to_owned();
    let location = config.location.as_ref().map_or_else(String::new, |location| format!(", at {location}"));
    let identity = |name| states.text(subsystem, config.nsid, name).map_or_else(not_there, str::to_owned);
    let lines = [
        ("subsystem", subsystem.to_owned()),
        ("state", state),
        ("backend", describe(&config.backend)),
        ("size", states.size(subsystem, config.nsid).unwrap_or_else(not_there)),
        ("block size", block_size(config).map_or_else(not_there, |bytes| format!("{bytes} bytes"))),
        ("at power loss", states.at_power_loss(subsystem, config.nsid).to_owned()),
        ("uuid", identity("uuid")),
        ("nguid", identity("nguid")),
        ("ana group", format!("{}{location}", config.ana_group)),
        ("visible", visible),
        ("limits", limits(&config.qos)),
        ("write protected", format!("{protection}{by}")),
        ("hosts may set", config.host_write_protection.name().to_owned()),
        ("owner", config.owner.as_ref().map_or("the operator".to_owned(), ToString::to_string)),
    ];
    let mut text = format!("namespace {}\n", config.nsid);
    for (name, value) in lines {
        text += &format!("  {name:<16} {value}\n");
    }
    for remark in states.remarks(subsystem, config.nsid) {
        text += &format!("  {:<16} {remark}\n", "remark");
    }
    text
}

/// Bytes of a block; a device that is not there yet has not been asked for them.
fn block_size(config: &NamespaceConfig) -> Option<u32> {
    Some(config.block_size).filter(|bytes| *bytes > 0)
}

fn limits(qos: &QosConfig) -> String {
    let counts = [("", qos.iops), ("read ", qos.read_iops), ("write ", qos.write_iops)];
    let bytes = [("", qos.bytes), ("read ", qos.read_bytes), ("write ", qos.write_bytes)];
    let counts = counts.iter().filter_map(|(kind, limit)| Some(format!("{} {kind}commands/s", (*limit)?)));
    let bytes = bytes.iter().filter_map(|(kind, limit)| {
        let kind = kind.trim_end();
        Some(format!("{kind} {}/s", Size((*limit)?)).trim_start().to_owned())
    });
    let all: Vec<String> = counts.chain(bytes).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
