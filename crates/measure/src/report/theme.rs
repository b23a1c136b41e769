//! The look of reports: colours, type, and the few lines of script for the crosshair.
//!
//! All colours are CSS variables with two sets of values, for light and dark. The reader's system
//! chooses one (`prefers-color-scheme`). Most colour-blind readers can distinguish the eight
//! colours of stores in their order. Markers differ too, so that no reader depends on colour alone.
//! Nothing is loaded from elsewhere.

/// Escapes a text for XML or HTML, attributes included.
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
            // XML allows no control characters, not even escaped ones.
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
