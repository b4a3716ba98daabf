//! Where the engine's seam is the only way to threads and clocks: what is built for the simulation, too, would stop its one thread,
//! or tell it the wrong time.

use crate::source::{code_only, line_of};

/// Code that takes the machine by `engine::ring`, and what of it stands for the machine.
const BEHIND_THE_SEAM: [&str; 6] = [
    "crates/gateway/src/",
    "crates/engine/src/hand_over/",
    "crates/engine/src/target/",
    "crates/engine/src/initiator/",
    "crates/engine/src/secure_stream/",
    "crates/engine/src/ceph/",
];
const THE_MACHINE: [&str; 1] = ["crates/engine/src/ceph/real/"];

/// Names that only the seam may use, and their replacements there.
const BY_THE_SEAM: [(&str, &str); 3] =
    [("std::thread", "ring::thread"), ("Instant::now", "ring::now"), ("SystemTime::now", "ring::wall_time")];

/// True if a file has nothing but tests.
pub(crate) fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("races.rs")
}

/// The code before the tests of a file.
pub(crate) fn without_tests(code: &str) -> &str {
    let mut attributes = code.match_indices("#[cfg(");
    let begin = attributes.find(|(at, _)| {
        let (attribute, rest) = code[*at..].split_once(']').unwrap_or_default();
        let is_of_tests = ["(test", "test)"].iter().any(|word| attribute.contains(word));
        let line = rest.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#["));
        is_of_tests && line.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    });
    begin.map_or(code, |(at, _)| &code[..at])
}

/// Finds uses in a file that go round the seam.
pub(crate) fn judge(path: &str, text: &str, problems: &mut Vec<String>) {
    let is_behind = BEHIND_THE_SEAM.iter().any(|folder| path.starts_with(folder));
    if !is_behind || is_of_tests(path) || THE_MACHINE.iter().any(|folder| path.starts_with(folder)) {
        return;
    }
    let code = code_only(text);
    let code = without_tests(&code);
    for (what, instead) in BY_THE_SEAM {
        for (at, _) in code.match_indices(what) {
            let line = line_of(code, at);
            problems.push(format!("{path}:{line}: {what} goes round the simulation's seam: {instead}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        let mut problems = Vec::new();
        judge(path, text, &mut problems);
        problems.len()
    }

    #[test]
    fn clocks_and_threads_are_found_where_they_are_not_the_seams() {
        let text = "use std::thread;\nfn f() { Instant::now(); }\n// std::thread\n";
        assert_eq!(problems("crates/gateway/src/a.rs", text), 2);
        assert_eq!(problems("crates/engine/src/target/io/a.rs", text), 2);
        assert_eq!(problems("crates/engine/src/ceph/clusters.rs", text), 2);
        assert_eq!(problems("crates/engine/src/ceph/real/image.rs", text), 0);
        assert_eq!(problems("crates/engine/src/ring/real/a.rs", text), 0);
        assert_eq!(problems("crates/gateway/src/a_tests.rs", text), 0);
    }

    #[test]
    fn tests_have_the_machines_own() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(problems("crates/gateway/src/a.rs", text), 0);
        assert_eq!(problems("crates/gateway/src/a.rs", &text.replace("(test)", "(all(test, not(a)))")), 0);
        let other = "#[cfg(test)]\nmod model;\nfn f() { SystemTime::now(); }\n";
        assert_eq!(problems("crates/gateway/src/a.rs", other), 1);
    }
}
