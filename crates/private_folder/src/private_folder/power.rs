//! Content of the medium when the power is lost at any step: what was synchronized, and of the rest
//! whatever a file system may have got round to. The steps are those of the folder's own code; what
//! is left is read by that code again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt as _;

use super::*;

/// Content of a folder, by the names of its files.
pub type Remains = BTreeMap<OsString, Vec<u8>>;

/// A file's data, apart from its names.
#[derive(Clone, Debug, Default)]
struct Data {
    content: Vec<u8>,
    is_durable: bool,
}

/// A change of names that is not synchronized.
#[derive(Clone, Debug)]
enum Naming {
    Link(OsString, usize),
    Unlink(OsString),
    Rename(OsString, OsString, usize),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<OsString, usize>) {
        match self {
            Self::Link(name, data) => drop(names.insert(name.clone(), *data)),
            Self::Unlink(name) => drop(names.remove(name)),
            Self::Rename(from, to, data) => {
                names.remove(from);
                names.insert(to.clone(), *data);
            }
        }
    }
}

/// A folder as it is seen, and what of it is on the medium.
#[derive(Clone, Debug, Default)]
pub struct Medium {
    data: Vec<Data>,
    names: BTreeMap<OsString, usize>,
    durable_names: BTreeMap<OsString, usize>,
    pending: Vec<Naming>,
}

impl Medium {
    /// A folder of which everything is on the medium.
    fn of(folder: &Path) -> Self {
        let mut medium = Self::default();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            medium.names.insert(entry.file_name(), medium.data.len());
            medium.data.push(Data { content: fs::read(entry.path()).unwrap(), is_durable: true });
        }
        medium.durable_names = medium.names.clone();
        medium
    }

    fn change(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.pending.push(naming);
    }

    fn take(&mut self, step: Step, name: &OsStr, bytes: &[u8]) {
        let name = name.to_owned();
        match step {
            Step::Remove if self.names.contains_key(&name) => self.change(Naming::Unlink(name)),
            Step::Remove => {}
            Step::Create => {
                self.data.push(Data::default());
                self.change(Naming::Link(name, self.data.len() - 1));
            }
            Step::Write => {
                let data = &mut self.data[self.names[&name]];
                data.content.extend(bytes);
                data.is_durable = false;
            }
            Step::SyncFile => self.data[self.names[&name]].is_durable = true,
            Step::Rename => {
                let mut new = name.clone();
                new.push(NEW_SUFFIX);
                let data = self.names[&new];
                self.change(Naming::Rename(new, name, data));
            }
            Step::SyncFolder => {
                self.durable_names = self.names.clone();
                self.pending.clear();
            }
        }
    }

    /// All that may be left if the power is lost now: of changed names any that were not synchronized, of data that was not
    /// all, a part, as many zeroes, or nothing.
    fn remains(&self) -> BTreeSet<Remains> {
        assert!(self.pending.len() < 12, "that takes too long: {:?}", self.pending);
        let mut all = BTreeSet::new();
        for choice in 0..1_u32 << self.pending.len() {
            let mut names = self.durable_names.clone();
            for (at, naming) in self.pending.iter().enumerate() {
                if choice >> at & 1 == 1 {
                    naming.apply(&mut names);
                }
            }
            let mut folders = vec![Remains::new()];
            for (name, data) in &names {
                let contents = self.data[*data].contents();
                folders = folders
                    .into_iter()
                    .flat_map(|folder| {
                        contents.iter().map(move |content| {
                            let mut folder = folder.clone();
                            folder.insert(name.clone(), content.clone());
                            folder
                        })
                    })
                    .collect();
            }
            all.extend(folders);
        }
        all
    }
}

impl Data {
    fn contents(&self) -> Vec<Vec<u8>> {
        let whole = &self.content;
        if self.is_durable {
            return vec![whole.clone()];
        }
        let half = whole[..whole.len() / 2].to_vec();
        vec![whole.clone(), half, vec![0; whole.len()], Vec::new()]
    }
}

/// All that may be left at any of several moments.
pub fn remains(media: &[Medium]) -> BTreeSet<Remains> {
    media.iter().flat_map(Medium::remains).collect()
}

/// A step that fails, as the so many-th of all, and whether all after it do so too.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Number of the failing step.
    pub at: usize,
    /// Set if all steps after it fail, too.
    pub lasts: bool,
    /// Error of the system.
    pub error: Errno,
}

struct Watched {
    medium: Medium,
    fault: Option<Fault>,
    steps: usize,
    /// State of the medium before each step.
    before: Vec<Medium>,
    /// Set if synchronizing the folder has failed.
    has_failed_at_last: bool,
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Observations since the last look.
pub struct Seen {
    /// State before each step, and after the last.
    pub media: Vec<Medium>,
    /// Set if a folder could not be synchronized.
    pub has_failed_at_last: bool,
}

/// Records all steps of this thread in a folder from now on.
pub fn watch(folder: &Path, fault: Option<Fault>) {
    let watched = Watched {
        medium: Medium::of(folder),
        fault,
        steps: 0,
        before: Vec::new(),
        has_failed_at_last: false,
    };
    WATCHED.set(Some(watched));
}

/// Observations since the last call.
pub fn seen() -> Seen {
    WATCHED.with_borrow_mut(|watched| {
        let watched = watched.as_mut().expect("a folder is watched");
        let mut media = std::mem::take(&mut watched.before);
        media.push(watched.medium.clone());
        Seen { media, has_failed_at_last: std::mem::take(&mut watched.has_failed_at_last) }
    })
}

/// Stops recording. Returns the number of steps.
pub fn end() -> usize {
    WATCHED.take().map_or(0, |watched| watched.steps)
}

/// Does something that is not recorded.
pub fn apart<T>(what: impl FnOnce() -> T) -> T {
    let watched = WATCHED.take();
    let outcome = what();
    WATCHED.set(watched);
    outcome
}

/// A step is about to be done.
pub(super) fn before(step: Step, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    WATCHED.with_borrow_mut(|watched| {
        let Some(watched) = watched else { return Ok(()) };
        watched.before.push(watched.medium.clone());
        let number = watched.steps;
        watched.steps += 1;
        let fails = |fault: &Fault| number == fault.at || fault.lasts && number > fault.at;
        if let Some(fault) = watched.fault.filter(fails) {
            watched.has_failed_at_last |= step == Step::SyncFolder;
            if step == Step::Write {
                watched.medium.take(step, name, &bytes[..bytes.len() / 2]);
            }
            return Err(fault.error.into());
        }
        watched.medium.take(step, name, bytes);
        Ok(())
    })
}

/// A folder as it is found after a power loss.
pub fn found(remains: &Remains) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in remains {
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).clone();
        options.open(folder.path().join(name)).unwrap().write_all(content).unwrap();
    }
    folder
}

/// Plays without a fault, and then with one at each step: either this step alone finds no room, or the medium fails
/// from this step on.
pub fn with_faults(play: impl Fn(Option<Fault>) -> usize) {
    let steps = play(None);
    assert!(steps > 4, "{steps} steps prove nothing");
    for at in 0..steps {
        for (lasts, error) in [(false, Errno::NOSPC), (true, Errno::IO)] {
            play(Some(Fault { at, lasts, error }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces a file three times; what may be there at each moment is.
    fn replace_over_and_over(fault: Option<Fault>) -> usize {
        let scratch = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::make(scratch.path()).unwrap();
        folder.replace("file", b"the first one").unwrap();
        folder.replace("other", b"another").unwrap();
        watch(scratch.path(), fault);
        let mut possible = BTreeSet::from([Some(b"the first one".to_vec())]);
        for content in [Some("a second one, longer"), Some("third"), None, None, Some("the last")] {
            let outcome = match content {
                Some(content) => folder.replace("file", content.as_bytes()),
                None => folder.remove("file"),
            };
            let content = content.map(|content| content.as_bytes().to_vec());
            let seen = seen();
            let (last, midst) = seen.media.split_last().unwrap();
            let either: BTreeSet<_> = possible.iter().cloned().chain([content.clone()]).collect();
            look(midst, &either, fault);
            match outcome {
                Ok(()) => possible = BTreeSet::from([content]),
                Err(_) if seen.has_failed_at_last => possible = either,
                Err(_) => {}
            }
            look(std::slice::from_ref(last), &possible, fault);
        }
        end()
    }

    fn look(media: &[Medium], possible: &BTreeSet<Option<Vec<u8>>>, fault: Option<Fault>) {
        for remains in remains(media) {
            let scratch = found(&remains);
            let folder = PrivateFolder::make(scratch.path()).unwrap();
            let content = folder.read("file", 1000).unwrap();
            assert!(possible.contains(&content), "{fault:?}: {remains:?} instead of {possible:?}");
            assert_eq!(folder.read("other", 1000).unwrap().as_deref(), Some(&b"another"[..]));
        }
    }

    #[test]
    fn a_power_loss_leaves_the_old_or_the_new_content_and_all_that_was_confirmed() {
        with_faults(replace_over_and_over);
    }
}
