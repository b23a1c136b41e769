//! Damage at rest: a small store with every kind of file, closed in order. Then one byte is
//! flipped, one file is cut, two parts of files are exchanged, or files are removed. An open and a
//! read of the whole store must return an error or the same answers as before: never another
//! answer, a panic, or an endless loop.
//!
//! An open that is refused changes no file, not even leftovers of a crash. `salvaged` covers opens
//! that salvage damage.
//!
//! The undamaged store must read as written. Each run may take `PATIENCE` times the steps of an
//! undamaged one.

mod salvaged;

pub use salvaged::Salvaged;

use crate::disk::Disk;
use crate::env::{End, SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::{Contents, Op, Write};
use crate::rng::Rng;
use crate::salvage::{LEFTOVERS, same};
use crate::world::{FOLDER, MERGES, SPACES, World, tiny_options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm::Options;
use vlsm_core::{Bytes, Error};

/// The factor of steps that a run on a damaged store may take.
const PATIENCE: u64 = 20;

/// One case of damage.
#[derive(Debug, Clone)]
pub enum Harm {
    /// The bits of the mask are flipped in one byte.
    Flip(PathBuf, u64, u8),
    /// The file ends at this offset.
    Cut(PathBuf, u64),
    /// Two parts of this length are exchanged.
    Swap([(PathBuf, u64); 2], u64),
    /// Two files are exchanged.
    Exchange(PathBuf, PathBuf),
    /// All bytes of the file are zeros.
    Zero(PathBuf),
    /// The files are removed.
    Remove(Vec<PathBuf>),
}

/// The answers of damaged stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Errors, by the kind of the damaged file.
    pub errors: BTreeMap<String, u64>,
    /// Right answers, by the kind of the damaged file.
    pub right: BTreeMap<String, u64>,
}

impl Told {
    /// Adds the answers of other stores.
    pub fn add(&mut self, other: &Self) {
        for (sum, counts) in [(&mut self.errors, &other.errors), (&mut self.right, &other.right)] {
            for (kind, count) in counts {
                *sum.entry(kind.clone()).or_default() += count;
            }
        }
    }
}

/// A closed store.
pub struct AtRest {
    disk: Disk,
    options: Options,
    contents: Contents,
    /// The steps of a run that reads the whole undamaged store.
    steps: u64,
}

impl AtRest {
    /// Creates a store of about 64 KB: several levels, L0, and a WAL that holds the newest batches.
    ///
    /// # Errors
    /// The failure.
    pub fn new(shape: &str) -> Result<Self, String> {
        let (disk, options) = (Disk::new(), options(shape));
        let given = options.clone();
        let outcome = SimEnv::run(&SimConfig::new(1), &disk, move |env| {
            let world = World::open(&env, &given).map_err(|error| error.to_string())?;
            fill(&world)
                .and_then(|contents| world.close().map(|()| contents))
                .map_err(|error: Error| error.to_string())
        });
        let contents = outcome.expect("a store is made")?;
        for name in LEFTOVERS {
            disk.set_content(&Path::new(FOLDER).join(name), b"left over".to_vec());
        }
        let mut this = Self { disk, options, contents, steps: u64::MAX / PATIENCE };
        let (steps, answer) = this.read(&this.disk.fork())?;
        answer.map_err(|error| format!("undamaged: {error}"))?;
        this.steps = steps;
        Ok(this)
    }

    /// Its files with their lengths, without leftovers.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut files = self.disk.files();
        files.retain(|path, _| !LEFTOVERS.iter().any(|name| path.ends_with(name)));
        files
    }

    /// Opens and reads the store with this damage.
    ///
    /// # Errors
    /// A wrong answer, or no answer.
    pub fn harm(&self, harm: &Harm, told: &mut Told) -> Result<(), String> {
        let disk = self.disk.fork();
        let Some(path) = apply(&disk, harm) else { return Ok(()) };
        let (_, answer) = self.read(&disk).map_err(|why| format!("{harm:?}: {why}"))?;
        let counts = if answer.is_ok() { &mut told.right } else { &mut told.errors };
        *counts.entry(kind(&path)).or_default() += 1;
        Ok(())
    }

    /// Opens the store and reads all of it. Returns the steps, and the store's error if there was
    /// one. Checks that a refused open changed nothing.
    fn read(&self, disk: &Disk) -> Result<(u64, Result<(), Error>), String> {
        let (options, contents) = (self.options.clone(), self.contents.clone());
        let config = SimConfig { steps_max: self.steps * PATIENCE, ..SimConfig::new(2) };
        let (before, opened) = (disk.fork(), Arc::new(AtomicBool::new(false)));
        let open = opened.clone();
        let outcome = SimEnv::run(&config, disk, move |env| -> Result<(), Error> {
            let world = World::open(&env, &options)?;
            open.store(true, Ordering::SeqCst);
            let found = world.contents()?;
            if let Some(why) = contents.difference(&found) {
                return Err(Error::Internal(format!("WRONG ANSWER: {why}")));
            }
            for space in 0..contents.spaces() {
                for (key, value) in contents.pairs(space) {
                    if world.get(space, key)?.as_deref() != Some(value) {
                        return Err(Error::Internal("WRONG ANSWER: a get".into()));
                    }
                }
            }
            world.close()
        });
        match outcome.end {
            End::Done(Err(Error::Internal(why))) | End::Failed(why) => Err(why),
            End::Done(answer) => {
                if !opened.load(Ordering::SeqCst) {
                    let refused = |why| format!("the opening was refused, but {why}");
                    same(&before, disk).map_err(refused)?;
                }
                Ok((outcome.steps, answer))
            }
            End::Crashed => Err("crashed unasked".into()),
        }
    }
}

fn options(shape: &str) -> Options {
    let mut options = tiny_options(shape, &mut Rng::new(3));
    options.workers = 1;
    options.io_threads = 1;
    options.block_bytes = Bytes(1024);
    options.bits_per_key = 10;
    options.wal_file_bytes = Bytes::kib(16);
    options.wal_limit = Bytes::mib(1);
    options.manifest_bytes = Bytes(2 << 10);
    options.log = true;
    options.policy.tree.memtable_bytes = Bytes::kib(4);
    options.policy.tree.sst_max = Bytes::kib(4);
    options.policy.shapes.vlsm.sst_min = Bytes::kib(1);
    options.policy.tree.l1_bytes = Bytes::kib(8);
    options.memory_limit = options.least_memory() * 8;
    options
}

fn fill(world: &World) -> Result<Contents, Error> {
    let mut contents = Contents::new(SPACES.len());
    let mut rng = Rng::new(4);
    for round in 0..120_u64 {
        let mut writes = Vec::new();
        for _ in 0..3 {
            let (space, key) = (rng.index(SPACES.len()), format!("k{:03}", rng.below(300)));
            let value = format!("{round}:{}", "v".repeat(rng.index(150)));
            let op = match rng.below(20) {
                0..4 => Op::Delete,
                4 => Op::DeleteRange(format!("k{:03}", rng.below(300)).into_bytes()),
                5..8 if space == MERGES => Op::Merge(value.into_bytes()),
                5..7 => Op::Expiring(value.into_bytes()),
                _ => Op::Put(value.into_bytes()),
            };
            writes.push(Write { space, key: key.into_bytes(), op });
        }
        world.write(&writes, Promise::Process)?;
        writes.iter().for_each(|write| contents.apply(write));
        if round == 100 {
            world.flush()?;
            world.wait_idle()?;
        }
    }
    Ok(contents)
}

/// Applies the damage. Returns the file that it is counted for, or none if it changed nothing.
fn apply(disk: &Disk, harm: &Harm) -> Option<PathBuf> {
    let read = |path: &Path| disk.content(path);
    match harm {
        Harm::Flip(path, offset, mask) => {
            let mut bytes = read(path)?;
            *bytes.get_mut(*offset as usize)? ^= mask;
            disk.set_content(path, bytes);
            Some(path.clone())
        }
        Harm::Cut(path, len) => {
            let mut bytes = read(path)?;
            bytes.truncate(*len as usize);
            disk.set_content(path, bytes);
            Some(path.clone())
        }
        Harm::Zero(path) => {
            disk.set_content(path, vec![0; read(path)?.len()]);
            Some(path.clone())
        }
        Harm::Remove(paths) => {
            for path in paths {
                disk.fs().remove(path).ok()?;
            }
            paths.first().cloned()
        }
        Harm::Exchange(a, b) => {
            let (one, other) = (read(a)?, read(b)?);
            disk.set_content(a, other);
            disk.set_content(b, one);
            Some(a.clone())
        }
        Harm::Swap([(a, from), (b, to)], len) => {
            let part = |path: &Path, at: u64| {
                read(path)?.get(at as usize..(at + len) as usize).map(<[u8]>::to_vec)
            };
            let (one, other) = (part(a, *from)?, part(b, *to)?);
            if one == other {
                return None;
            }
            for (path, at, part) in [(a, from, other), (b, to, one)] {
                let mut bytes = read(path)?;
                bytes[*at as usize..(*at + len) as usize].copy_from_slice(&part);
                disk.set_content(path, bytes);
            }
            Some(a.clone())
        }
    }
}

/// The kind of a file, by its name.
#[must_use]
pub fn kind(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('.') {
        Some((_, end)) => end.to_owned(),
        None => name.split('-').next().unwrap_or_default().to_owned(),
    }
}
