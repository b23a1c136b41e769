//! Keys and values as text: escapes, hexadecimal, base64. Any bytes survive a round trip exactly.
//!
//! Escapes: printable UTF-8 stands for itself; `\t \n \r \\` for tab, line feed, carriage return
//! and backslash; `\xNN` for any other byte. Also read: `\0`. Hexadecimal: two digits a byte, no
//! separators. Base64: the standard alphabet with padding (RFC 4648 §4), used for binary data in
//! JSON lines.

/// Appends `bytes` in escaped form.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.iter().all(|b| (b' '..=b'~').contains(b) && *b != b'\\') {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                _ => {
                    let mut utf8 = [0; 4];
                    let text = c.encode_utf8(&mut utf8).as_bytes();
                    if is_shown(c) {
                        out.extend_from_slice(text);
                    } else {
                        text.iter().for_each(|byte| push_escaped(*byte, out));
                    }
                }
            }
        }
        chunk.invalid().iter().for_each(|byte| push_escaped(*byte, out));
    }
}

/// Whether a character is shown unescaped: not if it is invisible or moves others.
fn is_shown(c: char) -> bool {
    let moves =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !moves && c != '\u{feff}'
}

fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    push_hex(byte, out);
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Appends the bytes of escaped `text`.
///
/// # Errors
/// A message that names the wrong escape and its byte in `text`.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let offset = text.len() - rest.len() + at;
        let (byte, len) = match rest.get(at + 1) {
            Some(b'\\') => (b'\\', 2),
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'0') => (0, 2),
            Some(b'x') => {
                let digits = rest.get(at + 2..at + 4).and_then(|d| hex_pair(d[0], d[1]));
                let missing = || format!("\\x at byte {offset} needs two hexadecimal digits");
                (digits.ok_or_else(missing)?, 4)
            }
            _ => {
                return Err(format!(
                    "unknown escape at byte {offset}: use \\t \\n \\r \\xNN, or \\\\"
                ));
            }
        };
        out.push(byte);
        rest = &rest[at + len..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Appends `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.iter().for_each(|byte| push_hex(*byte, out));
}

/// Appends the bytes of hexadecimal `text`.
///
/// # Errors
/// The position of a byte that is not a digit, or a missing digit.
pub fn unhex(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (pairs, odd) = text.as_chunks::<2>();
    for (index, [high, low]) in pairs.iter().enumerate() {
        let wrong = || format!("no hexadecimal digit at byte {} or after it", 2 * index);
        out.push(hex_pair(*high, *low).ok_or_else(wrong)?);
    }
    if odd.is_empty() { Ok(()) } else { Err("an odd number of hexadecimal digits".to_owned()) }
}

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each base64 digit; [`NO_DIGIT`] for other bytes.
const DIGITS: [u8; 256] = {
    let (mut digits, mut i) = ([NO_DIGIT; 256], 0);
    while i < BASE64.len() {
        digits[BASE64[i] as usize] = i as u8;
        i += 1;
    }
    digits
};
const NO_DIGIT: u8 = 64;

/// Appends `bytes` in base64.
pub fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { digit } else { b'=' });
        }
    }
}

/// Appends the bytes of base64 `text`.
///
/// # Errors
/// The position where it is not base64.
pub fn unbase64(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (quads, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("base64 of a length that is no multiple of 4".to_owned());
    }
    for (index, quad) in quads.iter().enumerate() {
        let last = index + 1 == quads.len();
        let padding = quad.iter().rev().take_while(|b| last && **b == b'=').count();
        let mut bits = 0_u32;
        for byte in &quad[..4 - padding.min(2)] {
            let digit = DIGITS[usize::from(*byte)];
            if digit == NO_DIGIT {
                return Err(format!("not base64 at byte {} or after", 4 * index));
            }
            bits = bits << 6 | u32::from(digit);
        }
        bits <<= 6 * padding.min(2);
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..4 - padding.min(2)]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to(f: fn(&[u8], &mut Vec<u8>), bytes: &[u8]) -> String {
        let mut out = Vec::new();
        f(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn from(
        f: fn(&[u8], &mut Vec<u8>) -> Result<(), String>,
        text: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        f(text.as_ref(), &mut out).map(|()| out)
    }

    #[test]
    fn shows_text_as_it_is_and_bytes_as_escapes() {
        assert_eq!(to(escape, "plain, größe".as_bytes()), "plain, größe");
        assert_eq!(to(escape, b"a\tb\nc\\d\r\0\xff\x7f"), r"a\tb\nc\\d\r\x00\xff\x7f");
        assert_eq!(to(escape, "a\u{202e}b".as_bytes()), r"a\xe2\x80\xaeb");
        assert_eq!(from(unescape, r"\0\x41\xfF").unwrap(), b"\0A\xff");
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(from(unescape, r"ab\q").unwrap_err().contains("at byte 2"));
        assert!(from(unescape, r"ab\").unwrap_err().contains("at byte 2"));
        assert!(from(unescape, r"\x4").unwrap_err().contains("two hexadecimal digits"));
        assert!(from(unescape, r"\x+1").is_err());
        assert!(from(unhex, "abc").unwrap_err().contains("odd"));
        assert!(from(unhex, "abxx").unwrap_err().contains("byte 2"));
        assert!(from(unbase64, "abc").unwrap_err().contains("multiple of 4"));
        assert!(from(unbase64, "ab=c").is_err() && from(unbase64, "a===").is_err());
        assert!(from(unbase64, "ab==abcd").is_err());
    }

    #[test]
    fn base64_of_the_rfc() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(to(base64, bytes.as_bytes()), text);
            assert_eq!(from(unbase64, text).unwrap(), bytes.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn all_forms_are_exact(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(&from(unescape, to(escape, &bytes)).unwrap(), &bytes);
            prop_assert_eq!(&from(unhex, to(hex, &bytes)).unwrap(), &bytes);
            prop_assert_eq!(&from(unbase64, to(base64, &bytes)).unwrap(), &bytes);
            prop_assert!(!to(escape, &bytes).contains(['\t', '\n', '\r']));
        }

        #[test]
        fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (from(unescape, &text), from(unhex, &text), from(unbase64, &text));
        }
    }
}
