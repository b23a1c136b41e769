//! The statistics of a store that another process has open.
//!
//! 1. The request is a file with the present time. It expires after ten seconds, so it is renewed
//!    each second ([`Source::ask`]).
//! 2. The process then replaces its page each second ([`Source::look`]).
//! 3. At the end the request is removed, unless another reader has renewed it.
//!
//! The store is not opened. Its LOCK tells whether a process has it open.

use super::page::Page;
use crate::catalog;
use crate::failure::{Failure, Result};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use vlsm::LockHolder;
use vlsm_disk::fs::Fs;
use vlsm_disk::fs::posix::PosixFs;

const PAGE: &str = "STATS.prom";
const WANTED: &str = "STATS.wanted";
/// The version of pages that this program knows.
const FORMAT: f64 = 1.0;

/// The process that has a store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// No process.
    Nobody,
    /// The process with this id.
    Process(u32),
    /// A process whose id the system does not reveal.
    Somebody,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => f.write_str("no process"),
            Self::Process(id) => write!(f, "process {id}"),
            Self::Somebody => f.write_str("a process"),
        }
    }
}

/// The folder of a store that is watched.
pub struct Source {
    dir: PathBuf,
    /// The time of the last request, in milliseconds since the Unix epoch.
    asked: Cell<u128>,
}

impl Source {
    /// Starts to request the statistics of a store.
    ///
    /// # Errors
    /// There is no store, no process has it open, or the folder may not be written to.
    pub fn open(dir: &Path) -> Result<Self> {
        catalog::current(dir)?;
        let source = Self { dir: dir.to_owned(), asked: Cell::new(0) };
        if source.holder() == Holder::Nobody {
            let dir = dir.display();
            return Err(Failure::new(format!(
                "{dir} is not open in any process, and top shows only a store in use: start the \
                 program that uses it, or see what the store holds with `vlsm stats {dir}`"
            )));
        }
        source.ask()?;
        Ok(source)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The process that has the store open.
    pub fn holder(&self) -> Holder {
        let lock = self.dir.join("LOCK");
        match PosixFs.lock_holder(&lock) {
            LockHolder::Process(id) => Holder::Process(id),
            LockHolder::ThisProcess => Holder::Process(std::process::id()),
            // The system does not tell: try briefly to lock it as a reader.
            _ => match PosixFs.lock_shared(&lock) {
                Ok(None) => Holder::Somebody,
                Ok(Some(_)) | Err(_) => Holder::Nobody,
            },
        }
    }

    /// Requests the statistics, unless the store is gone: a request in an otherwise empty folder
    /// would prevent a new store there.
    ///
    /// # Errors
    /// The folder may not be written to.
    pub fn ask(&self) -> Result {
        if !self.dir.join("CURRENT").exists() {
            return Ok(());
        }
        let path = self.dir.join(WANTED);
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let text = format!("{millis}\n");
        // The file is overwritten, so that no process finds it empty. The length stays the same
        // until 2286.
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        let write = |mut file: File| {
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        };
        opened.and_then(write).map_err(|error| {
            let why = "the process that has the store open writes its statistics when it finds \
                       this file: run top as a user who may write to the folder";
            Failure::new(format!("cannot write {}: {error}; {why}", path.display()))
        })?;
        self.asked.set(millis);
        Ok(())
    }

    /// The current page.
    ///
    /// # Errors
    /// The page may not be read, or this program does not understand it.
    pub fn look(&self) -> Result<Option<Page>> {
        let path = self.dir.join(PAGE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file("cannot read", &path, &error)),
        };
        let wrong = |why: String| Failure::new(format!("cannot read {}: {why}", path.display()));
        let page = Page::parse(&text).map_err(wrong)?;
        let formats = page.values_of("vlsm_page_info", "format");
        let format = formats.first().and_then(|format| format.parse().ok()).unwrap_or(0.0);
        if format != FORMAT {
            let version = page.values_of("vlsm_page_info", "version").pop().unwrap_or_default();
            return Err(wrong(format!(
                "vlsm {version} wrote it in the format {format}, and this program, vlsm {}, knows \
                 the format {FORMAT}: use the program of the same version",
                crate::VERSION
            )));
        }
        Ok(Some(page))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let path = self.dir.join(WANTED);
        let ours = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        if ours == Some(self.asked.get()) {
            // If this fails, the request expires, and the next open removes it.
            let _ = fs::remove_file(&path);
        }
    }
}
