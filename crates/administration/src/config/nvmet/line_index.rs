//! Where the values of a JSON text stand: a line for each path, such as `ports[0].addr.trtype`. The text is known to be
//! JSON, so only its structure is followed.

use std::collections::{HashMap, HashSet};

/// The lines of all values.
#[derive(Debug)]
pub(super) struct LineIndex {
    found: HashMap<String, usize>,
    twice: Option<(usize, String)>,
}

impl LineIndex {
    /// Finds them.
    pub(super) fn of(text: &str) -> Self {
        let mut walk = Walk { bytes: text.as_bytes(), at: 0, line: 1, found: HashMap::new(), twice: None };
        walk.value("");
        Self { found: walk.found, twice: walk.twice }
    }

    /// The first name that an object has for a second time, with its line. Readers of JSON differ in which of the two
    /// values they take.
    pub(super) fn twice(&self) -> Option<(usize, &str)> {
        self.twice.as_ref().map(|(line, path)| (*line, path.as_str()))
    }

    /// The line of a value, or of the nearest one around it.
    pub(super) fn at(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(line) = self.found.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return 1,
            }
        }
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    found: HashMap<String, usize>,
    twice: Option<(usize, String)>,
}

impl Walk<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    /// Goes to the next byte that is not white space or a separator.
    fn skip(&mut self) -> Option<u8> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b':')) {
            self.next();
        }
        self.peek()
    }

    // JSON that serde_json takes is at most 128 levels deep, and so is this.
    fn value(&mut self, path: &str) {
        let Some(first) = self.skip() else { return };
        self.found.insert(path.to_owned(), self.line);
        match first {
            b'{' => self.object(path),
            b'[' => self.array(path),
            b'"' => drop(self.string()),
            _ => {
                while self
                    .peek()
                    .is_some_and(|byte| !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace())
                {
                    self.next();
                }
            }
        }
    }

    fn object(&mut self, path: &str) {
        self.next();
        let mut names = HashSet::new();
        while self.skip().is_some_and(|byte| byte == b'"') {
            let line = self.line;
            let name = self.string();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if !names.insert(name) && self.twice.is_none() {
                self.twice = Some((line, path.clone()));
            }
            self.value(&path);
        }
        self.next();
    }

    fn array(&mut self, path: &str) {
        self.next();
        let mut number = 0;
        while self.skip().is_some_and(|byte| byte != b']') {
            self.value(&format!("{path}[{number}]"));
            number += 1;
        }
        self.next();
    }

    /// A text without its quotes, and with its escapes resolved, since the same name can be written in several ways.
    fn string(&mut self) -> String {
        self.next();
        let start = self.at;
        while let Some(byte) = self.peek().filter(|byte| *byte != b'"') {
            self.next();
            if byte == b'\\' {
                self.next();
            }
        }
        let quoted = self.bytes.get(start - 1..=self.at).unwrap_or_default();
        self.next();
        serde_json::from_slice(quoted).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line() {
        let text = "{\n \"a\": [1, \"x\\\"]}\",\n  {\"b\":\n null}],\n \"c\": {}\n}";
        let lines = LineIndex::of(text);
        for (path, line) in
            [("a", 2), ("a[0]", 2), ("a[1]", 2), ("a[2]", 3), ("a[2].b", 4), ("c", 5), ("c.d.e", 5)]
        {
            assert_eq!(lines.at(path), line, "{path}");
        }
        assert_eq!(lines.twice(), None);
    }

    #[test]
    fn a_name_that_is_there_twice_is_found_however_it_is_written() {
        for (text, expected) in [
            (r#"{"a": {"b": 1}, "a.b": 2, "c": [{"b": 1}, {"b": 1}]}"#, None),
            ("{\"a\": 1,\n\"a\": 1}", Some((2, "a"))),
            (r#"{"a": [{"b": 1, "\u0062": 2}]}"#, Some((1, "a[0].b"))),
        ] {
            assert_eq!(LineIndex::of(text).twice(), expected, "{text}");
        }
    }
}
