//! Places the sections on a screen of any size.
//!
//! 1. The first line names the store and its process, the last one the keys. The sections are in
//!    between, as many as fit, from the top.
//! 2. From a width of [`TWO_COLUMNS`] on, rates and latencies are side by side, and so are waits
//!    and memory. On a narrower screen the sections are one below the other, without frames.
//! 3. A screen too small for that says so.
//!
//! When no new figures arrive, a line below the first one says why, and the last figures stay.

use super::reading::{Rates, Reading};
use super::view::{self, Section, long};
use super::watch::{State, Watch};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding, Paragraph, Widget, Wrap};
use std::collections::VecDeque;

/// The width from which on sections are side by side.
const TWO_COLUMNS: u16 = 76;
/// The least width and height on which anything is shown.
const LEAST: (u16, u16) = (24, 4);
/// The height of a printed reading.
const PRINTED_HEIGHT: u16 = 48;
/// Readings that the course of the rates shows.
const HISTORY: usize = 200;

/// Everything that the screen shows.
pub struct View {
    /// The folder of the store.
    pub store: String,
    /// The last reading.
    pub reading: Option<Reading>,
    /// The rates of the last readings, oldest first.
    pub history: VecDeque<Rates>,
    /// Whether the store is open and its figures arrive.
    pub state: State,
    pub paused: bool,
    /// Seconds between two readings.
    pub interval: u64,
    /// Whether keyspaces are shown instead of levels, waits and memory.
    pub keyspaces: bool,
}

impl View {
    /// A view without figures.
    pub fn of(watch: &Watch) -> Self {
        Self {
            store: watch.source.dir().display().to_string(),
            reading: None,
            history: VecDeque::new(),
            state: watch.state,
            paused: watch.paused,
            interval: watch.interval,
            keyspaces: false,
        }
    }

    /// Adds a reading.
    pub fn add(&mut self, reading: Reading) {
        self.history.push_back(reading.rates);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self.reading = Some(reading);
    }

    /// The reason why there are no figures, or no new ones; empty while they arrive.
    pub fn state_text(&self) -> String {
        let store = &self.store;
        match self.state {
            State::Live => String::new(),
            State::Waiting(holder) => format!("waiting for the first statistics of {holder}"),
            State::Closed(since) => format!(
                "{store} has been closed for {}: statistics resume when a process opens it",
                long(since.as_secs_f64())
            ),
            State::Silent(holder, since) => format!(
                "{holder} has {store} open and has written no statistics for {}: it is stopped, \
                 or its device is full or does not respond",
                long(since.as_secs_f64())
            ),
            State::Unanswered(holder) => format!(
                "{holder} has {store} open and writes no statistics: it only reads the store, or \
                 its option stats_on_request is off, or its version of vlsm is older"
            ),
        }
    }

    /// The worst fault that the store reports with its figures.
    fn alarm(&self) -> Option<&'static str> {
        let health = self.reading.as_ref()?.health;
        match (health.read_only, health.out_of_space) {
            (true, _) => Some("the store is read-only after a failure: see its file LOG"),
            (_, true) => Some("the device is full: writes are refused until there is space"),
            _ => None,
        }
    }

    fn title(&self) -> Line<'static> {
        let mut spans = vec![" vlsm top ".bold().fg(Color::Black).bg(Color::Cyan)];
        spans.push(format!(" {}", self.store).bold());
        if let Some(reading) = &self.reading {
            let Reading { process, uptime, seconds, .. } = reading;
            let text =
                format!("  process {process}, open for {}, last {seconds:.1} s", long(*uptime));
            spans.push(Span::raw(text));
        }
        Line::from(spans)
    }

    fn keys(&self) -> Line<'static> {
        let pause = if self.paused { "p goes on" } else { "p pauses" };
        let other = if self.keyspaces { "k levels" } else { "k keyspaces" };
        let text = format!(" q quits  {pause}  {other}  +/- {} s", self.interval);
        let mut spans = vec![text.fg(Color::DarkGray)];
        if self.paused {
            spans.push("  paused".bold().fg(Color::Yellow));
        }
        Line::from(spans)
    }
}

/// Draws the view.
pub fn draw(view: &View, area: Rect, buf: &mut Buffer) {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("vlsm top needs {} x {}", LEAST.0, LEAST.1);
        Paragraph::new(text).wrap(Wrap { trim: true }).render(area, buf);
        return;
    }
    let mut left = area;
    view.title().render(take(&mut left, 1), buf);
    let keys = Rect { y: left.bottom() - 1, height: 1, ..left };
    view.keys().render(keys, buf);
    left.height -= 1;
    let colour = if matches!(view.state, State::Waiting(_)) { Color::Cyan } else { Color::Yellow };
    remark(&view.state_text(), colour, &mut left, buf);
    remark(view.alarm().unwrap_or_default(), Color::Red, &mut left, buf);
    let Some(reading) = &view.reading else { return };
    match area.width >= TWO_COLUMNS {
        true => columns(view, reading, left, buf),
        false => stacked(view, reading, left, buf),
    }
    // Figures that are not current are dimmed.
    if !matches!(view.state, State::Live) {
        buf.set_style(left, Style::new().add_modifier(Modifier::DIM));
    }
}

/// A sentence, wrapped at the width of the screen.
fn remark(text: &str, colour: Color, left: &mut Rect, buf: &mut Buffer) {
    if text.is_empty() {
        return;
    }
    // Wrapped words may take one line more than their number of letters.
    let width = usize::from(left.width) - 2;
    let (mut rows, mut column) = (1, 0);
    for word in text.split(' ').map(|word| word.chars().count()) {
        if column > 0 && column + word > width {
            (rows, column) = (rows + 1, 0);
        }
        column += word + 1;
        while column > width + 1 {
            (rows, column) = (rows + 1, column - width);
        }
    }
    let area = take(left, rows);
    let area = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let text = Paragraph::new(text).wrap(Wrap { trim: true });
    text.style(Style::new().fg(colour)).render(area, buf);
}

/// The upper part of the remaining area.
fn take(left: &mut Rect, height: u16) -> Rect {
    let height = height.min(left.height);
    let taken = Rect { height, ..*left };
    *left = Rect { y: left.y + height, height: left.height - height, ..*left };
    taken
}

fn columns(view: &View, reading: &Reading, mut left: Rect, buf: &mut Buffer) {
    let half = left.width / 2;
    // A frame takes two columns on each side.
    let (one, other) = (usize::from(half) - 4, usize::from(left.width - half) - 4);
    let whole = usize::from(left.width) - 4;
    let rates = view::rates(&reading.rates, &view.history, one);
    pair([rates, view::latencies(reading, other)], half, &mut left, buf);
    if view.keyspaces {
        framed(view::keyspaces(reading, whole), &mut left, buf);
        return;
    }
    framed(view::levels(reading, whole), &mut left, buf);
    pair([view::waits(reading, one), view::memory(reading, other)], half, &mut left, buf);
    if reading.keyspaces.len() > 1 {
        framed(view::keyspaces(reading, whole), &mut left, buf);
    }
}

/// Two sections side by side.
fn pair(sections: [Section; 2], half: u16, left: &mut Rect, buf: &mut Buffer) {
    let lines = sections.iter().map(|section| section.lines.len()).max().unwrap_or(0);
    if left.height < 3 {
        return;
    }
    let area = take(left, lines as u16 + 2);
    let [one, other] = sections;
    frame(one, Rect { width: half, ..area }, buf);
    let rest = Rect { x: area.x + half, width: area.width - half, ..area };
    frame(other, rest, buf);
}

fn framed(section: Section, left: &mut Rect, buf: &mut Buffer) {
    if left.height >= 3 {
        let height = section.lines.len() as u16 + 2;
        frame(section, take(left, height), buf);
    }
}

fn frame(section: Section, area: Rect, buf: &mut Buffer) {
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(format!(" {} ", section.title).bold())
        .padding(Padding::horizontal(1));
    Paragraph::new(section.lines).block(block).render(area, buf);
}

/// One section below the other.
fn stacked(view: &View, reading: &Reading, mut left: Rect, buf: &mut Buffer) {
    let width = usize::from(left.width) - 1;
    let rates = view::rates(&reading.rates, &view.history, width);
    let sections = match view.keyspaces {
        true => vec![rates, view::keyspaces(reading, width)],
        false => vec![
            rates,
            view::waits(reading, width),
            view::latencies(reading, width),
            view::levels(reading, width),
            view::memory(reading, width),
        ],
    };
    for (number, section) in sections.into_iter().enumerate() {
        // Rates need no heading, and a heading alone is useless.
        if number > 0 && left.height < 2 {
            return;
        }
        if number > 0 {
            Line::from(section.title.bold()).render(take(&mut left, 1), buf);
        }
        let height = section.lines.len() as u16;
        let area = take(&mut left, height);
        Paragraph::new(section.lines)
            .render(Rect { x: area.x + 1, width: area.width - 1, ..area }, buf);
    }
}

/// The view as plain text.
pub fn printed(view: &View, width: u16) -> String {
    let area = Rect::new(0, 0, width, PRINTED_HEIGHT);
    let mut buf = Buffer::empty(area);
    draw(view, area, &mut buf);
    // The last line names the keys.
    let text = text_of(&buf, PRINTED_HEIGHT - 1);
    format!("{}\n", text.trim_end())
}

/// The first rows of a screen.
pub fn text_of(buf: &Buffer, rows: u16) -> String {
    let row = |y: u16| {
        let cells = (0..buf.area.width).map(|x| buf[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..rows.min(buf.area.height)).map(row).collect()
}
