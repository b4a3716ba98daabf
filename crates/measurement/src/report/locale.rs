//! Replacement of letters beyond ASCII in locales without them. Names from outside are left
//! unchanged.

use std::borrow::Cow;
use std::sync::OnceLock;

/// Letters of ours, and one of ASCII for each, so that columns stay where they are.
const INSTEAD: [(char, char); 22] = [
    ('µ', 'u'),
    ('≤', '<'),
    ('±', '~'),
    ('×', 'x'),
    ('–', '-'),
    ('−', '-'),
    ('…', '.'),
    ('·', '-'),
    ('←', '<'),
    ('→', '>'),
    ('↑', '^'),
    ('↓', 'v'),
    ('▁', '.'),
    ('▂', '.'),
    ('▃', ':'),
    ('▄', ':'),
    ('▅', '+'),
    ('▆', '+'),
    ('▇', '#'),
    ('█', '#'),
    ('“', '"'),
    ('”', '"'),
];

/// The text as the locale can show it.
pub fn shown(text: &str) -> Cow<'_, str> {
    if is_ascii_only() { Cow::Owned(plain(text)) } else { Cow::Borrowed(text) }
}

/// True if the environment names a locale without UTF-8. An environment that names none, as in
/// services and containers, does not count.
pub(crate) fn is_ascii_only() -> bool {
    static ASCII_ONLY: OnceLock<bool> = OnceLock::new();
    *ASCII_ONLY.get_or_init(|| {
        // The first that is set decides, as for every program.
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
        names.iter().find(|name| !name.is_empty()).is_some_and(|name| !has_utf8(name))
    })
}

fn has_utf8(locale: &str) -> bool {
    let locale = locale.to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn plain(text: &str) -> String {
    let instead =
        |letter: char| INSTEAD.iter().find(|(ours, _)| *ours == letter).map_or(letter, |(_, ascii)| *ascii);
    text.chars().map(instead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_say_whether_they_have_utf8() {
        for with in ["C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"] {
            assert!(has_utf8(with), "{with}");
        }
        for without in ["C", "POSIX", "en_US", "en_US.ISO-8859-1"] {
            assert!(!has_utf8(without), "{without}");
        }
    }

    #[test]
    fn only_letters_of_ours_are_replaced_and_columns_stay() {
        assert_eq!(plain("p99 ≤61.4 µs ±3 % of 2 × 4 …"), "p99 <61.4 us ~3 % of 2 x 4 .");
        assert_eq!(plain("nqn.host:größe"), "nqn.host:größe");
        assert!(INSTEAD.iter().all(|(ours, ascii)| !ours.is_ascii() && ascii.is_ascii()));
    }
}
