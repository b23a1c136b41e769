//! Administrators of a store, concurrent with its clients: they copy it, restore copies, verify,
//! scan, and create keyspaces.
//!
//! A copy is a store of its own and must show an exact prefix: all batches acknowledged before the
//! copy began, and none issued after it ended ([`crate::ledger`]). Of several copies into one
//! folder exactly one is made, and the others do not touch it.
//!
//! After each life of the store, whatever its end, all its copies are opened on a machine without
//! faults, and then removed. A copy that was reported as done exists, even after a power failure.
//! Any other copy shows a right prefix, too, or is refused because it is not a store.

use crate::disk::Disk;
use crate::env::{End, SimConfig, SimEnv};
use crate::ledger::{Cuts, Ledger};
use crate::life::{Limits, Shared, wrong};
use crate::oracle::{ALL, Contents};
use crate::rng::Rng;
use crate::world::{FOLDER, World, pairs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Batch, Options, WriteOptions};
use vlsm_core::{Error, Result};
use vlsm_disk::Env;

/// The most operations of an administrator in one life.
const OPS_MAX: u64 = 4;

/// A copy that was begun, perhaps by several tasks at once.
pub(crate) struct Copy {
    folder: PathBuf,
    /// Whether the copy was reported as done.
    done: bool,
    /// The cuts that it must show at least.
    must: Cuts,
    /// The books at its end, or at the end of the store's life. It may show what was issued by
    /// then.
    books: Option<Ledger>,
}

impl Copy {
    fn begin(folder: &Path, must: &Cuts) -> Self {
        Self { folder: folder.to_owned(), done: false, must: must.clone(), books: None }
    }

    /// Records that the copy has ended.
    pub fn settle(&mut self, books: &Ledger) {
        self.books.get_or_insert_with(|| books.clone());
    }

    fn check(&self, view: &Contents, expired: bool) -> std::result::Result<(), String> {
        let mut books = self.books.clone().ok_or("a copy that has not ended")?;
        if expired {
            books.expire();
        }
        let checked = books.check(view, &self.must, &books.issued());
        checked.map_err(|why| format!("{}: {why}", self.folder.display()))
    }
}

/// One administrator.
pub(crate) struct Admin {
    world: World,
    env: Arc<SimEnv>,
    shared: Arc<Shared>,
    rng: Rng,
    limits: Limits,
}

impl Admin {
    pub fn new(
        world: &World,
        env: &Arc<SimEnv>,
        shared: &Arc<Shared>,
        rng: Rng,
        limits: Limits,
    ) -> Self {
        let (world, env, shared) = (world.clone(), env.clone(), shared.clone());
        Self { world, env, shared, rng, limits }
    }

    /// Runs all operations of one life.
    pub fn run(&mut self) -> std::result::Result<(), String> {
        for _ in 0..self.rng.between(1, OPS_MAX) {
            self.env.sleep(Duration::from_micros(self.rng.below(20_000)));
            let (what, result) = match self.rng.below(10) {
                0..6 => ("copy", self.copy()),
                6 | 7 => ("keyspace", self.make_space()),
                8 => ("verify", self.verify_in_use()),
                _ => ("scan", self.scan()),
            };
            if let Err(error) = result {
                self.tolerate(error).map_err(|error| format!("{what}: {error}"))?;
            }
        }
        Ok(())
    }

    fn note(&self, what: &str) {
        self.shared.tally.lock().note(what);
    }

    /// Accepts errors that failing file calls explain. The administrators' calls read and write.
    fn tolerate(&self, error: Error) -> Result<()> {
        if self.limits.tolerate(&error, false) || self.limits.tolerate(&error, true) {
            self.note("refused");
            return Ok(());
        }
        Err(error)
    }

    /// Makes a copy, perhaps two at once into one folder, perhaps while a keyspace is created. Then
    /// uses the copy.
    fn copy(&mut self) -> Result<()> {
        let folder = PathBuf::from(format!("/copy-{:016x}", self.env.random()));
        let must = self.shared.ledger.lock().acknowledged();
        self.shared.copies.lock().push(Copy::begin(&folder, &must));
        let count = if self.rng.one_in(3) { 2 } else { 1 };
        let copy = |_| {
            let (world, folder) = (self.world.clone(), folder.clone());
            self.env.task("copy", move || world.db().checkpoint(&folder).map(drop))
        };
        let tasks: Vec<_> = (0..count).map(copy).collect();
        let made = if self.rng.one_in(2) { self.make_space() } else { Ok(()) };
        let results = tasks.into_iter().map(|task| task.join());
        let results: Option<Vec<Result<()>>> = results.collect();
        let results = results.ok_or_else(|| wrong("a copy vanished".into()))?;
        let done = results.iter().filter(|result| result.is_ok()).count();
        self.ended(&folder, done > 0);
        if done > 1 {
            return Err(wrong("two copies were made in one folder".into()));
        }
        for error in results.into_iter().filter_map(Result::err) {
            match count == 2 && is_taken(&error, done == 0) {
                true => self.note("second copy refused"),
                false => self.tolerate(error)?,
            }
        }
        if done == 0 && !self.limits.writes_may_fail && !self.limits.full {
            return Err(wrong("of two copies into one folder none was made".into()));
        }
        made?;
        if done == 0 {
            return Ok(());
        }
        self.note(if count == 2 { "one of two copies" } else { "copy" });
        match self.rng.below(4) {
            0 => self.look_at(&folder, true),
            1 => self.look_at(&folder, false),
            2 => self.restore(&folder, &must),
            _ => Ok(()),
        }
    }

    /// Records the end of a copy.
    fn ended(&self, folder: &Path, done: bool) {
        let ledger = self.shared.ledger.lock();
        for copy in self.shared.copies.lock().iter_mut().filter(|copy| copy.folder == folder) {
            copy.done = done;
            copy.settle(&ledger);
        }
    }

    /// Opens a copy and checks it. Also writes to it unless it is read-only.
    fn look_at(&mut self, folder: &Path, read_only: bool) -> Result<()> {
        let copy = World::open_copy(&self.env, folder, self.world.db().options(), read_only)?;
        let contents = copy.contents()?;
        self.check_copy(folder, &contents)?;
        if !read_only {
            // The two writes together do not change the contents.
            let (mut batch, space) = (Batch::new(), copy.space(0));
            batch.put(&space, "of the copy", "value");
            batch.delete(&space, "of the copy");
            copy.db().write(&batch, WriteOptions::default())?;
            copy.flush()?;
        }
        copy.close()?;
        self.note(if read_only { "copy read" } else { "copy written" });
        Ok(())
    }

    fn check_copy(&self, folder: &Path, contents: &Contents) -> Result<()> {
        let copies = self.shared.copies.lock();
        let mut copies = copies.iter().filter(|copy| copy.folder == folder);
        copies.try_for_each(|copy| copy.check(contents, false)).map_err(wrong)
    }

    /// Restores a copy into another folder, and verifies the result.
    fn restore(&mut self, folder: &Path, must: &Cuts) -> Result<()> {
        let env: Arc<dyn Env> = self.env.clone();
        let target = PathBuf::from(format!("/copy-{:016x}", self.env.random()));
        self.shared.copies.lock().push(Copy::begin(&target, must));
        let restored = vlsm::restore_with(&env, folder, &target);
        self.ended(&target, restored.is_ok());
        restored?;
        let report = vlsm::verify_with(&env, &target, &mut |_| {})?;
        // Files that cannot be listed or read count as damaged.
        if report.damaged && !self.limits.reads_may_fail && !self.limits.lists_may_fail {
            return Err(wrong(format!("a restored copy is damaged: {report:?}")));
        }
        self.note("restore");
        self.look_at(&target, self.rng.clone().one_in(2))
    }

    fn make_space(&self) -> Result<()> {
        if self.world.make_space()? {
            self.note("keyspace");
        }
        Ok(())
    }

    /// Checks that a store in use is not verified, because its files change.
    fn verify_in_use(&self) -> Result<()> {
        let env: Arc<dyn Env> = self.env.clone();
        match vlsm::verify_with(&env, Path::new(FOLDER), &mut |_| {}) {
            Err(Error::Locked { .. }) => {
                self.note("verify refused");
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Err(wrong("a store in use was verified".into())),
        }
    }

    /// Reads the whole store slowly, as an export does.
    fn scan(&mut self) -> Result<()> {
        let must = self.shared.ledger.lock().acknowledged();
        let view = self.world.snapshot();
        let may = self.shared.ledger.lock().issued();
        let mut contents = Vec::new();
        for space in 0..view.spaces() {
            let slowly = view.iter(space, &ALL).inspect(|_| {
                if self.rng.one_in(20) {
                    self.env.sleep(Duration::from_micros(self.rng.below(500)));
                }
            });
            contents.push((space, pairs(slowly)?));
        }
        let contents = contents.into_iter().collect();
        let ledger = self.shared.ledger.lock();
        ledger.check(&contents, &must, &may).map_err(|why| wrong(format!("scan: {why}")))?;
        drop(ledger);
        self.note("scan");
        Ok(())
    }
}

/// Whether a copy's folder is refused because another copy exists or is being made there, or
/// because a failed copy (`failed`) is being removed.
fn is_taken(error: &Error, failed: bool) -> bool {
    match error {
        Error::Locked { .. } | Error::AlreadyExists { .. } => true,
        Error::InvalidArgument(_) => failed,
        _ => false,
    }
}

/// Opens all copies that were begun, on a machine without faults, and removes them.
pub(crate) fn check_copies(
    shared: &Arc<Shared>,
    disk: &Disk,
    options: &Options,
    config: SimConfig,
) -> std::result::Result<(), String> {
    let copies = std::mem::take(&mut *shared.copies.lock());
    if copies.is_empty() {
        return Ok(());
    }
    let (shared, options) = (shared.clone(), options.clone());
    let outcome = SimEnv::run(&config, disk, move |env| {
        for copy in copies {
            let read_only = env.random().is_multiple_of(2);
            let what = check_one(&env, &copy, &options, read_only)?;
            shared.tally.lock().note(what);
            remove(&env, &copy.folder);
        }
        Ok(())
    });
    match outcome.end {
        End::Done(checked) => checked.map_err(|why: String| format!("{why}\n{}", outcome.tail)),
        end => Err(format!("copies: {end:?}\n{}", outcome.tail)),
    }
}

/// Checks a copy after the end of the store's life. Returns the result.
fn check_one(
    env: &Arc<SimEnv>,
    copy: &Copy,
    options: &Options,
    read_only: bool,
) -> std::result::Result<&'static str, String> {
    let told = |error: Error| {
        let done = if copy.done { "that was done" } else { "that was not done" };
        format!("{}, a copy {done}: {error}", copy.folder.display())
    };
    let world = match World::open_copy(env, &copy.folder, options, read_only) {
        Err(Error::Missing { .. } | Error::NotAStore { .. }) if !copy.done => {
            return Ok("unfinished copy refused");
        }
        opened => opened.map_err(told)?,
    };
    let contents = world.contents().map_err(told)?;
    copy.check(&contents, true)?;
    world.close().map_err(told)?;
    Ok(if copy.done { "copy that lasts" } else { "unfinished copy whole" })
}

fn remove(env: &Arc<SimEnv>, folder: &Path) {
    for name in env.fs().read_dir(folder).unwrap_or_default() {
        let _ = env.fs().remove(&folder.join(name));
    }
}
