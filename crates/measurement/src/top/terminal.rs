//! The terminal while a view has all of it, and its way back to what it was: at the end, after an error, and when
//! something panics. What is drawn is the screen's.

use std::io::{self, BufWriter, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use crate::report::locale;

/// Stream whose terminal must be restored; 0 for none.
static TAKEN: AtomicU8 = AtomicU8::new(0);
static HOOK: Once = Once::new();

/// By which of this process's streams the terminal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    Stdout = 1,
    /// For those whose results go to stdout.
    Stderr = 2,
}

impl Stream {
    fn writer(self) -> Box<dyn Write> {
        match self {
            Self::Stdout => Box::new(io::stdout()),
            // It has no buffer of its own, and a screen is written in many small pieces.
            Self::Stderr => Box::new(BufWriter::new(io::stderr())),
        }
    }
}

/// The terminal, all of it. It is given back when this is dropped.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<Box<dyn Write>>>,
}

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When there is none, or it does not do what it is asked; then it is as before.
    pub fn take(stream: Stream) -> io::Result<Self> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            // What a panic says is to be read on the screen there was before.
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        TAKEN.store(stream as u8, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| enter(&mut stream.writer()))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stream.writer())));
        match taken {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Redraws everything; only differences are sent.
    ///
    /// # Errors
    /// When the terminal does not take it, and when a panic has given it back.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if TAKEN.load(Ordering::SeqCst) == 0 {
            return Err(io::Error::other("it was given back after a panic"));
        }
        self.terminal
            .draw(|frame| {
                draw(frame);
                if locale::is_ascii_only() {
                    let cells =
                        frame.buffer_mut().content.iter_mut().filter(|cell| !cell.symbol().is_ascii());
                    cells.for_each(|cell| {
                        let shown = locale::shown(cell.symbol()).into_owned();
                        cell.set_symbol(&shown);
                    });
                }
            })
            .map(drop)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal once; later calls do nothing.
fn give_back() {
    let stream = match TAKEN.swap(0, Ordering::SeqCst) {
        0 => return,
        taken if taken == Stream::Stderr as u8 => Stream::Stderr,
        _ => Stream::Stdout,
    };
    // Without the terminal, the error can be shown to no user.
    let _ = leave(&mut stream.writer());
    let _ = disable_raw_mode();
}

fn enter(out: &mut impl Write) -> io::Result<()> {
    execute!(out, EnterAlternateScreen, Hide)
}

fn leave(out: &mut impl Write) -> io::Result<()> {
    execute!(out, LeaveAlternateScreen, Show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let (mut taken, mut given) = (Vec::new(), Vec::new());
        enter(&mut taken).unwrap();
        leave(&mut given).unwrap();
        assert_eq!(taken, b"\x1b[?1049h\x1b[?25l");
        assert_eq!(given, b"\x1b[?1049l\x1b[?25h");
    }
}
