//! The terminal: draws several times a second, and handles keys.
//!
//! The terminal is restored when the view ends by a key, a failure, a panic, or a signal that asks
//! the program to end. When the terminal itself goes away, the process ends at once
//! ([`end_with_the_terminal`]).

use super::draw::{View, draw};
use super::watch::Watch;
use crate::failure::{Failure, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for a key.
const TICK: Duration = Duration::from_millis(200);

/// Restores the terminal when it is dropped.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Shows the store until the user quits.
///
/// # Errors
/// The terminal fails, or the statistics cannot be read.
pub fn run(mut watch: Watch) -> Result {
    let failed = |error: io::Error| Failure::new(format!("cannot use the terminal: {error}"));
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, ended.clone()).map_err(failed)?;
    }
    end_with_the_terminal();
    let mut view = View::of(&watch);
    // A panic restores the terminal before it is printed.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let _restore = Restore;
    while !ended.load(Ordering::Relaxed) {
        if let Some(reading) = watch.step(Instant::now())? {
            view.add(reading);
        }
        (view.state, view.paused, view.interval) = (watch.state, watch.paused, watch.interval);
        let drawn = terminal.draw(|frame| draw(&view, frame.area(), frame.buffer_mut()));
        drawn.map_err(failed)?;
        let wait = event::poll(TICK);
        match wait {
            Ok(false) => {}
            Ok(true) => {
                if let Event::Key(key) = event::read().map_err(failed)?
                    && key.kind != KeyEventKind::Release
                    && is_quit(&mut watch, &mut view, key)
                {
                    break;
                }
            }
            // A signal, perhaps one that ends the program.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Ends the process when the terminal goes away. Nothing can be restored then, and the wait for a
/// key would never end: it reads the end of the terminal again and again.
fn end_with_the_terminal() {
    std::thread::spawn(|| {
        let out = io::stdout();
        // It waits for no events, so only a hang-up or a signal ends the wait.
        while poll(&mut [PollFd::new(&out, PollFlags::empty())], None).is_err() {}
        std::process::exit(1);
    });
}

/// Handles a key. True if it ends the view.
pub fn is_quit(watch: &mut Watch, view: &mut View, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc | KeyCode::Char('q' | 'Q') => return true,
        KeyCode::Char('c' | 'd') if control => return true,
        KeyCode::Char('p' | ' ') => watch.paused = !watch.paused,
        KeyCode::Char('k') => view.keyspaces = !view.keyspaces,
        KeyCode::Char('+' | '=') => watch.change_interval(true),
        KeyCode::Char('-') => watch.change_interval(false),
        _ => {}
    }
    false
}
