//! Breaks comment lines beyond the limit, which rustfmt leaves alone: `cargo xtask tidy --fix`.
//!
//! 1. A comment line of its own that is too long is cut at its last space within the limit.
//! 2. The rest goes to the front of the next line when that continues the paragraph, else to a new
//!    line, indented below the text of its list item.
//!
//! Tables, headings, code in fences and comments behind code stay as they are.

use crate::tidy::LINE_CHARS;
use std::path::Path;

/// Rewrites the Rust files whose comments are too wide: those below one of the paths `under`, or
/// all.
pub fn run(root: &Path, under: &[&str]) -> Result<String, String> {
    let tree = crate::tidy::Tree::load(root)?;
    let mut changed = 0;
    let chosen = |path: &str| under.is_empty() || under.iter().any(|u| path.starts_with(u));
    for (path, source) in tree.rust().filter(|(path, _)| chosen(path)) {
        let text = wrap(&source.text);
        if text != source.text {
            std::fs::write(root.join(path), text)
                .map_err(|e| format!("cannot write {path}: {e}"))?;
            changed += 1;
        }
    }
    Ok(format!("wrapped comments in {changed} files"))
}

/// A comment line in parts: everything up to its text, and the text.
fn parts(line: &str) -> Option<(&str, &str)> {
    let indent = line.len() - line.trim_start().len();
    let mark = ["//! ", "/// ", "// "].into_iter().find(|m| line[indent..].starts_with(m))?;
    Some(line.split_at(indent + mark.len()))
}

/// The indent of the text that follows a list marker such as `- ` or `1. `, if the text starts so.
fn list_indent(text: &str) -> Option<usize> {
    let bare = text.trim_start();
    let marker = if bare.starts_with("- ") || bare.starts_with("* ") {
        2
    } else {
        let digits = bare.chars().take_while(char::is_ascii_digit).count();
        if digits == 0 || !bare[digits..].starts_with(". ") {
            return None;
        }
        digits + 2
    };
    Some(text.len() - bare.len() + marker)
}

fn fixed(text: &str) -> bool {
    text.is_empty() || text.starts_with(['|', '#', '`', '[']) && list_indent(text).is_none()
}

fn wrap(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut fence = false;
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i].clone();
        let Some((prefix, body)) = parts(&line) else {
            i += 1;
            continue;
        };
        fence ^= body.trim_start().starts_with("```");
        let wide = line.chars().count() > LINE_CHARS;
        let limit = line.char_indices().nth(LINE_CHARS).map_or(line.len(), |(at, _)| at);
        let cut = line[..=limit.min(line.len() - 1)].rfind(' ').filter(|at| *at > prefix.len() + 8);
        if let Some(cut) = cut.filter(|_| wide && !fence && !body.starts_with(['|', '#'])) {
            let rest = line[cut + 1..].to_owned();
            lines[i].truncate(cut);
            let own = body.len() - body.trim_start().len();
            let indent = list_indent(body).unwrap_or(own);
            continue_with(&mut lines, i + 1, prefix, indent, &rest);
        }
        i += 1;
    }
    lines.join("\n") + if text.ends_with('\n') { "\n" } else { "" }
}

/// Puts what was cut off at line `at`: before the paragraph's next line, or on a line of its own.
fn continue_with(lines: &mut Vec<String>, at: usize, prefix: &str, indent: usize, rest: &str) {
    let next =
        lines.get(at).and_then(|line| parts(line)).map(|(p, b)| (p.to_owned(), b.to_owned()));
    let joins = next.filter(|(p, body)| {
        let own = body.len() - body.trim_start().len();
        p == prefix && !fixed(body.trim_start()) && list_indent(body).is_none() && own == indent
    });
    let space = " ".repeat(indent);
    match joins {
        Some((_, body)) => lines[at] = format!("{prefix}{space}{rest} {}", body.trim_start()),
        None => lines.insert(at, format!("{prefix}{space}{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_at_spaces_and_joins_the_paragraph() {
        let long = "word ".repeat(22);
        let got = wrap(&format!("    /// {long}end\n    /// more here.\n    fn f() {{}}\n"));
        assert!(got.lines().all(|line| line.chars().count() <= LINE_CHARS), "{got}");
        assert!(got.contains("end more here.\n    fn f() {}\n"), "{got}");
        assert_eq!(got.split_whitespace().filter(|w| *w == "word").count(), 22);
    }

    #[test]
    fn keeps_lists_tables_and_code() {
        let long = "word ".repeat(22);
        let got = wrap(&format!("//! 1. {long}end\n//! 2. two\n"));
        assert!(got.contains("\n//!    word") && got.contains("end\n//! 2. two\n"), "{got}");
        for kept in [format!("//! | {long} |\n"), format!("let x = 1; // {long}\n")] {
            assert_eq!(wrap(&kept), kept);
        }
        let fenced = format!("/// ```\n/// {long}\n/// ```\n");
        assert_eq!(wrap(&fenced), fenced);
    }
}
