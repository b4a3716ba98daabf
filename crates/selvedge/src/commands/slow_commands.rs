//! `selvedge slow-commands`: commands that took long at a running target.

use hyper::Method;
use serde_json::{Value, json};

use super::ask::{cell, client, items, tell};
use crate::failure::Failure;
use crate::flags::control::{SlowCommandsFlags, Threshold};
use crate::report::table::{Side, Table};

/// Shows them, after what is slow was changed if that was asked for.
pub(super) fn run(flags: &SlowCommandsFlags) -> Result<(), Failure> {
    let client = client(&flags.control)?;
    let json: Value = match flags.threshold {
        None => client.get("/v1/slow-commands")?,
        Some(Threshold(time)) => {
            let ms = time.map(|time| time.as_secs_f64() * 1e3);
            client.change(Method::PUT, "/v1/slow-commands", &json!({ "threshold_ms": ms }))?
        }
    };
    tell(&flags.control, text(&json), &json)
}

fn text(json: &Value) -> String {
    let Some(threshold_ms) = json["threshold_ms"].as_f64() else {
        return "slow commands are not recorded: --threshold 50ms records commands of 50 ms and longer\n"
            .to_owned();
    };
    let commands = items(json, "commands");
    if commands.is_empty() {
        return format!("no command has taken {threshold_ms} ms\n");
    }
    let columns = [
        ("time", Side::Left),
        ("took µs", Side::Right),
        ("most of it", Side::Left),
        ("operation", Side::Left),
        ("nsid", Side::Right),
        ("block", Side::Right),
        ("blocks", Side::Right),
        ("queue", Side::Right),
        ("host", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for command in commands {
        table.row(vec![
            cell(command, "time"),
            whole(&command["took_us"]),
            longest(&command["stages_us"]),
            cell(command, "operation"),
            cell(command, "nsid"),
            cell(command, "block"),
            cell(command, "blocks"),
            cell(command, "queue"),
            cell(command, "host_nqn"),
        ]);
    }
    let more =
        if json["has_left_out"] == true { "some were omitted, beyond the limit of a second\n" } else { "" };
    format!("{table}{more}")
}

fn whole(value: &Value) -> String {
    format!("{:.0}", value.as_f64().unwrap_or_default())
}

/// The stage that a command was in for longest, with its share.
fn longest(stages: &Value) -> String {
    let times = stages.as_object().into_iter().flatten();
    let times: Vec<(&String, f64)> =
        times.map(|(name, time)| (name, time.as_f64().unwrap_or_default())).collect();
    let all: f64 = times.iter().map(|(_, time)| time).sum();
    match times.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        Some((name, time)) if all > 0.0 => format!("{name} {:.0} %", 100.0 * time / all),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_most_of_the_time_was_spent_on() {
        assert_eq!(longest(&json!({ "storage": 30.0, "limits": 70.0, "buffer": 0.0 })), "limits 70 %");
        assert_eq!(longest(&json!({ "storage": 0.0 })), "-");
    }

    #[test]
    fn says_how_they_are_kept_where_they_are_not() {
        let none = text(&json!({ "threshold_ms": null, "commands": [], "has_left_out": false }));
        assert!(none.contains("--threshold"), "{none}");
        let few = text(&json!({ "threshold_ms": 50.0, "commands": [], "has_left_out": false }));
        assert_eq!(few, "no command has taken 50 ms\n");
    }
}
