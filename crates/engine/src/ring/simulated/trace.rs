//! Trace of a simulation: a fingerprint of all events, and the last of them as text for the
//! analysis of a failure.

use std::collections::VecDeque;

use crate::ring::Moment;

/// Lines that are kept.
const LINES_MAX: usize = 20_000;

#[derive(Debug)]
pub(super) struct Trace {
    fingerprint: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(super) fn new(keeps_text: bool) -> Self {
        Self { fingerprint: 0xcbf2_9ce4_8422_2325, lines: keeps_text.then(VecDeque::new) }
    }

    /// Takes a number into the fingerprint.
    pub(super) const fn note(&mut self, now: Moment, number: u64) {
        self.fingerprint = (self.fingerprint ^ now.0).wrapping_mul(0x0100_0000_01b3);
        self.fingerprint = (self.fingerprint ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    }

    /// Keeps a line, where lines are kept.
    pub(super) fn say(&mut self, now: Moment, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(format!("{:12.6} {}", now.0 as f64 / 1e9, line()));
        }
    }

    pub(super) const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().flatten().cloned().collect()
    }
}
