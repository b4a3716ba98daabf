//! Base64, in which DevTools sends pictures. It only reads.

/// The bytes.
///
/// # Errors
/// When a letter is none of base64.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("{:?} is no letter of base64", char::from(letter))),
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        assert_eq!(decoded("").unwrap(), b"");
        assert_eq!(decoded("Zg==").unwrap(), b"f");
        assert_eq!(decoded("JVBERi0xLjQ=").unwrap(), b"%PDF-1.4");
        assert_eq!(decoded("//79").unwrap(), [0xff, 0xfe, 0xfd]);
        assert!(decoded("a b").is_err());
    }
}
