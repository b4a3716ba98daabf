//! One record of the audit log, as a line of JSON that is chained to the one before it: each has the hash of the one before,
//! and its own of all that stands in the line before it.

use std::fmt;

use engine::secret_file::{LEFT_OUT, without_secrets};
use engine::target::KeyKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::access::Identity;
use super::super::fingerprint::Fingerprint;
use super::super::limits::{AUDIT_PART_BYTES_MAX, AUDIT_TEXT_BYTES_MAX};

/// Separator between the hashed part of a line and its hash.
const HASH: &str = ",\"hash\":\"";

/// Kind of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Start,
    Stop,
    /// Something was changed.
    #[default]
    Change,
    /// A request of an authenticated caller was refused.
    Refused,
    /// A caller or host failed to authenticate.
    FailedLogin,
    /// A host's connect was refused for another reason than authentication.
    RefusedConnect,
    /// Records are missing before this one.
    Gap,
}

/// An event, with its caller and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Event {
    #[serde(rename = "event")]
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Identity>,
    /// Address or process that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The request: method and path, or a command of a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Body of the request.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub request: Value,
    /// Settings that the change altered, with their old and new values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Value>,
    /// done, or why not.
    pub result: String,
    /// The status of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Records of the same kind that were left out before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: u64,
}

impl Event {
    /// This happened, and there is no more to say.
    pub fn done(kind: Kind) -> Self {
        Self { kind, result: "done".to_owned(), ..Self::default() }
    }

    /// An authentication that failed, with the reason.
    pub(crate) fn failed_login(who: Identity, from: impl fmt::Display, why: impl fmt::Display) -> Self {
        let (from, result) = (Some(from.to_string()), why.to_string());
        Self { kind: Kind::FailedLogin, who: Some(who), from, result, ..Self::default() }
    }

    /// The same event without secrets: those that a request gives to hosts, and any that stands in a wrong place.
    pub(super) fn without_secrets(mut self) -> Self {
        hide_secrets(&mut self.request);
        self.what.iter_mut().for_each(hide_in);
        hide_in(&mut self.result);
        self
    }

    /// The same event with a request and changes that fit on a line; those that do not are replaced
    /// by their size or number. Texts are cut, since callers without rights choose them.
    pub(super) fn bounded(self) -> Self {
        let size = |value: &Value| value.to_string().len();
        let request = match size(&self.request) {
            bytes if bytes > AUDIT_PART_BYTES_MAX => json!({ "bytes": bytes }),
            _ => self.request,
        };
        let changes = if self.changes.iter().map(size).sum::<usize>() > AUDIT_PART_BYTES_MAX {
            vec![json!({ "count": self.changes.len() })]
        } else {
            self.changes
        };
        let cut = |mut text: String| {
            if text.len() > AUDIT_TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX));
                text.push('…');
            }
            text
        };
        Self { request, changes, what: self.what.map(cut), result: cut(self.result), ..self }
    }
}

/// Replaces the secrets in a request.
fn hide_secrets(value: &mut Value) {
    match value {
        Value::String(text) => hide_in(text),
        Value::Array(values) => values.iter_mut().for_each(hide_secrets),
        Value::Object(fields) => {
            for (name, value) in fields {
                // A mistyped secret is one too, in all but a character.
                if KeyKind::ALL.iter().any(|kind| kind.name() == name) && value.is_string() {
                    *value = LEFT_OUT.into();
                } else {
                    hide_secrets(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide_in(text: &mut String) {
    *text = without_secrets(text).into_owned();
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// State of a log after a record: number of the next record, and hash of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Records before it, in all files together.
    pub(crate) seq: u64,
    pub hash: Fingerprint,
}

#[derive(Serialize)]
struct Written<'a> {
    seq: u64,
    time: String,
    #[serde(flatten)]
    event: &'a Event,
    prev: Fingerprint,
}

/// Parts of a line that the chain is checked by.
#[derive(Deserialize)]
struct Read {
    seq: u64,
    prev: Fingerprint,
    hash: Fingerprint,
}

impl Head {
    /// The line of the record that comes next, and the head after it.
    pub(super) fn append(self, event: &Event, now: Timestamp) -> Result<(String, Self), serde_json::Error> {
        let written = Written { seq: self.seq, time: format!("{now:.3}"), event, prev: self.hash };
        let mut line = serde_json::to_string(&written)?;
        line.pop();
        let hash = Fingerprint::of(line.as_bytes());
        line += &format!("{HASH}{hash}\"}}");
        Ok((line, Self { seq: self.seq + 1, hash }))
    }

    /// The head after a line, where nothing is said of those before it.
    pub(super) fn after(line: &str) -> Result<Self, String> {
        Self::read(line).map(|(_, head)| head)
    }

    /// The head after a line that has to follow this one.
    pub(super) fn next(self, line: &str) -> Result<Self, String> {
        let (read, after) = Self::read(line)?;
        if read.seq != self.seq {
            return Err(format!("record {} follows record {}", read.seq, self.seq.wrapping_sub(1)));
        }
        if read.prev != self.hash {
            return Err(format!(
                "record {} does not follow the one before it: that one is another",
                read.seq
            ));
        }
        Ok(after)
    }

    fn read(line: &str) -> Result<(Read, Self), String> {
        let read: Read = serde_json::from_str(line).map_err(|error| format!("not a record: {error}"))?;
        let (hashed, end) = line.rsplit_once(HASH).ok_or("not a record: its hash is not its last field")?;
        // Nor may anything stand after the hash, or the hash be written in another way.
        if Fingerprint::of(hashed.as_bytes()) != read.hash || end != format!("{}\"}}", read.hash) {
            return Err(format!("record {} was changed: its hash is that of another line", read.seq));
        }
        let Some(seq) = read.seq.checked_add(1) else {
            return Err("not a record: none could follow one of this number".to_owned());
        };
        let head = Self { seq, hash: read.hash };
        Ok((read, head))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Five lines that follow each other.
    fn lines() -> Vec<String> {
        let mut head = Head::default();
        let line = |number: u16| {
            let event = Event { status: Some(number), ..Event::done(Kind::Change) };
            let (line, next) = head.append(&event, Timestamp::UNIX_EPOCH).unwrap();
            head = next;
            line
        };
        (0..5).map(line).collect()
    }

    fn follow(lines: &[String]) -> Result<Head, String> {
        lines.iter().try_fold(Head::default(), |head, line| head.next(line))
    }

    #[test]
    fn lines_that_follow_each_other_do() {
        let lines = lines();
        assert_eq!(follow(&lines).unwrap().seq, 5);
        assert!(
            lines[0].starts_with("{\"seq\":0,\"time\":\"1970-01-01T00:00:00.000Z\",\"event\":\"change\""),
            "{}",
            lines[0]
        );
        assert_eq!(Head::after(&lines[4]), follow(&lines));
    }

    #[test]
    fn what_was_cut_or_moved_is_seen() {
        let all = lines();
        for at in 0..4 {
            let mut cut = all.clone();
            cut.remove(at);
            assert!(follow(&cut).is_err(), "{at}");
            let mut swapped = all.clone();
            swapped.swap(at, at + 1);
            assert!(follow(&swapped).is_err(), "{at}");
        }
        // A forged record has another hash than the one that the next record names.
        let mut forged = all.clone();
        let before = follow(&all[..2]).unwrap();
        forged[2] = before.append(&Event::default(), Timestamp::UNIX_EPOCH).unwrap().0;
        assert!(follow(&forged).unwrap_err().contains("record 3 does not follow"));
    }

    #[test]
    fn a_record_that_none_can_follow_is_refused() {
        let last = Head { seq: u64::MAX - 1, ..Head::default() };
        let (line, next) = last.append(&Event::default(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(Head::after(&line), Ok(next));
        let (hashed, _) = line.rsplit_once(HASH).unwrap();
        let hashed = hashed.replacen(&last.seq.to_string(), &u64::MAX.to_string(), 1);
        let hash = Fingerprint::of(hashed.as_bytes());
        let refused = Head::after(&format!("{hashed}{HASH}{hash}\"}}")).unwrap_err();
        assert!(refused.contains("none could follow"), "{refused}");
    }

    #[test]
    fn too_large_a_part_of_an_event_is_replaced_by_its_size() {
        let large = "x".repeat(AUDIT_PART_BYTES_MAX);
        let event = Event { request: json!({ "a": large }), changes: vec![json!(large)], ..Event::default() };
        let bounded = event.bounded();
        assert_eq!(bounded.request, json!({ "bytes": AUDIT_PART_BYTES_MAX + 8 }));
        assert_eq!(bounded.changes, [json!({ "count": 1 })]);
        let long = format!("GET /{}", "é".repeat(AUDIT_TEXT_BYTES_MAX));
        let refused = Event { what: Some(long.clone()), result: long.clone(), ..Event::default() }.bounded();
        let what = refused.what.unwrap();
        let kept = what.strip_suffix('…').unwrap();
        assert!(
            long.starts_with(kept) && (AUDIT_TEXT_BYTES_MAX - 1..=AUDIT_TEXT_BYTES_MAX).contains(&kept.len())
        );
        assert_eq!(refused.result, what);
        let small = Event { request: json!({ "a": 1 }), changes: vec![json!(1)], ..Event::default() };
        assert_eq!(small.clone().bounded(), small);
    }

    #[test]
    fn an_event_has_no_secret() {
        let request = json!({
            "nqn": "nqn.a", "dhchap_secret": "DHHC1:00:bWlz", "keys": [{ "tls_key": "NVMeTLSkey-1:01:c2Vj:" }],
            "dhchap_key": "DHHC-1:00:c2Vj:", "dhchap_ctrl_secret": null, "tls_key_file": "/etc/a.key",
        });
        let what = Some("DELETE /v1/DHHC-1:00:c2Vj:".to_owned());
        let result = "unknown variant `DHHC-1:00:c2Vj:`".to_owned();
        let shown = Event { request, what, result, ..Event::default() }.without_secrets();
        let request = json!({
            "nqn": "nqn.a", "dhchap_secret": LEFT_OUT, "keys": [{ "tls_key": LEFT_OUT }],
            "dhchap_key": LEFT_OUT, "dhchap_ctrl_secret": null, "tls_key_file": "/etc/a.key",
        });
        assert_eq!(shown.request, request);
        assert_eq!(shown.what.as_deref(), Some("DELETE /v1/(secret)"));
        assert_eq!(shown.result, "unknown variant `(secret)`");
    }

    proptest! {
        #[test]
        fn what_was_changed_is_seen(line in 0..5usize, at in any::<prop::sample::Index>(), to in 0x20..0x7fu8) {
            let mut all = lines();
            let mut bytes = all[line].clone().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            all[line] = String::from_utf8(bytes).unwrap();
            prop_assert!(follow(&all).is_err(), "{}", all[line]);
        }
    }
}
