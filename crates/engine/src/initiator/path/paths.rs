//! All paths to one namespace: connecting them, keeping them, telling of them. Commands go through `PathQueues`, one for
//! each thread; no command ever passes here.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nvme::log_page::AnaState;

use super::path::{Path, PathState};
use super::quiescing::Of;
use super::shared::{Shared, lock};
use super::stage::StageLatencies;
use super::{ControllerRecord, IoPolicy, PathOptions, monitor, quiesce};
use crate::initiator::{Controller, DeallocateLimits, InitiatorError, NamespaceInfo};
use crate::limits::PATHS_MAX;
use crate::ring;
use crate::ring::thread::{self, JoinHandle};
use crate::transport::Transport;

/// Interval at which waiters for the first connections look without a notification.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The paths to a namespace. Dropping it shuts their controllers down.
#[derive(Debug)]
pub struct Paths {
    pub(super) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A report on a path.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct PathStatus {
    /// Address on which the target listens.
    pub address: SocketAddr,
    /// The transport that was asked for.
    pub transport: Transport,
    /// State of the path.
    pub state: PathState,
    /// ANA state of the namespace there: `optimized`, `non-optimized`, `inaccessible`, `persistent-loss`, `change`, or
    /// `unknown`.
    pub ana: &'static str,
    /// Controller identifier (CNTLID), while it has one.
    pub cntlid: Option<u16>,
    /// Times it was connected again.
    pub reconnects: u64,
    /// Why it is not live.
    pub error: Option<String>,
}

impl Paths {
    /// Connects all paths. Those that cannot be reached are tried again later, as long as one can.
    ///
    /// # Errors
    /// When none can be reached; when one leads to another subsystem or namespace than the others; and when the options
    /// are invalid.
    pub fn connect(options: PathOptions) -> Result<Self, InitiatorError> {
        check(&options)?;
        let shared = Arc::new(Shared::new(options));
        quiesce::begin_left(&shared, &shared.options.left_controllers);
        let set = Self { shared, threads: Mutex::new(Vec::new()) };
        set.start()?;
        set.await_first()?;
        Ok(set)
    }

    fn start(&self) -> Result<(), InitiatorError> {
        let mut threads = lock(&self.threads);
        for index in 0..self.shared.paths.len() {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name(format!("path-{index}"));
            let thread = thread.spawn(move || monitor::run(&shared, index));
            threads.push(thread.map_err(InitiatorError::system("no thread for a path"))?);
        }
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("quiesce".to_owned());
        let thread = thread.spawn(move || quiesce::serve(&shared));
        threads.push(thread.map_err(InitiatorError::system("no thread for lost paths"))?);
        Ok(())
    }

    /// Waits until every path has been tried once, and one of them is live.
    fn await_first(&self) -> Result<(), InitiatorError> {
        loop {
            let seen = self.shared.event_count.count();
            let mut tried = true;
            let mut live = false;
            for path in &self.shared.paths {
                let details = path.details();
                if let (PathState::Dead, Some(error @ InitiatorError::PathRefused { .. })) =
                    (details.state, &details.error)
                {
                    return Err(error.clone());
                }
                live |= details.state == PathState::Live;
                tried &= details.state != PathState::Connecting || details.error.is_some();
            }
            if tried {
                return if live { Ok(()) } else { Err(self.shared.error()) };
            }
            self.shared.event_count.wait(seen, LOOK_INTERVAL);
        }
    }

    /// The namespace, as a path described it last.
    ///
    /// # Panics
    /// Never: a set comes into being with a path that is live.
    pub fn namespace(&self) -> NamespaceInfo {
        self.shared.namespace().expect("a set begins with a live path")
    }

    /// The namespace's size in bytes, which follows changes.
    pub fn size_bytes(&self) -> u64 {
        self.shared.size_bytes()
    }

    /// The most bytes that one command may transfer on any path. It falls when a path joins whose controller takes less.
    pub fn transfer_length_max(&self) -> usize {
        self.shared.length_limits().0
    }

    /// The most bytes that one Write Zeroes may clear on any path; `u64::MAX` when only the block count limits it.
    pub fn write_zeroes_length_max(&self) -> u64 {
        self.shared.length_limits().1
    }

    /// Limits of Dataset Management that all paths keep. They fall when a path joins whose controller takes less.
    pub fn deallocate_limits(&self) -> DeallocateLimits {
        self.shared.deallocate_limits()
    }

    /// The optional commands (ONCS) that the controllers of all live paths have. While there is none, those that were known last:
    /// a disk whose paths are away for a while can do afterwards what it could before.
    pub fn optional_nvm_commands(&self) -> u16 {
        self.shared.optional_nvm_commands()
    }

    /// The subsystem that all paths lead to.
    pub fn subsystem_nqn(&self) -> &str {
        &self.shared.paths[0].options.subsystem_nqn
    }

    /// Policy that chooses the path of a command.
    pub fn policy(&self) -> IoPolicy {
        self.shared.options.policy
    }

    /// Holds writes from now on until these controllers have quiesced, too: they are those of a
    /// process that has ended since the set was connected. Threads that have queues already may
    /// write meanwhile.
    pub fn quiesce_left(&self, left_controllers: &[ControllerRecord]) {
        quiesce::begin_left(&self.shared, left_controllers);
    }

    /// Longest time that writes wait for controllers of an earlier process; `None` if they do not
    /// wait for any.
    pub fn wait_for_left_controllers(&self) -> Option<Duration> {
        let now = ring::now();
        let all = lock(&self.shared.quiescing);
        let left_controllers = all.iter().filter(|one| one.of == Of::EarlierProcess);
        left_controllers.filter_map(|one| one.left(now)).max()
    }

    /// Longest time that writes without a response still wait for lost controllers of this set;
    /// `None` if none waits, or threads still have queues there.
    pub fn wait_for_lost(&self) -> Option<Duration> {
        let now = ring::now();
        let all = lock(&self.shared.quiescing);
        let lost = all.iter().filter(|one| matches!(one.of, Of::Path(..)));
        lost.filter_map(|one| one.left(now)).max()
    }

    /// Controllers that neither reset others (CCRL) nor report when their commands quiesce (CQT):
    /// the addresses, and the longest time that writes wait after the loss of one. `None` without
    /// such controllers, and if nothing waits.
    pub fn unstated_quiesce(&self) -> Option<(Vec<SocketAddr>, Duration)> {
        let options = &self.shared.options;
        if !options.quiesce || options.controller_loss == Some(Duration::ZERO) {
            return None;
        }
        let mut controllers = self.controllers();
        controllers.retain(|controller| {
            let identify = controller.identify();
            identify.cross_controller_reset_limit == 0 && identify.command_quiesce_time_ms.get() == 0
        });
        let time = |controller| ControllerRecord::of(controller).quiesce_time(options.unknown_quiesce);
        let longest = controllers.iter().map(time).max()?;
        Some((controllers.iter().map(Controller::address).collect(), longest))
    }

    /// The controllers of the live paths.
    pub fn controllers(&self) -> Vec<Controller> {
        let live = |path: &Path| path.details().controller.clone().filter(|_| path.live() != 0);
        self.shared.paths.iter().filter_map(live).collect()
    }

    /// All paths, in the order of the options.
    pub fn status(&self) -> Vec<PathStatus> {
        self.shared.paths.iter().map(status).collect()
    }

    /// Stages on which the time of the commands on each path was spent, of all threads together.
    /// Each thread publishes its own once a second while it works, and when it closes.
    pub fn stages(&self) -> Vec<StageLatencies> {
        self.shared.stages()
    }

    /// Shuts all controllers down. Nothing can be sent from then on.
    pub fn disconnect(&self) {
        self.shared.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for (index, thread) in threads.into_iter().enumerate() {
            // A monitor that is just connecting ends by itself when that has failed; no thread has
            // to wait for it.
            let waits = self.shared.paths.get(index).is_none_or(|path| path.details().controller.is_some());
            if waits {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        self.disconnect();
    }
}

fn check(options: &PathOptions) -> Result<(), InitiatorError> {
    let misuse = |text: &str| Err(InitiatorError::ApiMisuse(text.to_owned()));
    let Some(first) = options.paths.first() else { return misuse("there has to be at least one path") };
    if options.paths.len() > PATHS_MAX {
        return misuse(&format!("there may be {PATHS_MAX} paths, not {}", options.paths.len()));
    }
    if options.paths.iter().any(|path| path.subsystem_nqn != first.subsystem_nqn || path.host != first.host) {
        return misuse("all paths lead to one subsystem, as one host");
    }
    if options.controller_loss != Some(Duration::ZERO)
        && options.paths.iter().any(|path| path.keep_alive_ms == 0)
    {
        return misuse(
            "a path that is to be connected again needs a keep alive time-out: without one, its old controller never \
             comes to rest",
        );
    }
    Ok(())
}

fn status(path: &Path) -> PathStatus {
    let details = path.details();
    let live = details.controller.as_ref().filter(|_| path.live() != 0);
    PathStatus {
        address: path.options.address,
        transport: path.options.transport,
        state: details.state,
        ana: ana_name(path.ana().filter(|_| live.is_some())),
        cntlid: live.map(Controller::id),
        reconnects: details.reconnects,
        error: details.error.as_ref().map(ToString::to_string),
    }
}

const fn ana_name(state: Option<AnaState>) -> &'static str {
    match state {
        Some(AnaState::Optimized) => "optimized",
        Some(AnaState::NonOptimized) => "non-optimized",
        Some(AnaState::Inaccessible) => "inaccessible",
        Some(AnaState::PersistentLoss) => "persistent-loss",
        Some(AnaState::Change) => "change",
        None => "unknown",
    }
}
