//! Whether an audit log is whole: each record follows the one before it, in all files, and the last is the last that was
//! written.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::fingerprint::Fingerprint;
use super::super::limits::AUDIT_LINE_BYTES_MAX;
use super::record::Head;

/// A log that is whole, as far as it goes.
#[derive(Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Verified {
    /// Records that were looked at.
    pub records: u64,
    /// The number of the first; those before it are elsewhere.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// Hash of the last record. A copy of it proves later that no earlier record was changed.
    #[schemars(with = "String")]
    pub hash: Fingerprint,
    /// True if this record is the last in the target's state; missing without the state.
    pub is_end_known: Option<bool>,
}

/// Reads files, the oldest first, `-` for standard input.
pub fn verify(files: &[PathBuf], end: Option<Head>) -> Result<Verified, String> {
    let mut chain = Chain::default();
    for path in files {
        let shown = path.display();
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(|error| format!("{shown} cannot be read: {error}"))?)
        };
        chain.follow(input).map_err(|what| format!("{shown}{what}"))?;
    }
    chain.verified(end)
}

/// Reads the text of a log.
pub fn verify_text(text: &[u8]) -> Result<Verified, String> {
    let mut chain = Chain::default();
    chain.follow(text).map_err(|what| format!("the log{what}"))?;
    chain.verified(None)
}

/// Records that follow each other, as far as they were read.
#[derive(Debug, Default)]
struct Chain {
    head: Option<Head>,
    first: u64,
    records: u64,
}

impl Chain {
    /// Reads one more file.
    ///
    /// # Errors
    /// What is wrong, and where, to be put behind the file's name.
    fn follow(&mut self, input: impl Read) -> Result<(), String> {
        let mut lines = BufReader::new(input);
        for number in 1.. {
            let mut line = Vec::new();
            let read = lines.by_ref().take(AUDIT_LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.map_err(|error| format!(" cannot be read: {error}"))? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches('\n');
            if text.is_empty() {
                continue;
            }
            let next = match self.head {
                Some(head) => head.next(text),
                None => Head::after(text),
            };
            let next = next.map_err(|what| format!(", line {number}: {what}"))?;
            if self.head.is_none() {
                self.first = next.seq - 1;
            }
            self.head = Some(next);
            self.records += 1;
        }
        Ok(())
    }

    /// The whole, which has to reach as far as `end`.
    fn verified(self, end: Option<Head>) -> Result<Verified, String> {
        let Self { head, first, records } = self;
        let head = head.ok_or("there is no record")?;
        if let Some(end) = end
            && head.seq < end.seq
        {
            return Err(format!(
                "the log ends with record {}, and the target has written record {} (SHA-256 {}): its end was cut off",
                head.seq - 1,
                end.seq - 1,
                end.hash
            ));
        }
        let is_end_known = end.map(|end| end == head);
        Ok(Verified { records, first, last: head.seq - 1, hash: head.hash, is_end_known })
    }
}
