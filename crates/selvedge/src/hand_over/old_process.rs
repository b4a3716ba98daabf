//! The old process of an upgrade of `serve`: it waits for the new one, hands over, and learns when
//! that serves. Until it has sent `Go`, any failure leaves it as it was.

use std::env;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use administration::upgrade::{Channel, OtherProcess, ResumeMark, Upgradable, UpgradeSocket};
use engine::hand_over::{About, Fault, HandOverError};
use engine::target::Target;
use engine::target::hand_over::{Offer, TargetProtocol, Word, unknown_to};
use gateway::Membership;
use sd_notify::NotifyState;

use super::program_state::ProgramState;
use super::release::Release;
use crate::control::administration::Administration;
use crate::mptcp::HandedSettings;
use crate::spec::endpoint::Endpoint;
use crate::state_directory::StateDirectory;

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
}

/// A target that may be replaced by another process.
pub(crate) struct OldProcess {
    socket: UpgradeSocket,
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
        });
        match UpgradeSocket::wait(&place, &state) {
            Ok(socket) => Some(Self { socket }),
            Err(error) => {
                tracing::warn!(%error, place = %place.display(), "this target cannot be upgraded without a restart");
                None
            }
        }
    }

    /// True if another process serves in place of this one.
    pub(crate) fn is_over(&self) -> bool {
        self.socket.is_over()
    }
}

impl Upgradable for UpgradeState {
    type Protocol = TargetProtocol;

    const VARIABLES: &'static [&'static str] = &["NOTIFY_SOCKET", "WATCHDOG_USEC"];

    fn about(&self) -> About {
        let of_gateway = self.administration.membership().map(Membership::obstacles).unwrap_or_default();
        About {
            arguments: env::args().skip(1).collect(),
            directory: env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
            obstacles: [self.target.obstacles(), of_gateway].concat(),
            disconnected: self.target.disconnected().into_iter().collect(),
            ..About::default()
        }
    }

    fn hand_over(
        &self,
        channel: &Channel,
        new: &OtherProcess,
        knows: &[String],
    ) -> Result<bool, HandOverError> {
        let refuse = |error: HandOverError| {
            let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
            Err(error)
        };
        let mark = ResumeMark::new()?;
        let mut release = match Release::new(&self.target, &self.administration) {
            Ok(release) => release,
            Err(error) => return refuse(error),
        };
        let program_state = ProgramState {
            ceph: release.offered().clone(),
            settings: self.settings.clone(),
            log_level: release.adjusted().log_level.clone(),
            slow_commands: Some(release.adjusted().slow_commands),
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
        let is_over = self.target.hand_over_to(channel, (new, knows), &mut release, || mark.set())?;
        Self::tell_end(new.number(), is_over, release.pause_ms());
        Ok(is_over)
    }

    fn report(&self, error: &HandOverError) {
        tracing::warn!(fault = ?error.fault(), "an upgrade has failed, and this process serves on: {error}");
    }
}

impl UpgradeState {
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
            tracing::error!("the new process does not serve; this one serves on, and hosts connect again");
        }
    }
}
