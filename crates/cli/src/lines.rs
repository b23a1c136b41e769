//! Lines of a file of any size, with their numbers, in bounded memory.
//!
//! One buffer holds one line. A line beyond the limit is skipped to its end and reported, so a file
//! that is not text at all cannot fill the memory.

use std::io::{self, BufRead};

/// The longest line. A value of a quarter of it always fits, whatever its bytes.
pub const LINE_MAX: usize = 256 << 20;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The line is in [`Lines::line`].
    Line,
    /// The line was longer than the limit.
    TooLong,
    /// There are no more lines.
    End,
}

/// A reader of lines.
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of at most `max` bytes.
    pub fn new(input: R, max: usize) -> Self {
        Self { input, line: Vec::new(), number: 0, bytes: 0, max }
    }

    /// The line read last, without its line feed.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// Any error of reading the input.
    pub fn read(&mut self) -> io::Result<Next> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let feed = available.iter().position(|byte| *byte == b'\n');
            let text = &available[..feed.unwrap_or(available.len())];
            let at_end = available.is_empty();
            too_long |= self.line.len() + text.len() > self.max;
            if too_long {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(text);
            }
            let used = text.len() + usize::from(feed.is_some());
            let nothing = at_end && self.line.is_empty() && !too_long;
            self.input.consume(used);
            self.bytes += used as u64;
            if feed.is_some() || at_end {
                if nothing {
                    return Ok(Next::End);
                }
                self.number += 1;
                return Ok(if too_long { Next::TooLong } else { Next::Line });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, buffer: usize) -> Vec<(u64, Option<String>)> {
        let input = io::BufReader::with_capacity(buffer, text.as_bytes());
        let mut lines = Lines::new(input, 5);
        let mut found = Vec::new();
        loop {
            match lines.read().unwrap() {
                Next::End => break,
                Next::TooLong => found.push((lines.number(), None)),
                Next::Line => {
                    let line = String::from_utf8(lines.line().to_vec()).unwrap();
                    found.push((lines.number(), Some(line)));
                }
            }
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        found
    }

    #[test]
    fn numbers_lines_and_skips_long_ones() {
        for buffer in 1..12 {
            let some = |text: &str| Some(text.to_owned());
            let got = read("ab\n\n123456\n12345\nlast", buffer);
            let want =
                [(1, some("ab")), (2, some("")), (3, None), (4, some("12345")), (5, some("last"))];
            assert_eq!(got, want);
            assert_eq!(read("", buffer), []);
            assert_eq!(read("\n", buffer), [(1, some(""))]);
            assert_eq!(read("1234567", buffer), [(1, None)]);
        }
    }
}
