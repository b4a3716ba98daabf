//! The end of the audit log as the API returns it: caller, time, request and result of each record.
//! The bodies of requests stay in the file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::access::Identity;
use super::super::limits::{AUDIT_TAIL_BYTES_MAX, AUDIT_TAIL_RECORDS_MAX};

/// The latest records.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AuditTail")]
pub(in crate::control) struct Tail {
    /// Latest record first.
    records: Vec<Record>,
    /// True if the log has older records.
    has_older: bool,
}

/// A record.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AuditRecord")]
struct Record {
    /// Number of the record, from 0.
    seq: u64,
    /// Time of the record, as RFC 3339.
    time: String,
    /// `start`, `stop`, `change`, `refused`, `failed_login`, `refused_connect` or `gap`.
    event: String,
    /// Identity of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<String>,
    /// Address or process that the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Method and path, or a command of a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    /// done, or why not.
    result: String,
    /// Records of the same kind that were left out before it.
    omitted: u64,
}

/// Fields of a logged record that are returned.
#[derive(Deserialize)]
struct LoggedRecord {
    seq: u64,
    time: String,
    event: String,
    who: Option<Identity>,
    from: Option<String>,
    what: Option<String>,
    result: String,
    #[serde(default)]
    omitted: u64,
}

impl From<LoggedRecord> for Record {
    fn from(record: LoggedRecord) -> Self {
        let LoggedRecord { seq, time, event, who, from, what, result, omitted } = record;
        Self { seq, time, event, who: who.map(|who| who.to_string()), from, what, result, omitted }
    }
}

impl Tail {
    /// Reads the end of a file; empty if there is no file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(mut file) => {
                let length = file.metadata()?.len();
                let start = length.saturating_sub(AUDIT_TAIL_BYTES_MAX);
                file.seek(SeekFrom::Start(start))?;
                let mut end = Vec::new();
                file.take(AUDIT_TAIL_BYTES_MAX).read_to_end(&mut end)?;
                Ok(Self::of_end(&String::from_utf8_lossy(&end)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Parses the end of a file, which may begin and end in the middle of a line.
    fn of_end(end: &str) -> Self {
        let lines = end.lines().rev().filter_map(|line| serde_json::from_str::<LoggedRecord>(line).ok());
        let records: Vec<Record> = lines.take(AUDIT_TAIL_RECORDS_MAX).map(Record::from).collect();
        let has_older = records.last().is_some_and(|first| first.seq > 0);
        Self { records, has_older }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::record::{Event, Head, Kind};
    use super::*;

    /// A log of this number of changes, each with a request of as many bytes.
    fn log(changes: usize, bytes: usize) -> String {
        let mut head = Head::default();
        let mut text = String::new();
        for number in 0..changes {
            let event = Event {
                who: Some(Identity::Token("team-a".to_owned())),
                from: Some("10.0.0.7:51012".to_owned()),
                what: Some(format!("PATCH /v1/{number}")),
                request: json!({ "secret": "s".repeat(bytes) }),
                ..Event::done(Kind::Change)
            };
            let (line, after) = head.append(&event, Timestamp::UNIX_EPOCH).unwrap();
            text += &(line + "\n");
            head = after;
        }
        text
    }

    fn numbers(tail: &Tail) -> Vec<u64> {
        tail.records.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn the_latest_records_come_first_and_without_the_bodies_of_requests() {
        let tail = Tail::of_end(&log(3, 10));
        assert_eq!((numbers(&tail), tail.has_older), (vec![2, 1, 0], false));
        assert_eq!(tail.records[0].who.as_deref(), Some("token team-a"));
        assert_eq!(tail.records[0].what.as_deref(), Some("PATCH /v1/2"));
        assert!(!serde_json::to_string(&tail).unwrap().contains("ssss"));
    }

    #[test]
    fn each_way_of_being_known_is_read() {
        for (who, name) in [
            (json!("process"), "this process"),
            (json!("nobody"), "unknown caller"),
            (json!({ "user": { "uid": 7, "name": "ann" } }), "user ann (7)"),
            (json!({ "host": { "nqn": "nqn.h", "host_id": null } }), "host nqn.h"),
            (json!({ "certificate": { "name": "c", "sha256": "0".repeat(64) } }), "certificate c"),
        ] {
            let line = json!({ "seq": 1, "time": "t", "event": "change", "who": who, "result": "done" });
            let tail = Tail::of_end(&line.to_string());
            assert_eq!(tail.records[0].who.as_deref(), Some(name), "{tail:?}");
            assert!(tail.has_older);
        }
    }

    #[test]
    fn no_log_is_too_long_and_no_line_spoils_others() {
        let tail = Tail::of_end(&log(AUDIT_TAIL_RECORDS_MAX + 5, 1));
        assert_eq!((tail.records.len(), tail.has_older), (AUDIT_TAIL_RECORDS_MAX, true));
        let text = log(3, 10);
        let middle = format!("{}garbage\n{{\"seq\":3,\"ti", &text[20..]);
        assert_eq!(numbers(&Tail::of_end(&middle)), [2, 1]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        assert_eq!(Tail::of(&path).unwrap(), Tail::default(), "nothing has happened yet");
        // Lines of more bytes together than are read.
        std::fs::write(&path, log(30, 60_000)).unwrap();
        let tail = Tail::of(&path).unwrap();
        assert_eq!(tail.records[0].seq, 29);
        assert!(tail.has_older && (10..30).contains(&tail.records.len()), "{}", tail.records.len());
    }
}
