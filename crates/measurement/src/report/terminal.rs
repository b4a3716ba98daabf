//! Width of the terminal. Pipes and files have no width, and output to them is never wrapped.

use std::io::IsTerminal as _;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::termios::tcgetwinsize;

/// Columns that results are fitted into; 0 for no limit.
static COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// Looks at stdout once, for all that is printed there from now on. Until then nothing is broken, as in tests.
pub fn look() {
    let typed = std::env::var("COLUMNS").ok().and_then(|text| typed(&text));
    let columns =
        if std::io::stdout().is_terminal() { typed.or_else(|| width(std::io::stdout())) } else { None };
    COLUMNS.store(columns.unwrap_or(0), Ordering::Relaxed);
}

/// Columns for results; `None` without a terminal.
pub fn columns() -> Option<usize> {
    Some(COLUMNS.load(Ordering::Relaxed)).filter(|columns| *columns > 0)
}

/// Columns of the terminal on stderr as it is now, if it is one that says so.
pub(crate) fn stderr_columns() -> Option<usize> {
    width(std::io::stderr())
}

fn width(stream: impl AsFd) -> Option<usize> {
    tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Reads the width from an environment variable such as COLUMNS.
fn typed(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_width_is_taken_from_the_environment() {
        assert_eq!(typed("80"), Some(80));
        for wrong in ["", "0", "-1", "wide"] {
            assert_eq!(typed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_terminal_has_no_width() {
        assert_eq!(width(std::fs::File::open("/dev/null").unwrap()), None);
        assert_eq!(columns(), None, "stdout is not a terminal");
    }
}
