//! Colours, if a terminal shows them.
//!
//! A stream is coloured if it is a terminal and the user did not disable colours (`NO_COLOR`,
//! `TERM=dumb`). `CLICOLOR_FORCE` colours it wherever it goes. Colours add no information to the
//! text.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// The role of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// The name of the program before an error, and damage.
    Error,
    /// A finding that does no harm.
    Warning,
    /// A heading of a table.
    Heading,
    /// A key of a record.
    Key,
    /// A remark that most readers skip.
    Faint,
}

impl Paint {
    fn style(self) -> Style {
        match self {
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Heading => Style::new().bold(),
            Self::Key => AnsiColor::Cyan.on_default(),
            Self::Faint => Style::new().dimmed(),
        }
    }

    /// The text in the colour of its role, on any output.
    pub fn over(self, text: impl Display) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }

    /// The text for stdout.
    pub fn out(self, text: impl Display) -> String {
        if on_stdout() { self.over(text) } else { text.to_string() }
    }

    /// The text for stderr.
    pub fn err(self, text: impl Display) -> String {
        let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
        if coloured { self.over(text) } else { text.to_string() }
    }
}

/// Whether stdout is coloured.
pub fn on_stdout() -> bool {
    AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_painted_text_ends_its_colour() {
        assert_eq!(Paint::Key.over("k"), "\u{1b}[36mk\u{1b}[0m");
        assert_eq!(Paint::Heading.over("k"), "\u{1b}[1mk\u{1b}[0m");
    }
}
