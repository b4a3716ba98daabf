//! The header and the library agree on names: a function that only one of them has is found here. Their parameters are
//! compared by the programs in C.

use std::collections::BTreeSet;

const HEADER: &str = include_str!("../../include/selvedge.h");
const CALLS: &str = include_str!("../../src/calls.rs");

/// Names before a parenthesis on lines that begin as functions do.
fn functions(text: &str, begins: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| begins(line));
    let names = lines
        .filter_map(|line| line.split_once('(').and_then(|(before, _)| before.rsplit([' ', '*']).next()));
    names.filter(|name| name.starts_with("selvedge_")).collect()
}

#[test]
fn the_header_declares_each_function_and_no_other() {
    let declared = functions(HEADER, |line| {
        ["int ", "void ", "uint", "const char *", "selvedge_options *"]
            .iter()
            .any(|kind| line.starts_with(kind))
    });
    let defined = functions(CALLS, |line| line.contains("extern \"C\" fn selvedge_"));
    assert_eq!(declared, defined);
    assert!(defined.len() > 20, "{defined:?}");
}
