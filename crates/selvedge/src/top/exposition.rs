//! Reads Prometheus's text format as far as a target writes it: samples with their labels. What they mean is the
//! sample's.

use std::collections::BTreeMap;

/// A line with a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: BTreeMap<&'a str, String>,
    pub(crate) value: f64,
}

impl Measured<'_> {
    /// The label of this name, empty where there is none.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The label of this name as a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.label(name).parse().ok()
    }

    /// The value as a count, where it is one.
    pub(crate) fn count(&self) -> u64 {
        // A cast saturates, and makes 0 of what is no number.
        self.value as u64
    }
}

/// All samples of a text. What is no sample is left out: a later version may say more.
pub(crate) fn read(text: &str) -> impl Iterator<Item = Measured<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line)
}

fn line(line: &str) -> Option<Measured<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Measured { name, labels, value })
}

/// The labels that `text` begins with, and what comes after their closing brace.
fn labels(mut text: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(name, value);
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// A label's value up to its closing quote, and what comes after that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text =
            "# HELP a b\n# TYPE a counter\na{b=\"x\\\\y\\\"z\\nw é{},=\",c=\"7\"} 12\nplain 0.5 1700000000\n";
        let samples: Vec<Measured<'_>> = read(text).collect();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].name, samples[0].label("b")), ("a", "x\\y\"z\nw é{},="));
        assert_eq!((samples[0].number::<u16>("c"), samples[0].count()), (Some(7), 12));
        assert_eq!((samples[1].name, samples[1].value), ("plain", 0.5));
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        let text = "\n{} 1\na\na{\na{b\na{b=\"\na{b=\"c\na{b=\"c\\\na{b=\"c\"\na{b=\"c\"}\na{b=\"c\"} x\nlast{} +Inf\n";
        let names: Vec<&str> = read(text).map(|sample| sample.name).collect();
        assert_eq!(names, ["", "last"]);
        assert_eq!(Measured { name: "", labels: BTreeMap::new(), value: f64::NAN }.count(), 0);
    }
}
