//! Sizes, counts, times and flags as fio reads them.

use std::time::Duration;

use super::extent::Extent;
use super::size::Size;

/// Parses sizes and counts: `k` and `Ki` stand for 1,024. fio's `KiB` for 1,000 would surprise
/// users.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    if unit.ends_with("ib") {
        return Err(format!(
            "fio counts `{text}` in 1,000s: write k, m or g for 1,024s, or the number itself"
        ));
    }
    let unit = if unit.len() == 2 { unit.trim_end_matches('i') } else { &unit };
    let size = format!("{digits}{unit}").parse::<Size>();
    let (read, given) = (format!("`{digits}{unit}`"), format!("`{text}`"));
    size.map(|size| size.0).map_err(|error| error.to_string().replace(&read, &given))
}

/// A number from `least` to `most`.
pub fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = number(text).map_err(|error| error.replace("is not a size", "is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} is not from {least} to {most}"))
    }
}

/// A size, or a share of the namespace.
pub fn extent(text: &str) -> Result<Extent, String> {
    if text.ends_with('%') { text.parse() } else { number(text).map(Extent::Bytes) }
}

/// The value of a list for reads, writes and trims, where reads and writes have the same one.
pub fn same_for_all(text: &str) -> Option<&str> {
    let mut values = text.split(',').map(str::trim);
    let reads = values.next()?;
    let is_same = match (values.next(), values.next(), values.next()) {
        (None, ..) => true,
        // Nothing is trimmed here.
        (Some(writes), _, None) => writes == reads || number(writes).is_ok_and(|it| number(reads) == Ok(it)),
        _ => false,
    };
    is_same.then_some(reads)
}

/// The one size that a `bsrange` or `bssplit` comes to.
pub fn only_size<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    let mut only = None;
    for part in text.split(',').take(2) {
        let size = match name {
            "bsrange" | "blocksize_range" => {
                let (least, most) = part.split_once(['-', ':'])?;
                (number(least) == number(most)).then_some(least)?
            }
            _ => match part.split_once('/') {
                None => part,
                Some((size, "" | "100")) => size,
                Some(_) => return None,
            },
        };
        if only.is_some_and(|only| number(only) != number(size)) {
            return None;
        }
        only = only.or(Some(size));
    }
    only.filter(|size| number(size).is_ok())
}

/// A time: seconds, or with a unit. Others than fio's are refused: it counts `10sec` and `10min` in microseconds, and `10 m` in
/// seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let hint = || format!("`{text}` is not a time: write 10, 10s, 500ms or 2m");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_us: u64 = match unit {
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "" | "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(hint()),
    };
    let number: u64 = number.parse().map_err(|_| hint())?;
    number.checked_mul(unit_us).map(Duration::from_micros).ok_or_else(hint)
}

/// Yes or no; an option without a value says yes.
pub fn flag(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("`{text}` is neither 1 nor 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_fio() {
        // As fio 3.33 takes them for bs and size.
        for (text, bytes) in
            [("1Mi", 1 << 20), ("64Ki", 65_536), ("1mi", 1 << 20), ("64kb", 65_536), ("1M", 1 << 20)]
        {
            assert_eq!(number(text), Ok(bytes), "{text}");
        }
        for text in ["1MiB", "64kib"] {
            assert!(number(text).unwrap_err().contains("1,000s"), "{text}");
        }
        for text in ["4i", "i", "Mi", "4kii", "", "4%", "four"] {
            let error = number(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{text}: {error}");
        }
    }

    #[test]
    fn times_have_the_units_of_fio() {
        for (text, us) in [("10", 10_000_000), ("10s", 10_000_000), ("2m", 120_000_000), ("7usec", 7)] {
            assert_eq!(time(text), Ok(Duration::from_micros(us)), "{text}");
        }
        for text in ["10sec", "10min", "10 m", "10 s", "m", ""] {
            assert!(time(text).unwrap_err().contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn lists_that_say_one_thing_are_that() {
        assert_eq!(
            ["4k", "4k,4k", "4k,4096,64k", "4k,8k", "4k,", ",4k", "1,1,1,1"].map(same_for_all),
            [Some("4k"), Some("4k"), Some("4k"), None, None, None, None]
        );
        for (name, text, size) in [
            ("bsrange", "4k-4k", Some("4k")),
            ("bsrange", "4k-4k,4096-4k", Some("4k")),
            ("bsrange", "4k:4k", Some("4k")),
            ("bsrange", "4k-8k", None),
            ("bsrange", "4k-4k,8k-8k", None),
            ("bsrange", "4k", None),
            ("bsrange", "x-x", None),
            ("bssplit", "4k", Some("4k")),
            ("bssplit", "4k/100", Some("4k")),
            ("bssplit", "4k/50:8k/50", None),
            ("bssplit", "4k/100,8k/100", None),
        ] {
            assert_eq!(only_size(name, text), size, "{name}={text}");
        }
    }
}
