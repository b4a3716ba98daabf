//! `selvedge config`: checks a target.toml, compares it with what a running target serves, puts it into effect, and
//! prints what is served.

use std::path::Path;

use engine::target::FabricConfig;
use hyper::Method;
use serde_json::Value;

use super::ask::{cell, client, items, tell};
use crate::config::{target_dump, target_file};
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
            match output.output_format {
                OutputFormat::Json => report::print_json(&fabric),
                OutputFormat::Normal => report::print(format!(
                    "{} is right: {} to listen on, {} with {}\n",
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
            let fabric: FabricConfig = client(control)?.get("/v1/config")?;
            match (format, control.output.output_format) {
                (DumpFormat::Toml, OutputFormat::Normal) => {
                    report::print_exactly(target_dump::write(&fabric)?)
                }
                _ => report::print_json(&fabric),
            }
        }
    }
}

fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn put(file: &Path, shrink: bool, dry_run: bool, control: &ControlFlags) -> Result<(), Failure> {
    let fabric = target_file::read(file)?.fabric;
    let body = serde_json::to_value(&fabric).map_err(Failure::failed)?;
    let path = format!("/v1/config?dry_run={dry_run}&shrink={shrink}");
    let json: Value = client(control)?.change(Method::PUT, &path, &body)?;
    let changes = items(&json, "changes");
    let mut text: String = changes.iter().map(|change| format!("{}\n", line(change))).collect();
    if text.is_empty() {
        text += "nothing is different\n";
    }
    tell(control, text, &json)
}

/// A change in words.
fn line(change: &Value) -> String {
    let kind = cell(change, "change").replace('_', " ");
    let mut line = kind;
    for (field, name) in [("port", "port"), ("nqn", ""), ("nsid", "namespace"), ("group", "group")] {
        if change.get(field).is_some() {
            line += &format!(" {name} {}", cell(change, field)).replace("  ", " ");
        }
    }
    let fields: Vec<&str> = items(change, "fields").iter().filter_map(Value::as_str).collect();
    if !fields.is_empty() {
        line += &format!(" ({})", fields.join(", "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_words() {
        let change = serde_json::json!({ "change": "namespace_changed", "nqn": "nqn.a", "nsid": 3, "fields": ["qos", "visible"] });
        assert_eq!(line(&change), "namespace changed nqn.a namespace 3 (qos, visible)");
        assert_eq!(line(&serde_json::json!({ "change": "port_added", "port": 2 })), "port added port 2");
    }
}
