//! Messages of the standard library about texts that are not numbers, in words that name the number. It parses nothing.

/// Messages, each with its replacement.
const MESSAGES: [(&str, &str); 3] = [
    ("invalid digit found in string", "it is not a whole number, such as 16"),
    ("cannot parse integer from empty string", "it is empty, and not a number"),
    ("number too large to fit in target type", "the number is too large"),
];

/// Text of an error about a number, in other words; `None` for other errors.
pub fn reworded(text: &str) -> Option<String> {
    let (former, now) = MESSAGES.into_iter().find(|(former, _)| text.contains(former))?;
    Some(text.replace(former, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_standard_library_are_reworded() {
        for (text, expected) in [
            ("1.5", "it is not a whole number, such as 16"),
            ("4k", "it is not a whole number, such as 16"),
            ("", "it is empty, and not a number"),
            ("99999999999", "the number is too large"),
        ] {
            let error = text.parse::<u32>().unwrap_err();
            assert_eq!(reworded(&format!("--x: {error}")), Some(format!("--x: {expected}")), "{text}");
        }
        assert_eq!(reworded("0 is not in 1..=128"), None);
    }
}
