//! The audit log: changes and failed logins with their callers, on disk before a change is
//! acknowledged. After a rotation (logrotate moves the file away) the next file continues the
//! chain.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chart::units;
use jiff::Timestamp;
use private_folder::PrivateFolder;

use super::super::access::Identity;
use super::super::limits::{AUDIT_LINE_BYTES_MAX, REFUSED_PER_MINUTE_MAX};
use super::super::refusal::Refusal;
use super::record::{Event, Head, Kind};
use super::tail::Tail;
use crate::failure::Failure;
use crate::spec::audit_destination::AuditDestination;
use crate::state_directory::StateDirectory;

/// The log in a state directory.
pub const NAME: &str = "audit.jsonl";
/// File in the state directory with the head of the log, which shows that a log has lost its end.
const HEAD_NAME: &str = "audit-head.json";
const HEAD_BYTES_MAX: u64 = 1024;
/// Prefix that gives a line of the journal the priority "notice".
const NOTICE: &str = "<5>";

/// The log.
#[derive(Debug)]
pub struct AuditLog {
    destination: Destination,
    directory: Option<Arc<StateDirectory>>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
enum Destination {
    Nowhere,
    File(PathBuf),
    /// Standard error, which the journal records.
    Journal,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Journal => f.write_str("in the journal"),
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    head: Head,
    file: Option<(File, u64)>,
    /// Number of records that could not be written, and the error of the last.
    missed: u64,
    trouble: Option<String>,
    crowds: Crowds,
}

/// Counts of refusals by kind: many refusals of one kind do not keep those of others out of the
/// log.
#[derive(Debug, Default)]
struct Crowds {
    strangers: Crowd,
    connects: Crowd,
    hosts: Crowd,
    administrators: Crowd,
}

/// Refusals of one kind in the running minute.
#[derive(Debug, Default)]
struct Crowd {
    since: Option<Instant>,
    count: u32,
    omitted: u64,
}

impl Crowds {
    /// The count that a refusal belongs to; `None` for all other events.
    fn of(&mut self, event: &Event) -> Option<&mut Crowd> {
        match (event.kind, &event.who) {
            (Kind::FailedLogin, _) => Some(&mut self.strangers),
            (Kind::RefusedConnect, _) => Some(&mut self.connects),
            (Kind::Refused, Some(Identity::Host { .. })) => Some(&mut self.hosts),
            (Kind::Refused, _) => Some(&mut self.administrators),
            _ => None,
        }
    }
}

impl Crowd {
    /// Lets one more be recorded, with how many were left out before it; or counts it, with `more` that come with it.
    fn admit(&mut self, now: Instant, more: u64) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(60)) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count += 1;
        self.omitted += more;
        if self.count > REFUSED_PER_MINUTE_MAX {
            self.omitted += 1;
            return None;
        }
        Some(std::mem::take(&mut self.omitted))
    }
}

impl AuditLog {
    /// None is kept.
    pub fn none() -> Self {
        Self { destination: Destination::Nowhere, directory: None, inner: Mutex::default() }
    }

    /// Opens the log, where it was left.
    pub fn open(
        wanted: Option<&AuditDestination>,
        directory: Option<&Arc<StateDirectory>>,
    ) -> Result<Self, Failure> {
        let destination = match (wanted, directory) {
            (Some(AuditDestination::None), _) | (None, None) => return Ok(Self::none()),
            (Some(AuditDestination::Journal), _) => Destination::Journal,
            (Some(AuditDestination::File(path)), _) => Destination::File(path.clone()),
            (None, Some(directory)) => Destination::File(directory.folder.path().join(NAME)),
        };
        let log = Self { destination, directory: directory.cloned(), inner: Mutex::default() };
        let gap = log.resume()?;
        if let Some(gap) = gap {
            tracing::error!("the audit log: {gap}");
            log.write(Event { kind: Kind::Gap, result: gap, ..Event::default() });
        }
        Ok(log)
    }

    /// Finds the end of the log; returns a description of a damage, if there is one.
    fn resume(&self) -> Result<Option<String>, Failure> {
        // A damaged log must not keep a target from its hosts.
        let (kept, spoilt) = match self.directory.as_ref().map(|directory| kept_head(&directory.folder)) {
            None => (None, None),
            Some(Ok(kept)) => (kept, None),
            Some(Err(error)) => (None, Some(error)),
        };
        let Destination::File(path) = &self.destination else {
            self.lock().head = kept.unwrap_or_default();
            return Ok(spoilt);
        };
        let failed = |error| Failure::failed(format!("the audit log {}: {error}", path.display()));
        let failed = &failed;
        let last = last_line(path).map_err(failed)?;
        let found = last.as_deref().map(Head::after);
        let (head, gap) = match (found, kept) {
            (None, kept) => (kept.unwrap_or_default(), None),
            (Some(Ok(found)), None) => (found, None),
            // A process that was killed between the two leaves one more line than its directory knows of.
            (Some(Ok(found)), Some(kept)) if found.seq >= kept.seq => (found, None),
            (Some(Ok(found)), Some(kept)) => {
                let what = format!("it ends with record {}, and {} were written", found.seq - 1, kept.seq);
                (kept, Some(what))
            }
            (Some(Err(error)), kept) => {
                // What comes next has a line of its own.
                let mut file = OpenOptions::new().append(true).open(path).map_err(failed)?;
                file.write_all(b"\n").map_err(failed)?;
                (kept.unwrap_or_default(), Some(format!("its last line is damaged ({error})")))
            }
        };
        self.lock().head = head;
        Ok(spoilt.or(gap))
    }

    /// Refuses a change that could not be recorded.
    pub(in crate::control) fn check(&self) -> Result<(), Refusal> {
        let missed = {
            let inner = self.lock();
            if inner.trouble.is_none() {
                return Ok(());
            }
            inner.missed
        };
        let result = format!("{} could not be written before this one", units::plural(missed, "record"));
        self.write(Event { kind: Kind::Gap, result, ..Event::default() });
        match &self.lock().trouble {
            None => Ok(()),
            Some(trouble) => {
                let what = format!("nothing was changed: the audit log cannot be written ({trouble})");
                Err(Refusal::new(507, what)
                    .hint("make room for it, or start the target with another --audit-log"))
            }
        }
    }

    /// True if a log is written.
    pub(in crate::control) const fn is_kept(&self) -> bool {
        !matches!(self.destination, Destination::Nowhere)
    }

    /// Latest records of the log.
    pub(in crate::control) fn tail(&self) -> Result<Tail, Refusal> {
        match &self.destination {
            Destination::File(path) => Tail::of(path)
                .map_err(|error| Refusal::new(500, format!("the audit log {}: {error}", path.display()))),
            Destination::Journal => {
                let refusal = Refusal::not_found("the audit log of this target is in the journal");
                Err(refusal.hint("journalctl -u selvedge"))
            }
            Destination::Nowhere => {
                let refusal = Refusal::not_found("this target keeps no audit log");
                Err(refusal.hint("`selvedge serve --state-dir` or `--audit-log` keeps one"))
            }
        }
    }

    /// Records an event. If it cannot be written, an error is logged and all changes are refused
    /// from then on. Refusals have a line each up to a limit, and are counted beyond it, since
    /// strangers must not fill a disk.
    pub fn write(&self, event: Event) {
        if !self.is_kept() {
            return;
        }
        let mut event = event.without_secrets().bounded();
        let mut inner = self.lock();
        if let Some(crowd) = inner.crowds.of(&event) {
            match crowd.admit(Instant::now(), event.omitted) {
                Some(omitted) => event.omitted = omitted,
                None => return,
            }
        }
        match self.append(&mut inner, &event) {
            Ok(()) => {
                inner.missed = 0;
                inner.trouble = None;
            }
            Err(error) => {
                let trouble = format!("{}: {error}", self.destination);
                tracing::error!(
                    event = ?event.kind,
                    "cannot write the audit log {trouble}; changes are refused until it can be written"
                );
                inner.missed += 1;
                inner.trouble = Some(trouble);
            }
        }
    }

    fn append(&self, inner: &mut Inner, event: &Event) -> io::Result<()> {
        let (line, head) = inner.head.append(event, Timestamp::now())?;
        match &self.destination {
            Destination::Nowhere => return Ok(()),
            Destination::Journal => io::stderr().lock().write_all(format!("{NOTICE}{line}\n").as_bytes())?,
            Destination::File(path) => {
                let mut file = inner.open(path)?;
                let before = file.metadata()?.len();
                let written = file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data());
                if let Err(error) = written {
                    // Half a line would be taken for a forged one.
                    let _ = file.set_len(before);
                    return Err(error);
                }
            }
        }
        inner.head = head;
        if let Some(directory) = &self.directory {
            let json = serde_json::to_vec(&head)?;
            directory.folder.replace(HEAD_NAME, &json).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The file at this path now, which may not be the one that was there before.
    fn open(&mut self, path: &Path) -> io::Result<&File> {
        let there = fs::symlink_metadata(path).ok().map(|found| found.ino());
        if self.file.as_ref().is_none_or(|(_, inode)| there != Some(*inode)) {
            let no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
            let mut options = OpenOptions::new();
            let file = options.append(true).create(true).mode(0o600).custom_flags(no_link).open(path)?;
            let inode = file.metadata()?.ino();
            self.file = Some((file, inode));
        }
        self.file.as_ref().map(|(file, _)| file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Reads the head of the log from a state directory, also from one that a target uses.
pub fn head_in(directory: &Path) -> Result<Option<Head>, Failure> {
    let folder = PrivateFolder::open(directory).map_err(|error| Failure::failed(error.to_string()))?;
    kept_head(&folder).map_err(Failure::failed)
}

fn kept_head(folder: &PrivateFolder) -> Result<Option<Head>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{HEAD_NAME} cannot be read: {error}");
    let text = folder.read(HEAD_NAME, HEAD_BYTES_MAX).map_err(|error| failed(&error))?;
    text.map(|text| serde_json::from_slice(&text).map_err(|error| failed(&error))).transpose()
}

/// The last line of a file that has one.
fn last_line(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(AUDIT_LINE_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(AUDIT_LINE_BYTES_MAX).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    Ok(text.lines().next_back().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::verification::verify;
    use super::*;

    struct Testbed {
        folder: tempfile::TempDir,
    }

    impl Testbed {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn log(&self) -> AuditLog {
            let directory = StateDirectory::take(&self.folder.path().join("state"))
                .unwrap_or_else(|failure| panic!("{failure:?}"));
            AuditLog::open(None, Some(&Arc::new(directory))).unwrap_or_else(|failure| panic!("{failure:?}"))
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("state").join(NAME)
        }

        /// Verifies these files; returns the number of records, or the mistake.
        fn verify(&self, files: &[PathBuf]) -> Result<u64, String> {
            let end =
                head_in(&self.folder.path().join("state")).unwrap_or_else(|failure| panic!("{failure:?}"));
            verify(files, end).map(|verified| verified.records)
        }
    }

    fn event(number: usize) -> Event {
        Event { result: format!("number {number}"), ..Event::default() }
    }

    fn write(log: &AuditLog, count: usize) {
        (0..count).for_each(|number| log.write(event(number)));
    }

    #[test]
    fn the_tail_of_a_log_in_a_file_follows_the_schema() {
        let testbed = Testbed::new();
        let log = testbed.log();
        let tail = |log: &AuditLog| serde_json::to_value(log.tail().unwrap()).unwrap();
        assert_eq!(tail(&log), serde_json::json!({ "records": [], "has_older": false }));
        write(&log, 3);
        let tail_json = tail(&log);
        assert_eq!(
            (&tail_json["records"][0]["result"], &tail_json["records"][2]["seq"]),
            (&"number 2".into(), &0.into())
        );
        let document = super::super::super::openapi::document().unwrap();
        let schema = &document["components"]["schemas"]["AuditTail"];
        assert_eq!(
            super::super::super::schema_tests::mistake(&document, schema, &tail_json, "AuditTail"),
            None
        );
        let refusal = AuditLog::none().tail().unwrap_err();
        assert!(refusal.status == 404 && refusal.to_string().contains("keeps no audit log"), "{refusal}");
        let journal = AuditLog { destination: Destination::Journal, ..AuditLog::none() };
        assert_eq!(journal.tail().unwrap_err().status, 404);
    }

    #[test]
    fn a_log_goes_on_where_it_ended_also_in_a_new_file() {
        let testbed = Testbed::new();
        write(&testbed.log(), 3);
        let log = testbed.log();
        write(&log, 2);
        let old = testbed.path().with_extension("1");
        fs::rename(testbed.path(), &old).unwrap();
        write(&log, 2);
        drop(log);
        fs::rename(testbed.path(), testbed.path().with_extension("2")).unwrap();
        write(&testbed.log(), 1);
        let all = [old.clone(), testbed.path().with_extension("2"), testbed.path()];
        assert_eq!(testbed.verify(&all), Ok(8));
        assert_eq!(testbed.verify(&all[1..]), Ok(3));
        assert!(testbed.verify(&[old, testbed.path()]).unwrap_err().contains("record 7 follows record 4"));
        assert_eq!(fs::metadata(testbed.path()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_end_that_was_cut_off_is_seen_and_said_at_the_next_start() {
        let testbed = Testbed::new();
        write(&testbed.log(), 3);
        let text = fs::read_to_string(testbed.path()).unwrap();
        let cut = text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
        fs::write(testbed.path(), cut).unwrap();
        let error = testbed.verify(&[testbed.path()]).unwrap_err();
        assert!(error.contains("ends with record 1") && error.contains("has written record 2"), "{error}");
        write(&testbed.log(), 1);
        let text = fs::read_to_string(testbed.path()).unwrap();
        assert!(
            text.contains("\"event\":\"gap\"") && text.contains("ends with record 1, and 3 were written"),
            "{text}"
        );
        assert!(testbed.verify(&[testbed.path()]).is_err(), "and it stays seen");
    }

    #[test]
    fn half_a_line_of_a_process_that_died_spoils_none_that_comes_after() {
        let testbed = Testbed::new();
        write(&testbed.log(), 2);
        let mut text = fs::read_to_string(testbed.path()).unwrap();
        text += "{\"seq\":2,\"tim";
        fs::write(testbed.path(), text).unwrap();
        write(&testbed.log(), 1);
        let text = fs::read_to_string(testbed.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(
            lines[3].starts_with("{\"seq\":2,") && lines[3].contains("its last line is damaged"),
            "{text}"
        );
        assert!(lines[4].starts_with("{\"seq\":3,"), "{text}");
    }

    #[test]
    fn what_cannot_be_recorded_is_not_changed() {
        let testbed = Testbed::new();
        let log = testbed.log();
        write(&log, 1);
        // A folder in the file's place cannot be written, also as root.
        fs::rename(testbed.path(), testbed.path().with_extension("1")).unwrap();
        fs::create_dir(testbed.path()).unwrap();
        assert_eq!(log.check(), Ok(()), "the failure is not known yet");
        write(&log, 2);
        let refusal = log.check().unwrap_err();
        assert_eq!(refusal.status, 507);
        assert!(
            refusal.to_string().contains("nothing was changed: the audit log cannot be written"),
            "{refusal}"
        );
        assert!(refusal.to_string().contains(&format!("state/{NAME}: ")), "{refusal}");
        fs::remove_dir(testbed.path()).unwrap();
        assert_eq!(log.check(), Ok(()));
        let text = fs::read_to_string(testbed.path()).unwrap();
        assert!(text.contains("3 records could not be written before this one"), "{text}");
        assert_eq!(testbed.verify(&[testbed.path().with_extension("1"), testbed.path()]), Ok(2));
    }

    #[test]
    fn a_crowd_has_as_many_lines_a_minute_as_it_may_and_says_how_many_it_had_not() {
        let (mut crowd, now) = (Crowd::default(), Instant::now());
        let admitted = (0..1000).filter(|_| crowd.admit(now, 0).is_some()).count();
        assert_eq!(admitted, REFUSED_PER_MINUTE_MAX as usize);
        let omitted = 1000 - u64::from(REFUSED_PER_MINUTE_MAX) + 5;
        assert_eq!(crowd.admit(now + Duration::from_secs(60), 5), Some(omitted));
    }

    #[test]
    fn many_refusals_fill_no_disk_and_hide_no_other_event() {
        let testbed = Testbed::new();
        let log = testbed.log();
        let text = || fs::read_to_string(testbed.path()).unwrap();
        let most = REFUSED_PER_MINUTE_MAX as usize;
        let host = Identity::Host { nqn: "nqn.h".to_owned(), host_id: None };
        let refused = |kind, who: &Identity| Event { kind, who: Some(who.clone()), ..Event::default() };
        (0..1000).for_each(|_| log.write(refused(Kind::FailedLogin, &Identity::Unknown)));
        assert_eq!(text().lines().count(), most);
        (0..1000).for_each(|_| log.write(refused(Kind::RefusedConnect, &host)));
        assert_eq!(text().lines().count(), 2 * most);
        (0..1000).for_each(|_| log.write(refused(Kind::Refused, &host)));
        assert_eq!(text().lines().count(), 3 * most);
        (0..1000).for_each(|_| log.write(refused(Kind::Refused, &Identity::Token("a".to_owned()))));
        assert_eq!(text().lines().count(), 4 * most);
        // Changes are recorded without a limit.
        (0..=most).for_each(|_| log.write(refused(Kind::Change, &host)));
        assert_eq!(text().lines().count(), 5 * most + 1);
        log.lock().crowds.strangers.since = None;
        log.write(Event { omitted: 5, ..refused(Kind::FailedLogin, &Identity::Unknown) });
        let omitted = 1000 - most + 5;
        assert!(
            text().lines().next_back().unwrap().contains(&format!("\"omitted\":{omitted}")),
            "{}",
            text()
        );
    }

    #[test]
    fn a_target_starts_with_a_damaged_log() {
        let testbed = Testbed::new();
        write(&testbed.log(), 2);
        fs::write(testbed.path().with_file_name(HEAD_NAME), "{").unwrap();
        write(&testbed.log(), 1);
        let text = fs::read_to_string(testbed.path()).unwrap();
        assert!(text.lines().nth(2).unwrap().contains("audit-head.json cannot be read"), "{text}");
        assert_eq!(testbed.verify(&[testbed.path()]), Ok(4));
    }
}
