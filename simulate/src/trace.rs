//! What the engine says to its log, as lines of the simulation's trace.

use std::fmt::{self, Write};

use engine::simulation;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct TraceSubscriber;

struct TraceLine(String);

impl Visit for TraceLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = if field.name() == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}

impl Subscriber for TraceSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = TraceLine(event.metadata().level().to_string());
        event.record(&mut line);
        simulation::say(|| line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Does something, and keeps what the engine says meanwhile where `keeps`.
pub(crate) fn with<T>(keeps: bool, what: impl FnOnce() -> T) -> T {
    if keeps { tracing::subscriber::with_default(TraceSubscriber, what) } else { what() }
}
