//! Both processes of an upgrade against each other: which of them serves when one dies before or
//! after any word, or cannot do its part. The hand-over is made up.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::*;

#[derive(Debug)]
enum MadeUp {}

impl Protocol for MadeUp {
    const MAGIC: [u8; 8] = *b"made-up!";
    const FORMAT: u32 = 3;
    const PREPARATION: Duration = Duration::ZERO;
    const TAKING: Duration = Duration::ZERO;
    const TAKING_EACH: Duration = Duration::ZERO;
    type Offer = u32;
    type State = u32;
    type Descriptor = ();
}

/// State that is handed over.
const STATE: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

/// Part that a process cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Prepare,
    Quiesce,
    Give,
    Take,
    GoOn,
}

/// Death of a process at its word of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Death {
    side: Side,
    word: usize,
    is_said: bool,
}

/// Trouble of an upgrade.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    death: Option<Death>,
    part: Option<Part>,
    /// The old process resumes before it dies.
    has_resumed: bool,
}

/// Life of a process, as the other one sees it.
struct Life {
    has_died: Arc<AtomicBool>,
    has_resumed: bool,
}

impl Process for Life {
    fn has_died(&self, _: Duration) -> bool {
        self.has_died.load(Ordering::SeqCst)
    }
}

impl OldProcess for Life {
    fn has_resumed(&self) -> bool {
        self.has_resumed
    }
}

/// Both directions of a channel.
type Line = (Sender<Word<MadeUp>>, Receiver<Word<MadeUp>>);

/// End of a channel, which dies with its process.
struct End {
    line: RefCell<Option<Line>>,
    death: Option<Death>,
    said: Cell<usize>,
    has_died: Arc<AtomicBool>,
    outcome: Sender<Outcome>,
}

impl End {
    fn die_at(&self, word: usize, is_said: bool) {
        if self.death.is_some_and(|death| (death.word, death.is_said) == (word, is_said)) {
            self.has_died.store(true, Ordering::SeqCst);
            drop(self.line.take());
            let _ = self.outcome.send(Outcome::Died);
            // Unwinding would abort the test, as it ends a real old process.
            loop {
                thread::park();
            }
        }
    }
}

impl Channel<MadeUp> for End {
    type Descriptor = ();

    fn wait_at_most(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn say(&self, word: &Word<MadeUp>, _: &[()]) -> io::Result<()> {
        let number = self.said.replace(self.said.get() + 1);
        self.die_at(number, false);
        // As it goes over a line.
        let (word, _) = decode(&encode(word, 0)?[..])?;
        let line = self.line.borrow();
        let (to, _) = line.as_ref().expect("a process that lives");
        let sent = to.send(word).map_err(|_| io::ErrorKind::BrokenPipe.into());
        drop(line);
        self.die_at(number, true);
        sent
    }

    fn hear(&self) -> io::Result<(Word<MadeUp>, Vec<()>)> {
        let line = self.line.borrow();
        let (_, from) = line.as_ref().expect("a process that lives");
        let word = from.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?;
        Ok((word, Vec::new()))
    }
}

/// Service of either process.
struct Service {
    trouble: Trouble,
    state: Option<u32>,
}

impl Service {
    fn part(&self, part: Part) -> Result<(), HandOverError> {
        if self.trouble.part == Some(part) {
            return Err(HandOverError::program(Fault::ThisProcess, format!("{part:?}")));
        }
        Ok(())
    }
}

impl OldService<MadeUp> for Service {
    fn quiesce(&mut self) -> Result<(), HandOverError> {
        self.part(Part::Quiesce)
    }

    fn give(&mut self) -> Result<(u32, Vec<()>), HandOverError> {
        self.part(Part::Give)?;
        Ok((STATE, Vec::new()))
    }

    fn taken(&mut self, failed: Vec<(String, String)>) {
        assert!(failed.is_empty());
    }

    fn is_awaited(&mut self) {}
    fn mark_resumed(&mut self) {}
    fn resume(&mut self, _: bool) {}
    fn serve_again(&mut self, _: bool) {}
    fn leave(&mut self) {}
}

impl NewService<MadeUp, ()> for Service {
    fn prepare(&mut self) -> Result<Option<Value>, HandOverError> {
        self.part(Part::Prepare).map(|()| None)
    }

    fn take(&mut self, state: u32, _: Vec<()>) -> Result<Vec<(String, String)>, HandOverError> {
        self.part(Part::Take)?;
        self.state = Some(state);
        Ok(Vec::new())
    }

    fn go_on(&mut self, _: bool) -> Result<(), HandOverError> {
        self.part(Part::GoOn)?;
        assert_eq!(self.state, Some(STATE), "it serves what was handed over");
        Ok(())
    }
}

/// Result of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Died,
    Serves,
    StartsAnew,
    /// The other one is to serve.
    Ends,
}

/// Results of the old and the new process.
fn upgrade(trouble: Trouble) -> (Outcome, Outcome) {
    let ((to_new, from_old), (to_old, from_new)) = (mpsc::channel(), mpsc::channel());
    let deaths: [Arc<AtomicBool>; 2] = Default::default();
    let [old_death, new_death] = deaths;
    let [(old_end, old_outcome), (new_end, new_outcome)] = [(); 2].map(|()| mpsc::channel());
    let end = |side: Side, line: Line, has_died: &Arc<AtomicBool>, outcome| End {
        line: RefCell::new(Some(line)),
        death: trouble.death.filter(|death| death.side == side),
        said: Cell::new(0),
        has_died: has_died.clone(),
        outcome,
    };
    let olds = end(Side::Old, (to_new, from_new), &old_death, old_end);
    let news = end(Side::New, (to_old, from_old), &new_death, new_end);
    let new_life = Life { has_died: new_death, has_resumed: false };
    let old_life = Life { has_died: old_death, has_resumed: trouble.has_resumed };
    thread::spawn(move || {
        let handed = hand_over(&olds, &new_life, &mut Service { trouble, state: None });
        let outcome = if matches!(handed, Ok(true)) { Outcome::Ends } else { Outcome::Serves };
        let _ = olds.outcome.send(outcome);
    });
    thread::spawn(move || {
        let outcome = match take_over(&news, &old_life, &mut Service { trouble, state: None }) {
            Ok(TakeOverOutcome::Serves) => {
                let _ = news.say(&Word::Serving, &[]);
                Outcome::Serves
            }
            Ok(TakeOverOutcome::StartsAnew(_)) => Outcome::StartsAnew,
            Err(_) => Outcome::Ends,
        };
        let _ = news.outcome.send(outcome);
    });
    let [old, new] = [old_outcome, new_outcome].map(|outcome| outcome.recv().expect("an outcome"));
    (old, new)
}

#[test]
fn the_new_process_serves_after_an_upgrade_without_trouble() {
    assert_eq!(upgrade(Trouble::default()), (Outcome::Ends, Outcome::Serves));
}

#[test]
fn the_new_process_serves_whenever_the_old_one_dies() {
    // `State` and `Go`.
    for (word, is_said, expected) in [
        (0, false, Outcome::StartsAnew),
        (0, true, Outcome::Serves),
        (1, false, Outcome::Serves),
        (1, true, Outcome::Serves),
    ] {
        let death = Some(Death { side: Side::Old, word, is_said });
        let trouble = Trouble { death, ..Trouble::default() };
        assert_eq!(upgrade(trouble), (Outcome::Died, expected), "{trouble:?}");
    }
}

#[test]
fn a_state_that_was_resumed_is_not_served() {
    let death = Some(Death { side: Side::Old, word: 0, is_said: true });
    let trouble = Trouble { death, has_resumed: true, ..Trouble::default() };
    assert_eq!(upgrade(trouble), (Outcome::Died, Outcome::StartsAnew));
}

#[test]
fn the_old_process_serves_whenever_the_new_one_dies() {
    // `Ready`, `Taken` and `Serving`.
    for (word, is_said) in [(0, false), (0, true), (1, false), (1, true), (2, false)] {
        let death = Some(Death { side: Side::New, word, is_said });
        let trouble = Trouble { death, ..Trouble::default() };
        assert_eq!(upgrade(trouble), (Outcome::Serves, Outcome::Died), "{trouble:?}");
    }
    // The upgrade is over.
    let death = Some(Death { side: Side::New, word: 2, is_said: true });
    let trouble = Trouble { death, ..Trouble::default() };
    assert_eq!(upgrade(trouble), (Outcome::Ends, Outcome::Died));
}

#[test]
fn the_old_process_serves_when_either_cannot_do_its_part() {
    for part in [Part::Prepare, Part::Quiesce, Part::Give, Part::Take, Part::GoOn] {
        let trouble = Trouble { part: Some(part), ..Trouble::default() };
        assert_eq!(upgrade(trouble), (Outcome::Serves, Outcome::Ends), "{trouble:?}");
    }
}

const EVENTS: [Event; 15] = [
    Event::Introduction,
    Event::Ready,
    Event::State,
    Event::Taken,
    Event::Go,
    Event::Serving,
    Event::Refused,
    Event::Other,
    Event::Late,
    Event::Lost,
    Event::Done,
    Event::Failed,
    Event::Lives,
    Event::Died { has_resumed: false },
    Event::Died { has_resumed: true },
];

/// Asserts the step after each event: the listed ones, and `other` for all others.
fn assert_old(step: OldStep, listed: &[(Event, OldStep)], other: OldStep) {
    for event in EVENTS {
        let expected = listed.iter().find(|(at, _)| *at == event).map_or(other, |(_, after)| *after);
        assert_eq!(step.after(event), expected, "{step:?} {event:?}");
    }
}

fn assert_new(step: NewStep, listed: &[(Event, NewStep)], other: NewStep) {
    for event in EVENTS {
        let expected = listed.iter().find(|(at, _)| *at == event).map_or(other, |(_, after)| *after);
        assert_eq!(step.after(event), expected, "{step:?} {event:?}");
    }
}

#[test]
fn the_old_process_resumes_before_go_and_serves_again_only_beside_no_other() {
    use Event::*;
    use OldStep as Old;
    let died = |step| [(Died { has_resumed: false }, step), (Died { has_resumed: true }, step)];
    let introduced = Old::AwaitsReady { is_introduced: true };
    assert_old(Old::FIRST, &[(Introduction, introduced), (Ready, Old::Quiesces)], Old::Serves);
    assert_old(introduced, &[(Ready, Old::Quiesces)], Old::Serves);
    assert_old(Old::Quiesces, &[(Done, Old::AwaitsTaken)], Old::Serves);
    let [refused, silent] = [true, false].map(|has_refused| Old::Resumes { has_refused });
    assert_old(Old::AwaitsTaken, &[(Taken, Old::Orders), (Refused, refused), (Failed, refused)], silent);
    let [in_time, late] = [false, true].map(|is_late| Old::AwaitsServing { is_late });
    assert_old(Old::Orders, &[(Done, in_time)], silent);
    let [alive, dead] = [false, true].map(|has_died| Old::ServesAgain { has_died });
    let ends = [(Serving, Old::Leaves), (Refused, alive)];
    assert_old(in_time, &[&ends[..], &[(Late, late)]].concat(), Old::AsksLife);
    assert_old(late, &ends, Old::AsksLife);
    assert_old(Old::AsksLife, &died(dead), Old::Leaves);
    for end in [Old::Serves, Old::Leaves, refused, silent, alive, dead] {
        assert_old(end, &[], end);
    }
}

#[test]
fn the_new_process_serves_by_order_or_with_all_of_a_dead_one() {
    use Event::*;
    use NewStep as New;
    let asks = |has_all, is_refused| New::AsksLife { has_all, is_refused };
    assert_new(New::FIRST, &[(Done, New::AwaitsState), (Refused, asks(false, true))], asks(false, false));
    assert_new(New::AwaitsState, &[(State, New::AwaitsGo), (Refused, asks(false, true))], asks(false, false));
    let [ordered, alone] = [false, true].map(|has_died| New::Serves { has_died });
    assert_new(New::AwaitsGo, &[(Go, ordered), (Refused, asks(true, true))], asks(true, false));
    let died = |step| [(Died { has_resumed: false }, step), (Died { has_resumed: true }, New::StartsAnew)];
    for is_refused in [false, true] {
        assert_new(asks(true, is_refused), &died(alone), New::Ends);
        assert_new(asks(false, is_refused), &died(New::StartsAnew), New::Ends);
    }
    for serves in [ordered, alone] {
        assert_new(serves, &[(Failed, New::Ends)], serves);
    }
    for end in [New::StartsAnew, New::Ends] {
        assert_new(end, &[], end);
    }
}

#[test]
fn words_are_written_as_by_released_versions() {
    let hello = |knows: &[&str]| {
        let knows = knows.iter().map(|one| (*one).to_owned()).collect();
        Word::<MadeUp>::Hello { version: "9".to_owned(), asks_only: false, knows }
    };
    let failed = vec![("a".to_owned(), "b".to_owned())];
    for (word, expected) in [
        (hello(&[]), r#"{"Hello":{"version":"9","asks_only":false}}"#),
        (hello(&["ceph"]), r#"{"Hello":{"version":"9","asks_only":false,"knows":["ceph"]}}"#),
        (
            Word::About(About::default()),
            concat!(
                r#"{"About":{"process":0,"version":"","program":null,"arguments":[],"directory":"","#,
                r#""service":[],"obstacles":[],"disconnected":[]}}"#
            ),
        ),
        (Word::Introduction(Value::Null), r#"{"Introduction":null}"#),
        (Word::Offer(Box::new(5)), r#"{"Offer":5}"#),
        (Word::Refused(vec!["a".to_owned()]), r#"{"Refused":["a"]}"#),
        (Word::Ready, r#""Ready""#),
        (Word::State(Box::new(STATE)), r#"{"State":7}"#),
        (Word::Taken(failed), r#"{"Taken":[["a","b"]]}"#),
        (Word::Go, r#""Go""#),
        (Word::Serving, r#""Serving""#),
    ] {
        let bytes = encode(&word, 2).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes[24..]), expected);
        assert_eq!((&bytes[..8], bytes[8], bytes[20]), (&b"made-up!"[..], 3, 2));
        let (again, descriptors) = decode::<MadeUp>(&bytes[..]).unwrap();
        assert_eq!((format!("{again:?}"), descriptors), (format!("{word:?}"), 2));
    }
}
