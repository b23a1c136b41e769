//! How reports look: colours, type, and the few lines of script behind the crosshair.
//!
//! All colours are CSS variables with two sets of values, for light and dark; which one is used the
//! reader's system says (`prefers-color-scheme`). The eight colours of stores are told apart by
//! most colour-blind readers in their order; markers differ too, so that colour is never alone in
//! saying which is which. Nothing is fetched from anywhere.

/// A text inside of XML or HTML, attributes included.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters have no place in XML, escaped or not.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The style of charts: enough for a chart in a file of its own.
pub const CHART: &str = include_str!("chart.css");

/// The style of pages, beside that of charts.
pub const PAGE: &str = include_str!("page.css");

/// The crosshair: shows the values nearest to the pointer.
pub const SCRIPT: &str = include_str!("page.js");
