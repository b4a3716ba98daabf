//! A target.toml of any text: what is accepted is written and read again as the same, and what is refused says where.
//! What a name of a machine leads to is not looked up.

use std::net::IpAddr;
use std::path::Path;

use engine::target::FabricConfig;
use selvedge::edges;
use toml::{Table, Value};

/// The file that the text is said to come from.
const FILE: &str = "target.toml";

/// Reads the bytes of one input as a target.toml.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if asks_for_names(text) {
        return;
    }
    match edges::read_target(text, Path::new(FILE)) {
        Ok(fabric) => same_again(&fabric),
        Err(line) => is_a_position(&line, text),
    }
}

/// True if a port has an address that would be looked up: a fuzzer must not ask the network for
/// anything.
fn asks_for_names(text: &str) -> bool {
    let Ok(table) = toml::from_str::<Table>(text) else { return false };
    let ports = table.get("port").and_then(Value::as_array).into_iter().flatten();
    let addresses = ports.filter_map(|port| port.get("address")?.as_str());
    addresses.into_iter().any(|address| {
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        bare.parse::<IpAddr>().is_err()
    })
}

/// A configuration that was accepted is right, and comes back from each of the texts that it is kept as.
pub(crate) fn same_again(fabric: &FabricConfig) {
    fabric.check().unwrap_or_else(|error| panic!("{error}: {fabric:#?}"));
    let text = edges::write_target(fabric).unwrap_or_else(|line| panic!("{line}: {fabric:#?}"));
    let again = edges::read_target(&text, Path::new(FILE)).unwrap_or_else(|line| panic!("{line}\n{text}"));
    assert_eq!(again, *fabric, "{text}");
    let json = serde_json::to_string(fabric).expect("a configuration can be kept as JSON");
    let again: FabricConfig = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
    assert_eq!(again, *fabric, "{json}");
}

/// A refusal is one line, with the file, a line of it that there is, and what is wrong.
fn is_a_position(line: &str, text: &str) {
    assert!(!line.contains('\n'), "more than one line: {line}");
    let rest = line.strip_prefix(FILE).unwrap_or_else(|| panic!("no file in: {line}"));
    let what = match rest.strip_prefix(": ") {
        Some(what) => what,
        None => {
            let (number, what) = rest[1..].split_once(": ").unwrap_or_else(|| panic!("no place in: {line}"));
            let number: usize = number.parse().unwrap_or_else(|_| panic!("no line number in: {line}"));
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&number), "of {lines} lines: {line}");
            what
        }
    };
    assert!(!what.trim().is_empty(), "nothing is said: {line}");
}
