//! Old process of an upgrade: it waits for the new one, hands over its disks, and learns of the
//! outcome. The steps are the engine's.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use administration::upgrade::{Channel, OtherProcess, ResumeMark, Upgradable, UpgradeSocket};
use attach::RECEIVED_IN_FILES;
use engine::hand_over::{self, About, Fault, HandOverError, OldService};
use sd_notify::NotifyState;

use super::super::record::{self, CommandLine};
use super::disk_group::DiskGroup;
use super::words::{AttachProtocol, HandedGroup, HandedState, OfferedGroup, Word};
use crate::sleeper::Waker;

/// A process that may be replaced by a new one.
pub(in super::super) struct OldProcess {
    state: Arc<UpgradeState>,
    socket: Option<UpgradeSocket>,
}

/// State that is handed over.
struct UpgradeState {
    /// Command line of the process.
    line: CommandLine,
    groups: Mutex<Vec<Entry>>,
    /// `Go` was said: block devices have been left.
    leaves_devices: AtomicBool,
    /// The process has died that was to serve then.
    is_forsaken: AtomicBool,
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
    old_process: &'a OldProcess,
    arguments: Vec<String>,
}

impl OldProcess {
    /// Waits for a new process, in the folder of records. Where it cannot, the process can only be started again.
    pub(in super::super) fn wait(line: CommandLine) -> Self {
        let [leaves_devices, is_forsaken] = [false; 2].map(AtomicBool::new);
        let state = Arc::new(UpgradeState { line, groups: Mutex::default(), leaves_devices, is_forsaken });
        let begin = || -> Result<UpgradeSocket, String> {
            let folder = record::make_folder()?;
            record::remove_left_places();
            let place = record::upgrade_place(&folder, std::process::id());
            UpgradeSocket::wait(&place, &state).map_err(|error| error.to_string())
        };
        let socket = begin().map_err(|reason| {
            tracing::debug!(
                target: "selvedge::commands::attach::succession::old_process",
                reason, "this process cannot be upgraded without an end of its disks"
            );
        });
        Self { socket: socket.ok(), state }
    }

    /// Disks are about to be attached.
    pub(in super::super) fn register(&self, arguments: &[String]) -> Registration<'_> {
        let arguments = arguments.to_vec();
        self.state.groups().push(Entry { arguments: arguments.clone(), group: None, waker: None });
        Registration { old_process: self, arguments }
    }

    /// True if another process serves in place of this one.
    pub(in super::super) fn is_over(&self) -> bool {
        self.socket.as_ref().is_some_and(UpgradeSocket::is_over)
    }
}

impl Registration<'_> {
    /// Registers served disks, which may be handed over.
    pub(in super::super) fn hold(&self, group: DiskGroup) {
        let mut groups = self.old_process.state.groups();
        if let Some(entry) = groups.iter_mut().find(|entry| entry.arguments == self.arguments) {
            entry.group = Some(Arc::new(group));
        }
    }

    /// Sets the waker of the thread that looks after them.
    pub(in super::super) fn set_waker(&self, waker: Waker) {
        let mut groups = self.old_process.state.groups();
        if let Some(entry) = groups.iter_mut().find(|entry| entry.arguments == self.arguments) {
            entry.waker = Some(waker);
        }
    }

    /// True if block devices were left to another process, which may not serve them yet.
    pub(in super::super) fn has_left_devices(&self) -> bool {
        self.old_process.state.leaves_devices.load(Ordering::Acquire)
    }

    /// True if the process that took over the devices has died.
    pub(in super::super) fn is_forsaken(&self) -> bool {
        self.old_process.state.is_forsaken.load(Ordering::Acquire)
    }

    /// True if another process serves the disks.
    pub(in super::super) fn is_over(&self) -> bool {
        self.old_process.is_over()
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.old_process.state.groups().retain(|entry| entry.arguments != self.arguments);
    }
}

impl UpgradeState {
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
}

impl Upgradable for UpgradeState {
    type Protocol = AttachProtocol;

    const VARIABLES: &'static [&'static str] = &["NOTIFY_SOCKET", "WATCHDOG_USEC", "RUNTIME_DIRECTORY"];

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
            arguments: self.line.arguments.clone(),
            directory: self.line.working_directory.display().to_string(),
            obstacles,
            ..About::default()
        }
    }

    fn hand_over(
        &self,
        channel: &Channel,
        new: &OtherProcess,
        knows: &[String],
    ) -> Result<bool, HandOverError> {
        // A group that ends meanwhile is not handed over, and with it none.
        let groups = self.served();
        let mark = ResumeMark::new()?;
        offer(channel, &groups, &mark)?;
        let number = new.number();
        let knows_files = knows.iter().any(|known| known == RECEIVED_IN_FILES);
        let mut service =
            DiskService { state: self, groups, mark, number, knows_files, handed: Default::default() };
        let is_over = hand_over::hand_over::<AttachProtocol>(channel, new, &mut service)?;
        self.is_forsaken.store(!is_over, Ordering::Release);
        self.wake();
        Ok(is_over)
    }

    fn leave(&self) {
        self.served().iter().for_each(|(_, group)| group.leave());
    }

    fn report(&self, error: &HandOverError) {
        eprintln!("selvedge: an upgrade has failed, and this process serves on: {error}");
    }
}

/// Results of work on all disks at the same time: what one waits for is not added to what the clients of others wait.
fn at_once<G: Sync, T: Send>(
    groups: &[G],
    work: impl Fn(&G) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |group| thread::Builder::new().spawn_scoped(scope, move || work(group));
        let started: Vec<_> = groups.iter().map(start).collect();
        let result = |thread: io::Result<thread::ScopedJoinHandle<'_, Result<T, String>>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Err(format!("no thread for a disk: {error}")),
        };
        started.into_iter().map(result).collect()
    })
}

/// Puts what was received from clients into files.
fn in_files(state: HandedState, descriptors: Vec<OwnedFd>) -> io::Result<(HandedState, Vec<OwnedFd>)> {
    match state {
        HandedState::Nbd(mut server) => {
            let descriptors = server.received_into_files(descriptors)?;
            Ok((HandedState::Nbd(server), descriptors))
        }
        state => Ok((state, descriptors)),
    }
}

/// Disks that are served, and how a process for them alone is started.
type Served = (Vec<String>, Arc<DiskGroup>);

fn offer(channel: &Channel, groups: &[Served], mark: &ResumeMark) -> io::Result<()> {
    let offered = groups.iter().map(|(arguments, group)| group.offer(arguments));
    let offered: Vec<(OfferedGroup, Vec<OwnedFd>)> = offered.collect::<io::Result<_>>()?;
    let (output, error) = (io::stdout(), io::stderr());
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![mark.reader(), output.as_fd(), error.as_fd()];
    descriptors.extend(offered.iter().flat_map(|(_, own)| own).map(|own| own.as_fd()));
    let word = Word::Offer(Box::new(offered.iter().map(|(group, _)| group.clone()).collect()));
    channel.say(&word, &descriptors)
}

/// All disks of a process that is replaced.
struct DiskService<'a> {
    state: &'a UpgradeState,
    groups: Vec<Served>,
    mark: ResumeMark,
    /// Process id of the new process.
    number: u32,
    /// The new process takes what was received from clients in files.
    knows_files: bool,
    /// State of the groups that are quiesced, with the descriptors of all.
    handed: (Vec<HandedGroup>, Vec<OwnedFd>),
}

impl DiskService<'_> {
    fn thaw(&self) {
        self.groups.iter().for_each(|(_, group)| group.thaw());
    }
}

impl OldService<AttachProtocol> for DiskService<'_> {
    fn quiesce(&mut self) -> Result<(), HandOverError> {
        let knows_files = self.knows_files;
        let freeze = |(_, group): &Served| {
            let (state, own) = group.freeze().map_err(|error| error.to_string())?;
            if knows_files {
                in_files(state, own).map_err(|error| error.to_string())
            } else {
                Ok((state, own))
            }
        };
        for frozen in at_once(&self.groups, freeze) {
            match frozen {
                Ok((state, own)) => {
                    self.handed.0.push(HandedGroup { state, descriptors: own.len() });
                    self.handed.1.extend(own);
                }
                Err(reason) => {
                    self.thaw();
                    return Err(HandOverError::program(Fault::Time, reason));
                }
            }
        }
        Ok(())
    }

    fn give(&mut self) -> Result<(Vec<HandedGroup>, Vec<OwnedFd>), HandOverError> {
        Ok(std::mem::take(&mut self.handed))
    }

    fn taken(&mut self, failed: Vec<(String, String)>) {
        for (client, reason) in failed {
            eprintln!(
                "selvedge: client {client} connects again, as the new process cannot serve it: {reason}"
            );
        }
    }

    /// The kernel gives a block device to one process alone: the new one waits until it is left.
    fn after_go(&mut self) {
        self.state.leaves_devices.store(true, Ordering::Release);
        self.groups.iter().for_each(|(_, group)| group.leave_devices());
        self.state.wake();
    }

    fn is_awaited(&mut self) {
        tracing::warn!(
            target: "selvedge::commands::attach::succession::old_process",
            process = self.number,
            "the new process has the disks and does not say that it serves; if it hangs, end it (kill -KILL), and this \
             process serves on"
        );
    }

    fn mark_resumed(&mut self) {
        self.mark.set();
    }

    fn resume(&mut self, _has_refused: bool) {
        self.thaw();
    }

    fn serve_again(&mut self, _has_died: bool) {
        eprintln!("selvedge: the new process does not serve; this one serves on, and clients connect again");
        // Before they see that their process has devices no longer.
        self.groups.iter().for_each(|(_, group)| group.serve_again());
    }

    fn leave(&mut self) {
        tracing::info!(
            target: "selvedge::commands::attach::succession::old_process",
            process = self.number, "the new process serves; this one ends"
        );
        let _ = sd_notify::notify(&[NotifyState::MainPid(self.number)]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command};
    use std::sync::atomic::AtomicUsize;

    use rustix::process::Pid;

    use super::*;

    /// Old process without disks.
    fn state() -> UpgradeState {
        let line = CommandLine { arguments: Vec::new(), working_directory: "/".into() };
        let [leaves_devices, is_forsaken] = [false; 2].map(AtomicBool::new);
        UpgradeState { line, groups: Mutex::default(), leaves_devices, is_forsaken }
    }

    /// Result of an old process, with two flags: devices are left, and the state handed over is
    /// void. The new process says these words, and closes the channel.
    fn outcome(words: Vec<Word>, new: &Child) -> (Result<bool, HandOverError>, bool, bool) {
        let (here, there) = UnixStream::pair().unwrap();
        let state = state();
        let process = OtherProcess::open(Pid::from_child(new)).unwrap();
        let mark = ResumeMark::new().unwrap();
        let mut service = DiskService {
            state: &state,
            groups: Vec::new(),
            mark,
            number: new.id(),
            knows_files: false,
            handed: Default::default(),
        };
        let said = thread::spawn(move || {
            let end = there.try_clone().unwrap();
            let channel = Channel::new(there);
            for word in words {
                channel.say(&word, &[]).unwrap();
            }
            end.shutdown(std::net::Shutdown::Write).unwrap();
            // Words of the old process are read until its end: it could not say them otherwise.
            while channel.hear::<AttachProtocol>().is_ok() {}
        });
        let outcome = hand_over::hand_over::<AttachProtocol>(&Channel::new(here), &process, &mut service);
        said.join().unwrap();
        let is_void = rustix::io::read(service.mark.reader(), &mut [0; 1]).is_ok();
        (outcome, state.leaves_devices.load(Ordering::Acquire), is_void)
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn taken() -> [Word; 2] {
        [Word::Ready, Word::Taken(Vec::new())]
    }

    #[test]
    fn disks_come_to_rest_at_the_same_time() {
        let begun = AtomicUsize::new(0);
        let work = |number: &usize| {
            begun.fetch_add(1, Ordering::AcqRel);
            prerequisite::wait_until("both have begun", || begun.load(Ordering::Acquire) == 2);
            if *number == 1 { Err("a reason".to_owned()) } else { Ok(*number) }
        };
        assert_eq!(at_once(&[0, 1], work), [Ok(0), Err("a reason".to_owned())]);
    }

    #[test]
    fn devices_are_left_after_go_alone() {
        let mut new = sleeper();
        let refused = || Word::Refused(vec!["a reason".to_owned()]);
        for words in [vec![refused()], vec![Word::Ready, refused()], vec![Word::Ready, Word::Ready]] {
            let is_given = words.len() > 1;
            let (result, leaves_devices, is_void) = outcome(words, &new);
            assert!(result.is_err() && !leaves_devices);
            assert_eq!(is_void, is_given, "the new process must not serve a state that was resumed");
        }
        let words = Vec::from_iter(taken().into_iter().chain([Word::Serving]));
        assert!(matches!(outcome(words, &new), (Ok(true), true, false)));
        let words = Vec::from_iter(taken().into_iter().chain([refused()]));
        assert!(matches!(outcome(words, &new), (Ok(false), true, true)));
        new.kill().unwrap();
        assert!(matches!(outcome(taken().into(), &new), (Ok(false), true, true)));
        new.wait().unwrap();
    }
}
