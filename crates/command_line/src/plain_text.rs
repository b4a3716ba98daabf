//! Text of one line for a terminal; names, paths and messages in it may be of any origin.

/// The text without characters that steer a terminal, line breaks included: `�` stands for each.
pub fn plain(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    text.chars().map(plain).collect()
}
