//! What the engine says to its log, as lines of the simulation's trace; and what it must never say.

use std::fmt::{self, Write};

use engine::simulation;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What one end says of the other when that broke the rules: both are ours.
const ACCUSATIONS: [&str; 4] = [
    " misbehaved: ",
    " sent what no NVMe/TCP target sends",
    " ended the connection: ",
    "no conforming host sends",
];

/// Who says it.
const BLAMERS: [&str; 2] = ["engine::initiator::queue", "engine::target::connection"];

struct Lines {
    keeps: bool,
    /// Nothing befalls anybody, so that no connection is lost.
    is_calm: bool,
}

impl Lines {
    /// What is wrong with a line.
    fn fault(&self, line: &str) -> Option<&'static str> {
        if ACCUSATIONS.iter().any(|accusation| line.contains(accusation)) {
            return Some("an end broke the protocol");
        }
        // Hosts may come before targets.
        let is_usual =
            ["was closed by this host", "cannot connect to"].iter().any(|known| line.contains(known));
        let is_lost = line.contains("queue closed") && !is_usual;
        (self.is_calm && is_lost).then_some("a connection was lost for no reason")
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = if field.name() == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.keeps || BLAMERS.contains(&metadata.target())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        if let Some(fault) = self.fault(&line.0) {
            simulation::fail(format!("{fault}: {}", line.0));
        }
        simulation::say(|| line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Does something, and keeps what the engine says meanwhile where `keeps`.
pub(crate) fn with<T>(keeps: bool, is_calm: bool, what: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(Lines { keeps, is_calm }, what)
}
