//! The process that goes on in place of another one: each group of it connects to its target and gets ready by itself, while one
//! thread talks to the former process. All groups take over, or none.

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::target::hand_over::Process as _;

use super::words::{HandedGroup, HandedState, OfferedGroup, Word};
use crate::failure::Failure;
use crate::succession::{Channel, OtherProcess, PLACE_VARIABLE, await_death};

/// Time for the previous process to end once this one serves.
const END: Duration = Duration::from_secs(30);
/// Time for a process to exit after its connection has ended.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A process that goes on in place of another one.
pub(in super::super) struct Successor {
    inheritances: Mutex<Vec<Inheritance>>,
}

/// State that one group of this process takes over.
pub(in super::super) struct Inheritance {
    number: usize,
    /// Offer of the previous process.
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
    /// The former process has died: what it had sent may still be carried out.
    pub(in super::super) has_former_died: bool,
    /// The previous process has resumed after the handover: the handed state is out of date.
    pub(in super::super) is_disowned: bool,
}

impl Successor {
    /// Returns the successor, if this process was started as one.
    pub(in super::super) fn from_environment() -> Result<Option<Self>, Failure> {
        let Some(place) = env::var_os(PLACE_VARIABLE) else { return Ok(None) };
        match greet(Path::new(&place)) {
            Ok(successor) => Ok(Some(successor)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let place = Path::new(&place).display();
                Err(Failure::failed(format!("the process at {place} is not replaced: {error}")))
            }
            // It has died before its offer: its disks are attached again. If it is alive after all, it holds their
            // resources, and attaching fails.
            Err(error) => {
                await_death();
                eprintln!("selvedge: the previous process does not answer ({error}); attaching again");
                Ok(None)
            }
        }
    }

    /// Fails unless this process serves all offered groups. Groups are identified by their command
    /// lines.
    pub(in super::super) fn check<'a>(
        &self,
        groups: &(impl Iterator<Item = &'a Vec<String>> + Clone),
    ) -> Result<(), Failure> {
        let all = self.inheritances.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |one: &&Inheritance| !groups.clone().any(|group| *group == one.offered.arguments);
        match all.iter().find(is_missing) {
            None => Ok(()),
            Some(one) => Err(Failure::failed(format!(
                "the former process has {}, which this one is not to attach: detach that first, or start the process again",
                one.offered.places().join(", ")
            ))),
        }
    }

    /// Returns the state of the group with this command line; `None` if the previous process does
    /// not have it.
    pub(in super::super) fn take(&self, arguments: &[String]) -> Option<Inheritance> {
        let mut all = self.inheritances.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|one| one.offered.arguments == arguments)?;
        Some(all.swap_remove(at))
    }
}

impl Inheritance {
    /// Waits until this group is to serve. `adopt` takes over what the former process hands over, and names the clients that cannot
    /// be served.
    ///
    /// # Errors
    /// When the former process serves on, or another group fails.
    pub(in super::super) fn succeed(
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

impl Drop for Inheritance {
    fn drop(&mut self) {
        if !self.is_done {
            self.say(Said::Fails);
        }
    }
}

fn refused(reason: &str) -> Failure {
    Failure::failed(format!("the former process serves on: {reason}"))
}

/// The thread that talks to the former process.
struct Speaker {
    channel: Channel,
    former: OtherProcess,
    /// Has something to read once the former process has gone on after it had handed over.
    has_resumed: OwnedFd,
    /// Standard output and error of the previous process.
    outputs: [OwnedFd; 2],
    groups: Vec<Sender<Heard>>,
    said: Receiver<(usize, Said)>,
}

fn greet(place: &Path) -> io::Result<Successor> {
    let refused = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let channel = Channel::connect(place)?;
    let peer = rustix::net::sockopt::socket_peercred(&channel)?;
    let former = OtherProcess::open(peer.pid)?;
    let version = crate::version::NUMBER.to_owned();
    channel.say(&Word::Hello { version, asks_only: false }, &[])?;
    let (word, descriptors) = channel.hear()?;
    let offered = match word {
        Word::Offer(offered) => offered,
        Word::Refused(reasons) => return Err(refused(&reasons.join("; "))),
        _ => return Err(refused("it offers nothing")),
    };
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| refused("it offers less than it says"));
    let (has_resumed, outputs) = (next()?, [next()?, next()?]);
    let (says, said) = mpsc::channel();
    let (mut groups, mut inheritances) = (Vec::new(), Vec::new());
    for (number, offered) in offered.into_iter().enumerate() {
        let descriptors = (0..offered.descriptors).map(|_| next()).collect::<io::Result<_>>()?;
        let (tell, hears) = mpsc::channel();
        groups.push(tell);
        let says = says.clone();
        inheritances.push(Inheritance { number, offered, descriptors, says, hears, is_done: false });
    }
    let speaker = Speaker { channel, former, has_resumed, outputs, groups, said };
    std::thread::Builder::new().name("succession".to_owned()).spawn(move || speaker.run())?;
    Ok(Successor { inheritances: Mutex::new(inheritances) })
}

impl Speaker {
    fn run(self) {
        let service = match self.take() {
            Ok(()) => Service::default(),
            Err(Untaken { reason, may_serve }) => {
                let has_former_died = may_serve && self.former.has_died(LAST_WORDS);
                if !has_former_died {
                    return self.give_up(&reason);
                }
                eprintln!("selvedge: the former process has died; this one serves");
                Service { has_former_died, is_disowned: self.has_former_resumed() }
            }
        };
        for group in &self.groups {
            let _ = group.send(Heard::Serve(service));
        }
        // One that fails from now on does so as any other.
        let _ = self.hear_all(|said| match said {
            Said::Serves | Said::Fails => Some(Ok(())),
            _ => None,
        });
        let [output, error] = &self.outputs;
        let _ = rustix::stdio::dup2_stdout(output).and_then(|()| rustix::stdio::dup2_stderr(error));
        // Without a listener, the message is not needed.
        let _ = self.channel.say(&Word::Serving, &[]);
        if !self.former.has_died(END) {
            tracing::warn!("the former process has not ended yet");
        }
    }

    /// All end, those too that the former process does not have.
    fn give_up(&self, reason: &str) {
        for group in &self.groups {
            let _ = group.send(Heard::GiveUp(reason.to_owned()));
        }
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    /// Takes over what the former process has, up to its word.
    fn take(&self) -> Result<(), Untaken> {
        let ready = self.hear_all(|said| match said {
            Said::Ready => Some(Ok(())),
            Said::Fails => Some(Err("a disk cannot be attached by the next process".to_owned())),
            _ => None,
        });
        ready.map_err(|reason| self.refuse(reason))?;
        self.channel.say(&Word::Ready, &[])?;
        let (word, descriptors) = self.channel.hear()?;
        let handed = match word {
            Word::State(handed) => handed,
            other => return Err(Untaken::instead_of("how its clients are", other)),
        };
        let count: usize = handed.iter().fold(0, |sum, group| sum.saturating_add(group.descriptors));
        if handed.len() != self.groups.len() || count != descriptors.len() {
            return Err(self.refuse("it hands over something else than it has offered".to_owned()));
        }
        let mut descriptors = descriptors.into_iter();
        for (HandedGroup { state, descriptors: count }, group) in handed.into_iter().zip(&self.groups) {
            let _ = group.send(Heard::State(state, descriptors.by_ref().take(count).collect()));
        }
        let mut failed = Vec::new();
        let taken = self.hear_all(|said| match said {
            Said::Taken(Ok(some)) => {
                failed.extend(some);
                Some(Ok(()))
            }
            Said::Taken(Err(reason)) => Some(Err(reason)),
            Said::Fails => Some(Err("a disk of the next process has failed".to_owned())),
            _ => None,
        });
        taken.map_err(|reason| self.refuse(reason))?;
        self.channel.say(&Word::Taken(failed), &[])?;
        match self.channel.hear()? {
            (Word::Go, _) => Ok(()),
            (other, _) => Err(Untaken::instead_of("that this process is to serve", other)),
        }
    }

    /// Waits until each group has said something that counts.
    fn hear_all(&self, mut counts: impl FnMut(Said) -> Option<Result<(), String>>) -> Result<(), String> {
        let mut heard = 0;
        while heard < self.groups.len() {
            let Ok((_, said)) = self.said.recv() else { return Err("a disk has failed".to_owned()) };
            if let Some(outcome) = counts(said) {
                outcome?;
                heard += 1;
            }
        }
        Ok(())
    }

    fn refuse(&self, reason: String) -> Untaken {
        let _ = self.channel.say(&Word::Refused(vec![reason.clone()]), &[]);
        Untaken { reason, may_serve: false }
    }

    /// True if the previous process has resumed since the handover.
    fn has_former_resumed(&self) -> bool {
        rustix::io::read(&self.has_resumed, &mut [0; 1]).is_ok_and(|read| read > 0)
    }
}

/// Reason why the clients were not taken over.
struct Untaken {
    reason: String,
    /// True if this process may serve if no other one does.
    may_serve: bool,
}

impl Untaken {
    fn instead_of(expected: &str, word: Word) -> Self {
        let reason = match word {
            Word::Refused(reasons) => reasons.join("; "),
            _ => format!("it does not say {expected}"),
        };
        Self { reason, may_serve: true }
    }
}

impl From<io::Error> for Untaken {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), may_serve: true }
    }
}
