//! The terminal while `top` has all of it, and its way back to what it was: at the end, after an error, and when
//! something panics. What is drawn is the screen's.

use std::io::{self, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// Whether the terminal is ours and has to be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, all of it. It is given back when this is dropped.
pub(crate) struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When there is none, or it does not do what it is asked; then it is as before.
    pub(crate) fn take() -> io::Result<Self> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            // What a panic says is to be read on the screen there was before.
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| enter(&mut io::stdout()))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws everything anew; only what is different is sent.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if it is ours; whoever comes second finds that it is done.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There is nobody left to tell of a terminal that has gone.
        let _ = leave(&mut io::stdout());
        let _ = disable_raw_mode();
    }
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
