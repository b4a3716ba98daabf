//! Flags of `top`.

use std::time::Duration;

use clap::Args;

use super::control::ControlFlags;
use super::interval::parse_interval;

/// Options of `top`.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: arrows select, Enter opens, Esc goes back, Tab shows the other list, s selects the column
to sort by, r reverses the order, p pauses, ? shows help, q quits.

Examples:
  selvedge top
  selvedge top --interval 0.5 --control unix:/run/selvedge/4420.sock
  selvedge top --once
  selvedge top --batch 60 -o json > minute.jsonl"
)]
pub(crate) struct TopFlags {
    /// Interval in seconds, over which rates are computed
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Print one interval as text or JSON, and exit
    #[arg(long, conflicts_with = "batch")]
    pub(crate) once: bool,

    /// Number of consecutive intervals to print; as JSON, each is one line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,

    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

impl TopFlags {
    /// Returns the number of intervals to print; `None` for the live view.
    pub(crate) fn intervals(&self) -> Option<u32> {
        if self.once { Some(1) } else { self.batch }
    }
}
