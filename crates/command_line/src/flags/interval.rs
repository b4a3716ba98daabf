//! Interval between samples, in seconds.

use std::time::Duration;

/// Parses an interval. Shorter ones would show the cost of sampling; longer ones belong to a
/// monitoring system.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
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
