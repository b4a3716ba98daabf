//! The ASCII fields of the Identify and discovery data: left-justified, padded with spaces (Base 1.4.2).
//!
//! Names in UTF-8 (NQNs) are not these, and are kept in [`crate::discovery`].

use alloc::string::String;

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7E)
}

/// Writes `text` into `field`, padded with spaces, cut to the length of the field.
///
/// The specification allows only 20h to 7Eh here, so anything else becomes a question mark.
pub fn set_ascii(field: &mut [u8], text: &str) {
    let mut characters = text.chars();
    for byte in field {
        *byte = match characters.next() {
            Some(character) => u8::try_from(character).ok().filter(|&b| is_printable(b)).unwrap_or(b'?'),
            None => b' ',
        };
    }
}

/// Reads an ASCII field without its padding.
///
/// Some targets pad with NUL instead of spaces, and a hostile one may send terminal control sequences:
/// the text ends at the first NUL, and bytes that are not printable become question marks.
pub fn ascii(field: &[u8]) -> String {
    let text = field.split(|&byte| byte == 0).next().unwrap_or_default();
    let printable: String =
        text.iter().map(|&byte| if is_printable(byte) { char::from(byte) } else { '?' }).collect();
    String::from(printable.trim_matches(' '))
}
