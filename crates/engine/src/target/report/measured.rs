//! The reader of what `exposition` writes: samples of Prometheus's text format with their labels. What they mean is for
//! the reader's caller to say. The crates there are write this format or read another one (OpenMetrics), and copy all of
//! a text where `top` and a sweep look at a few lines of it.

use std::collections::BTreeMap;

/// Values by their names.
type Labels<'a> = BTreeMap<&'a str, String>;

/// A line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured<'a> {
    /// The metric, or a part of a histogram.
    pub name: &'a str,
    /// By name.
    pub labels: Labels<'a>,
    /// The number.
    pub value: f64,
}

impl Measured<'_> {
    /// The label of this name, empty where there is none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The label of this name as a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.label(name).parse().ok()
    }

    /// The value as a count, where it is one.
    pub fn count(&self) -> u64 {
        // A cast saturates, and makes 0 of what is not a number.
        self.value as u64
    }
}

impl<'a> Measured<'a> {
    /// Reads one line that is not a comment. What could be read in two ways is refused.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn parse(line: &'a str) -> Result<Self, &'static str> {
        let end = line.find(['{', ' ']).ok_or("there is no value")?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (BTreeMap::new(), rest),
        };
        // A timestamp may follow.
        let value = rest.split_whitespace().next().ok_or("there is no value")?;
        let value = value.parse().map_err(|_| "the value is not a number")?;
        if is_name(name) { Ok(Measured { name, labels, value }) } else { Err("this is not a metric's name") }
    }

    /// All samples of a text. What is not one is left out: a later version may say more.
    pub fn all(text: &'a str) -> impl Iterator<Item = Measured<'a>> {
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Measured::parse(line).ok())
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == ':';
    name.starts_with(is_letter) && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

/// The labels that `text` begins with, and what comes after their closing brace.
fn labels(mut text: &str) -> Result<(Labels<'_>, &str), &'static str> {
    let mut labels = BTreeMap::new();
    if let Some(rest) = text.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, rest) = text.split_once("=\"").ok_or("a label has no value")?;
        let (value, rest) = quoted(rest)?;
        if !is_name(name) || labels.insert(name, value).is_some() {
            return Err("a label stands twice, or is not a name");
        }
        match rest.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return rest.strip_prefix('}').map(|rest| (labels, rest)).ok_or("labels do not end"),
        }
    }
}

/// A label's value up to its closing quote, and what comes after that.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                _ => return Err("nothing is escaped like this"),
            },
            other => value.push(other),
        }
    }
    Err("a label's value does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text =
            "# HELP a b\n# TYPE a counter\na{b=\"x\\\\y\\\"z\\nw é{},=\",c=\"7\"} 12\nplain 0.5 1700000000\n";
        let samples: Vec<Measured<'_>> = Measured::all(text).collect();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].name, samples[0].label("b")), ("a", "x\\y\"z\nw é{},="));
        assert_eq!((samples[0].number::<u16>("c"), samples[0].count()), (Some(7), 12));
        assert_eq!((samples[1].name, samples[1].value), ("plain", 0.5));
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        let text = "\n{} 1\na\na{\na{b\na{b=\"\na{b=\"c\na{b=\"c\\\na{b=\"c\"\na{b=\"c\"}\na{b=\"c\"} x\nlast{} +Inf\n";
        let names: Vec<&str> = Measured::all(text).map(|sample| sample.name).collect();
        assert_eq!(names, ["last"]);
        assert_eq!(Measured { name: "", labels: BTreeMap::new(), value: f64::NAN }.count(), 0);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for line in [
            "a{b=\"c\" d=\"e\"} 1",
            "a{b=\"c\",b=\"d\"} 1",
            "a{b=\"\\x\"} 1",
            "a{=\"c\"} 1",
            "1a 1",
            "{} 1",
            "a{b=\"c\",} 1",
        ] {
            assert!(Measured::parse(line).is_err(), "{line}");
        }
    }
}
