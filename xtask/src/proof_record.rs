//! `target/proof.json`: how each job of the proof last ended, and on which sources.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::suite::{Outcome, words};
use crate::workspace;

/// Result of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// As [`words`] has it.
    pub(crate) result: String,
    pub(crate) note: String,
    /// The hash of the paths on which the result depends.
    pub(crate) inputs: String,
    /// The hash of the whole checkout.
    pub(crate) tree: String,
    pub(crate) seconds: f64,
    /// Times that the laboratory failed before.
    pub(crate) laboratory_faults: u64,
    pub(crate) ended_unix_s: u64,
}

impl Record {
    pub(crate) fn new(outcome: &Outcome, tree: &str, inputs: &str, seconds: f64) -> Self {
        let (result, note) = words(outcome);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            result: result.to_owned(),
            note: note.to_owned(),
            inputs: inputs.to_owned(),
            tree: tree.to_owned(),
            seconds: (seconds * 10.0).round() / 10.0,
            laboratory_faults: 0,
            ended_unix_s: now,
        }
    }

    /// True if the job passed, and nothing on which it depends has changed since.
    pub(crate) fn holds_for(&self, inputs: &str) -> bool {
        self.result == "passed" && self.inputs == inputs
    }

    fn to_json(&self) -> Value {
        json!({
            "result": self.result, "note": self.note, "inputs": self.inputs, "tree": self.tree,
            "seconds": self.seconds, "laboratory_faults": self.laboratory_faults, "ended_unix_s": self.ended_unix_s,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Self {
            result: text("result")?,
            note: text("note")?,
            inputs: text("inputs")?,
            tree: text("tree")?,
            seconds: value.get("seconds")?.as_f64()?,
            laboratory_faults: value.get("laboratory_faults")?.as_u64()?,
            ended_unix_s: value.get("ended_unix_s")?.as_u64()?,
        })
    }
}

/// The file.
#[derive(Default)]
pub(crate) struct ProofRecord {
    jobs: BTreeMap<String, Record>,
}

impl ProofRecord {
    /// Reads it; without a file there is nothing in it.
    ///
    /// # Errors
    /// The file has another form.
    pub(crate) fn read() -> Result<Self, String> {
        let path = path();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                format!(
                    "{}: not a record of this version's proof; remove it to begin a new one",
                    path.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let jobs = value.get("jobs")?.as_object()?.iter();
        let jobs = jobs.map(|(name, job)| Some((name.clone(), Record::from_json(job)?)));
        Some(Self { jobs: jobs.collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        let jobs: serde_json::Map<String, Value> =
            self.jobs.iter().map(|(name, record)| (name.clone(), record.to_json())).collect();
        format!("{:#}\n", json!({ "jobs": jobs }))
    }

    pub(crate) fn of(&self, job: &str) -> Option<&Record> {
        self.jobs.get(job)
    }

    /// Keeps a job's end, in the file as well: a run that is interrupted later has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(&mut self, job: &str, record: Record) -> Result<(), String> {
        self.jobs.insert(job.to_owned(), record);
        let (path, fresh) = (path(), path().with_extension("json.new"));
        let written = std::fs::write(&fresh, self.text()).and_then(|()| std::fs::rename(&fresh, &path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn path() -> PathBuf {
    workspace::target_dir().join("proof.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = ProofRecord::default();
        let mut job = Record::new(&Outcome::Passed("7 \"checks\"".into()), "t", "a-b", 12.34);
        job.laboratory_faults = 1;
        record.jobs.insert("kernel/tls".into(), job.clone());
        let read = ProofRecord::parse(&record.text()).unwrap();
        assert_eq!(read.of("kernel/tls"), Some(&job));
        assert!(ProofRecord::parse("{\"jobs\": {\"x\": 1}}").is_none());
    }

    #[test]
    fn a_result_holds_for_its_inputs_alone() {
        let passed = Record::new(&Outcome::Passed(String::new()), "t", "a", 1.0);
        assert!(passed.holds_for("a") && !passed.holds_for("b"));
        assert!(!Record::new(&Outcome::Failed("x".into()), "t", "a", 1.0).holds_for("a"));
        assert!(!Record::new(&Outcome::Laboratory("x".into()), "t", "a", 1.0).holds_for("a"));
    }
}
