//! Where everything that is seen of a machine is read from: the live system, a directory tree, or a recording of either
//! in one file. What the texts mean is not known here.

mod answers;
mod former;
mod live;
mod network;
mod recording;
mod tree;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use answers::{EthtoolAnswers, Refusal, Sockets};
pub use former::FormerAnswers;
pub use recording::{Recording, RecordingError};

use answers::{Directories, Route, Routes};
use recording::Entry;
use tree::Tree;

use crate::limits::SYSTEM_FILE_BYTES_MAX;

/// Folders of the records that programs leave of their queues, where nothing says others; `*` is any name.
const PROGRAM_DIRECTORIES: [&str; 3] =
    ["run/selvedge/queues", "run/user/*/selvedge/queues", "tmp/selvedge-*/queues"];

/// A machine that can be looked at. Paths are without the leading slash, as in `sys/class/net/eth0/mtu`.
///
/// Answers of the kernel that are in no file (ethtool, sockets, routes) are stored in trees and
/// recordings as JSON in the folder `selvedge`: `selvedge/ethtool/NAME.json`,
/// `selvedge/sockets.json`, `selvedge/routes.json` and `selvedge/programs.json`. Where such a file
/// is missing, the kernel counts as not having answered.
#[derive(Debug)]
pub struct Machine {
    source: Source,
    recorder: Option<Mutex<Recording>>,
    /// Answers of ethtool from before this process gave up some rights.
    former: FormerAnswers,
}

#[derive(Debug)]
enum Source {
    Live,
    Tree(Tree),
    Recording { name: String, recording: Recording },
}

/// Why there is no machine to look at in a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct MachineError {
    /// The file or folder.
    pub name: String,
    /// Description of the fault.
    pub reason: String,
}

impl Machine {
    /// The machine that this program runs on.
    pub fn live() -> Self {
        Self::from(Source::Live)
    }

    /// The machine that this program runs on, for a process that gives up some questions to ethtool after this: what those said
    /// now is what they say later.
    pub fn live_with_former_answers() -> Self {
        let names = live::list("sys/class/net").unwrap_or_default();
        Self { former: FormerAnswers::of(&names), ..Self::live() }
    }

    fn from(source: Source) -> Self {
        Self { source, recorder: None, former: FormerAnswers::default() }
    }

    /// A machine that was kept: a directory with a tree like that below `/`, or a file with a recording. The root
    /// directory itself is the live machine.
    ///
    /// # Errors
    /// When it cannot be read, or is not a recording.
    pub fn open(path: &Path) -> Result<Self, MachineError> {
        let name = path.display().to_string();
        let error = |reason: String| MachineError { name: name.clone(), reason };
        if path == Path::new("/") {
            return Ok(Self::live());
        }
        let found = std::fs::metadata(path).map_err(|found| error(found.to_string()))?;
        let source = if found.is_dir() {
            Source::Tree(Tree::open(path).map_err(|found| error(found.to_string()))?)
        } else {
            let text = bounded(std::fs::File::open(path)).map_err(|found| error(found.to_string()))?;
            let recording = text.parse().map_err(|found: RecordingError| error(found.to_string()))?;
            Source::Recording { name: name.clone(), recording }
        };
        Ok(Self::from(source))
    }

    /// The machine of a recording; `name` is what errors call it.
    pub fn of_recording(name: &str, recording: Recording) -> Self {
        Self::from(Source::Recording { name: name.to_owned(), recording })
    }

    /// The same machine, which remembers from now on whatever is read of it.
    pub fn record(self) -> Self {
        Self { recorder: Some(Mutex::new(Recording::default())), ..self }
    }

    /// Reads since [`Machine::record`]. They give the same answers as the machine.
    pub fn recording(&self) -> Option<Recording> {
        self.recorder.as_ref().map(|recorder| locked(recorder).clone())
    }

    /// True for the machine that this program runs on.
    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live)
    }

    /// A path as a person finds it.
    pub fn name(&self, path: &str) -> String {
        match &self.source {
            Source::Live => format!("/{path}"),
            Source::Tree(tree) => tree.name(path),
            Source::Recording { name, .. } => format!("{path} in {name}"),
        }
    }

    /// The text of a file. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// What the system says, and `EFBIG` for a file longer than [`SYSTEM_FILE_BYTES_MAX`].
    pub fn read(&self, path: &str) -> io::Result<String> {
        let read = match &self.source {
            Source::Live => bounded(std::fs::File::open(format!("/{path}"))),
            Source::Tree(tree) => tree.read(path),
            Source::Recording { recording, .. } => recording.read(path),
        };
        self.remember(path, &read, |text| Entry::File(text.clone()));
        read
    }

    /// Names in a directory, in order.
    ///
    /// # Errors
    /// What the system says.
    pub fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let listed = match &self.source {
            Source::Live => live::list(path),
            Source::Tree(tree) => tree.list(path),
            Source::Recording { recording, .. } => recording.list(path),
        };
        self.remember(path, &listed, |_| Entry::Directory);
        if let (Some(recorder), Ok(names)) = (&self.recorder, &listed) {
            let mut recording = locked(recorder);
            names.iter().for_each(|name| recording.imply(&format!("{path}/{name}")));
        }
        listed
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// What the system says; `EINVAL` when the path is not a link.
    pub fn link(&self, path: &str) -> io::Result<String> {
        let link = match &self.source {
            Source::Live => {
                std::fs::read_link(format!("/{path}")).map(|target| target.to_string_lossy().into_owned())
            }
            Source::Tree(tree) => tree.link(path),
            Source::Recording { recording, .. } => recording.link(path),
        };
        // That something is not a link follows from the entry that says what it is.
        if link.as_ref().err().and_then(io::Error::raw_os_error)
            != Some(rustix::io::Errno::INVAL.raw_os_error())
        {
            self.remember(path, &link, |target| Entry::Link(target.clone()));
        }
        link
    }

    /// Answers of ethtool about an interface.
    ///
    /// # Errors
    /// When the file that holds it cannot be read or is not one; what the kernel refuses is part of the answer.
    pub fn ethtool(&self, interface: &str) -> io::Result<EthtoolAnswers> {
        let answer = match &self.source {
            Source::Live => Ok(self.former.completed(interface, super::ethtool::answers(interface))),
            _ => self.json(&ethtool_path(interface)),
        }?;
        self.remember_json(&ethtool_path(interface), &answer);
        Ok(answer)
    }

    /// All TCP sockets.
    ///
    /// # Errors
    /// When the file that holds them cannot be read or is not one; what the kernel refuses is part of the answer.
    pub fn sockets(&self) -> io::Result<Sockets> {
        let answer = match &self.source {
            Source::Live => Ok(live::sockets()),
            _ => self.json("selvedge/sockets.json"),
        }?;
        self.remember_json("selvedge/sockets.json", &answer);
        Ok(answer)
    }

    /// Name of the interface by which packets leave for `destination`, when they come from `source`.
    ///
    /// # Errors
    /// What the kernel says: `ENETUNREACH` when there is no route.
    pub fn route(&self, destination: IpAddr, source: Option<IpAddr>) -> io::Result<String> {
        let answer = match &self.source {
            Source::Live => live::route(destination, source),
            _ => {
                let routes: Routes = self.json("selvedge/routes.json")?;
                let of = |route: &&Route| route.destination == destination && route.source == source;
                // A question without a source is answered by the route that was recorded for any
                // source.
                let like = |route: &&Route| route.destination == destination && source.is_none();
                let found = routes.routes.iter().find(of).or_else(|| routes.routes.iter().find(like));
                found.map_or_else(|| Err(answers::unrecorded()), Route::answer)
            }
        };
        if let Some(recorder) = &self.recorder {
            let mut recording = locked(recorder);
            let kept = recording.read("selvedge/routes.json").ok();
            let mut routes: Routes =
                kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            routes.keep(Route::new(destination, source, &answer));
            recording.put_json("selvedge/routes.json", &routes);
        }
        answer
    }

    /// Folders in which programs leave records of their queues, of which any may not exist.
    ///
    /// # Errors
    /// When the file that names them cannot be read or is not one.
    pub fn program_directories(&self) -> io::Result<Vec<String>> {
        let named = match &self.source {
            Source::Live => Directories { directories: live::runtime_directory().into_iter().collect() },
            _ => self.json("selvedge/programs.json")?,
        };
        self.remember_json("selvedge/programs.json", &named);
        let mut found = named.directories;
        for pattern in PROGRAM_DIRECTORIES {
            let Some((before, after)) = pattern.split_once('*') else {
                found.push(pattern.to_owned());
                continue;
            };
            let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
            let names = self.list_where(parent, |name| name.starts_with(prefix));
            found.extend(names.into_iter().map(|name| format!("{parent}/{name}{after}")));
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Names in a directory that are of interest; none where it cannot be read. Only these are remembered.
    pub(super) fn list_where(&self, path: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let listed = match &self.source {
            Source::Live => live::list(path),
            Source::Tree(tree) => tree.list(path),
            Source::Recording { recording, .. } => recording.list(path),
        };
        let mut names = listed.unwrap_or_default();
        names.retain(|name| is_wanted(name));
        if let Some(recorder) = &self.recorder {
            let mut recording = locked(recorder);
            names.iter().for_each(|name| recording.imply(&format!("{path}/{name}")));
        }
        names
    }

    /// The value that a file of a tree or recording holds; the default where there is no such file.
    fn json<T: serde::de::DeserializeOwned + Default>(&self, path: &str) -> io::Result<T> {
        let text = match &self.source {
            Source::Live => Err(io::ErrorKind::NotFound.into()),
            Source::Tree(tree) => tree.read(path),
            Source::Recording { recording, .. } => recording.read(path),
        };
        match text {
            Ok(text) => serde_json::from_str(&text).map_err(|found| {
                let path = self.name(path);
                io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {found}"))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(error) => Err(error),
        }
    }

    fn remember<T>(&self, path: &str, answer: &io::Result<T>, entry: impl Fn(&T) -> Entry) {
        let Some(recorder) = &self.recorder else { return };
        match answer {
            Ok(found) => locked(recorder).put(path, entry(found)),
            // What is absent is absent from the recording too.
            Err(error) if is_absent(error) => {}
            Err(error) => locked(recorder).put(path, Entry::error(error)),
        }
    }

    fn remember_json<T: serde::Serialize>(&self, path: &str, answer: &T) {
        if let Some(recorder) = &self.recorder {
            locked(recorder).put_json(path, answer);
        }
    }
}

/// True if an error says that there is no such file or folder.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn ethtool_path(interface: &str) -> String {
    format!("selvedge/ethtool/{interface}.json")
}

/// A recording is whole after every change, so that a thread that panicked leaves it usable.
fn locked(recorder: &Mutex<Recording>) -> MutexGuard<'_, Recording> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a file to its end, but no further than the limit.
fn bounded(file: io::Result<std::fs::File>) -> io::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file?.take(SYSTEM_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > SYSTEM_FILE_BYTES_MAX {
        return Err(rustix::io::Errno::FBIG.into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
