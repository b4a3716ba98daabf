//! What the tidiness check reads out of Rust source: the code without comments and literals, its words,
//! its functions with their lengths. It keeps out all rules about them, and is not a parser.

/// Function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// From the line of `fn` to the line of the closing brace.
    pub(crate) lines: usize,
}

/// The source with every comment, and the inside of every string and character, turned into spaces.
/// Lines stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            code.push(bytes[at]);
            at += 1;
            continue;
        }
        // One mark per literal, so that the code around it does not grow together.
        code.push(if bytes[at] == b'/' { b' ' } else { b'"' });
        code.extend(bytes[at + 1..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Prose in the source: comments, of which neighbouring lines are one text, and the insides of
/// strings, each with the line it begins at.
pub(crate) fn prose(source: &str) -> Vec<(usize, String)> {
    let bytes = source.as_bytes();
    let mut texts: Vec<(usize, String)> = Vec::new();
    // Where the last line comment ended: one on the next line goes on with it.
    let mut comment_end = None;
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let literal = &source[at..end];
        if let Some(comment) = literal.strip_prefix("//") {
            let comment = comment.trim_start_matches(['/', '!']);
            let goes_on = comment_end.is_some_and(|last: usize| {
                let between = &source[last..at];
                between.trim().is_empty() && between.matches('\n').count() == 1
            });
            match texts.last_mut() {
                Some((_, text)) if goes_on => *text = format!("{text}\n{comment}"),
                _ => texts.push((line, comment.to_owned())),
            }
            comment_end = Some(end);
        } else {
            comment_end = None;
            texts.push((line, literal.replace("\\\n", "\n").replace("\\n", "\n")));
        }
        line += literal.matches('\n').count();
        at = end;
    }
    texts
}

/// End of the comment or literal that starts at `at`; `at` itself when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => line_comment_end(bytes, at),
        b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
        b'"' => string_end(bytes, at),
        b'\'' => char_end(bytes, at),
        b'r' | b'b' | b'c' if !after_word => prefixed_end(bytes, at),
        _ => at,
    }
}

fn line_comment_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |count| at + count)
}

/// Block comments nest in Rust.
fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut next = at;
    while next < bytes.len() {
        if bytes[next..].starts_with(b"/*") {
            depth += 1;
            next += 2;
        } else if bytes[next..].starts_with(b"*/") {
            depth -= 1;
            next += 2;
            if depth == 0 {
                return next;
            }
        } else {
            next += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while next < bytes.len() {
        match bytes[next] {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// A character, or nothing when the quote begins a lifetime or a label.
fn char_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            // The escaped byte may itself be a quote: search behind it.
            let from = (at + 3).min(bytes.len());
            bytes[from..].iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |count| from + count + 1)
        }
        Some(&first) => {
            let close = at + 1 + utf8_length(first);
            if bytes.get(close) == Some(&b'\'') { close + 1 } else { at }
        }
        None => at,
    }
}

fn utf8_length(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// b'x', b"…", c"…", r"…", br#"…"#, cr#"…"#; a raw identifier such as r#fn is none of them.
fn prefixed_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + usize::from(bytes[at] != b'r');
    let raw = bytes.get(next) == Some(&b'r');
    if !raw {
        return match bytes.get(next) {
            Some(b'"') => string_end(bytes, next),
            Some(b'\'') if bytes[at] == b'b' => char_end(bytes, next),
            _ => at,
        };
    }
    next += 1;
    let hashes = bytes[next..].iter().take_while(|&&byte| byte == b'#').count();
    next += hashes;
    if bytes.get(next) != Some(&b'"') {
        return at;
    }
    let mut close = vec![b'#'; hashes + 1];
    close[0] = b'"';
    next += 1;
    let count = bytes[next..].windows(close.len()).position(|window| window == close);
    count.map_or(bytes.len(), |count| next + count + close.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The places, in bytes, where `word` stands alone in code.
pub(crate) fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + word.len());
        // A raw identifier is never the keyword.
        let starts = before.is_none_or(|byte| !is_word(byte) && byte != b'#');
        starts && after.is_none_or(|&byte| !is_word(byte))
    })
}

/// The line, from 1, of a place in bytes.
pub(crate) fn line_of(code: &str, at: usize) -> usize {
    1 + code.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// Every function with a body, in the order of their beginnings; `code` is what `code_only` gave.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in word_positions(code, "fn") {
        let after = &code[at + 2..];
        let rest = after.trim_start();
        let rest = rest.strip_prefix("r#").unwrap_or(rest);
        let name: String = rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
        // `fn(u8)` is a type, and `fn $name` belongs to a macro.
        if name.is_empty() || rest.len() == after.len() {
            continue;
        }
        let begins = code.len() - rest.len() + name.len();
        if let Some(open) = body_start(code.as_bytes(), begins) {
            let close = matching_brace(code.as_bytes(), open);
            let line = line_of(code, at);
            found.push(Function { name, line, lines: line_of(code, close) - line + 1 });
        }
    }
    found
}

/// The opening brace of the body, or nothing for a declaration. Braces and semicolons inside
/// parentheses and brackets, and a const argument's braces, belong to the signature.
fn body_start(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let mut last = b' ';
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return None,
            b'{' if depth == 0 && last != b'<' && last != b'=' && last != b',' => return Some(at),
            // `where T: Copy, {` ends in a comma too, but then no `>` or `,` follows the brace.
            b'{' if depth == 0 && last == b',' && !is_const_argument(bytes, at) => return Some(at),
            b'{' => at = matching_brace(bytes, at),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
        at += 1;
    }
    None
}

fn is_const_argument(bytes: &[u8], open: usize) -> bool {
    let after = bytes.get(matching_brace(bytes, open) + 1..).unwrap_or_default();
    matches!(after.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'>' | b','))
}

/// The brace that closes the one at `open`; the last byte when none does.
pub(crate) fn matching_brace(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_u32;
    for (offset, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + offset;
        }
    }
    bytes.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(source: &str) -> Vec<(String, usize, usize)> {
        let found = functions(&code_only(source));
        found.into_iter().map(|function| (function.name, function.line, function.lines)).collect()
    }

    fn one(name: &str, line: usize, lines: usize) -> Vec<(String, usize, usize)> {
        vec![(name.to_owned(), line, lines)]
    }

    #[test]
    fn counts_from_fn_to_the_closing_brace() {
        assert_eq!(lengths("\n#[test]\npub fn a() {\n    1;\n}\n"), one("a", 3, 3));
        assert_eq!(lengths("fn a(\n    x: u8,\n)\nwhere\n    T: X,\n{\n}\n"), one("a", 1, 7));
        assert_eq!(lengths("const fn a() {}"), one("a", 1, 1));
    }

    #[test]
    fn nested_functions_count_alone_and_in_the_outer_one() {
        let source = "fn outer() {\n    fn inner() {\n    }\n    || { 1 };\n}\n";
        assert_eq!(lengths(source), vec![("outer".into(), 1, 5), ("inner".into(), 2, 2)]);
    }

    #[test]
    fn declarations_types_and_macros_are_no_functions() {
        assert!(lengths("trait T { fn a(&self) -> [u8; 4]; }").is_empty());
        assert!(lengths("type F = fn(u8) -> u8; struct S { f: fn (u8) }").is_empty());
        assert!(lengths("macro_rules! m { ($name:ident) => { fn $name() {} } }").is_empty());
        assert!(lengths("let often = 1; struct fnord { a: u8 }").is_empty());
    }

    #[test]
    fn semicolons_and_braces_of_the_signature_are_not_the_body() {
        assert_eq!(lengths("fn a(x: [u8; { 1 + 1 }]) -> S<{ 4 }> {\n}\n"), one("a", 1, 2));
        assert_eq!(lengths("fn a() -> S<u8, { 4 }, { 5 }>\n{\n}\n"), one("a", 1, 3));
        assert_eq!(lengths("fn a<const N: usize = { 3 }>() {\n}\n"), one("a", 1, 2));
        assert_eq!(lengths("fn a() where T: Copy, {\n}\n"), one("a", 1, 2));
    }

    #[test]
    fn braces_in_literals_do_not_count() {
        assert_eq!(lengths("fn a() {\n    \"}\\\"}\";\n    '}'; b'}'; '\\'';\n}\n"), one("a", 1, 4));
        assert_eq!(lengths("fn a() {\n    r#\"}\"}\"#; br##\"}\"#}\"##; c\"}\";\n}\n"), one("a", 1, 3));
        assert_eq!(lengths("fn a() {\n    '\\u{7d}'; '→'; b'\\\\'; \"\\\\\";\n}\n"), one("a", 1, 3));
    }

    #[test]
    fn braces_in_comments_do_not_count() {
        assert_eq!(lengths("fn a() {\n    // }\n    /* } /* } */ } */\n}\n"), one("a", 1, 4));
        assert_eq!(lengths("/// fn b() { }\nfn a() {\n    /// it's\n}\n"), one("a", 2, 3));
    }

    #[test]
    fn lifetimes_and_labels_are_no_characters() {
        assert_eq!(
            lengths("fn a<'a>(x: &'a str) -> &'a str {\n    'l: loop { break 'l }\n}\n"),
            one("a", 1, 3)
        );
        assert_eq!(lengths("fn a(x: &'static str, y: Z<'_>) {\n}\n"), one("a", 1, 2));
    }

    #[test]
    fn raw_identifiers_are_names() {
        assert_eq!(lengths("fn r#try() {\n}\n"), one("try", 1, 2));
        assert!(lengths("let r#fn = 1; x(r#fn, {});").is_empty());
    }

    #[test]
    fn prose_is_comments_and_strings() {
        let source =
            "//! A\n//! b.\nfn c() { d(\"e \\\n  f\"); } // g\n/* h */ 'i'; r#\"j\"#\n\n// k\nlet l;\n// m\n";
        let texts: Vec<_> = prose(source);
        let texts: Vec<(usize, &str)> = texts.iter().map(|(line, text)| (*line, text.trim())).collect();
        let right = [
            (1, "A\n b."),
            (3, "\"e \n  f\""),
            (4, "g"),
            (5, "/* h */"),
            (5, "'i'"),
            (5, "r#\"j\"#"),
            (7, "k"),
            (9, "m"),
        ];
        assert_eq!(texts, right);
    }

    #[test]
    fn words_stand_alone() {
        let code = code_only("#![deny(unsafe_code)] // unsafe\nlet s = \"unsafe\"; unsafe { x() }");
        let lines: Vec<usize> = word_positions(&code, "unsafe").map(|at| line_of(&code, at)).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for source in ["\"abc", "r#\"abc", "/* abc", "'\\", "'", "b'", "fn a() {", "r", "br#"] {
            let _ = functions(&code_only(source));
        }
    }
}
