//! Text format of Prometheus (0.0.4): units, labels and how they are escaped.

use std::fmt::{self, Display, Write};

use crate::target::telemetry::Histogram;

/// The text format's name, as an HTTP answer has it in its Content-Type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of a sample, by name.
pub(super) type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// Escapes what is written through it, as a label's value wants it.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                _ => self.0.push(character),
            }
        }
        Ok(())
    }
}

/// A whole number of `1 / 10^digits` seconds, written in seconds without rounding.
pub(super) struct Seconds {
    count: u128,
    digits: u32,
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u128.pow(self.digits);
        write!(f, "{}.{:0digits$}", self.count / unit, self.count % unit, digits = self.digits as usize)
    }
}

pub(super) const fn from_ns(nanoseconds: u128) -> Seconds {
    Seconds { count: nanoseconds, digits: 9 }
}

/// The text as it grows. Writing to a string cannot fail, so that errors are left alone.
#[derive(Debug, Default)]
pub struct Exposition(pub(super) String);

impl Exposition {
    /// Begins a metric, whose samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a value with its labels.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            let _ = write!(Escaping(&mut self.0), "{text}");
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Writes a histogram with its labels, in seconds.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let (bucket, count) = (format!("{name}_bucket"), histogram.count());
        let ends = histogram.cumulative().map(|(end_us, commands)| {
            let end = Seconds { count: u128::from(end_us), digits: 6 };
            (end.to_string(), commands)
        });
        for (end, commands) in ends.chain([("+Inf".to_owned(), count)]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &end as &dyn Display)]).collect();
            self.sample(&bucket, &labels, commands);
        }
        self.sample(&format!("{name}_sum"), labels, from_ns(histogram.sum_ns.into()));
        self.sample(&format!("{name}_count"), labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.sample("a", &[("b", &"x\\y\"z\nw é{},="), ("c", &7)], 1);
        assert_eq!(text.0, "a{b=\"x\\\\y\\\"z\\nw é{},=\",c=\"7\"} 1\n");
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds { count: 1, digits: 6 }.to_string(), "0.000001");
        assert_eq!(Seconds { count: 1 << 24, digits: 6 }.to_string(), "16.777216");
        assert_eq!(from_ns(1_000_000_007).to_string(), "1.000000007");
    }
}
