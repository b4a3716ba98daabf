//! Entry for fuzzers to the files that another `attach` wrote into the runtime directory. Nothing is decided here.

use super::controllers;
use super::record::Record;

/// Reads the record of a process: the same record, written again, and the places of its disks. `None` if it is of another version
/// or no record.
pub fn read_record(text: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let record = Record::parse(text)?;
    let written = serde_json::to_vec(&record).ok()?;
    Some((written, record.places()))
}

/// Reads the controllers that a process had for a namespace, written again as a list.
///
/// # Errors
/// What is wrong with the file.
pub fn read_controllers(text: &[u8], subsystem_nqn: &str, nsid: u32) -> Result<Vec<u8>, String> {
    let controllers = controllers::parse(text, subsystem_nqn, nsid)?;
    serde_json::to_vec(&controllers).map_err(|error| error.to_string())
}
