//! Numbers as people read them: three digits and a unit. JSON has the bare numbers.

use super::chart::Unit;

/// A count, such as IOPS: `812`, `81.2 k`, `1.20 M`.
pub fn count(value: f64) -> String {
    scaled(value, &[(1e6, " M"), (1e3, " k")], "")
}

/// Bytes per second, in decimal units as network speeds are: `3.33 GB/s`.
pub fn bandwidth(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s")], " B/s")
}

/// A time: `850 ns`, `61.4 µs`, `1.20 ms`, `2.00 s`. No latency is 0, so that 0 is a time that is not known: `-`.
pub fn time_ns(nanoseconds: f64) -> String {
    if nanoseconds == 0.0 {
        return "-".to_owned();
    }
    scaled(nanoseconds, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns")
}

/// Bytes, in binary units as block sizes are: `4 KiB`, `1.50 GiB`.
pub fn bytes(bytes: f64) -> String {
    for (scale, name) in BINARY {
        if bytes >= *scale {
            return trimmed(digits(bytes / scale)) + name;
        }
    }
    format!("{bytes:.0} B")
}

/// A number of an axis or a table with the unit that it has there: `812 k`, `61.4 µs`, `98.2 %`, `1.20×`.
/// A number that is none is a dash.
pub fn quantity(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value < 0.0 {
        return format!("−{}", quantity(unit, -value));
    }
    match unit {
        Unit::Count if value.fract() != 0.0 && value < 1e3 => trimmed(format!("{value:.2}")),
        Unit::Count if value < GROUPED_MAX => grouped(value.round() as u64),
        Unit::Count | Unit::Iops => count(value),
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => bandwidth(value),
        Unit::Nanoseconds => time_ns(value),
        Unit::Seconds if value == 0.0 => "0 s".to_owned(),
        Unit::Seconds => time_ns(value * 1e9),
        Unit::Percent => format!("{} %", digits(value)),
        Unit::Ratio => format!("{}×", digits(value)),
    }
}

/// An end of an interval, or of a range, where 0 is a number: `0`, `61.4 µs`.
pub fn bound(unit: Unit, value: f64) -> String {
    if unit == Unit::Nanoseconds && value == 0.0 { "0".to_owned() } else { quantity(unit, value) }
}

/// A ratio with the longer side of its interval, which has as many decimals and is no less than one of the last:
/// `1.23 ± 0.04`.
pub fn ratio(value: f64, interval: Option<(f64, f64)>) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let sides = interval.map(|(low, high)| (high - value).max(value - low));
    let Some(side) = sides.filter(|side| side.is_finite() && *side > 0.0) else { return digits(value) };
    let decimals = decimals(value);
    let least = 0.1_f64.powi(decimals as i32);
    format!("{} ± {:.decimals$}", digits(value), side.max(least))
}

/// A number, and how far it is known, where that is: `635 k` and `±3.0 %`, `1.23` and `± 0.04`.
pub fn parted(unit: Unit, value: f64, interval: Option<(f64, f64)>) -> (String, Option<String>) {
    if unit == Unit::Ratio {
        let text = ratio(value, interval);
        return match text.split_once(' ') {
            Some((number, rest)) => (number.to_owned(), Some(rest.to_owned())),
            None => (text, None),
        };
    }
    (quantity(unit, value), interval.and_then(|interval| spread(value, interval)))
}

/// The same in one text: `635 k ±3.0 %`, `1.23 ± 0.04`.
pub fn measured(unit: Unit, value: f64, interval: Option<(f64, f64)>) -> String {
    match parted(unit, value, interval) {
        (number, Some(spread)) => format!("{number} {spread}"),
        (number, None) => number,
    }
}

/// Half-width of the interval around a value, in percent: `±1.2 %`. None if it has no such share.
pub fn spread(value: f64, (low, high): (f64, f64)) -> Option<String> {
    let share = 100.0 * (high - value).max(value - low) / value.abs();
    match share {
        share if !share.is_finite() || share < 0.0 => None,
        share if share > 999.0 => Some("±999 % or more".to_owned()),
        share => {
            Some(format!("±{} %", if share < 9.95 { format!("{share:.1}") } else { format!("{share:.0}") }))
        }
    }
}

/// A round number on an axis, as short as it can be, in the unit that suits `reference`: `0.5 ms`, `200 k`.
pub fn tick(unit: Unit, value: f64, reference: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if unit == Unit::Count && value.abs() < 1e6 && value.fract() == 0.0 {
        let sign = if value < 0.0 { "−" } else { "" };
        return format!("{sign}{}", grouped(value.abs() as u64));
    }
    let (scales, base): (&[(f64, &str)], &str) = match unit {
        Unit::Count | Unit::Iops => (&[(1e9, " G"), (1e6, " M"), (1e3, " k")], ""),
        Unit::Bytes => (BINARY, " B"),
        Unit::BytesPerSecond => (&[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s")], " B/s"),
        Unit::Nanoseconds => (&[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns"),
        Unit::Seconds => (&[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs")], " s"),
        Unit::Percent => (&[], " %"),
        Unit::Ratio => (&[], "×"),
    };
    // What rounding has made a little smaller than a unit is that unit.
    let found = scales.iter().find(|(scale, _)| reference.abs() >= scale * (1.0 - 1e-9));
    let (scale, name) = found.copied().unwrap_or((1.0, base));
    let number = value / scale;
    let text = match number.abs() {
        size if !(1e-4..1e6).contains(&size) => format!("{number:.0e}"),
        _ => trimmed(format!("{number:.4}")),
    };
    text.replace('-', "−") + name
}

/// The scales of bytes, the greatest first.
const BINARY: &[(f64, &str)] = &[
    ((1_u64 << 40) as f64, " TiB"),
    ((1_u64 << 30) as f64, " GiB"),
    ((1_u64 << 20) as f64, " MiB"),
    ((1_u64 << 10) as f64, " KiB"),
];

/// Counts of this and more are easier to read with a letter than with commas.
const GROUPED_MAX: f64 = 1e9;

/// Without zeros at the end of its decimals.
fn trimmed(number: String) -> String {
    if number.contains('.') {
        return number.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    number
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
    format!("{value:.0$}", decimals(value))
}

fn decimals(value: f64) -> usize {
    match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    }
}

/// A whole number with commas: `65,536`.
pub fn grouped(value: u64) -> String {
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
pub fn plural(count: u64, noun: &str) -> String {
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

    #[test]
    fn quantities_have_their_unit() {
        for (unit, value, shown) in [
            (Unit::Count, 1_024.0, "1,024"),
            (Unit::Count, 2.5, "2.5"),
            (Unit::Iops, 81_234.0, "81.2 k"),
            (Unit::Bytes, 4096.0, "4 KiB"),
            (Unit::Bytes, 1.5 * 1024.0 * 1024.0, "1.5 MiB"),
            (Unit::BytesPerSecond, 3.333e9, "3.33 GB/s"),
            (Unit::Nanoseconds, 61_400.0, "61.4 µs"),
            (Unit::Seconds, 30.0, "30.0 s"),
            (Unit::Percent, 98.24, "98.2 %"),
            (Unit::Ratio, 1.2, "1.20×"),
            (Unit::Percent, -3.5, "−3.50 %"),
            (Unit::Iops, f64::NAN, "–"),
        ] {
            assert_eq!(quantity(unit, value), shown);
        }
    }

    #[test]
    fn a_ratio_has_as_many_decimals_as_its_interval() {
        for (value, interval, shown) in [
            (1.234, None, "1.23"),
            (1.234, Some((1.2, 1.27)), "1.23 ± 0.04"),
            (1.234, Some((0.9, 1.6)), "1.23 ± 0.37"),
            (1.234, Some((1.233, 1.235)), "1.23 ± 0.01"),
            (12.34, Some((11.0, 13.0)), "12.3 ± 1.3"),
            (0.5, Some((0.5, 0.5)), "0.50"),
            (1.0, Some((0.0, f64::INFINITY)), "1.00"),
            (f64::NAN, None, "-"),
        ] {
            assert_eq!(ratio(value, interval), shown);
        }
        assert_eq!(
            parted(Unit::Ratio, 2.0, Some((1.9, 2.1))),
            ("2.00".to_owned(), Some("± 0.10".to_owned()))
        );
        assert_eq!(measured(Unit::Iops, 635e3, Some((600e3, 670e3))), "635 k ±5.5 %");
    }

    #[test]
    fn no_latency_is_nothing() {
        assert_eq!((time_ns(0.0).as_str(), time_ns(0.6).as_str()), ("-", "1 ns"));
        assert_eq!(quantity(Unit::Nanoseconds, 0.0), "-");
        assert_eq!(bound(Unit::Nanoseconds, 0.0), "0");
        assert_eq!(quantity(Unit::Seconds, 0.0), "0 s");
    }

    #[test]
    fn a_spread_is_the_longer_side() {
        assert_eq!(spread(100.0, (98.5, 101.0)).as_deref(), Some("±1.5 %"));
        assert_eq!(spread(100.0, (60.0, 101.0)).as_deref(), Some("±40 %"));
        assert_eq!(spread(0.0, (0.0, 1.0)), None);
        assert_eq!(spread(1.0, (f64::NAN, f64::NAN)), None);
    }

    #[test]
    fn ticks_are_short() {
        for (unit, value, reference, shown) in [
            (Unit::Iops, 200_000.0, 500_000.0, "200 k"),
            (Unit::Iops, 500_000.0, 2_000_000.0, "0.5 M"),
            (Unit::Nanoseconds, 500_000.0, 1_500_000.0, "0.5 ms"),
            (Unit::Seconds, 0.5, 0.5, "500 ms"),
            (Unit::Seconds, 20.0, 60.0, "20 s"),
            (Unit::Count, 1024.0, 1024.0, "1,024"),
            (Unit::Bytes, 131_072.0, 131_072.0, "128 KiB"),
            (Unit::Percent, -2.0, 4.0, "−2 %"),
            (Unit::Ratio, 0.25, 1.0, "0.25×"),
            (Unit::Iops, 0.0, 1.0, "0"),
            (Unit::Percent, 1e9, 1e9, "1e9 %"),
        ] {
            assert_eq!(tick(unit, value, reference), shown);
        }
    }
}
