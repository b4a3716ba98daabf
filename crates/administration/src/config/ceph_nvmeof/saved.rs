//! A state that was saved: as JSON, an object of keys and values, or as `rados listomapvals` prints it, which is keys and
//! hexadecimal dumps of values.

use std::fmt;

use engine::ceph::Pairs;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{PAIRS_MAX, shown};

/// Bytes of all values: far more than a group has. A dump can say in three lines that a gigabyte is the same.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of a row of a dump.
const ROW: usize = 16;

/// Reads either form.
pub fn read(text: &str) -> Result<Pairs, String> {
    let pairs = if text.trim_start().starts_with('{') { json(text) } else { Dump::new(text).pairs() }?;
    if pairs.len() > PAIRS_MAX {
        return Err(format!("it has more than {PAIRS_MAX} keys"));
    }
    Ok(pairs)
}

/// The members of an object in the order in which they stand there, those that are there twice as well.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collector;
        impl<'de> Visitor<'de> for Collector {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collector)
    }
}

fn json(text: &str) -> Result<Pairs, String> {
    let members: Members = serde_json::from_str(text)
        .map_err(|error| format!("this is not JSON: {}", shown(&error.to_string())))?;
    let mut pairs = Pairs::new();
    for (key, value) in members.0 {
        let value = match value {
            Value::String(text) => text,
            Value::Object(_) | Value::Number(_) => value.to_string(),
            _ => return Err(format!("the value of {} is neither a text nor an object", shown(&key))),
        };
        if pairs.insert(key.clone(), value.into_bytes()).is_some() {
            return Err(format!("{} is given twice", shown(&key)));
        }
    }
    Ok(pairs)
}

/// Unread part of a dump.
struct Dump<'a> {
    lines: std::iter::Peekable<std::iter::Zip<std::ops::RangeFrom<usize>, std::str::Lines<'a>>>,
    bytes: usize,
}

impl<'a> Dump<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: (1..).zip(text.lines()).peekable(), bytes: 0 }
    }

    fn pairs(mut self) -> Result<Pairs, String> {
        let mut pairs = Pairs::new();
        while let Some((number, line)) = self.lines.next() {
            if line.trim().is_empty() {
                continue;
            }
            // Keys with other than printable letters are dumps themselves.
            let key = match length(line, "key") {
                Some(length) => String::from_utf8(self.dump(length)?)
                    .map_err(|_| format!("line {number}: the key is not text"))?,
                None => line.to_owned(),
            };
            let value = self.lines.find(|(_, line)| !line.trim().is_empty());
            let Some(length) = value.and_then(|(_, line)| length(line, "value")) else {
                let what = "no line `value (N bytes) :` follows, as `rados listomapvals` prints it";
                return Err(format!("line {number}: this is neither JSON nor a state: {what}"));
            };
            let value = self.dump(length)?;
            if pairs.insert(key.clone(), value).is_some() {
                return Err(format!("line {number}: {} is given twice", shown(&key)));
            }
        }
        Ok(pairs)
    }

    /// Bytes of this number, in rows of 16. A row of `*` stands for rows like the one before.
    fn dump(&mut self, length: usize) -> Result<Vec<u8>, String> {
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > BYTES_MAX {
            return Err(format!("its values have more than {BYTES_MAX} bytes"));
        }
        let (mut bytes, mut repeats, mut last) = (Vec::with_capacity(length), false, 0);
        let is_row = |line: &str| !line.trim().is_empty() && self::row(line).is_some() || line.trim() == "*";
        while let Some((number, line)) = self.lines.next_if(|(_, line)| is_row(line)) {
            last = number;
            if line.trim() == "*" {
                repeats = true;
                continue;
            }
            let wrong = || format!("line {number}: this row of the dump does not follow the one before");
            let (offset, row) = row(line).ok_or_else(wrong)?;
            if repeats && offset <= length && bytes.len() >= ROW {
                while bytes.len() < offset {
                    bytes.extend_from_within(bytes.len() - ROW..);
                }
            }
            repeats = false;
            if offset != bytes.len() || bytes.len() + row.len() > length {
                return Err(wrong());
            }
            bytes.extend(row);
        }
        if bytes.len() == length {
            return Ok(bytes);
        }
        Err(format!("after line {last}: the dump has {} bytes of {length}", bytes.len()))
    }
}

/// N of a line such as `value (N bytes) :`.
fn length(line: &str, what: &str) -> Option<usize> {
    let rest = line.trim().strip_prefix(what)?.trim_start().strip_prefix('(')?;
    let (number, rest) = rest.split_once(" bytes)")?;
    (rest.trim() == ":").then(|| number.parse().ok())?
}

/// The offset of a row, and its bytes; the last row has an offset alone.
fn row(line: &str) -> Option<(usize, Vec<u8>)> {
    let shown = line.split_once('|').map_or(line, |(row, _)| row);
    let mut words = shown.split_whitespace();
    let offset = words.next().filter(|word| word.len() == 8)?;
    let offset = usize::from_str_radix(offset, 16).ok()?;
    let byte = |word: &str| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok())?;
    let bytes: Vec<u8> = words.map(byte).collect::<Option<_>>()?;
    (bytes.len() <= ROW).then_some((offset, bytes))
}
