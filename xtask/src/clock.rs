//! Tests that go by the clock: sleeps, and comparisons of elapsed time, which a slow machine makes fail. It keeps out the helper
//! that waits for a condition instead: that is `prerequisite`'s.

use crate::counted_rule::{CountedRule, Finding};
use crate::seam::{is_of_tests, without_tests};
use crate::source::{code_only, line_of, word_positions};

pub(crate) const RULE: CountedRule = CountedRule {
    exceptions: "xtask/clock-exceptions.txt",
    about: "Files whose tests sleep or compare elapsed time (STYLE.md, Tests), and at how many places",
    findings,
};

/// Folders without the machine's time: the simulation's is virtual.
const VIRTUAL: [&str; 1] = ["simulate/"];
/// The one place that does both, for all tests.
const HELPER: &str = "crates/prerequisite/src/patience.rs";

const BY_THE_CLOCK: &str = "by the clock";
const INSTEAD: &str = "wait for a condition by prerequisite::wait_until";

/// Reads of the clock: to compare them is to compare elapsed time.
const READINGS: [&str; 2] = ["elapsed()", "Instant::now()"];

fn findings(path: &str, text: &str) -> Vec<Finding> {
    let is_rust = path.ends_with(".rs");
    if !is_rust || path == HELPER || VIRTUAL.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let code = code_only(text);
    let begin = if is_of_tests(path) { 0 } else { without_tests(&code).len() };
    let mut found = Vec::new();
    let mut add = |at, what: String| found.push(Finding { line: line_of(&code, at), what });
    for at in word_positions(&code, "sleep").filter(|&at| at >= begin) {
        // A method of this name is the product's.
        let is_other = ["fn ", "."].iter().any(|before| code[..at].ends_with(before));
        if code[at..].starts_with("sleep(") && !is_other {
            add(at, format!("sleeps: {INSTEAD}"));
        }
    }
    for reading in READINGS {
        for (at, _) in code[begin..].match_indices(reading) {
            if is_compared(&code, begin + at, reading.len()) {
                add(begin + at, format!("compares elapsed time: {INSTEAD}"));
            }
        }
    }
    if text.contains(&format!("#[ignore = \"{BY_THE_CLOCK}")) && !code.contains("mod by_the_clock {") {
        add(0, format!("a test is ignored as {BY_THE_CLOCK} outside a module by_the_clock"));
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// True if the value that is read at `at` is an operand of `<`, `>` or their like.
fn is_compared(code: &str, at: usize, length: usize) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || "_.:()".contains(c);
    let behind = code[at + length..].trim_start_matches(is_path).trim_start();
    let before = code[..at].trim_end_matches(is_path).trim_end();
    let is_arrow = before.ends_with("=>") || before.ends_with("->");
    behind.starts_with(['<', '>'])
        || !is_arrow && ["<", ">", "<=", ">="].iter().any(|sign| before.ends_with(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(path, text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn sleeps_and_comparisons_of_tests_are_found() {
        let text = "fn a() {\n    thread::sleep(LOOK);\n    sleep(LOOK);\n    bell.sleep(LOOK);\n}\nfn sleep() {}\n\
                    fn b() -> bool {\n    began.elapsed() < LIMIT\n        && LIMIT >= began.elapsed().as_secs()\n}\n\
                    fn c() -> Duration { began.elapsed() }\nfn d() { while Instant::now() < end {} }\n// sleep()\n";
        let expected = [2, 3, 8, 9, 12];
        assert_eq!(lines("crates/a/tests/all/b.rs", text), expected);
        assert_eq!(lines("crates/a/src/b_tests.rs", text), expected);
        assert_eq!(lines("crates/a/src/b.rs", text), [0; 0]);
        assert_eq!(lines("simulate/src/b_tests.rs", text), [0; 0]);
        assert_eq!(lines("a/tests/b.md", text), [0; 0]);
    }

    #[test]
    fn tests_within_a_file_are_looked_at_alone() {
        let text = "fn a() { sleep(1); }\n#[cfg(test)]\nmod tests {\n    fn b() { sleep(1); }\n}\n";
        assert_eq!(lines("crates/a/src/b.rs", text), [4]);
        assert_eq!(lines(HELPER, text), [0; 0]);
    }

    #[test]
    fn what_only_the_clock_shows_has_a_module_of_its_own() {
        let test = "#[ignore = \"by the clock: the suite clock has it\"]\nfn a() {}\n";
        assert_eq!(lines("crates/a/tests/b.rs", test), [1]);
        assert_eq!(lines("crates/a/tests/b.rs", &format!("mod by_the_clock {{\n{test}}}\n")), [0; 0]);
    }
}
