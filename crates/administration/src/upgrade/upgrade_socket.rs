//! Socket at which a process waits for the new one of an upgrade: permission and greeting of each
//! connection. The hand-over is the service's.

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::hand_over::{About, Fault, Greeting, HandOverError, Protocol, Word};
use engine::ring::Vital;

use super::channel::Channel;
use super::other_process::OtherProcess;
use crate::control::socket::{self, SocketFile};

/// Module that log lines name, for filters by it: among those of other lines about upgrades.
const LOG_TARGET: &str = "selvedge::hand_over::upgrade_socket";

/// Service of a process that may be replaced.
pub trait Upgradable: Send + Sync + 'static {
    type Protocol: Protocol<Descriptor: AsFd>;

    /// Environment variables that a service manager sets for the main process alone.
    const VARIABLES: &'static [&'static str];

    /// Start parameters: command line, working directory, and obstacles to a hand-over.
    fn about(&self) -> About;

    /// Hands over to the new process, which knows these extensions of the format. Returns true if
    /// that one serves.
    fn hand_over(
        &self,
        channel: &Channel,
        new: &OtherProcess,
        knows: &[String],
    ) -> Result<bool, HandOverError>;

    /// The new process serves.
    fn leave(&self) {}

    /// Reports a failed upgrade.
    fn report(&self, error: &HandOverError);
}

/// Socket of a process that may be replaced.
pub struct UpgradeSocket {
    file: SocketFile,
    flags: Arc<Flags>,
}

#[derive(Default)]
struct Flags {
    /// Another process serves.
    is_over: AtomicBool,
    ends: AtomicBool,
}

impl UpgradeSocket {
    /// Waits for a new process at this place, on a thread of its own.
    pub fn wait<S: Upgradable>(place: &Path, service: &Arc<S>) -> io::Result<Self> {
        let (listener, file) = socket::listen(place, false)?;
        let program = std::fs::metadata("/proc/self/exe").ok().map(|file| (file.dev(), file.ino()));
        let flags = Arc::<Flags>::default();
        let waiting = Waiting { service: service.clone(), flags: flags.clone(), program };
        thread::Builder::new().name("upgrade".to_owned()).spawn(move || waiting.wait(&listener))?;
        Ok(Self { file, flags })
    }

    /// True if another process serves in place of this one.
    pub fn is_over(&self) -> bool {
        self.flags.is_over.load(Ordering::Acquire)
    }
}

impl Drop for UpgradeSocket {
    fn drop(&mut self) {
        self.flags.ends.store(true, Ordering::Release);
        let _ = UnixStream::connect(self.file.path());
    }
}

/// The thread that waits.
struct Waiting<S> {
    service: Arc<S>,
    flags: Arc<Flags>,
    /// The file that is run, by device and inode.
    program: Option<(u64, u64)>,
}

impl<S: Upgradable> Waiting<S> {
    fn wait(&self, listener: &UnixListener) {
        loop {
            let accepted = listener.accept();
            if self.flags.ends.load(Ordering::Acquire) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                thread::sleep(Duration::from_secs(1));
                continue;
            };
            if self.attempt(&Channel::new(stream)) {
                return self.end();
            }
        }
    }

    /// Answers a connection, and reports a failure. Returns true if another process serves now.
    fn attempt(&self, channel: &Channel) -> bool {
        let answered = || {
            self.answer(channel).unwrap_or_else(|error| {
                self.service.report(&error);
                false
            })
        };
        // Nothing was quiesced where a panic comes back, and unwinding has withdrawn the offer. A
        // thread that ended with it would close the socket, and leave no way to upgrade.
        catch_unwind(AssertUnwindSafe(answered)).unwrap_or_else(|_| {
            tracing::error!(
                "an upgrade has panicked, and this process serves on; upgrade it again, and report this"
            );
            let reason = "internal error of the old process; its log names the place".to_owned();
            let _ = channel.say(&Word::<S::Protocol>::Refused(vec![reason]), &[]);
            false
        })
    }

    /// Other threads wait for a signal.
    fn end(&self) {
        // Without the signal, this process would stay, and serve nothing.
        let _vital = Vital::begin();
        self.flags.is_over.store(true, Ordering::Release);
        self.service.leave();
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    /// Answers a connection. Returns true if another process serves now.
    fn answer(&self, channel: &Channel) -> Result<bool, HandOverError> {
        let peer = rustix::net::sockopt::socket_peercred(channel).map_err(io::Error::from)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            let reason = format!("user {} may not upgrade this process", peer.uid.as_raw());
            return Err(HandOverError::program(Fault::OtherProcess, reason));
        }
        match Greeting::hear::<S::Protocol>(channel)? {
            Greeting::Asks => {
                channel.say(&Word::<S::Protocol>::About(self.about()), &[])?;
                Ok(false)
            }
            Greeting::Comes { version, knows } => {
                let new = OtherProcess::open(peer.pid)?;
                tracing::info!(target: LOG_TARGET, process = new.number(), version, "the new process has connected");
                let obstacles = self.service.about().obstacles;
                if !obstacles.is_empty() {
                    let _ = channel.say(&Word::<S::Protocol>::Refused(obstacles.clone()), &[]);
                    return Err(HandOverError::Obstacles(obstacles));
                }
                self.service.hand_over(channel, &new, &knows)
            }
            Greeting::Probe => Ok(false),
        }
    }

    fn about(&self) -> About {
        let variable = |name: &&str| Some(((*name).to_owned(), env::var(name).ok()?));
        About {
            process: std::process::id(),
            version: crate::version::NUMBER.to_owned(),
            program: self.program,
            service: S::VARIABLES.iter().filter_map(variable).collect(),
            ..self.service.about()
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::target::hand_over::TargetProtocol;

    use super::*;

    type TargetWord = Word<TargetProtocol>;

    /// Service with a hand-over that panics before anything is quiesced.
    struct Panics;

    impl Upgradable for Panics {
        type Protocol = TargetProtocol;

        const VARIABLES: &'static [&'static str] = &[];

        fn about(&self) -> About {
            About::default()
        }

        fn hand_over(
            &self,
            _channel: &Channel,
            _new: &OtherProcess,
            _knows: &[String],
        ) -> Result<bool, HandOverError> {
            panic!("sabotage");
        }

        fn report(&self, _error: &HandOverError) {}
    }

    /// Reply to the greeting of a new process, or of a query.
    fn reply(place: &Path, asks_only: bool) -> TargetWord {
        let channel = Channel::connect(place).unwrap();
        let greeting = TargetWord::Hello { version: "0.2.0".to_owned(), asks_only, knows: Vec::new() };
        channel.say(&greeting, &[]).unwrap();
        channel.hear().unwrap().0
    }

    #[test]
    fn a_process_can_be_upgraded_after_a_panic_before_the_quiesce() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.sock.upgrade");
        let socket = UpgradeSocket::wait(&place, &Arc::new(Panics)).unwrap();
        for _ in 0..2 {
            let refused = reply(&place, false);
            assert!(matches!(&refused, Word::Refused(reasons) if reasons.len() == 1), "{refused:?}");
            let about = reply(&place, true);
            assert!(matches!(about, Word::About(_)), "{about:?}");
        }
        assert!(!socket.is_over());
    }
}
