//! The terminal with a run on it: takes what the run says, does what keys ask for, and draws. The run is followed and ended by
//! others.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};

use super::super::keys::Wish;
use super::super::terminal::{FullScreen, Stream};
use super::super::view::View;
use super::list::InitiatorList;
use super::screen;
use super::watch::{About, Watch};
use crate::bench::sample::Sample;

/// The screen is drawn this often even if nothing new is known, since time passes on it.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);

/// A run on the terminal, which is given back when this is dropped.
pub struct Live {
    full_screen: FullScreen,
    began: Instant,
    watch: Watch,
    view: View<InitiatorList>,
    /// Time of the last drawing, unless there are news since.
    drawn_at: Option<Instant>,
}

impl Live {
    /// Takes the terminal that is on stderr.
    ///
    /// # Errors
    /// When there is none, or it does not do what it is asked; then it is as before.
    pub fn take(about: About) -> io::Result<Self> {
        let full_screen = FullScreen::take(Stream::Stderr)?;
        let (watch, view) = (Watch::new(about), View::new());
        Ok(Self { full_screen, began: Instant::now(), watch, view, drawn_at: None })
    }

    /// Time since it was taken: that of its samples.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The workers begin.
    pub(crate) fn begin(&mut self) {
        self.watch.begin(self.now());
        self.drawn_at = None;
    }

    /// Takes what all workers have said.
    pub fn hear(&mut self, sample: Sample) {
        self.watch.hear(sample);
        self.drawn_at = None;
    }

    /// Takes something worth a line.
    pub(crate) fn hear_news(&mut self, line: &str) {
        self.watch.hear_news(self.now(), line);
        self.drawn_at = None;
    }

    /// Handles keys, and draws if there are news. Returns true if a key ends the run.
    ///
    /// # Errors
    /// When the terminal can no longer be used.
    pub(crate) fn turn(&mut self) -> io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            self.drawn_at = None;
            // A terminal of another size is redrawn like any other news.
            let Event::Key(key) = event::read()? else { continue };
            match self.view.press(key, self.watch.rates()) {
                Wish::Quit => return Ok(true),
                Wish::Pause => self.watch.pause(),
                Wish::Stay => {}
            }
        }
        if self.drawn_at.is_none_or(|at| at.elapsed() >= DRAW_INTERVAL) {
            let now = self.now();
            let (watch, view) = (&self.watch, &self.view);
            self.full_screen.draw(|frame| screen::draw(frame, watch, view, now))?;
            self.drawn_at = Some(Instant::now());
        }
        Ok(false)
    }

    /// Restores the terminal, and returns the news as lines.
    pub fn end(self) -> Vec<String> {
        self.watch.news().map(|(at, line)| screen::news_line(*at, line)).collect()
    }
}
