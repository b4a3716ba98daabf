//! The flags of `selvedge top`.

use std::time::Duration;

use clap::Args;

use super::control::ControlFlags;

/// What is shown of a running target, and how often.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: arrows choose, Enter opens, Esc goes back, Tab shows the other list, s chooses the column
to sort by, r turns the order round, p pauses, ? explains, q ends.

Examples:
  selvedge top
  selvedge top --interval 0.5 --control unix:/run/selvedge/4420.sock
  selvedge top --once
  selvedge top --batch 60 -o json > minute.jsonl"
)]
pub(crate) struct TopFlags {
    /// Seconds from one look to the next; rates are over that time
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Look for one interval, print it as text or JSON, and end
    #[arg(long, conflicts_with = "batch")]
    pub(crate) once: bool,

    /// The same for N intervals, one after the other; as JSON each is one line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,

    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

impl TopFlags {
    /// How many intervals are printed; `None` for the live view.
    pub(crate) fn intervals(&self) -> Option<u32> {
        if self.once { Some(1) } else { self.batch }
    }
}

/// Shorter intervals would show the asking itself; longer ones are a monitoring system's.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("an interval is between 0.1 and 3600 seconds, not {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_within_reason() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("3600"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "0", "-1", "0.05", "3601", "9e99", "nan", "inf", "1s"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
