//! Times of seconds and more, for people.

use std::time::Duration;

/// A time as people say it: `45 s`, `12 min 30 s`, `3 h 20 min`, `2 d 4 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        for (seconds, said) in [
            (5.4, "5 s"),
            (59.6, "1 min 0 s"),
            (750.0, "12 min 30 s"),
            (12_000.0, "3 h 20 min"),
            (187_300.0, "2 d 4 h"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), said);
        }
    }
}
