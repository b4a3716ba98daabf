//! `selvedge config`: checks a target.toml, compares it with what a running target serves, puts it into effect, and
//! prints what is served.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use engine::backend::BackendConfig;
use engine::secret_file::SecretFileError;
use engine::target::{FabricConfig, secret_file_faults};
use hyper::Method;
use serde_json::Value;

use super::ask::{cell, client, exact_client, items, tell};
use super::namespace::say_shrink;
use crate::config::{target_dump, target_file};
use crate::control::difference;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::config::{ConfigAction, DumpFormat};
use crate::flags::control::ControlFlags;
use crate::report;

/// Does what was typed.
pub(super) fn run(action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check { file, output } => {
            let fabric = target_file::read(file)?.fabric;
            report_absent_disks(&fabric);
            check_secret_files(&fabric)?;
            match output.output_format {
                OutputFormat::Json => report::print_json(&fabric),
                OutputFormat::Normal => report::print(format!(
                    "{} is valid: {} to listen on, {} with {}\n",
                    file.display(),
                    count(fabric.ports.len(), "address", "addresses"),
                    count(fabric.subsystems.len(), "subsystem", "subsystems"),
                    count(
                        fabric.subsystems.iter().map(|s| s.namespaces.len()).sum(),
                        "namespace",
                        "namespaces"
                    ),
                )),
            }
        }
        ConfigAction::Diff { file, shrink, control } => put(file, *shrink, true, control),
        ConfigAction::Apply { file, shrink, control } => put(file, *shrink, false, control),
        ConfigAction::Dump { format, control } => {
            let mut fabric: FabricConfig = exact_client(control)?.get("/v1/config")?;
            // The target has them as they came; a file is compared with others, and read.
            fabric.ports.sort_by_key(|port| port.id);
            match (format, control.output.output_format) {
                (DumpFormat::Toml, OutputFormat::Normal) => {
                    report::print_exactly(target_dump::write(&fabric)?)
                }
                _ => report::print_json(&fabric),
            }
        }
    }
}

/// Names the disks without which a target would start. They may be on another machine, or appear later.
fn report_absent_disks(fabric: &FabricConfig) {
    for subsystem in &fabric.subsystems {
        for namespace in &subsystem.namespaces {
            if let Some(reason) = absence(&namespace.backend) {
                eprintln!(
                    "selvedge: namespace {} of {}: {reason}; the namespace is absent until then",
                    namespace.nsid, subsystem.nqn
                );
            }
        }
    }
}

/// Reason for which a file or device cannot be served now, with the condition that ends it.
fn absence(backend: &BackendConfig) -> Option<String> {
    let (path, expected) = match backend {
        BackendConfig::Block { path } => (path.as_path(), "a block device"),
        BackendConfig::File { path, size: Some(_) } if !path.exists() => {
            // It is created in its folder.
            (path.parent().unwrap_or(path), "a folder")
        }
        BackendConfig::File { path, .. } => (path.as_path(), "a regular file"),
        _ => return None,
    };
    let shown = path.display();
    let file = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) => return Some(format!("{shown} has to be {expected}: {error}")),
    };
    let is_expected = match expected {
        "a block device" => file.is_block_device(),
        "a folder" => file.is_dir(),
        _ => file.is_file(),
    };
    (!is_expected).then(|| format!("{shown} has to be {expected}"))
}

/// Names the files of secrets that a target would be refused for, one a line. What only another user may read, the service
/// may be able to.
fn check_secret_files(fabric: &FabricConfig) -> Result<(), Failure> {
    let (forbidden, mut wrong): (Vec<_>, Vec<_>) =
        secret_file_faults(fabric).into_iter().partition(SecretFileError::is_forbidden);
    for fault in forbidden {
        eprintln!("selvedge: {fault}; it is not checked, and the service has to be able to read it");
    }
    let last = wrong.pop();
    for fault in wrong {
        eprintln!("selvedge: {fault}");
    }
    last.map_or(Ok(()), |fault| Err(Failure::usage(fault)))
}

fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Puts a configuration into effect, or says what that would change.
fn put(file: &Path, shrink: bool, dry_run: bool, control: &ControlFlags) -> Result<(), Failure> {
    let config = target_file::read(file)?;
    let of_process = config.of_process();
    if !of_process.is_empty() {
        let (shown, names) = (file.display(), of_process.join(", "));
        eprintln!(
            "selvedge: {shown}: not compared: {names}; they count from the next start or upgrade of the target on"
        );
    }
    let wanted = serde_json::to_value(&config.fabric).map_err(Failure::failed)?;
    let client = client(control)?;
    let before: Value = client.get("/v1/config")?;
    // What would be refused is shown as well: with that, one can tell whether it is meant.
    let path = format!("/v1/config?dry_run={dry_run}&shrink={}", shrink || dry_run);
    let mut json: Value = client.change(Method::PUT, &path, &wanted).map_err(say_shrink)?;
    let changes = json["changes"].as_array_mut().map_or(&mut [][..], Vec::as_mut_slice);
    difference::add_to(changes, &before, &wanted);
    let mut text: String = changes.iter().map(|change| sentence(change, dry_run)).collect();
    if dry_run && !shrink && changes.iter().any(|change| change["shrinks"] == true) {
        text += "a namespace would become smaller, and lose data beyond its new end: `config apply` requires --shrink\n";
    }
    let is_different = !changes.is_empty();
    if !is_different {
        text += "nothing is different\n";
    }
    tell(control, text, &json)?;
    if dry_run && is_different { Err(Failure::Different) } else { Ok(()) }
}

/// Kinds of changes, with the verb of a plan, the verb of a report, and the object.
const KINDS: [(&str, &str, &str, &str); 21] = [
    ("port_added", "add", "added", "port {port}"),
    ("port_removed", "remove", "removed", "port {port}"),
    ("port_changed", "change", "changed", "the discovery log entry of port {port}"),
    ("port_congestion_changed", "change", "changed", "the congestion control of port {port}"),
    ("port_tls_changed", "change", "changed", "the TLS mode of port {port}"),
    ("subsystem_added", "add", "added", "subsystem {nqn}"),
    ("subsystem_removed", "remove", "removed", "subsystem {nqn}"),
    ("subsystem_replaced", "replace", "replaced", "subsystem {nqn}"),
    ("access_changed", "change", "changed", "the allowed hosts of {nqn}"),
    ("storage_changed", "change", "changed", "the storage for namespaces of hosts of {nqn}"),
    ("command_quiesce_changed", "change", "changed", "the command quiesce time of {nqn}"),
    ("queues_changed", "change", "changed", "the I/O queues of new controllers of {nqn}"),
    ("ana_group_changed", "change", "changed", "ANA group {group} of {nqn}"),
    ("namespace_added", "add", "added", "namespace {nsid} of {nqn}"),
    ("namespace_removed", "remove", "removed", "namespace {nsid} of {nqn}"),
    ("namespace_replaced", "replace", "replaced", "namespace {nsid} of {nqn} by another disk"),
    ("namespace_reopened", "reopen", "reopened", "namespace {nsid} of {nqn}"),
    ("namespace_resized", "resize", "resized", "namespace {nsid} of {nqn}"),
    ("namespace_changed", "change", "changed", "namespace {nsid} of {nqn}"),
    ("referrals_changed", "change", "changed", "the referrals"),
    ("discovery_nqn_changed", "change", "changed", "the name of the discovery subsystem"),
];

/// A change in words, with a line for each setting that it makes different.
fn sentence(change: &Value, dry_run: bool) -> String {
    let kind = cell(change, "change");
    let known = KINDS.iter().find(|(name, ..)| *name == kind);
    let (verb, done, subject) =
        known.map_or(("do", "done", kind.as_str()), |(_, verb, done, subject)| (*verb, *done, *subject));
    let mut subject = subject.to_owned();
    for field in ["port", "nqn", "nsid", "group"] {
        subject = subject.replace(&format!("{{{field}}}"), &cell(change, field));
    }
    let mut text = if dry_run { format!("would {verb} {subject}\n") } else { format!("{done} {subject}\n") };
    for difference in items(change, "differences") {
        text += &format!("  {}\n", difference::words(difference));
    }
    text
}

#[cfg(test)]
mod tests {
    use engine::target::Change;

    use super::*;

    #[test]
    fn every_kind_of_change_has_a_sentence() {
        let change = serde_json::json!({
            "change": "namespace_changed", "nqn": "nqn.a", "nsid": 3,
            "differences": [{ "setting": "qos.iops", "from": null, "to": 5000 }],
        });
        assert_eq!(sentence(&change, true), "would change namespace 3 of nqn.a\n  qos.iops: none → 5000\n");
        assert_eq!(
            sentence(&serde_json::json!({ "change": "port_added", "port": 2 }), false),
            "added port 2\n"
        );
        let schema = schemars::schema_for!(Change).to_value().to_string();
        for (kind, ..) in KINDS {
            assert!(schema.contains(&format!("\"{kind}\"")), "{kind}");
        }
        assert_eq!(schema.matches("\"const\":").count(), KINDS.len(), "a kind has no words: {schema}");
    }
}
