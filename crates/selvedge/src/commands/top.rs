//! `selvedge top`: asks a running target again and again, and shows what it does: live on a terminal, or as text or JSON
//! for a number of intervals.

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use chart::units;
use ratatui::crossterm::event::{self, Event};
use schemars::JsonSchema;
use serde::Serialize;

use super::ask::client;
use crate::control::client::Client;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::top::TopFlags;
use crate::report;
use crate::stop::Stop;
use crate::target_rates::rates::Rates;
use crate::target_rates::sample::{Sample, Status};
use crate::top::keys::Wish;
use crate::top::screen;
use crate::top::terminal::{FullScreen, Stream};
use crate::top::text;
use crate::top::view::View;
use crate::top::watch::Watch;

/// A target that does not answer for this long is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
/// The terminal's keys are waited for this long before the target's answers are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Least interval of drawing without news: the duration of a silence is shown in seconds.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);

/// A target that is asked at times since a beginning.
struct Asker {
    client: Client,
    began: Instant,
}

impl Asker {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a sample, or returns the reason for a missing answer in one line.
    fn ask(&self) -> Result<Sample, String> {
        let why = |failure: Failure| failure.line().unwrap_or_default();
        let metrics = self.client.text("/metrics").map_err(why)?;
        let at = self.now();
        let status: Status = self.client.get("/v1/status").map_err(why)?;
        Sample::read(at, status, &metrics)
    }
}

/// Shows a target.
pub(super) fn run(flags: &TopFlags) -> Result<(), Failure> {
    let client = client(&flags.control)?.patient_for(PATIENCE);
    let watch = Watch::new(client.to_string(), flags.interval);
    let asker = Asker { client, began: Instant::now() };
    let format = flags.control.output.output_format;
    if let Some(intervals) = flags.intervals() {
        return print(&asker, watch, intervals, format);
    }
    if format == OutputFormat::Json {
        return Err(Failure::usage("the live view is not JSON: add --once, or --batch N for a line each"));
    }
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        return Err(Failure::usage(
            "the live view needs a terminal: run it in one, or add --once or --batch N to print text, with -o json \
             to print JSON",
        ));
    }
    live(asker, watch)
}

/// Prints this number of intervals.
fn print(asker: &Asker, mut watch: Watch, intervals: u32, format: OutputFormat) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    // Without a first answer there is nothing to compare with, and more likely a wrong address than a bad moment.
    watch.hear(Ok(asker.ask().map_err(Failure::failed)?));
    let mut last = Ok(());
    for number in 0..intervals {
        if !stop.sleep(watch.interval) {
            let intervals = units::plural(intervals.into(), "interval");
            return Err(Failure::interrupted(format!("interrupted after {number} of {intervals}")));
        }
        let answer = asker.ask();
        last = answer.as_ref().map(drop).map_err(Failure::failed);
        if intervals == 1 {
            last?;
            last = Ok(());
        }
        watch.hear(answer);
        match format {
            OutputFormat::Normal => {
                let gap = if number > 0 { "\n" } else { "" };
                report::print(format!("{gap}{}", text::page(&watch, asker.now())))?;
            }
            OutputFormat::Json => print_json(&watch, asker.now(), intervals == 1)?,
        }
    }
    last
}

/// For programs: one interval.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shown<'a> {
    target: &'a str,
    /// Why it does not answer, and since when; there are no rates then.
    absence: Option<String>,
    rates: Option<&'a Rates>,
}

fn print_json(watch: &Watch, now: Duration, alone: bool) -> Result<(), Failure> {
    let absence = watch.absence(now);
    // Rates from before it went silent are not those of this interval.
    let rates = watch.rates().filter(|_| absence.is_none());
    let shown = Shown { target: &watch.target, absence, rates };
    if alone {
        return report::print_json(&shown);
    }
    let line = serde_json::to_string(&shown).map_err(Failure::failed)?;
    report::print_exactly(line + "\n")
}

/// Samples on a thread of its own: keys work while a target is silent. It ends with the receiver.
fn keep_asking(
    asker: &Asker,
    interval: Duration,
    answers: &Sender<Result<Sample, String>>,
    end: &Receiver<()>,
) {
    loop {
        let began = Instant::now();
        if answers.send(asker.ask()).is_err() {
            return;
        }
        match end.recv_timeout(interval.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}

/// Takes what has been answered meanwhile; says whether there was anything.
fn hear_all(watch: &mut Watch, answers: &Receiver<Result<Sample, String>>) -> Result<bool, Failure> {
    let mut news = false;
    loop {
        match answers.try_recv() {
            Ok(answer) => {
                watch.hear(answer);
                news = true;
            }
            Err(TryRecvError::Empty) => return Ok(news),
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::failed("the thread that asks the target has ended; this is a bug"));
            }
        }
    }
}

fn live(asker: Asker, mut watch: Watch) -> Result<(), Failure> {
    watch.hear(Ok(asker.ask().map_err(Failure::failed)?));
    let stop = Stop::on_signals()?;
    let (began, interval) = (asker.began, watch.interval);
    let (sender, answers) = channel();
    // Dropped with this function's end, it ends the thread; one that waits for an answer ends with the process.
    let (_end, ended) = channel();
    std::thread::spawn(move || keep_asking(&asker, interval, &sender, &ended));
    let failed = |error| Failure::failed(format!("the terminal cannot be used: {error}"));
    let mut full_screen = FullScreen::take(Stream::Stdout).map_err(failed)?;
    let mut view = View::new();
    let mut drawn_at: Option<Instant> = None;
    while !stop.is_asked() {
        let mut news = drawn_at.is_none_or(|at| at.elapsed() >= DRAW_INTERVAL);
        news |= hear_all(&mut watch, &answers)?;
        while event::poll(if news { Duration::ZERO } else { LOOK_INTERVAL }).map_err(failed)? {
            news = true;
            // A terminal of another size is redrawn like any other news.
            let Event::Key(key) = event::read().map_err(failed)? else { continue };
            match view.press(key, watch.rates()) {
                Wish::Quit => return Ok(()),
                Wish::Pause => watch.pause(),
                Wish::Stay => {}
            }
        }
        if news {
            let now = began.elapsed();
            full_screen.draw(|frame| screen::draw(frame, &watch, &view, now)).map_err(failed)?;
            drawn_at = Some(Instant::now());
        }
    }
    Ok(())
}
