//! Figures of the project's shape that are worth watching: a line for each crate, from the imports between its files and from
//! its types. It judges nothing; what is forbidden is in `regions`.

use std::collections::BTreeMap;

use crate::imports::{Imports, module_of, without_tests};
use crate::regions::{ARCHITECTURE, LayerOrder, Texts, folder_circles, imports, sources};
use crate::source::{code_only, functions, matching_brace, word_positions};

const HEAD: [&str; 9] = [
    "crate",
    "files",
    "imports",
    "folder circles",
    "file circles",
    "largest",
    "upward",
    "most methods",
    "public fields",
];

/// The table, a line for each crate below its head.
pub(crate) fn table(texts: &Texts<'_>) -> Vec<String> {
    let order = LayerOrder::parse(texts.get(ARCHITECTURE).copied().unwrap_or(""));
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(sources(texts).iter().map(|source| row(texts, source, &order)));
    let widths: Vec<usize> =
        (0..HEAD.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 9]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(texts: &Texts<'_>, source: &str, order: &LayerOrder<'_>) -> [String; 9] {
    let imports = imports(texts, source);
    let between_files: Vec<usize> = imports.file_circles(&[]).iter().map(Vec::len).collect();
    let folders = imports.folders();
    let between_folders = folders.iter().map(|folder| folder_circles(&imports, folder).len()).sum::<usize>();
    let code = code_of(texts, source, &imports);
    let (name, count) = most_methods(&code);
    [
        source.strip_suffix("/src").unwrap_or(source).to_owned(),
        imports.modules.len().to_string(),
        imports.edges.len().to_string(),
        between_folders.to_string(),
        between_files.len().to_string(),
        between_files.iter().max().unwrap_or(&0).to_string(),
        order.upward(&imports, source).map_or_else(|| "-".to_owned(), |count| count.to_string()),
        format!("{name} {count}").trim_end_matches(" 0").to_owned(),
        code.iter().map(|code| public_fields(code)).sum::<usize>().to_string(),
    ]
}

/// The code of a crate's files without their tests.
fn code_of(texts: &Texts<'_>, source: &str, imports: &Imports) -> Vec<String> {
    let prefix = format!("{source}/");
    let inside = texts.iter().filter(|(path, _)| {
        let module = path.strip_prefix(prefix.as_str()).and_then(module_of);
        module.is_some_and(|module| imports.modules.contains(&module))
    });
    inside.map(|(_, text)| without_tests(&code_only(text), text).0).collect()
}

/// The type with most functions in its `impl` blocks, over all files. Types of one name count as one.
fn most_methods(code: &[String]) -> (String, usize) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for code in code {
        for at in word_positions(code, "impl") {
            // Elsewhere than at the beginning of an item it is a type.
            let before = code[..at].trim_end();
            if !(before.is_empty() || before.ends_with(['}', ';', ']', '{']) || before.ends_with("unsafe")) {
                continue;
            }
            let Some(open) = code[at..].find('{').map(|open| at + open) else { continue };
            let block = &code[open..=matching_brace(code.as_bytes(), open)];
            *counts.entry(type_of(&code[at + 4..open])).or_default() += functions(block).len();
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.unwrap_or_default()
}

/// The name of the type that an `impl` block is for, without its path and its parameters.
fn type_of(head: &str) -> String {
    let head = head.split(" where ").next().unwrap_or(head).trim();
    let subject = match head.rsplit_once(" for ") {
        Some((_, subject)) => subject,
        None if head.starts_with('<') => {
            let mut depth = 0;
            let end = head.find(|c: char| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                depth == 0
            });
            &head[end.map_or(0, |end| end + 1)..]
        }
        None => head,
    };
    let path = subject.split('<').next().unwrap_or(subject).trim().trim_start_matches('&');
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

/// The fields of structs that the whole crate, or everybody, may touch.
fn public_fields(code: &str) -> usize {
    word_positions(code, "struct")
        .filter_map(|at| {
            let open = at + code[at..].find(['{', '(', ';'])?;
            let end = match code.as_bytes()[open] {
                b'{' => matching_brace(code.as_bytes(), open),
                b'(' => open + code[open..].find(';')?,
                _ => return None,
            };
            let body = &code[open..end];
            let public = |at: &usize| {
                let rest = &body[at + 3..];
                rest.starts_with(' ') || rest.starts_with("(crate)")
            };
            Some(word_positions(body, "pub").filter(public).count())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_counted_over_all_blocks_of_a_type() {
        let code = [
            "struct A; impl A { fn a() {} }\nimpl<T: Into<u8>> B<T> { fn b() {} }".to_owned(),
            "impl fmt::Debug for super::A { fn c(x: impl Fn()) {} }\nfn f() -> impl B { }".to_owned(),
        ];
        assert_eq!(most_methods(&code), ("A".to_owned(), 2));
        assert_eq!(type_of("<T: Into<u8>> B<T>"), "B");
    }

    #[test]
    fn fields_that_the_crate_may_touch_are_counted() {
        let code = "pub struct A { pub a: u8, pub(crate) b: u8, pub(super) c: u8, d: u8 }\nstruct B(pub u8, u8);\n\
                    struct C;\npub fn f() { }";
        assert_eq!(public_fields(code), 3);
    }

    #[test]
    fn a_crate_has_a_line() {
        let texts: Texts<'_> = [
            ("c/Cargo.toml", ""),
            (ARCHITECTURE, "```order\nc/src: b a\n```"),
            ("c/src/lib.rs", "mod a; mod b;"),
            (
                "c/src/a.rs",
                "use crate::b::B;\npub struct A { pub a: B }\n#[cfg(test)]\nmod tests { struct T(pub u8); }",
            ),
            ("c/src/b.rs", "pub struct B;\nimpl B { fn b() { crate::a::f(); } }"),
        ]
        .into();
        let line = table(&texts)[1].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(line, ["c", "3", "2", "0", "1", "2", "1", "B", "1", "1"]);
    }
}
