//! A Rust file as tidy sees it: its lines, and its code with comments and literals blanked out.
//!
//! Not a parser. One pass over the characters replaces the inside of comments, strings and
//! character literals with spaces, keeping every line break, so that a line number in
//! [`Source::code`] is a line number of the file and a search for a word finds code only. Braces
//! then tell how far a function or a `#[cfg(test)]` item reaches.

/// One file of Rust.
pub struct Source {
    /// The file's text.
    pub text: String,
    /// The same with comments and literals blanked; as many lines.
    pub code: String,
    /// For each line, whether it belongs to a test.
    pub test: Vec<bool>,
}

/// A stretch of lines, counted from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The name of the function, or `tests` for items under `#[cfg(test)]`.
    pub name: String,
    /// First line.
    pub first: usize,
    /// Last line.
    pub last: usize,
}

impl Extent {
    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.last - self.first + 1
    }
}

impl Source {
    /// Reads a file. `path` tells whether all of it is test code.
    pub fn new(path: &str, text: &str) -> Self {
        let code = blank(text);
        let all = is_test_path(path);
        let mut source =
            Self { text: text.to_owned(), code, test: vec![all; text.lines().count()] };
        for item in source.test_items() {
            source.test[item.first - 1..item.last].fill(true);
        }
        source
    }

    /// Lines of code that are not tests: (line number, blanked line).
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.lines().enumerate();
        lines.filter(|(i, _)| !self.test.get(*i).copied().unwrap_or(false)).map(|(i, l)| (i + 1, l))
    }

    /// All functions with a body.
    pub fn functions(&self) -> Vec<Extent> {
        let mut found = Vec::new();
        for at in words(&self.code, "fn") {
            let rest = self.code[at + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            if !name.is_empty()
                && let Some(end) = self.item_end(at, true)
            {
                found.push(Extent { name, first: self.line_of(at), last: self.line_of(end) });
            }
        }
        found
    }

    /// Items under `#[cfg(test)]`.
    pub fn test_items(&self) -> Vec<Extent> {
        let starts = ["#[cfg(test", "#[cfg(all(test"].into_iter();
        let starts = starts.flat_map(|attribute| self.code.match_indices(attribute));
        let mut found = Vec::new();
        for (at, _) in starts {
            let body = self.code[at..].find(']').map_or(at, |i| at + i + 1);
            if let Some(end) = self.item_end(body, false) {
                let (first, last) = (self.line_of(at), self.line_of(end));
                found.push(Extent { name: "tests".to_owned(), first, last });
            }
        }
        found
    }

    /// The end of the item that starts at `from`: its closing brace or its semicolon.
    fn item_end(&self, from: usize, body_only: bool) -> Option<usize> {
        let (mut round, mut curly) = (0_i32, 0_i32);
        for (i, c) in self.code[from..].char_indices() {
            match c {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                '{' => curly += 1,
                '}' => {
                    curly -= 1;
                    if curly <= 0 {
                        return Some(from + i);
                    }
                }
                ';' if round == 0 && curly == 0 => {
                    return if body_only { None } else { Some(from + i) };
                }
                _ => {}
            }
        }
        None
    }

    fn line_of(&self, at: usize) -> usize {
        self.code[..at].bytes().filter(|b| *b == b'\n').count() + 1
    }
}

/// Whether a file holds tests only.
pub fn is_test_path(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

/// Whether a character can be part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets of `word` where it stands alone.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Replaces what is inside comments and literals with spaces, keeping line breaks.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = literal_end(&chars, i);
        if end > i {
            out.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            i = end;
        } else {
            out.push(chars[i]);
            i += 1;
        }
    }
    out
}

/// The end of the comment or literal that starts at `i`; `i` itself if none starts there.
fn literal_end(chars: &[char], i: usize) -> usize {
    let at = |k: usize| chars.get(k).copied().unwrap_or('\0');
    match (at(i), at(i + 1)) {
        ('/', '/') => find(chars, i, |k| at(k) == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment_end(chars, i),
        ('"', _) => string_end(chars, i),
        ('r', '"' | '#') if i == 0 || !is_word(at(i - 1)) || at(i - 1) == 'b' => {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            if at(i + 1 + hashes) != '"' {
                return i;
            }
            let close = |k: usize| at(k) == '"' && (1..=hashes).all(|h| at(k + h) == '#');
            find(chars, i + 2 + hashes, close).map_or(chars.len(), |k| k + 1 + hashes)
        }
        ('\'', '\\') => find(chars, i + 3, |k| at(k) == '\'').map_or(chars.len(), |k| k + 1),
        ('\'', _) if at(i + 2) == '\'' => i + 3,
        _ => i,
    }
}

fn find(chars: &[char], from: usize, hit: impl Fn(usize) -> bool) -> Option<usize> {
    (from..chars.len()).find(|k| hit(*k))
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => {
                (depth, i) = (depth - 1, i + 2);
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_literals_only() {
        let text =
            "a // b\n\"c { \\\" d\" e /* f /* g */ h */ '}' '\\'' r#\"x\"y\"# br\"z\" <'t> j";
        let code = blank(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "e", "b", "<'t>", "j"]);
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn finds_functions_and_tests() {
        let text = "trait T { fn a(&self); }\nfn b(x: [u8; 2]) {\n  if x { \"}\" }\n}\n\
                    #[cfg(test)]\nmod tests {\n  fn c() {}\n}\nfn d() {}\n";
        let source = Source::new("crates/x/src/y.rs", text);
        let found = source.functions();
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.first, f.last)).collect();
        assert_eq!(found, [("b", 2, 4), ("c", 7, 7), ("d", 9, 9)]);
        assert_eq!(source.test_items()[0].lines(), 4);
        let product: Vec<usize> = source.product_lines().map(|(n, _)| n).collect();
        assert_eq!(product, [1, 2, 3, 4, 9]);
    }
}
