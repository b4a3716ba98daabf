//! The old process of an upgrade of `serve`: it waits for the new one, hands over, and learns when
//! that serves. Until it has sent `Go`, any failure leaves it as it was.

use std::env;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::hand_over::{About, Fault, Greeting, HandOverError};
use engine::target::Target;
use engine::target::hand_over::{Offer, TargetProtocol, Word, unknown_to};
use gateway::Membership;
use rustix::process::Pid;
use sd_notify::NotifyState;

use super::channel::Channel;
use super::other_process::{OtherProcess, ResumeMark};
use super::program_state::{ProgramState, SlowCommandThreshold};
use super::release::Release;
use crate::control::administration::Administration;
use crate::control::socket::{self, SocketFile};
use crate::mptcp::HandedSettings;
use crate::spec::endpoint::Endpoint;
use crate::state_directory::StateDirectory;

/// Environment variables that a service manager gives to its service's main process alone.
const SERVICE: [&str; 2] = ["NOTIFY_SOCKET", "WATCHDOG_USEC"];

/// Socket on which a target with this control socket waits for a new process.
pub(crate) fn place_of(control: &Path) -> PathBuf {
    let mut place = control.as_os_str().to_owned();
    place.push(".upgrade");
    place.into()
}

/// Everything that is handed over.
struct UpgradeState {
    target: Arc<Target>,
    administration: Arc<Administration>,
    directory: Option<Arc<StateDirectory>>,
    /// Settings of the machine that the target has changed; the last of its processes restores
    /// them.
    settings: Option<HandedSettings>,
    /// The file that is run, by device and inode.
    program: Option<(u64, u64)>,
    /// Another process serves.
    is_over: AtomicBool,
    ends: AtomicBool,
}

/// A target that may be replaced by another process.
pub(crate) struct OldProcess {
    state: Arc<UpgradeState>,
    file: SocketFile,
}

impl OldProcess {
    /// Waits for a new process beside the first control socket that is a file. `None` where there is none, or it cannot be.
    pub(crate) fn wait(
        controls: impl Iterator<Item = Endpoint>,
        target: &Arc<Target>,
        administration: &Arc<Administration>,
        directory: Option<Arc<StateDirectory>>,
        settings: Option<HandedSettings>,
    ) -> Option<Self> {
        let mut paths = controls.filter_map(|control| match control {
            Endpoint::Unix(path) => Some(path),
            _ => None,
        });
        let place = place_of(&paths.next()?);
        let state = Arc::new(UpgradeState {
            target: target.clone(),
            administration: administration.clone(),
            directory,
            settings,
            program: std::fs::metadata("/proc/self/exe").ok().map(|file| (file.dev(), file.ino())),
            is_over: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        });
        let waiting = state.clone();
        let begin = || -> io::Result<SocketFile> {
            let (listener, file) = socket::listen(&place, false)?;
            thread::Builder::new().name("succession".to_owned()).spawn(move || waiting.wait(&listener))?;
            Ok(file)
        };
        match begin() {
            Ok(file) => Some(Self { state, file }),
            Err(error) => {
                tracing::warn!(%error, place = %place.display(), "this target cannot be upgraded without a restart");
                None
            }
        }
    }

    /// True if another process serves in place of this one.
    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over.load(Ordering::Acquire)
    }
}

impl Drop for OldProcess {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Release);
        let _ = UnixStream::connect(self.file.path());
    }
}

impl UpgradeState {
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
                Err(error) => tracing::warn!(
                    fault = ?error.fault(),
                    "an upgrade has failed, and this process serves on: {error}"
                ),
            }
        }
    }

    /// The main thread is waiting for a signal.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    /// Answers a connection; true if another process serves now.
    fn serve(&self, channel: &Channel) -> Result<bool, HandOverError> {
        let peer = rustix::net::sockopt::socket_peercred(channel).map_err(io::Error::from)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            let reason = format!("a process of user {} may not ask for it", peer.uid.as_raw());
            return Err(HandOverError::program(Fault::OtherProcess, reason));
        }
        match Greeting::hear::<TargetProtocol>(channel)? {
            Greeting::Asks => {
                channel.say(&Word::About(self.about()), &[])?;
                Ok(false)
            }
            Greeting::Comes { version, knows } => {
                tracing::info!(process = peer.pid.as_raw_nonzero().get(), version, "the new process comes");
                self.hand_over(channel, peer.pid, &knows)
            }
            Greeting::Probe => Ok(false),
        }
    }

    fn obstacles(&self) -> Vec<String> {
        let of_gateway = self.administration.membership().map(Membership::obstacles).unwrap_or_default();
        [self.target.obstacles(), of_gateway].concat()
    }

    fn about(&self) -> About {
        About {
            process: std::process::id(),
            version: crate::version::NUMBER.to_owned(),
            program: self.program,
            arguments: env::args().skip(1).collect(),
            directory: env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
            service: SERVICE
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
                .collect(),
            obstacles: self.obstacles(),
            disconnected: self.target.disconnected().into_iter().collect(),
        }
    }

    fn hand_over(&self, channel: &Channel, peer: Pid, knows: &[String]) -> Result<bool, HandOverError> {
        let new_process = peer.as_raw_nonzero().get() as u32;
        let refuse = |error: HandOverError| {
            let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
            Err(error)
        };
        let obstacles = self.obstacles();
        if !obstacles.is_empty() {
            return refuse(HandOverError::Obstacles(obstacles));
        }
        let next = OtherProcess::open(peer)?;
        let mark = ResumeMark::new()?;
        let mut release = match Release::new(&self.target, &self.administration) {
            Ok(release) => release,
            Err(error) => return refuse(error),
        };
        let program_state = ProgramState {
            ceph: release.offered().clone(),
            settings: self.settings.clone(),
            log_level: crate::log::changed_level(),
            slow_commands: Some(SlowCommandThreshold {
                threshold_ns: self.target.slow_commands().threshold.map(|time| time.as_nanos() as u64),
            }),
        };
        let needs: Vec<&str> = self.target.needs().into_iter().chain(program_state.needs()).collect();
        if let Some(reason) = unknown_to(knows, &needs) {
            return refuse(reason);
        }
        let offer = Offer {
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            fabric: release.served().clone(),
            listening: 0,
            beside: serde_json::to_value(program_state)
                .map_err(|error| HandOverError::program(Fault::ThisProcess, error))?,
            memories: Vec::new(),
        };
        self.offer(channel, offer, &mark)?;
        let is_over = self.target.hand_over_to(channel, (&next, knows), &mut release, || mark.set())?;
        Self::tell_end(new_process, is_over, release.pause_ms());
        Ok(is_over)
    }

    /// Offers what the new process prepares with, and what this one has open.
    fn offer(&self, channel: &Channel, offer: Offer, mark: &ResumeMark) -> io::Result<()> {
        let listening = self.target.listening()?;
        let memories = self.target.memories()?;
        let mut holds = self.target.holds()?;
        if let Some(directory) = &self.directory {
            holds.push(directory.held()?);
        }
        let memories_offered = memories.iter().map(|memory| (memory.namespace, memory.room)).collect();
        let offer = Offer { listening: listening.len(), memories: memories_offered, ..offer };
        let (output, error) = (io::stdout(), io::stderr());
        let files = memories.iter().map(|memory| &memory.file);
        let mut descriptors: Vec<BorrowedFd<'_>> =
            listening.iter().chain(files).chain(&holds).map(OwnedFd::as_fd).collect();
        descriptors.extend([mark.reader(), output.as_fd(), error.as_fd()]);
        channel.say(&Word::Offer(Box::new(offer)), &descriptors)
    }

    /// Says whether the new process serves.
    fn tell_end(new_process: u32, is_over: bool, pause_ms: u64) {
        if is_over {
            tracing::info!(pause_ms, process = new_process, "the new process serves; this one ends");
            let _ = sd_notify::notify(&[NotifyState::MainPid(new_process)]);
        } else {
            tracing::error!("the new process has died; this one serves on, and hosts connect again");
        }
    }
}
