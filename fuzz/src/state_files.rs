//! Files that an earlier process left: the state of a target, its access file and audit log, and the records of attached disks. The
//! first line of an input names the kind of file, the rest is its text. What is damaged is refused in one line; what is accepted
//! is valid, and the same when it is written and read again.

use attach::limits::CONTROLLERS_KEPT_MAX;
use aws_lc_rs::digest::{SHA256, digest};
use selvedge::{attach_edges, edges};
use serde_json::Value;

/// Namespace of the controllers that are read.
const NQN: &str = "nqn.2026-01.io.selvedge:target";
const NSID: u32 = 1;

/// Reads the bytes of one input as a file.
pub fn check(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let text = bytes.get(at + 1..).unwrap_or_default();
    match &bytes[..at] {
        b"state" => state(text),
        b"access" => access(&String::from_utf8_lossy(text)),
        b"audit" => audit(text),
        b"record" => record(text),
        b"controllers" => controllers(text),
        _ => {}
    }
}

fn is_one_line(line: &str) {
    assert!(!line.is_empty() && !line.contains('\n'), "one line: {line}");
}

fn state(text: &[u8]) {
    let fabric = match edges::read_state(text) {
        Ok(fabric) => fabric,
        Err(line) => return is_one_line(&line),
    };
    fabric.check().unwrap_or_else(|error| panic!("{error}: {fabric:#?}"));
    let written = edges::write_state(&fabric).expect("a configuration is JSON");
    let again = edges::read_state(&written).unwrap_or_else(|line| panic!("{line}: {fabric:#?}"));
    assert_eq!(again, fabric);
}

fn access(text: &str) {
    // A refusal shows the place in the text, which takes several lines.
    let Ok(written) = edges::read_access(text) else { return };
    let again = edges::read_access(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, written);
}

/// A log as it is, and with hashes that are right.
fn audit(text: &[u8]) {
    check_log(text);
    let (mut log, mut before) = (String::new(), "0".repeat(64));
    for line in String::from_utf8_lossy(text).lines() {
        let hashed = line.strip_suffix('}').unwrap_or(line).replace("BEFORE", &before);
        before = hash(&hashed);
        log += &format!("{hashed},\"hash\":\"{before}\"}}\n");
        check_log(log.as_bytes());
    }
}

fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_log(log: &[u8]) {
    match edges::verify_audit_log(log) {
        Ok((records, first, last)) => {
            assert_eq!(
                last.checked_sub(first),
                Some(records - 1),
                "records are numbered one after the other"
            );
            let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            assert!(records as usize <= lines, "each record is a line of its own");
        }
        Err(line) => is_one_line(&line),
    }
}

fn record(text: &[u8]) {
    let Some((written, places)) = attach_edges::read_record(text) else { return };
    assert_eq!(attach_edges::read_record(&written), Some((written.clone(), places)));
}

fn controllers(text: &[u8]) {
    match attach_edges::read_controllers(text, NQN, NSID) {
        Ok(written) => {
            let list: Vec<Value> = serde_json::from_slice(&written).expect("a list");
            assert!(list.len() <= CONTROLLERS_KEPT_MAX, "{}", list.len());
            // One without would be waited for without end.
            assert!(
                list.iter().all(|one| one["keep_alive_ms"].as_u64().is_some_and(|ms| ms > 0)),
                "{list:?}"
            );
        }
        Err(what) => assert!(!what.is_empty(), "nothing is said"),
    }
}
