//! Changes made and undone on settings in memory, with an end in the middle at every write, and with an interface that
//! goes away.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::prelude::*;

use super::*;
use crate::{Channels, NtupleRule, QueueCount};

/// A machine's settings in memory: one interface, `veth0`, two interrupts, a thread.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    files: BTreeMap<String, String>,
    channels: Channels,
    ntuple: bool,
    rules: BTreeMap<u32, NtupleRule>,
    table: Vec<u32>,
    threads: BTreeMap<u32, (CpuSet, u64)>,
}

#[derive(Debug, Default)]
struct Memory {
    state: RefCell<State>,
    /// Writes after which the interface is gone.
    gone_after: Cell<Option<u32>>,
    writes: Cell<u32>,
    network_cookie: Cell<Option<u64>>,
}

fn tx(queue: u32) -> String {
    format!("sys/class/net/veth0/queues/tx-{queue}/xps_cpus")
}

fn rx(queue: u32) -> String {
    format!("sys/class/net/veth0/queues/rx-{queue}/rps_cpus")
}

impl Memory {
    fn new() -> Self {
        let mut state = State { channels: channels(2), table: vec![0, 1, 0, 1], ..State::default() };
        for queue in 0..2 {
            state.files.insert(tx(queue), "00000000,0000000f\n".to_owned());
            state.files.insert(rx(queue), "00000000,00000000\n".to_owned());
        }
        for irq in 40..42 {
            state.files.insert(format!("proc/irq/{irq}/smp_affinity_list"), "0-3\n".to_owned());
        }
        state.threads.insert(7, ("0-3".parse().unwrap(), 99));
        Self { state: RefCell::new(state), ..Self::default() }
    }

    fn is_gone(&self) -> bool {
        self.gone_after.get().is_some_and(|after| self.writes.get() >= after)
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_gone() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    fn write_to(&self, change: impl FnOnce(&mut State)) -> io::Result<()> {
        self.alive()?;
        self.writes.set(self.writes.get() + 1);
        change(&mut self.state.borrow_mut());
        Ok(())
    }
}

fn channels(now: u32) -> Channels {
    Channels { combined: QueueCount { now, max: 4 }, ..Channels::default() }
}

impl Settings for Memory {
    fn boot_id(&self) -> String {
        "this start".to_owned()
    }

    fn network_cookie(&self) -> Option<u64> {
        self.network_cookie.get()
    }

    fn read(&self, path: &str) -> io::Result<String> {
        if path.starts_with("sys/") {
            self.alive()?;
        }
        self.state.borrow().files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        if path.starts_with("sys/") {
            self.alive()?;
        }
        self.writes.set(self.writes.get() + 1);
        let mut state = self.state.borrow_mut();
        let file = state.files.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        // As the kernel: a list stays one, a mask reads with all its words.
        *file = match path.starts_with("proc/") {
            true => format!("{content}\n"),
            false => {
                let mask = CpuSet::parse_mask(content).unwrap().mask();
                let words: Vec<String> = mask.split(',').map(|word| format!("{word:0>8}")).collect();
                let words = words.join(",");
                if words.len() == 8 { format!("00000000,{words}\n") } else { format!("{words}\n") }
            }
        };
        Ok(())
    }

    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        self.alive()?;
        let queues = self.state.borrow().channels.combined.now;
        Ok((0..queues).flat_map(|queue| [format!("rx-{queue}"), format!("tx-{queue}")]).collect())
    }

    fn channels(&self, _: &str) -> io::Result<Channels> {
        self.alive()?;
        Ok(self.state.borrow().channels)
    }

    fn set_channels(&self, _: &str, channels: Channels) -> io::Result<()> {
        self.write_to(|state| {
            let (old, new) = (state.channels.combined.now, channels.combined.now);
            for queue in new..old {
                state.files.remove(&tx(queue));
                state.files.remove(&rx(queue));
            }
            for queue in old..new {
                state.files.insert(tx(queue), "00000000,00000000\n".to_owned());
                state.files.insert(rx(queue), "00000000,00000000\n".to_owned());
            }
            state.channels = channels;
        })
    }

    fn ntuple(&self, _: &str) -> io::Result<bool> {
        self.alive()?;
        Ok(self.state.borrow().ntuple)
    }

    fn set_ntuple(&self, _: &str, on: bool) -> io::Result<()> {
        self.write_to(|state| {
            state.ntuple = on;
            state.rules.retain(|_, _| on);
        })
    }

    fn rule(&self, _: &str, location: u32) -> io::Result<Option<NtupleRule>> {
        self.alive()?;
        Ok(self.state.borrow().rules.get(&location).cloned())
    }

    fn insert_rule(&self, _: &str, rule: &NtupleRule) -> io::Result<()> {
        self.write_to(|state| {
            state.rules.insert(rule.location, rule.clone());
        })
    }

    fn delete_rule(&self, _: &str, location: u32) -> io::Result<()> {
        self.write_to(|state| {
            state.rules.remove(&location);
        })
    }

    fn rss_table(&self, _: &str) -> io::Result<Vec<u32>> {
        self.alive()?;
        Ok(self.state.borrow().table.clone())
    }

    fn set_rss_table(&self, _: &str, table: &[u32]) -> io::Result<()> {
        self.write_to(|state| state.table = table.to_vec())
    }

    fn thread(&self, thread: u32) -> io::Result<(CpuSet, u64)> {
        self.state.borrow().threads.get(&thread).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn set_thread_cpus(&self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        self.writes.set(self.writes.get() + 1);
        let mut state = self.state.borrow_mut();
        let entry = state.threads.get_mut(&thread).ok_or(io::ErrorKind::NotFound)?;
        entry.0 = cpus.clone();
        Ok(())
    }
}

/// Ends everything at one write, as a killed process does.
struct Killer(u32);

struct Killed;

impl Watch for Killer {
    fn done(&mut self, _: &Step) {}

    fn before_write(&mut self) {
        if self.0 == 0 {
            resume_unwind(Box::new(Killed));
        }
        self.0 -= 1;
    }
}

struct Unwatched;

impl Watch for Unwatched {
    fn done(&mut self, _: &Step) {}
}

thread_local! {
    /// Bytes for which the disk of journals has room.
    static ROOM: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// For how many of `length` bytes there is room.
pub(super) fn room_for(length: usize) -> usize {
    let room = ROOM.get();
    ROOM.set(room.saturating_sub(length));
    room.min(length)
}

fn steps() -> Vec<Step> {
    let interface = || "veth0".to_owned();
    let one = CpuSet::one;
    let flow = Some(("10.0.0.2:4420".parse().unwrap(), "10.0.0.1:40000".parse().unwrap()));
    let changes = vec![
        Change::Channels { interface: interface(), channels: channels(4) },
        Change::Affinity { irq: 40, name: "veth0-0".to_owned(), cpus: one(2) },
        Change::Affinity { irq: 41, name: "veth0-1".to_owned(), cpus: one(3) },
        Change::Xps { interface: interface(), queue: 0, cpus: one(2) },
        Change::Xps { interface: interface(), queue: 3, cpus: one(3) },
        Change::Rps { interface: interface(), queue: 1, cpus: one(40) },
        Change::Thread { pid: 7, thread: 7, cpus: one(2) },
        Change::NtupleOn { interface: interface() },
        Change::Rule {
            interface: interface(),
            rule: NtupleRule { location: 3, flow, queue: Some(2), scope: crate::RuleScope::Unknown },
        },
        Change::RssTable { interface: interface(), table: vec![0, 1, 2, 3] },
    ];
    changes.into_iter().map(|change| Step { change, why: "a test".to_owned() }).collect()
}

#[test]
fn what_was_applied_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune/a.journal");
    let memory = Memory::new();
    let before = memory.state.borrow().clone();
    apply(&memory, &path, &steps(), &mut Unwatched).unwrap();
    {
        let state = memory.state.borrow();
        assert_eq!(state.channels, channels(4));
        assert_eq!(state.files[&tx(3)], "00000000,00000008\n");
        assert_eq!(state.threads[&7].0, CpuSet::one(2));
        assert_eq!(state.rules[&3].queue, Some(2));
    }
    let again = apply(&memory, &path, &steps(), &mut Unwatched).unwrap_err().to_string();
    assert!(again.contains("in effect") && again.contains("tune revert"), "{again}");
    let restored = revert(&memory, &path, &mut Unwatched).unwrap();
    assert!(restored.was_complete && restored.failed.is_empty() && restored.gone.is_empty());
    assert_eq!(restored.undone, 10);
    assert_eq!(*memory.state.borrow(), before);
    assert!(matches!(revert(&memory, &path, &mut Unwatched), Err(JournalError::None { .. })));
}

/// Counts writes of a whole run.
struct Counter(u32);

impl Watch for Counter {
    fn done(&mut self, _: &Step) {}

    fn before_write(&mut self) {
        self.0 += 1;
    }
}

#[test]
fn an_end_at_any_write_can_be_undone_also_if_undoing_ends_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let mut counter = Counter(0);
    let counted = Memory::new();
    apply(&counted, &path, &steps(), &mut counter).unwrap();
    revert(&counted, &path, &mut Unwatched).unwrap();
    assert_eq!(counter.0, 21, "two writes for each change, and the last word of the journal");
    for end in 0..counter.0 {
        for second_end in 0..=end {
            let memory = Memory::new();
            let before = memory.state.borrow().clone();
            let killed =
                |result: std::thread::Result<()>| result.is_err_and(|payload| payload.is::<Killed>());
            assert!(killed(catch_unwind(AssertUnwindSafe(|| {
                let _ = apply(&memory, &path, &steps(), &mut Killer(end));
            }))));
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let _ = revert(&memory, &path, &mut Killer(second_end));
            }));
            match revert(&memory, &path, &mut Unwatched) {
                Ok(restored) => assert!(restored.failed.is_empty(), "{restored:?}"),
                Err(JournalError::None { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            assert_eq!(*memory.state.borrow(), before, "ended at {end}, then at {second_end}");
        }
    }
}

#[test]
fn a_disk_that_is_full_anywhere_in_the_journal_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    apply(&Memory::new(), &path, &steps(), &mut Unwatched).unwrap();
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    std::fs::remove_file(&path).unwrap();
    // The head, each record and the last word, cut at their ends too.
    for room in (0..length).step_by(23).chain([length - 1]) {
        let memory = Memory::new();
        let before = memory.state.borrow().clone();
        ROOM.set(room);
        let error = apply(&memory, &path, &steps(), &mut Unwatched).expect_err("no room");
        ROOM.set(usize::MAX);
        assert!(matches!(error, ApplyError::Journal(JournalError::Io { .. })), "{room}: {error}");
        assert_eq!(*memory.state.borrow(), before, "{room} bytes");
        assert!(!path.exists(), "with {room} bytes of room a journal stays, as if a plan were in effect");
        apply(&memory, &path, &steps(), &mut Unwatched).unwrap();
        revert(&memory, &path, &mut Unwatched).unwrap();
        assert_eq!(*memory.state.borrow(), before, "{room} bytes");
    }
}

#[test]
fn a_failure_undoes_what_was_done_and_an_interface_that_goes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    for gone_after in 0..10 {
        let memory = Memory::new();
        memory.gone_after.set(Some(gone_after));
        let Err(error) = apply(&memory, &path, &steps(), &mut Unwatched) else {
            continue;
        };
        let ApplyError::Step { restored, .. } = &error else { panic!("{error}") };
        assert!(restored.failed.is_empty(), "{restored:?}");
        let message = error.to_string();
        assert!(message.contains("veth0 is gone") && message.contains("is as it was before"), "{message}");
        assert_eq!(message.contains("went with what is gone"), !restored.gone.is_empty(), "{message}");
        assert!(!path.exists());
        let state = memory.state.borrow();
        assert_eq!(state.files["proc/irq/40/smp_affinity_list"], "0-3\n");
        assert_eq!(state.threads[&7].0.to_string(), "0-3");
    }
}

#[test]
fn another_programs_change_is_reported_and_a_later_boot_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let memory = Memory::new();
    let before = memory.state.borrow().clone();
    apply(&memory, &path, &steps(), &mut Unwatched).unwrap();
    memory.write("proc/irq/41/smp_affinity_list", "1").unwrap();
    memory.state.borrow_mut().threads.insert(7, (CpuSet::one(2), 100));
    let restored = revert(&memory, &path, &mut Unwatched).unwrap();
    assert_eq!(restored.changed_since.len(), 1);
    assert!(matches!(restored.gone.as_slice(), [Change::Thread { .. }]), "the thread is another one");
    assert_eq!(memory.state.borrow().files, before.files);

    let text = "{\"tune_journal\":1,\"boot_id\":\"another\",\"begun_s\":1,\"changes\":1}\n";
    std::fs::write(&path, text).unwrap();
    assert!(revert(&memory, &path, &mut Unwatched).unwrap().was_restarted);
    assert!(!path.exists());
}

/// A namespace has the inode, and so the journal's name, of one that is gone.
#[test]
fn a_plan_of_a_namespace_that_is_gone_changes_nothing_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    for (before, now, is_anothers) in
        [(Some(7), Some(8), true), (Some(7), Some(7), false), (None, Some(8), false), (Some(7), None, false)]
    {
        let memory = Memory::new();
        memory.network_cookie.set(before);
        apply(&memory, &path, &steps(), &mut Unwatched).unwrap();
        let applied = memory.state.borrow().clone();
        memory.network_cookie.set(now);
        let restored = revert(&memory, &path, &mut Unwatched).unwrap();
        assert_eq!((restored.was_anothers, restored.undone == 0), (is_anothers, is_anothers), "{before:?}");
        assert_eq!(*memory.state.borrow() == applied, is_anothers, "{before:?} {now:?}");
        assert!(!path.exists());
    }
}

#[test]
fn a_journal_that_makes_no_sense_is_named_and_nothing_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let memory = Memory::new();
    let head = "{\"tune_journal\":1,\"boot_id\":\"this start\",\"begun_s\":1,\"changes\":1}\n";
    std::fs::write(&path, format!("{head}{{\"change\":3}}\n")).unwrap();
    let error = revert(&memory, &path, &mut Unwatched).unwrap_err().to_string();
    assert!(error.contains("a.journal, line 2:") && error.contains("nothing was undone"), "{error}");
    // A line that was cut short was never followed by its change.
    std::fs::write(&path, format!("{head}{{\"change\":{{\"cha")).unwrap();
    assert_eq!(revert(&memory, &path, &mut Unwatched).unwrap().undone, 0);
    std::fs::write(&path, "").unwrap();
    assert_eq!(revert(&memory, &path, &mut Unwatched).unwrap().undone, 0);
}

/// A journal of this start with one line more.
fn journal_of(line: &serde_json::Value) -> String {
    format!("{{\"tune_journal\":1,\"boot_id\":\"this start\",\"begun_s\":1,\"changes\":1}}\n{line}\n")
}

fn line(change: &Change, before: &Before) -> serde_json::Value {
    serde_json::to_value(Record { change: change.clone(), before: before.clone() }).unwrap()
}

#[test]
fn what_no_plan_changes_is_not_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let memory = Memory::new();
    let before = memory.state.borrow().clone();
    let with = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
        let change = Change::Channels { interface: "veth0".to_owned(), channels: channels(4) };
        line(&change, &Before::Channels { channels: channels(2), files })
    };
    let queue = "sys/class/net/veth0/queues";
    let mut refused = vec![
        with(&[("etc/shadow", "0")]),
        with(&[(&format!("{queue}/tx-0/../../../../../../etc/shadow"), "0")]),
        with(&[(&format!("{queue}/tx-0/rps_cpus"), "0")]),
        with(&[(&format!("{queue}/tx-00/xps_cpus"), "0")]),
        with(&[(&format!("{queue}/tx-+1/xps_cpus"), "0")]),
        with(&[(&format!("{queue}/../tx-1/xps_cpus"), "0")]),
        with(&[("sys/class/net/veth1/queues/tx-0/xps_cpus", "0")]),
        with(&[(&format!("/{queue}/tx-0/xps_cpus"), "0")]),
        with(&[(&format!("{queue}/tx-0/xps_cpus"), "|/bin/sh\n")]),
    ];
    let content = || Before::File { content: "0\n".to_owned() };
    for name in ["..", ".", "", "../../../proc/sys/kernel", "a/b", "more_than_15_bytes", "a b", "a\n", "a:1"]
    {
        let change = Change::Xps { interface: name.to_owned(), queue: 0, cpus: CpuSet::one(1) };
        refused.push(line(&change, &content()));
    }
    let affinity = Change::Affinity { irq: 40, name: "veth0-0".to_owned(), cpus: CpuSet::one(1) };
    refused.push(line(&affinity, &Before::File { content: "0; reboot".to_owned() }));
    refused.push(line(&affinity, &Before::Ntuple { on: true }));
    for line in &refused {
        std::fs::write(&path, journal_of(line)).unwrap();
        let error = revert(&memory, &path, &mut Unwatched).unwrap_err().to_string();
        assert!(
            error.contains("a.journal, line 2: ") && error.contains("nothing was undone"),
            "{line}: {error}"
        );
        assert_eq!(*memory.state.borrow(), before, "{line}");
        assert!(path.exists(), "it stays for inspection");
    }
    // The same with what a plan does change.
    let all = ["tx-0/xps_cpus", "tx-1/xps_cpus", "rx-0/rps_cpus", "rx-1/rps_cpus"]
        .map(|file| format!("{queue}/{file}"));
    let all: Vec<_> = all.iter().map(|file| (file.as_str(), "00000000,00000001\n")).collect();
    std::fs::write(&path, journal_of(&with(&all))).unwrap();
    assert_eq!(revert(&memory, &path, &mut Unwatched).unwrap().undone, 1);
    assert_eq!(memory.state.borrow().files[&tx(1)], "00000000,00000001\n");
}

#[test]
fn a_journal_that_others_could_have_written_is_not_believed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("tune");
    let path = folder.join("a.journal");
    let memory = Memory::new();
    apply(&memory, &path, &steps(), &mut Unwatched).unwrap();
    let applied = memory.state.borrow().clone();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set_mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    let refused = |path: &Path, message: &str| {
        let error = revert(&memory, path, &mut Unwatched).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("not believed"), "{error}");
        assert!(error.contains("nothing was changed"), "{error}");
        let error = apply(&memory, path, &steps(), &mut Unwatched).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(*memory.state.borrow(), applied);
    };
    for bad in [0o620, 0o602] {
        set_mode(&path, bad);
        refused(&path, "may be changed by others");
    }
    set_mode(&path, 0o600);
    for bad in [0o770, 0o1777] {
        set_mode(&folder, bad);
        refused(&path, "tune may be changed by others");
    }
    set_mode(&folder, 0o700);
    let link = scratch.path().join("link.journal");
    symlink(&path, &link).unwrap();
    refused(&link, "is a link");
    std::fs::remove_file(&link).unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    refused(&path, "has 2 names");
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    refused(&link, "is a folder");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
        refused(&path, "belongs to user 4711");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        std::os::unix::fs::chown(&folder, Some(4711), None).unwrap();
        refused(&path, "tune belongs to user 4711");
        std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
    }
    assert_eq!(revert(&memory, &path, &mut Unwatched).unwrap().undone, 10, "as it was it is believed");
}

#[test]
fn a_journal_is_not_cut_where_it_is_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let change = Change::Affinity { irq: 40, name: "veth0-0".to_owned(), cpus: CpuSet::one(1) };
    let line = format!("{}\n", line(&change, &Before::File { content: "0\n".to_owned() }));
    let mut text = journal_of(&serde_json::json!({"complete": true}));
    text.push_str(&line.repeat(crate::limits::SYSTEM_FILE_BYTES_MAX / line.len() + 1));
    std::fs::write(&path, &text).unwrap();
    let memory = Memory::new();
    let before = memory.state.borrow().clone();
    let error = revert(&memory, &path, &mut Unwatched).unwrap_err().to_string();
    assert!(
        error.contains("has more than 33554432 bytes") && error.contains("nothing was undone"),
        "{error}"
    );
    assert_eq!(*memory.state.borrow(), before);
    // As long as one may be, and then what is longer is not written.
    let room = crate::limits::SYSTEM_FILE_BYTES_MAX - line.len() / 2;
    std::fs::write(&path, &text[..text[..room].rfind('\n').unwrap() + 1]).unwrap();
    let mut journal = Journal::open(&path).unwrap();
    let record = journal.records()[0].clone();
    let outcome = (0..3).try_for_each(|_| journal.record(record.clone()));
    assert!(matches!(outcome, Err(JournalError::Io { .. })), "{outcome:?}");
    drop(journal);
    Journal::open(&path).expect("what was written is read again");
}

proptest! {
    #[test]
    fn a_journal_of_any_bytes_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        std::fs::write(&path, bytes).unwrap();
        let memory = Memory::new();
        let before = memory.state.borrow().clone();
        let _ = revert(&memory, &path, &mut Unwatched);
        prop_assert_eq!(&*memory.state.borrow(), &before);
    }
}
