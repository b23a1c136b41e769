//! A line of the shell as words.
//!
//! White space separates words, quotes of either kind keep it: `'two words'`, `"it's"`. A quote may
//! begin within a word: `--prefix='a b'`. A backslash has no meaning here, because keys and values
//! have their own escapes (`escape`). A line whose first word begins with `#` is a remark.

/// The words of a line.
///
/// # Errors
/// A quote does not end.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '#' && word.is_none() && words.is_empty() => return Ok(words),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("a quote {quote} does not end"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_white_space_outside_of_quotes() {
        for (line, words) in [
            ("", &[][..]),
            ("  \t ", &[]),
            ("put a b", &["put", "a", "b"]),
            (" get\ta ", &["get", "a"]),
            ("put 'a b' \"it's\"", &["put", "a b", "it's"]),
            ("scan --prefix='a b'c", &["scan", "--prefix=a bc"]),
            ("put '' \"\"", &["put", "", ""]),
            (r"put a\tb\x00 '\'", &["put", r"a\tb\x00", r"\"]),
            ("put größe 'a  b'", &["put", "größe", "a  b"]),
            ("# a remark", &[]),
            ("get #1", &["get", "#1"]),
            ("'#' a", &["#", "a"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert!(split("put 'a b").unwrap_err().contains("quote '"));
        assert!(split("put \"a'").unwrap_err().contains("quote \""));
    }
}
