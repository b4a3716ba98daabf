//! Previous process of an upgrade: it waits for the next one, hands over its disks, and learns of the outcome. Before it has
//! sent `Go`, every error leaves it as it was.

use std::env;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use engine::target::hand_over::{About, Process as _};
use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use sd_notify::NotifyState;

use super::super::record::{self, CommandLine};
use super::disk_group::DiskGroup;
use super::words::{HandedGroup, OfferedGroup, Word};
use crate::control::socket::{self, SocketFile};
use crate::sleeper::Waker;
use crate::succession::{Channel, OtherProcess};

/// Time for the next process to connect to all targets.
const PREPARATION: Duration = Duration::from_secs(60);
/// Time for the next process to take over the clients, which wait meanwhile.
const TAKING: Duration = Duration::from_secs(5);
/// Time for a process to exit after its connection has ended.
const DEATH: Duration = Duration::from_secs(3);

/// Environment variables that a service manager sets for the main process alone.
const SERVICE: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "RUNTIME_DIRECTORY"];

/// A process that may be replaced by another one.
pub(in super::super) struct Predecessor {
    estate: Arc<Estate>,
    file: Option<SocketFile>,
}

/// State that is handed over.
struct Estate {
    /// Command line of the process.
    line: CommandLine,
    groups: Mutex<Vec<Entry>>,
    /// The file that is run, by device and inode.
    program: Option<(u64, u64)>,
    /// `Go` was said: block devices have been left.
    leaves_devices: AtomicBool,
    /// The process has died that was to serve then.
    is_forsaken: AtomicBool,
    /// Another process serves.
    is_over: AtomicBool,
    ends: AtomicBool,
}

/// Disks by how a process for them alone is started.
struct Entry {
    arguments: Vec<String>,
    /// `None` as long as they are not served.
    group: Option<Arc<DiskGroup>>,
    /// Wakes the thread that looks after them.
    waker: Option<Waker>,
}

/// Disks of a process that may be replaced, as long as they are served.
pub(in super::super) struct Registration<'a> {
    predecessor: &'a Predecessor,
    arguments: Vec<String>,
}

impl Predecessor {
    /// Waits for a successor, in the folder of records. Where it cannot, the process can only be started again.
    pub(in super::super) fn wait(line: CommandLine) -> Self {
        let program = std::fs::metadata("/proc/self/exe").ok().map(|file| (file.dev(), file.ino()));
        let groups = Mutex::default();
        let [leaves_devices, is_forsaken, is_over, ends] = [false; 4].map(AtomicBool::new);
        let estate = Arc::new(Estate { line, groups, program, leaves_devices, is_forsaken, is_over, ends });
        let waiting = estate.clone();
        let begin = || -> Result<SocketFile, String> {
            let folder = record::make_folder()?;
            record::remove_left_places();
            let (listener, file) =
                socket::listen(&record::succession_place(&folder, std::process::id()), false)
                    .map_err(text_of)?;
            let thread = thread::Builder::new().name("succession".to_owned());
            thread.spawn(move || waiting.wait(&listener)).map_err(text_of)?;
            Ok(file)
        };
        let file = begin().map_err(|reason| {
            tracing::debug!(reason, "this process cannot be upgraded without an end of its disks");
        });
        Self { estate, file: file.ok() }
    }

    /// Disks are about to be attached.
    pub(in super::super) fn register(&self, arguments: &[String]) -> Registration<'_> {
        let arguments = arguments.to_vec();
        self.estate.groups().push(Entry { arguments: arguments.clone(), group: None, waker: None });
        Registration { predecessor: self, arguments }
    }

    /// True if another process serves in place of this one.
    pub(in super::super) fn is_over(&self) -> bool {
        self.estate.is_over.load(Ordering::Acquire)
    }
}

impl Drop for Predecessor {
    fn drop(&mut self) {
        self.estate.ends.store(true, Ordering::Release);
        self.file.iter().for_each(|file| drop(UnixStream::connect(file.path())));
    }
}

impl Registration<'_> {
    /// Registers served disks, which may be handed over.
    pub(in super::super) fn hold(&self, group: DiskGroup) {
        let mut groups = self.predecessor.estate.groups();
        if let Some(entry) = groups.iter_mut().find(|entry| entry.arguments == self.arguments) {
            entry.group = Some(Arc::new(group));
        }
    }

    /// Sets the waker of the thread that looks after them.
    pub(in super::super) fn set_waker(&self, waker: Waker) {
        let mut groups = self.predecessor.estate.groups();
        if let Some(entry) = groups.iter_mut().find(|entry| entry.arguments == self.arguments) {
            entry.waker = Some(waker);
        }
    }

    /// True if block devices were left to another process, which may not serve them yet.
    pub(in super::super) fn has_left_devices(&self) -> bool {
        self.predecessor.estate.leaves_devices.load(Ordering::Acquire)
    }

    /// True if the process that took over the devices has died.
    pub(in super::super) fn is_forsaken(&self) -> bool {
        self.predecessor.estate.is_forsaken.load(Ordering::Acquire)
    }

    /// True if another process serves the disks.
    pub(in super::super) fn is_over(&self) -> bool {
        self.predecessor.is_over()
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.predecessor.estate.groups().retain(|entry| entry.arguments != self.arguments);
    }
}

impl Estate {
    fn groups(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that look after disks.
    fn wake(&self) {
        self.groups().iter().filter_map(|entry| entry.waker.as_ref()).for_each(Waker::wake);
    }

    /// Returns the served disks, with the command line of a process for them alone.
    fn served(&self) -> Vec<Served> {
        let groups = self.groups();
        groups.iter().filter_map(|entry| Some((entry.arguments.clone(), entry.group.clone()?))).collect()
    }

    fn wait(&self, listener: &UnixListener) {
        loop {
            let accepted = listener.accept();
            if self.ends.load(Ordering::Acquire) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                thread::sleep(Duration::from_secs(1));
                continue;
            };
            match self.serve(&Channel::new(stream)) {
                Ok(true) => return self.end(),
                Ok(false) => {}
                Err(error) => {
                    eprintln!("selvedge: an upgrade has failed, and this process serves on: {error}");
                }
            }
        }
    }

    /// The disks' threads are waiting for a signal.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.served().iter().for_each(|(_, group)| group.leave());
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    /// Talks to who has come; whether another process serves now.
    fn serve(&self, channel: &Channel) -> Result<bool, String> {
        let peer = rustix::net::sockopt::socket_peercred(channel).map_err(text_of)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(format!("user {} may not upgrade this process", peer.uid.as_raw()));
        }
        channel.wait_at_most(Some(PREPARATION)).map_err(text_of)?;
        match channel.hear() {
            Ok((Word::Hello { asks_only: true, .. }, _)) => {
                channel.say(&Word::About(self.about()), &[]).map_err(text_of).map(|()| false)
            }
            Ok((Word::Hello { version, .. }, _)) => {
                let successor = peer.pid.as_raw_nonzero().get();
                tracing::info!(process = successor, version, "the next process has connected");
                self.hand_over(channel, peer.pid)
            }
            Ok(_) => Err("unexpected first message".to_owned()),
            // The other process has only checked that this one waits.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => {
                // What it cannot read, it may not be able to say; the reason is for people.
                let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
                Err(error.to_string())
            }
        }
    }

    fn about(&self) -> About {
        let is_attached = |entry: &&Entry| entry.group.is_some();
        let groups = self.groups();
        let waiting = groups.iter().filter(|entry| !is_attached(entry));
        let mut obstacles: Vec<String> =
            waiting.map(|entry| format!("`{}` is not attached yet", entry.arguments.join(" "))).collect();
        if groups.is_empty() {
            obstacles.push("it has no disks".to_owned());
        }
        About {
            process: std::process::id(),
            version: crate::version::NUMBER.to_owned(),
            program: self.program,
            arguments: self.line.arguments.clone(),
            directory: self.line.working_directory.display().to_string(),
            service: SERVICE
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
                .collect(),
            obstacles,
            disconnected: Vec::new(),
        }
    }

    fn hand_over(&self, channel: &Channel, peer: Pid) -> Result<bool, String> {
        let refuse = |reasons: Vec<String>| {
            let _ = channel.say(&Word::Refused(reasons.clone()), &[]);
            Err(reasons.join("; "))
        };
        let obstacles = self.about().obstacles;
        if !obstacles.is_empty() {
            return refuse(obstacles);
        }
        let next = OtherProcess::open(peer).map_err(text_of)?;
        // One that ends meanwhile is not handed over, and with it none.
        let groups = self.served();
        // What is written there outlives this process: that it has gone on, so that what it has handed over is no longer true.
        let (has_resumed, resumed) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(text_of)?;
        offer(channel, &groups, &has_resumed).map_err(text_of)?;
        match channel.hear() {
            Ok((Word::Ready, _)) => {}
            Ok((Word::Refused(reasons), _)) => return Err(reasons.join("; ")),
            Ok(_) => return Err("unexpected message of the next process, instead of Ready".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(
                    "the next process ended before it was ready; its messages have the reason".to_owned()
                );
            }
            Err(error) => return Err(format!("the next process has not become ready: {error}")),
        }
        channel.wait_at_most(Some(TAKING)).map_err(text_of)?;
        if let Err(reason) = give(channel, &groups) {
            // In this order: the next process must not believe that this one has died.
            let _ = rustix::io::write(&resumed, b"!");
            let _ = channel.say(&Word::Refused(vec![reason.clone()]), &[]);
            groups.iter().for_each(|(_, group)| group.thaw());
            return Err(reason);
        }
        // What is served by a device goes by the kernel, which gives it to one process alone.
        self.leaves_devices.store(true, Ordering::Release);
        groups.iter().for_each(|(_, group)| group.leave_devices());
        self.wake();
        let is_over = await_service(channel, &groups, &next);
        self.is_forsaken.store(!is_over, Ordering::Release);
        self.wake();
        Ok(is_over)
    }
}

/// Disks that are served, and how a process for them alone is started.
type Served = (Vec<String>, Arc<DiskGroup>);

fn offer(channel: &Channel, groups: &[Served], has_resumed: &OwnedFd) -> io::Result<()> {
    let offered = groups.iter().map(|(arguments, group)| group.offer(arguments));
    let offered: Vec<(OfferedGroup, Vec<OwnedFd>)> = offered.collect::<io::Result<_>>()?;
    let (output, error) = (io::stdout(), io::stderr());
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![has_resumed.as_fd(), output.as_fd(), error.as_fd()];
    descriptors.extend(offered.iter().flat_map(|(_, own)| own).map(|own| own.as_fd()));
    let word = Word::Offer(offered.iter().map(|(group, _)| group.clone()).collect());
    channel.say(&word, &descriptors)
}

/// Brings all disks to rest, hands over how their clients are, and says that this process will not go on.
fn give(channel: &Channel, groups: &[Served]) -> Result<(), String> {
    let (mut handed, mut descriptors) = (Vec::new(), Vec::new());
    for (_, group) in groups {
        let (state, own) = group.freeze().map_err(text_of)?;
        handed.push(HandedGroup { state, descriptors: own.len() });
        descriptors.extend(own);
    }
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(|own| own.as_fd()).collect();
    channel.say(&Word::State(handed), &borrowed).map_err(text_of)?;
    match channel.hear() {
        Ok((Word::Taken(failed), _)) => {
            for (client, reason) in failed {
                eprintln!(
                    "selvedge: client {client} connects again, as the next process cannot serve it: {reason}"
                );
            }
        }
        Ok((Word::Refused(reasons), _)) => return Err(reasons.join("; ")),
        Ok(_) => return Err("unexpected message of the next process, instead of Taken".to_owned()),
        Err(error) => return Err(format!("the next process does not take the clients over: {error}")),
    }
    channel.say(&Word::Go, &[]).map_err(text_of)
}

/// Waits for the next process after `Go`. Returns true if it serves; if it has died, this one serves on, and clients connect again.
fn await_service(channel: &Channel, groups: &[Served], next: &OtherProcess) -> bool {
    let _ = channel.wait_at_most(None);
    let is_said = matches!(channel.hear(), Ok((Word::Serving, _)));
    // Without its message it serves all the same, since it has received `Go`.
    if is_said || !next.has_died(DEATH) {
        let process = next.number();
        tracing::info!(process, "the next process serves; this one ends");
        let _ = sd_notify::notify(&[NotifyState::MainPid(process)]);
        return true;
    }
    eprintln!("selvedge: the next process has died; this one serves on, and clients connect again");
    // Before they see that their process has devices no longer.
    groups.iter().for_each(|(_, group)| group.serve_again());
    false
}

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}
