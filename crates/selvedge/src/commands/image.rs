//! `selvedge namespace` where it is about images of Ceph clusters: bodies of requests, snapshots, clones, and tasks that
//! are waited for.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use engine::backend::{BackendConfig, RbdConfig, RbdEncryption};
use engine::limits::NAMESPACES_MAX;
use engine::target::{BLOCK_SIZE_DEFAULT, NamespaceConfig, check_block_size};
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ask::{client, done, tell};
use super::namespace::{body, path};
use crate::control::client::{Client, encode};
use crate::control::tasks::{Task, TaskState};
use crate::failure::Failure;
use crate::flags::control::ControlFlags;
use crate::flags::image::{CloneFlags, ImageFlags, NewImageFlags};
use crate::flags::nsid_list::NsidList;
use crate::flags::subsystem::NamespaceSettings;
use crate::report::table::{Side, Table};
use crate::spec::ceph;
use crate::spec::namespace;
use crate::spec::size::Size;

/// The pool where none is named, as with Ceph's own programs.
const POOL_DEFAULT: &str = "rbd";
/// Interval of checks while a command waits for a task.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The namespace that the flags stand for.
pub(super) fn spec(flags: &ImageFlags) -> Result<NamespaceConfig, Failure> {
    let block_size = flags.block_size.map_or(Ok(BLOCK_SIZE_DEFAULT), |size| check_block_size(size.0));
    let image = RbdConfig {
        pool: flags.rbd_pool.clone().unwrap_or_else(|| POOL_DEFAULT.to_owned()),
        namespace: flags.rbd_namespace.clone().unwrap_or_default(),
        image: flags.rbd_image.clone().unwrap_or_default(),
        snapshot: None,
        conf: flags.rbd_conf.clone(),
        id: flags.rbd_id.as_deref().map(ceph::user),
        encryption: flags
            .encryption_format
            .zip(flags.encryption_passphrase_file.clone())
            .map(|(format, passphrase_file)| Box::new(RbdEncryption { format, passphrase_file })),
    };
    if flags.nsid.is_some_and(|nsid| !(1..=NAMESPACES_MAX).contains(&nsid)) {
        return Err(Failure::usage(format!("nsid must be 1 to {NAMESPACES_MAX}")));
    }
    let block_size = block_size.map_err(Failure::usage)?;
    let backend = BackendConfig::Rbd(image);
    let nsid = flags.nsid.unwrap_or_default();
    let mut namespace = NamespaceConfig {
        uuid: flags.uuid,
        nguid: flags.nguid,
        ..NamespaceConfig::new(nsid, backend, block_size)
    };
    namespace::from_root(&mut namespace);
    namespace::check(&namespace).map_err(|(field, what)| Failure::usage(format!("{field}: {what}")))?;
    Ok(namespace)
}

/// The body's field for an image that is to be made first, if one is.
pub(super) fn create(flags: &ImageFlags) -> Option<Value> {
    let size = flags.size.filter(|_| flags.rbd_create_image)?;
    let mut create = new(&flags.new);
    create.insert("size".into(), json!(size.0));
    Some(create.into())
}

fn new(flags: &NewImageFlags) -> Map<String, Value> {
    let mut new = Map::new();
    if !flags.features.is_empty() {
        new.insert("features".into(), json!(flags.features));
    }
    if let Some(Size(bytes)) = flags.object_size {
        new.insert("object_size".into(), json!(bytes));
    }
    if let Some(pool) = &flags.rbd_data_pool {
        new.insert("data_pool".into(), json!(pool));
    }
    new
}

/// Makes, removes or lists snapshots.
pub(super) fn snapshot(
    subsystem: &str,
    nsids: &NsidList,
    snapshot: Option<&str>,
    remove: bool,
    control: &ControlFlags,
) -> Result<(), Failure> {
    let nsid = match nsids {
        NsidList::Some(nsids) if nsids.len() == 1 => nsids[0],
        _ => return snapshots(subsystem, nsids, snapshot, remove, control),
    };
    let path = format!("{}/snapshots", path(subsystem, Some(nsid)));
    let Some(name) = snapshot else {
        let json: Value = client(control)?.get(&path)?;
        return tell(control, snapshot_table(&json), &json);
    };
    if remove {
        client(control)?.delete(&format!("{path}/{}", encode(name)))?;
        return done(control, format!("snapshot {name} is removed"), &json!({ "removed": name }));
    }
    let json: Value = client(control)?.change(Method::POST, &path, &json!({ "name": name }))?;
    done(control, format!("snapshot {name} of namespace {nsid} of {subsystem} is made"), &json)
}

/// Makes snapshots of several images at one moment.
fn snapshots(
    subsystem: &str,
    nsids: &NsidList,
    snapshot: Option<&str>,
    remove: bool,
    control: &ControlFlags,
) -> Result<(), Failure> {
    let (Some(name), false) = (snapshot, remove) else {
        return Err(Failure::usage(
            "snapshots of one namespace at a time are listed or removed: give one nsid",
        ));
    };
    let mut body = json!({ "name": name });
    if let NsidList::Some(nsids) = nsids {
        body["nsids"] = json!(nsids);
    }
    let path = format!("/v1/subsystems/{}/snapshots", encode(subsystem));
    let json: Value = client(control)?.change(Method::POST, &path, &body)?;
    let count = super::ask::items(&json, "snapshots").len();
    let held_ms = &json["held_ms"];
    let images = if count == 1 { "1 image" } else { &format!("{count} images") };
    done(
        control,
        format!("snapshot {name} of {images} of {subsystem} is made; writes were held for {held_ms} ms"),
        &json,
    )
}

fn snapshot_table(json: &Value) -> String {
    let mut table = Table::new(&[("snapshot", Side::Left), ("size", Side::Right)]);
    for snapshot in super::ask::items(json, "snapshots") {
        let size = snapshot.get("size").and_then(Value::as_u64).unwrap_or_default();
        table.row(vec![super::ask::cell(snapshot, "name"), Size(size).to_string()]);
    }
    table.to_string()
}

/// Makes a clone, and a namespace on it.
pub(super) fn clone(
    subsystem: &str,
    nsid: u32,
    flags: &CloneFlags,
    settings: &NamespaceSettings,
    control: &ControlFlags,
) -> Result<(), Failure> {
    let mut request = body(settings);
    if request.contains_key("write_protection") {
        return Err(Failure::usage("a clone is made writable: protect its namespace with `namespace set`"));
    }
    request.extend(new(&flags.new));
    let texts = [
        ("snapshot", flags.snapshot.as_ref()),
        ("image", Some(&flags.rbd_image)),
        ("pool", flags.rbd_pool.as_ref()),
        ("namespace", flags.rbd_namespace.as_ref()),
    ];
    request.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))));
    if let Some(nsid) = flags.new_nsid {
        request.insert("nsid".into(), json!(nsid));
    }
    if let Some(uuid) = flags.uuid {
        request.insert("uuid".into(), json!(uuid));
    }
    let path = format!("{}/clone", path(subsystem, Some(nsid)));
    let json: Value = client(control)?.change(Method::POST, &path, &request.into())?;
    let new = json.get("nsid").cloned().unwrap_or_default();
    done(control, format!("namespace {new} of {subsystem} is a clone of namespace {nsid}"), &json)
}

/// Flattens a clone, and waits until that is done.
pub(super) fn flatten(
    subsystem: &str,
    nsid: u32,
    no_wait: bool,
    control: &ControlFlags,
) -> Result<(), Failure> {
    let path = format!("{}/flatten", path(subsystem, Some(nsid)));
    let client = client(control)?;
    let begun: Value = client.order(Method::POST, &path)?;
    if no_wait {
        let task = Task::deserialize(&begun).map_err(Failure::failed)?;
        return done(control, format!("task {} flattens {}", task.id, task.image), &begun);
    }
    let json = follow(&client, begun)?;
    done(control, format!("the image of namespace {nsid} of {subsystem} is flat"), &json)
}

/// If an answer is a task, waits until that is done and tells meanwhile how far it is; what is there in the end.
pub(super) fn follow(client: &Client, answer: Value) -> Result<Value, Failure> {
    let Ok(mut task) = Task::deserialize(&answer) else { return Ok(answer) };
    let mut shown = String::new();
    let is_terminal = std::io::stderr().is_terminal();
    // The loop ends with the task, with the target, or by an interruption.
    while task.state == TaskState::Running {
        show(&task, &mut shown, is_terminal);
        std::thread::sleep(LOOK_INTERVAL);
        task = client.get(&format!("/v1/tasks/{}", task.id))?;
    }
    show(&task, &mut shown, is_terminal);
    if is_terminal && !shown.is_empty() {
        eprintln!();
    }
    match task.error {
        Some(error) => Err(Failure::failed(error)),
        None => serde_json::to_value(&task).map_err(Failure::failed),
    }
}

/// Prints the progress of a task if it has changed: on a terminal in one line that changes.
fn show(task: &Task, shown: &mut String, is_terminal: bool) {
    let Some(percent) = (task.done * 100).checked_div(task.total) else { return };
    let mut text = String::new();
    let _ = write!(text, "{} {}: {percent} %", task.what, task.image);
    if text == *shown {
        return;
    }
    if is_terminal {
        eprint!("\r{text}");
    } else {
        eprintln!("{text}");
    }
    *shown = text;
}

/// Lists tasks.
pub(super) fn tasks(control: &ControlFlags) -> Result<(), Failure> {
    let json: Value = client(control)?.get("/v1/tasks")?;
    let columns = [
        ("id", Side::Right),
        ("task", Side::Left),
        ("image", Side::Left),
        ("state", Side::Left),
        ("done", Side::Right),
        ("error", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for item in super::ask::items(&json, "tasks") {
        let task = Task::deserialize(item).map_err(Failure::failed)?;
        let percent = (task.done * 100).checked_div(task.total);
        let cells = ["id", "what", "image", "state"].map(|name| super::ask::cell(item, name));
        let mut row = Vec::from(cells);
        row.push(percent.map_or("-".to_owned(), |percent| format!("{percent} %")));
        row.push(super::ask::cell(item, "error"));
        table.row(row);
    }
    tell(control, table.to_string(), &json)
}
