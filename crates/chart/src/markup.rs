//! Text as it may stand in HTML and SVG: between tags, and in attributes with double quotes. It knows no element.

/// The text with what a parser would read as markup written in another way. What XML has no place for becomes `U+FFFD`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // In an attribute a bare line end would be read as a space.
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// A word that may be an identifier in HTML and a file's name: letters, digits and hyphens; others become hyphens.
pub fn identifier(text: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = text.chars().take(IDENTIFIER_LETTERS_MAX).map(plain).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

/// A file's name may have 255 bytes, of which an ending needs some.
const IDENTIFIER_LETTERS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(escaped("<b a=\"x\">'&'</b>"), "&lt;b a=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/b&gt;");
        assert_eq!(escaped("a\nb\0c\u{1b}d"), "a&#10;b\u{fffd}c\u{fffd}d");
        assert_eq!(escaped("µs — 4 KiB"), "µs — 4 KiB");
    }

    #[test]
    fn an_identifier_leads_nowhere_else() {
        assert_eq!(identifier("iops-1"), "iops-1");
        assert_eq!(identifier("../a b"), "---a-b");
        assert_eq!(identifier(""), "-");
    }
}
