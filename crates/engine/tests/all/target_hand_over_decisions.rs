//! Decisions of both processes when the words of an upgrade fail to come: which of them serves, by
//! what it has heard, and by whether the other one lives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::hand_over::{
    Channel, Fault, Greeting, HandOverError, NotOffered, OldProcess, Process, TakeOverOutcome, decode, encode,
};
use engine::ring::{Engine, Socket};
use engine::target::hand_over::{Offer, Releases, SocketChannel, State, TargetProtocol, Word, known};
use engine::target::{HandedTarget, NamespaceConfig, SubsystemConfig, Target, TargetConfig};

use crate::raw_host::{Client, NQN, configure};

/// A channel on which the other process says these words, and ends.
struct Script {
    words: RefCell<VecDeque<Word>>,
    said: RefCell<Vec<String>>,
}

impl Script {
    fn new(words: impl IntoIterator<Item = Word>) -> Self {
        Self { words: RefCell::new(words.into_iter().collect()), said: RefCell::default() }
    }
}

impl Channel<TargetProtocol> for Script {
    type Descriptor = OwnedFd;

    fn wait_at_most(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn say(&self, word: &Word, _: &[Arc<Socket>]) -> io::Result<()> {
        let name = format!("{word:?}");
        self.said.borrow_mut().push(name.split(['(', ' ']).next().unwrap_or_default().to_owned());
        Ok(())
    }

    fn hear(&self) -> io::Result<(Word, Vec<OwnedFd>)> {
        let word = self.words.borrow_mut().pop_front().ok_or(io::ErrorKind::UnexpectedEof)?;
        // As it goes over the channel.
        let (word, _) = decode(&encode(&word, 0)?[..])?;
        Ok((word, Vec::new()))
    }
}

impl SocketChannel for Script {
    fn socket(descriptor: OwnedFd) -> io::Result<Socket> {
        Socket::new(descriptor)
    }
}

#[derive(Clone, Copy)]
struct Other {
    has_died: bool,
    has_resumed: bool,
}

const LIVES: Other = Other { has_died: false, has_resumed: false };
const DIED: Other = Other { has_died: true, has_resumed: false };
const RESUMED: Other = Other { has_died: true, has_resumed: true };

impl Process for Other {
    fn has_died(&self, _: Duration) -> bool {
        self.has_died
    }
}

impl OldProcess for Other {
    fn has_resumed(&self) -> bool {
        self.has_resumed
    }
}

fn target(is_held: bool) -> Target {
    let namespace = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 512);
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    subsystem.command_quiesce_ms = Some(100);
    let config = configure(Engine::Automatic, vec![subsystem]);
    Target::start(&TargetConfig { is_held, ..config }).unwrap()
}

fn state() -> Word {
    Word::State(Box::new(State {
        target: HandedTarget::default(),
        arrivals: Vec::new(),
        beside: Default::default(),
    }))
}

fn refused() -> Word {
    Word::Refused(vec!["a reason".to_owned()])
}

/// Result of a new process.
fn new_process(words: impl IntoIterator<Item = Word>, old: Other) -> Result<TakeOverOutcome, HandOverError> {
    target(true).take_place(&Script::new(words), &old, &mut ())
}

#[test]
fn the_new_process_serves_on_go_or_with_all_of_a_dead_one() {
    assert!(matches!(new_process([state(), Word::Go], LIVES), Ok(TakeOverOutcome::Serves)));
    assert!(matches!(new_process([state()], DIED), Ok(TakeOverOutcome::Serves)));
}

#[test]
fn what_a_dead_process_had_under_way_or_has_changed_is_not_gone_on_with() {
    let is_fresh_start = |outcome| matches!(outcome, Ok(TakeOverOutcome::StartsAnew(_)));
    assert!(is_fresh_start(new_process([], DIED)));
    assert!(is_fresh_start(new_process([state()], RESUMED)));
    assert!(is_fresh_start(new_process([state(), refused()], RESUMED)));
}

#[test]
fn the_new_process_does_not_serve_beside_the_old_one() {
    for (words, said) in [
        (vec![], "unexpected end of file"),
        (vec![refused()], "a reason"),
        (vec![state()], "unexpected end of file"),
        (vec![state(), refused()], "a reason"),
        (vec![state(), state()], "it does not say that this process is to serve"),
        (vec![Word::Go], "it does not say how its clients are"),
    ] {
        let error = new_process(words, LIVES).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.fault()), (said, Fault::OtherProcess));
    }
}

/// Result of an old process, true if it has said that it goes on, and what it said.
fn old_process(
    words: impl IntoIterator<Item = Word>,
    new: Other,
) -> (Result<bool, HandOverError>, bool, Vec<String>) {
    old_process_with(words, new, &mut ())
}

/// The same for one that hands this over along with the target.
fn old_process_with(
    words: impl IntoIterator<Item = Word>,
    new: Other,
    beside: &mut impl Releases,
) -> (Result<bool, HandOverError>, bool, Vec<String>) {
    let (target, channel, resumed) = (target(false), Script::new(words), Cell::new(false));
    let outcome = target.hand_over_to(&channel, (&new, &known()), beside, || resumed.set(true));
    let is_over = matches!(outcome, Ok(true));
    if !is_over {
        // It serves.
        Client::open(target.ports()[0]).initialize(nvme::tcp::Digests::default());
    }
    let is_changed = target.apply(&target.config()).is_ok();
    assert_eq!(is_changed, !is_over, "changes are the new process's");
    (outcome, resumed.get(), channel.said.take())
}

/// Hands a target over, with this, to a new process that does its part.
pub(crate) fn hand_over_with(beside: &mut impl Releases) {
    let introduction = Word::Introduction(Default::default());
    let words = [introduction, Word::Ready, Word::Taken(Vec::new()), Word::Serving];
    drop(old_process_with(words, LIVES, beside));
}

#[test]
fn the_old_process_ends_when_the_new_one_lives_whatever_comes_of_its_words() {
    let taken = || [Word::Ready, Word::Taken(Vec::new())];
    for words in [taken().into_iter().chain([Word::Serving]).collect(), Vec::from(taken())] {
        assert!(matches!(old_process(words, LIVES).0, Ok(true)));
    }
    for (words, new) in
        [(Vec::from(taken()), DIED), (taken().into_iter().chain([refused()]).collect(), LIVES)]
    {
        let (outcome, has_resumed, said) = old_process(words, new);
        assert!(matches!(outcome, Ok(false)));
        assert_eq!(said, ["State", "Go"]);
        assert!(has_resumed, "a new process that is not dead yet would serve what is no longer true");
    }
}

#[test]
fn the_old_process_goes_on_as_long_as_it_has_not_said_that_the_new_one_is_to() {
    for (words, why) in [
        (vec![], "the new process has not become ready: it has ended"),
        (vec![refused()], "a reason"),
        (vec![Word::Go], "unexpected message of the new process, instead of Ready"),
    ] {
        let (outcome, has_resumed, said) = old_process(words, LIVES);
        let error = outcome.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.fault()), (why, Fault::OtherProcess));
        assert!(!has_resumed && said.is_empty(), "nothing was handed over");
    }
    for (words, why) in [
        (vec![Word::Ready], "the new process does not take over: it has ended"),
        (vec![Word::Ready, refused()], "a reason"),
        (vec![Word::Ready, Word::Ready], "unexpected message of the new process, instead of its result"),
    ] {
        let (outcome, has_resumed, said) = old_process(words, LIVES);
        let error = outcome.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.fault()), (why, Fault::OtherProcess));
        assert!(has_resumed);
        assert_eq!(said, ["State", "Refused"]);
    }
}

/// State beside a target that has changed since the offer.
struct Changed;

impl Releases for Changed {
    fn hold_still(&mut self) -> Result<(), HandOverError> {
        Err(HandOverError::program(Fault::ThisProcess, "it was changed meanwhile"))
    }
}

#[test]
fn the_old_process_goes_on_for_the_reason_that_its_program_gives() {
    let (outcome, has_resumed, said) = old_process_with([Word::Ready], LIVES, &mut Changed);
    let error = outcome.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.fault()), ("it was changed meanwhile", Fault::ThisProcess));
    assert!(!has_resumed, "nothing was handed over");
    assert_eq!(said, ["Refused"]);
}

#[test]
fn what_needs_more_than_this_version_knows_is_refused_before_anything_is_taken() {
    let offer = |needs: &[&str]| {
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        Word::Offer(Box::new(Offer {
            needs,
            fabric: target(false).config(),
            listening: 0,
            beside: Default::default(),
            memories: Vec::new(),
        }))
    };
    let asked = |word| Offer::ask(&Script::new([word]), "0").map(drop);
    assert!(asked(offer(&[])).is_ok());
    let refused = asked(offer(&["a made-up section"]));
    assert!(matches!(refused, Err(NotOffered::Refused(reason)) if reason.contains("a made-up section")));
    // What need not be known is passed over.
    let mut bytes = encode(&Word::Hello { version: "9".to_owned(), asks_only: false, knows: Vec::new() }, 0)
        .unwrap()
        .to_vec();
    let body = String::from_utf8(bytes.split_off(24)).unwrap().replace(":{", ":{\"more\":[1],");
    bytes.truncate(12);
    for number in [nvme::tcp::digest::crc32c(body.as_bytes()), body.len() as u32, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(body.into_bytes());
    assert!(matches!(decode(&bytes[..]), Ok((Word::Hello { version, .. }, 0)) if version == "9"));
    assert!(matches!(Greeting::hear(&Script::new([])), Ok(Greeting::Probe)));
    assert!(matches!(Greeting::hear(&Script::new([Word::Ready])), Err(HandOverError::NoGreeting)));
}
