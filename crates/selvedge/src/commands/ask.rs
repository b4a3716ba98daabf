//! Common part of the commands that use the control API: the choice of the target, and the output
//! of the answer.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::control::client::Client;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::control::ControlFlags;
use crate::report;

/// The target that the flags mean, whose answers are printed.
pub(super) fn client(flags: &ControlFlags) -> Result<Client, Failure> {
    let client = exact_client(flags)?;
    Ok(match flags.output.output_format {
        OutputFormat::Normal => client.for_terminal(),
        OutputFormat::Json => client,
    })
}

/// The same for answers that are to be read again.
pub(super) fn exact_client(flags: &ControlFlags) -> Result<Client, Failure> {
    Client::new(flags.control.as_ref(), flags.control_token_file.as_deref(), &flags.tls)
}

/// An answer, for people and for programs.
struct Answer<'a, T> {
    text: T,
    json: &'a Value,
}

impl<T> Serialize for Answer<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<T: fmt::Display> fmt::Display for Answer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.text.to_string()))
    }
}

/// Text without characters that steer a terminal: paths, models and reasons are those of all who may change the target.
fn plain(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
    text.chars().map(plain).collect()
}

/// Prints an answer.
pub(super) fn tell(flags: &ControlFlags, text: impl fmt::Display, json: &Value) -> Result<(), Failure> {
    report::print_as(flags.output.output_format, &Answer { text, json })
}

/// Prints that a change is made.
pub(super) fn done(flags: &ControlFlags, what: impl fmt::Display, json: &Value) -> Result<(), Failure> {
    match flags.output.output_format {
        OutputFormat::Normal => report::print(plain(&format!("{what}\n"))),
        OutputFormat::Json => report::print_json(json),
    }
}

/// The value of a field as text, for a table.
pub(super) fn cell(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The items of a list in an answer.
pub(super) fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_do_not_steer_the_terminal() {
        let answer = Answer { text: "file /disks/\u{1b}[2J\u{9b}1m\rµ\n", json: &Value::Null };
        assert_eq!(answer.to_string(), "file /disks/\u{fffd}[2J\u{fffd}1m\u{fffd}µ\n");
    }
}
