//! Times in UTC, in the formats of `ctime` and RFC 3339. Time zones are not handled here.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in the Gregorian calendar.
struct Date {
    year: u64,
    /// From 1 on.
    month: u64,
    day: u64,
    /// Days since a Thursday.
    days: u64,
    seconds: u64,
}

impl Date {
    fn of(seconds: u64) -> Self {
        let days = seconds / 86_400;
        // Years begin in March here, so that a leap day is the last of its year; 719,468 days are from then to 1970.
        let since = days + 719_468;
        let (era, in_era) = (since / 146_097, since % 146_097);
        let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * in_year + 2) / 153;
        let day = in_year - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year_of_era + u64::from(month >= 10);
        Self { year, month: (month + 2) % 12 + 1, day, days, seconds: seconds % 86_400 }
    }

    fn time(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60)
    }
}

/// Formats seconds since 1970 as C's `ctime`.
pub(crate) fn ctime(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let date = Date::of(seconds);
    let (day, month) = (DAYS[(date.days % 7) as usize], MONTHS[date.month as usize - 1]);
    format!("{day} {month} {:2} {} {}", date.day, date.time(), date.year)
}

/// The day as RFC 3339 has it: `2026-11-22`.
pub fn date(moment: SystemTime) -> String {
    let mut text = text(moment);
    text.truncate("2026-11-22".len());
    text
}

/// Formats a time as RFC 3339: `2026-11-22T13:20:42Z`.
pub fn text(moment: SystemTime) -> String {
    let date = Date::of(moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
    format!("{:04}-{:02}-{:02}T{}Z", date.year, date.month, date.day, date.time())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_others_write_them() {
        for (seconds, expected, short) in [
            (0, "1970-01-01T00:00:00Z", "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "2000-02-28T23:59:59Z", "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "2000-02-29T00:00:00Z", "Tue Feb 29 00:00:00 2000"),
            (1_795_344_529, "2026-11-22T10:48:49Z", "Sun Nov 22 10:48:49 2026"),
            (4_107_542_400, "2100-03-01T00:00:00Z", "Mon Mar  1 00:00:00 2100"),
        ] {
            assert_eq!(text(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), expected[..10]);
            assert_eq!(ctime(seconds), short);
        }
    }
}
