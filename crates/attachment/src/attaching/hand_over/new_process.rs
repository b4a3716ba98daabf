//! New process of an upgrade: each group of it connects to its target and gets ready by itself,
//! while one thread talks to the old process. All groups take over, or none. The steps are the
//! engine's.

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use administration::upgrade::{Channel, OtherProcess, PLACE_VARIABLE, WatchedProcess, await_death};
use attach::RECEIVED_IN_FILES;
use engine::hand_over::{self, Fault, HandOverError, NewService, NotOffered, Process as _, TakeOverOutcome};
use serde_json::Value;

use super::words::{AttachProtocol, HandedGroup, HandedState, OfferedGroup, Word};
use crate::failure::Failure;

/// Time for the old process to end once this one serves.
const END: Duration = Duration::from_secs(30);

/// A process that goes on in place of another one.
pub(in super::super) struct NewProcess {
    take_overs: Mutex<Vec<GroupTakeOver>>,
}

/// State that one group of this process takes over.
pub(in super::super) struct GroupTakeOver {
    number: usize,
    /// Offer of the old process.
    pub(in super::super) offered: OfferedGroup,
    /// Descriptors of the offer.
    pub(in super::super) descriptors: Vec<OwnedFd>,
    says: Sender<(usize, Said)>,
    hears: Receiver<Heard>,
    is_done: bool,
}

/// Message of a group.
enum Said {
    Ready,
    Taken(Result<Vec<(String, String)>, String>),
    Serves,
    Fails,
}

/// Message to a group.
enum Heard {
    State(HandedState, Vec<OwnedFd>),
    Serve(Service),
    GiveUp(String),
}

/// Start of a group's service.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Service {
    /// The old process has died: what it had sent may still be carried out.
    pub(in super::super) has_old_died: bool,
    /// The old process has resumed after the handover: the handed state is out of date.
    pub(in super::super) is_disowned: bool,
}

impl NewProcess {
    /// Returns the new process, if this process was started as one.
    pub(in super::super) fn from_environment() -> Result<Option<Self>, Failure> {
        let Some(place) = env::var_os(PLACE_VARIABLE) else { return Ok(None) };
        match greet(Path::new(&place)) {
            Ok(new_process) => Ok(Some(new_process)),
            Err(NotOffered::Refused(reason)) => {
                let place = Path::new(&place).display();
                Err(Failure::failed(format!("the process at {place} is not replaced: {reason}")))
            }
            // It has died before its offer: its disks are attached again. If it is alive after all, it holds their
            // resources, and attaching fails.
            Err(NotOffered::Silence(error)) => {
                await_death();
                eprintln!("selvedge: the old process does not answer ({error}); attaching again");
                Ok(None)
            }
        }
    }

    /// Asks the old process, which is at the other end of this channel, for its offer.
    fn ask(channel: Channel, process: OtherProcess) -> Result<Self, NotOffered> {
        let version = crate::version::NUMBER;
        let (offered, descriptors) =
            hand_over::ask::<AttachProtocol, Channel>(&channel, version, vec![RECEIVED_IN_FILES.to_owned()])?;
        let mut descriptors = descriptors.into_iter();
        let mut next = || {
            let less = || NotOffered::Refused("it offers less than it says".to_owned());
            descriptors.next().ok_or_else(less)
        };
        let (mark, outputs) = (next()?, [next()?, next()?]);
        let (says, said) = mpsc::channel();
        let (mut orders, mut take_overs) = (Vec::new(), Vec::new());
        for (number, offered) in offered.into_iter().enumerate() {
            let descriptors = (0..offered.descriptors).map(|_| next()).collect::<Result<_, _>>()?;
            let (order, hears) = mpsc::channel();
            orders.push(order);
            let says = says.clone();
            take_overs.push(GroupTakeOver { number, offered, descriptors, says, hears, is_done: false });
        }
        let groups = Groups { orders, said, has_failed: false };
        let speaker = Speaker { channel, old: WatchedProcess { process, mark }, outputs, groups };
        std::thread::Builder::new().name("upgrade".to_owned()).spawn(move || speaker.run())?;
        Ok(Self { take_overs: Mutex::new(take_overs) })
    }

    /// Fails unless this process serves all offered groups. Groups are identified by their command
    /// lines.
    pub(in super::super) fn check<'a>(
        &self,
        groups: &(impl Iterator<Item = &'a Vec<String>> + Clone),
    ) -> Result<(), Failure> {
        let all = self.take_overs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |one: &&GroupTakeOver| !groups.clone().any(|group| *group == one.offered.arguments);
        match all.iter().find(is_missing) {
            None => Ok(()),
            Some(one) => Err(Failure::failed(format!(
                "the old process has {}, which this one is not to attach: detach that first, or start the process again",
                one.offered.places().join(", ")
            ))),
        }
    }

    /// Returns the state of the group with this command line; `None` if the old process does
    /// not have it.
    pub(in super::super) fn take(&self, arguments: &[String]) -> Option<GroupTakeOver> {
        let mut all = self.take_overs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|one| one.offered.arguments == arguments)?;
        Some(all.swap_remove(at))
    }
}

impl GroupTakeOver {
    /// Waits until this group is to serve. `adopt` takes over what the old process hands over, and names the clients that cannot
    /// be served.
    ///
    /// # Errors
    /// When the old process serves on, or another group fails.
    pub(in super::super) fn complete(
        &mut self,
        adopt: impl FnOnce(HandedState, Vec<OwnedFd>) -> Result<Vec<(String, String)>, String>,
    ) -> Result<Service, Failure> {
        self.say(Said::Ready);
        let (state, descriptors) = match self.hear()? {
            Heard::State(state, descriptors) => (state, descriptors),
            Heard::Serve(service) => return Ok(service),
            Heard::GiveUp(reason) => return Err(refused(&reason)),
        };
        self.say(Said::Taken(adopt(state, descriptors)));
        match self.hear()? {
            Heard::Serve(service) => Ok(service),
            Heard::GiveUp(reason) => Err(refused(&reason)),
            Heard::State(..) => Err(refused("it hands over twice")),
        }
    }

    /// This group serves.
    pub(in super::super) fn serves(mut self) {
        self.say(Said::Serves);
        self.is_done = true;
    }

    fn say(&self, said: Said) {
        let _ = self.says.send((self.number, said));
    }

    fn hear(&self) -> Result<Heard, Failure> {
        self.hears.recv().map_err(|_| refused("the thread that talks to it has ended"))
    }
}

impl Drop for GroupTakeOver {
    fn drop(&mut self) {
        if !self.is_done {
            self.say(Said::Fails);
        }
    }
}

fn refused(reason: &str) -> Failure {
    Failure::failed(format!("the old process serves on: {reason}"))
}

/// Asks the old process for its offer.
fn greet(place: &Path) -> Result<NewProcess, NotOffered> {
    let channel = Channel::connect(place)?;
    let peer = rustix::net::sockopt::socket_peercred(&channel).map_err(io::Error::from)?;
    NewProcess::ask(channel, OtherProcess::open(peer.pid)?)
}

/// The thread that talks to the old process.
struct Speaker {
    channel: Channel,
    old: WatchedProcess,
    /// Standard output and error of the old process.
    outputs: [OwnedFd; 2],
    groups: Groups,
}

/// All groups, as the thread that talks to the old process knows them.
struct Groups {
    orders: Vec<Sender<Heard>>,
    said: Receiver<(usize, Said)>,
    /// True once a group cannot serve.
    has_failed: bool,
}

impl Speaker {
    fn run(mut self) {
        match hand_over::take_over::<AttachProtocol, Channel>(&self.channel, &self.old, &mut self.groups) {
            Ok(TakeOverOutcome::Serves) => {}
            // Groups attach their disks without the clients of the old process.
            Ok(TakeOverOutcome::StartsAnew(_)) if !self.groups.has_failed => {
                eprintln!("selvedge: the old process has died; this one serves, and clients connect again");
                self.groups.serve(Service { has_old_died: true, is_disowned: true });
            }
            Ok(TakeOverOutcome::StartsAnew(reason)) | Err(reason) => {
                return self.groups.give_up(&reason.to_string());
            }
        }
        // A group that fails from now on does so as any other.
        let _ = self.groups.hear_all(|said| match said {
            Said::Serves | Said::Fails => Some(Ok(())),
            _ => None,
        });
        let [output, error] = &self.outputs;
        let _ = rustix::stdio::dup2_stdout(output).and_then(|()| rustix::stdio::dup2_stderr(error));
        // Without a listener, the message is not needed.
        let _ = self.channel.say(&Word::Serving, &[]);
        if !self.old.has_died(END) {
            tracing::warn!(target: "selvedge::commands::attach::succession::new_process", "the old process has not ended yet");
        }
    }
}

impl Groups {
    /// All serve.
    fn serve(&self, service: Service) {
        for group in &self.orders {
            let _ = group.send(Heard::Serve(service));
        }
    }

    /// All end, those too that the old process does not have.
    fn give_up(&self, reason: &str) {
        for group in &self.orders {
            let _ = group.send(Heard::GiveUp(reason.to_owned()));
        }
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    /// Waits until each group has said something that counts.
    fn hear_all(
        &mut self,
        mut counts: impl FnMut(Said) -> Option<Result<(), String>>,
    ) -> Result<(), HandOverError> {
        let mut heard = 0;
        while heard < self.orders.len() {
            let said = self.said.recv();
            match said.map_or_else(|_| Some(Err("a disk has failed".to_owned())), |(_, said)| counts(said)) {
                None => {}
                Some(Ok(())) => heard += 1,
                Some(Err(reason)) => {
                    self.has_failed = true;
                    return Err(HandOverError::program(Fault::ThisProcess, reason));
                }
            }
        }
        Ok(())
    }
}

impl NewService<AttachProtocol, OwnedFd> for Groups {
    fn prepare(&mut self) -> Result<Option<Value>, HandOverError> {
        let ready = self.hear_all(|said| match said {
            Said::Ready => Some(Ok(())),
            Said::Fails => Some(Err("a disk cannot be attached by the new process".to_owned())),
            _ => None,
        });
        ready.map(|()| None)
    }

    fn take(
        &mut self,
        handed: Vec<HandedGroup>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        let count: usize = handed.iter().fold(0, |sum, group| sum.saturating_add(group.descriptors));
        if handed.len() != self.orders.len() || count != descriptors.len() {
            let reason = "it hands over something else than it has offered";
            return Err(HandOverError::program(Fault::OtherProcess, reason));
        }
        let mut descriptors = descriptors.into_iter();
        for (HandedGroup { state, descriptors: count }, group) in handed.into_iter().zip(&self.orders) {
            let _ = group.send(Heard::State(state, descriptors.by_ref().take(count).collect()));
        }
        let mut failed = Vec::new();
        self.hear_all(|said| match said {
            Said::Taken(Ok(some)) => {
                failed.extend(some);
                Some(Ok(()))
            }
            Said::Taken(Err(reason)) => Some(Err(reason)),
            Said::Fails => Some(Err("a disk of the new process has failed".to_owned())),
            _ => None,
        })?;
        Ok(failed)
    }

    fn go_on(&mut self, has_died: bool) -> Result<(), HandOverError> {
        self.serve(Service { has_old_died: has_died, is_disowned: false });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use rustix::process::Pid;

    use super::super::super::record::AttachMethod;
    use super::*;
    use administration::upgrade::ResumeMark;

    /// Old process with two groups, which is scripted, and the new one that talks to it.
    struct Upgrade {
        old: Child,
        channel: Channel,
        mark: ResumeMark,
        groups: Vec<GroupTakeOver>,
    }

    impl Upgrade {
        fn begin() -> Self {
            // A new process that gives up ends itself by a signal.
            let signal = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal_hook::consts::SIGTERM, signal).unwrap();
            let old = Command::new("sleep").arg("600").spawn().unwrap();
            let process = OtherProcess::open(Pid::from_child(&old)).unwrap();
            let (here, there) = UnixStream::pair().unwrap();
            let asks = thread::spawn(move || NewProcess::ask(Channel::new(there), process));
            let channel = Channel::new(here);
            assert!(matches!(channel.hear(), Ok((Word::Hello { asks_only: false, .. }, _))));
            let mark = ResumeMark::new().unwrap();
            let (output, error) = (io::stdout(), io::stderr());
            let descriptors: [BorrowedFd<'_>; 3] = [mark.reader(), output.as_fd(), error.as_fd()];
            let offered = ["1", "2"].map(|nsid| OfferedGroup {
                arguments: vec![nsid.to_owned()],
                record: None,
                method: AttachMethod::Ublk,
                disks: Vec::new(),
                descriptors: 0,
            });
            channel.say(&Word::Offer(Box::new(Vec::from(offered))), &descriptors).unwrap();
            let new = asks.join().unwrap().ok().unwrap();
            let groups = ["1", "2"].map(|nsid| new.take(&[nsid.to_owned()]).unwrap());
            Self { old, channel, mark, groups: groups.into() }
        }

        /// Starts a group, which takes over with this result.
        fn start(&mut self, taken: Result<(), String>) -> thread::JoinHandle<Result<Service, String>> {
            let mut group = self.groups.remove(0);
            thread::spawn(move || {
                let service = group.complete(|_, _| taken.map(|()| Vec::new()));
                let service = service.map_err(|failure| format!("{failure:?}"))?;
                group.serves();
                Ok(service)
            })
        }

        fn hand_over(&self) {
            assert!(matches!(self.channel.hear(), Ok((Word::Ready, _))));
            let handed = || HandedGroup { state: HandedState::Ublk, descriptors: 0 };
            self.channel.say(&Word::State(Box::new(vec![handed(), handed()])), &[]).unwrap();
        }
    }

    /// The old process ends, with its channel.
    impl Drop for Upgrade {
        fn drop(&mut self) {
            let _ = self.old.kill();
            let _ = self.old.wait();
        }
    }

    #[test]
    fn a_group_that_cannot_serve_keeps_all_from_it() {
        let mut upgrade = Upgrade::begin();
        let group = upgrade.start(Ok(()));
        drop(upgrade.groups.remove(0));
        assert!(matches!(upgrade.channel.hear(), Ok((Word::Refused(_), _))));
        assert!(group.join().unwrap().is_err());
        drop(upgrade);

        let mut upgrade = Upgrade::begin();
        let groups = [upgrade.start(Ok(())), upgrade.start(Err("a reason".to_owned()))];
        upgrade.hand_over();
        let said = upgrade.channel.hear();
        assert!(matches!(said, Ok((Word::Refused(reasons), _)) if reasons == ["a reason"]));
        assert!(groups.map(|group| group.join().unwrap().is_err()).into_iter().all(|is_err| is_err));
        drop(upgrade);
    }

    #[test]
    fn groups_serve_by_order_or_with_the_valid_state_of_a_dead_process() {
        for (is_ordered, has_resumed) in [(true, false), (false, false), (false, true)] {
            let mut upgrade = Upgrade::begin();
            let groups = [upgrade.start(Ok(())), upgrade.start(Ok(()))];
            upgrade.hand_over();
            assert!(matches!(upgrade.channel.hear(), Ok((Word::Taken(failed), _)) if failed.is_empty()));
            if is_ordered {
                upgrade.channel.say(&Word::Go, &[]).unwrap();
                assert!(matches!(upgrade.channel.hear(), Ok((Word::Serving, _))));
            } else if has_resumed {
                upgrade.mark.set();
            }
            drop(upgrade);
            for group in groups {
                let service = group.join().unwrap().unwrap();
                assert_eq!((service.has_old_died, service.is_disowned), (!is_ordered, has_resumed));
            }
        }
    }
}
