//! Numbers as people read them: three digits and a unit. JSON has the bare numbers.

/// A count, such as IOPS: `812`, `81.2 k`, `1.20 M`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, &[(1e6, " M"), (1e3, " k")], "")
}

/// Bytes per second, in decimal units as network speeds are: `3.33 GB/s`.
pub(crate) fn bandwidth(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s")], " B/s")
}

/// A time: `850 ns`, `61.4 µs`, `1.20 ms`, `2.00 s`.
pub(crate) fn time_ns(nanoseconds: f64) -> String {
    scaled(nanoseconds, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns")
}

fn scaled(value: f64, units: &[(f64, &str)], base: &str) -> String {
    for (scale, name) in units {
        // What would round up to 1000 of the smaller unit is shown in the larger one.
        if value >= scale * 0.9995 {
            return digits(value / scale) + name;
        }
    }
    format!("{value:.0}{base}")
}

fn digits(value: f64) -> String {
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A whole number with commas: `65,536`.
pub(crate) fn grouped(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() * 4 / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 queue`, `2 queues`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, shown) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.9, "1.00 k"),
            (1000.0, "1.00 k"),
            (81_234.0, "81.2 k"),
            (99_960.0, "100 k"),
            (812_345.0, "812 k"),
            (1_200_000.0, "1.20 M"),
        ] {
            assert_eq!(count(value), shown);
        }
        assert_eq!(bandwidth(3.333e9), "3.33 GB/s");
        assert_eq!(time_ns(850.0), "850 ns");
        assert_eq!(time_ns(61_400.0), "61.4 µs");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(65_536), "65,536");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(plural(1, "queue"), "1 queue");
        assert_eq!(plural(4, "queue"), "4 queues");
    }
}
