//! Pebble, the LSM store of CockroachDB, in Go: a shared library (folder `pebble/`) that is loaded
//! at run time, so that generators, driver, clock and report are the same code as for all stores.
//!
//! A call goes from Rust to Go by C's calling convention. Key and value go as pointer and length
//! and are copied once, into Pebble's own batch, as they are for a caller in Go; of a value that is
//! read only the length comes back. What a call costs is measured at each opening, by an empty one
//! of the same shape, and is in the report (`call cost`): it is part of every latency and of the
//! CPU time.
//!
//! - WAL: a write without sync is acknowledged when it is queued for the WAL's thread, *before*
//!   `write()`: less than our buffered mode promises. There is nothing between that and a sync.
//! - All I/O goes through the page cache: Pebble has no direct I/O.
//! - `default`: Pebble's own sizes, memtables of 4 MB, as many as the given memory holds. `sized`:
//!   memtables and the first level below L0 (Pebble's Lbase) as specified. SSTs of 2 MB upwards,
//!   doubling by level, and L0's thresholds are Pebble's in both.
//! - Compactions: one at a time, up to as many as cores when L0 or debt grows: Pebble's own rule.
//!   Regions are instances that share the block cache; each has that many.
//!
//! The library stays loaded for good: Go's runtime cannot be unloaded.

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io};
use libloading::Library;
use serde::Deserialize;
use serde_json::json;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};
use vlsm::Durability;
use vlsm_core::units::MIB;
use vlsm_measure::clock::Clock;
use vlsm_measure::store::{LevelStats, Marks, StoreResult, StoreStats, WaitStats, Write};

pub const KIND: Kind = Kind {
    name: "pebble",
    configs: &[
        ("default", "Pebble's own sizes, memory as specified"),
        ("sized", "memtables and the level below L0 as specified"),
    ],
    version: || api()?.version(),
    open,
};

/// Pebble's own size of a memtable.
const MEMTABLE: u64 = 4 * MIB;

type Message = *mut c_char;
type Put = unsafe extern "C" fn(i32, *const u8, usize, *const u8, usize) -> Message;
type Delete = unsafe extern "C" fn(i32, *const u8, usize) -> Message;
type Get = unsafe extern "C" fn(i32, *const u8, usize, *mut u8, usize, *mut i64) -> Message;
type Scan = unsafe extern "C" fn(
    i32,
    *const u8,
    usize,
    usize,
    *mut u8,
    usize,
    *mut usize,
    *mut usize,
) -> Message;
type Open = unsafe extern "C" fn(*const u8, usize, *const u8, usize, i32, *mut i32) -> Message;
type OfHandle = unsafe extern "C" fn(i32) -> Message;

/// The library's functions.
struct Api {
    free: unsafe extern "C" fn(Message),
    version: unsafe extern "C" fn() -> Message,
    cache_new: unsafe extern "C" fn(u64) -> i32,
    cache_free: unsafe extern "C" fn(i32),
    open: Open,
    close: OfHandle,
    put: Put,
    nothing: Put,
    delete: Delete,
    write: Delete,
    get: Get,
    scan: Scan,
    flush: OfHandle,
    stats: OfHandle,
    marks: OfHandle,
}

/// The folder of its source, where `peers/build` leaves the library too.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pebble");

fn library_name() -> String {
    format!("{}pebble{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// The library, loaded at its first use.
fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(String::clone)
}

fn load() -> Result<Api, String> {
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folders = beside.into_iter().chain([PathBuf::from(SOURCE)]);
    let file = folders.map(|folder| folder.join(library_name())).find(|file| file.exists());
    let file = file.ok_or_else(|| {
        format!(
            "its library is not built: run peers/build (needs Go), which puts {} in peers/pebble",
            library_name()
        )
    })?;
    // SAFETY: it is our own library; loading it starts Go's runtime and nothing else.
    let library = unsafe { Library::new(&file) };
    let library = library.map_err(|error| format!("{}: {error}", file.display()))?;
    // It stays loaded: its runtime has threads that cannot be stopped.
    Api::of(Box::leak(Box::new(library))).map_err(|error| {
        format!("{} is of another version ({error}): run peers/build", file.display())
    })
}

impl Api {
    fn of(library: &'static Library) -> Result<Self, libloading::Error> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types above are those of the functions in pebble/main.go.
                *unsafe { library.get($name)? }
            };
        }
        Ok(Self {
            free: function!(b"pebble_free"),
            version: function!(b"pebble_version"),
            cache_new: function!(b"pebble_cache_new"),
            cache_free: function!(b"pebble_cache_free"),
            open: function!(b"pebble_open"),
            close: function!(b"pebble_close"),
            put: function!(b"pebble_put"),
            nothing: function!(b"pebble_nothing"),
            delete: function!(b"pebble_delete"),
            write: function!(b"pebble_write"),
            get: function!(b"pebble_get"),
            scan: function!(b"pebble_scan"),
            flush: function!(b"pebble_flush"),
            stats: function!(b"pebble_stats"),
            marks: function!(b"pebble_marks"),
        })
    }

    /// Takes a text from the library; None for null.
    fn take(&self, text: Message) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: a text is the library's own memory with a zero at its end until it is freed.
        let taken = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        unsafe { (self.free)(text) };
        Some(taken)
    }

    /// The outcome of a call.
    #[inline]
    fn done(&self, message: Message) -> StoreResult<()> {
        match message.is_null() {
            true => Ok(()),
            false => Err(format!("pebble: {}", self.take(message).unwrap_or_default()).into()),
        }
    }

    fn version(&self) -> Result<String, String> {
        // SAFETY: it takes nothing.
        self.take(unsafe { (self.version)() }).ok_or_else(|| "it tells no version".to_owned())
    }
}

/// Calls of [`call_cost`] that are timed together.
const CALLS: u64 = 100_000;

/// Nanoseconds of one call that does nothing: the least of several rounds.
fn call_cost() -> Result<f64, String> {
    let api = api()?;
    let (key, value) = ([0_u8; 24], [0_u8; 176]);
    let round = |_| {
        let clock = Clock::start();
        for _ in 0..CALLS {
            // SAFETY: both are as long as said.
            let answer = unsafe { (api.nothing)(0, key.as_ptr(), 24, value.as_ptr(), 176) };
            std::hint::black_box(answer);
        }
        clock.now() as f64 / CALLS as f64
    };
    Ok((0..5).map(round).fold(f64::INFINITY, f64::min))
}

/// A block cache of the library, released with the last instance.
struct Cache(&'static Api, i32);

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: no instance holds this number any more; those that use the cache hold it too.
        unsafe { (self.0.cache_free)(self.1) };
    }
}

struct Tree {
    api: &'static Api,
    handle: i32,
    /// Dropped after the instance.
    _cache: Arc<Cache>,
}

fn open(setup: &Setup) -> Opened {
    let api = api()?;
    let spec = &setup.spec.options;
    let tree = &spec.policy.tree;
    let (memtable, count, l1) = match setup.config {
        "sized" => (tree.memtable_bytes.0, tree.memtable_count as u64, tree.l1_bytes.0),
        _ => (MEMTABLE, (setup.memtables() / MEMTABLE).max(2), 0),
    };
    let text = json!({
        "memtable_bytes": memtable,
        "memtable_count": count,
        "l1_bytes": l1,
        "l0_trigger": if tree.l0_trigger == 1 { 1 } else { 0 },
        "compactions": setup.threads,
        "block_bytes": spec.block_bytes.0,
        "bits_per_key": spec.bits_per_key,
        "sync": spec.durability == Durability::Sync,
        "no_wal": spec.durability == Durability::NoWal,
    })
    .to_string();
    // SAFETY: it takes a number.
    let cache = unsafe { (api.cache_new)(setup.spec.cache) };
    if cache < 0 {
        return Err("pebble: too many caches".into());
    }
    let cache = Arc::new(Cache(api, cache));
    let mut trees: Vec<Box<dyn Instance>> = Vec::new();
    for folder in setup.folders {
        let path = folder.to_str().ok_or("pebble needs a folder with a name in UTF-8")?;
        let mut handle = -1;
        // SAFETY: texts are as long as said; the handle is written before the call returns.
        api.done(unsafe {
            let (path_start, text_start) = (path.as_ptr(), text.as_ptr());
            (api.open)(path_start, path.len(), text_start, text.len(), cache.1, &raw mut handle)
        })?;
        trees.push(Box::new(Tree { api, handle, _cache: cache.clone() }));
    }
    let wal = match spec.durability {
        Durability::Sync => "synced before a write is acknowledged",
        Durability::NoWal => "none",
        _ => "acknowledged before write(), not synced",
    };
    let described: Described = vec![
        ("memtables", format!("{count} × {}", vlsm_core::Bytes(memtable))),
        ("WAL", wal.to_owned()),
        ("jobs' I/O", io(false)),
        ("reads", io(false)),
        ("filter", format!("{} bits/key", spec.bits_per_key)),
        ("call cost", format!("{:.0} ns", call_cost()?)),
    ];
    Ok((trees, described))
}

/// What the library's statistics say, as far as it is used.
#[derive(Deserialize)]
struct Stats {
    wal_bytes: u64,
    flush_bytes: u64,
    compaction_read: u64,
    compaction_written: u64,
    l0_compactions: u64,
    widest_job: u64,
    levels: Vec<Level>,
    waits: Vec<WaitStats>,
    idle: bool,
}

#[derive(Deserialize)]
struct Level {
    tables: u64,
    bytes: u64,
    target: Option<u64>,
}

#[derive(Deserialize)]
struct Told {
    now: f64,
    jobs: Vec<vlsm_measure::report::JobMark>,
}

/// Where bytes begin, as Go wants to see it: nothing has no place.
fn start_of(bytes: &[u8]) -> *const u8 {
    if bytes.is_empty() { null() } else { bytes.as_ptr() }
}

fn start_of_room(room: &mut [u8]) -> *mut u8 {
    if room.is_empty() { null_mut() } else { room.as_mut_ptr() }
}

impl Tree {
    fn told(&self) -> StoreResult<Stats> {
        // SAFETY: the handle is open until this is dropped.
        let text = self.api.take(unsafe { (self.api.stats)(self.handle) }).unwrap_or_default();
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.handle >= 0 {
            // SAFETY: nobody else has this handle, and it is not used again.
            self.api.take(unsafe { (self.api.close)(self.handle) });
        }
    }
}

impl Tree {
    /// Calls with room for what is read, more each time until it was enough.
    fn with_room<T>(
        &self,
        mut call: impl FnMut(&mut [u8]) -> StoreResult<(bool, T)>,
    ) -> StoreResult<(Vec<u8>, T)> {
        let mut room = vec![0; 1 << 16];
        loop {
            let (enough, answer) = call(&mut room)?;
            if enough {
                return Ok((room, answer));
            }
            room.resize(room.len() * 4, 0);
        }
    }

    fn get_into(&self, key: &[u8], room: &mut [u8]) -> StoreResult<Option<usize>> {
        let (api, mut length) = (self.api, -1_i64);
        let (key_start, room_start) = (start_of(key), start_of_room(room));
        // SAFETY: as said at the implementation of `Instance`.
        api.done(unsafe {
            let out = &raw mut length;
            (api.get)(self.handle, key_start, key.len(), room_start, room.len(), out)
        })?;
        Ok(usize::try_from(length).ok())
    }

    /// How many pairs there were, and how far `room` is filled with them.
    fn scan_into(
        &self,
        start: &[u8],
        limit: usize,
        room: &mut [u8],
    ) -> StoreResult<(usize, usize)> {
        let (api, mut used, mut count) = (self.api, 0, 0);
        let (from, room_start) = (start_of(start), start_of_room(room));
        // SAFETY: as said at the implementation of `Instance`.
        api.done(unsafe {
            let (used, count) = (&raw mut used, &raw mut count);
            let length = room.len();
            (api.scan)(self.handle, from, start.len(), limit, room_start, length, used, count)
        })?;
        Ok((count, used))
    }
}

/// Writes in a row as the library takes them: whether it is a put, the two lengths, the two.
fn pack(writes: &[Write<'_>]) -> Vec<u8> {
    let mut row = Vec::new();
    for write in writes {
        let (put, key, value): (u8, _, &[u8]) = match *write {
            Write::Put(key, value) => (1, key, value),
            Write::Delete(key) => (0, key, &[]),
        };
        row.push(put);
        row.extend((key.len() as u32).to_le_bytes());
        row.extend((value.len() as u32).to_le_bytes());
        row.extend(key);
        row.extend(value);
    }
    row
}

/// Takes the pairs apart that the library put into a row.
fn unpack(mut row: &[u8]) -> Pairs {
    let mut pairs = Pairs::new();
    while let Some((lengths, rest)) = row.split_at_checked(8) {
        let length = |at: usize| {
            let bytes: [u8; 4] = lengths[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (key, rest) = rest.split_at(length(0));
        let (value, rest) = rest.split_at(length(4));
        pairs.push((key.to_vec(), value.to_vec()));
        row = rest;
    }
    pairs
}

// SAFETY of all calls: the handle is open until the instance is dropped, each slice is as long as
// said, and the library keeps none of the pointers beyond its return.
impl Instance for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let (key_start, value_start) = (start_of(key), start_of(value));
        self.api.done(unsafe {
            (self.api.put)(self.handle, key_start, key.len(), value_start, value.len())
        })
    }

    fn get(&self, key: &[u8], into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let Some(pairs) = into else { return self.get_into(key, &mut []) };
        let (mut value, length) = self.with_room(|room| {
            let length = self.get_into(key, room)?;
            Ok((length.is_none_or(|length| length <= room.len()), length))
        })?;
        if let Some(length) = length {
            value.truncate(length);
            pairs.push((key.to_vec(), value));
        }
        Ok(length)
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.api.done(unsafe { (self.api.delete)(self.handle, start_of(key), key.len()) })
    }

    fn scan(&self, start: &[u8], limit: usize, into: Option<&mut Pairs>) -> StoreResult<usize> {
        let Some(pairs) = into else { return Ok(self.scan_into(start, limit, &mut [])?.0) };
        let (_, found) = self.with_room(|room| {
            let (count, used) = self.scan_into(start, limit, room)?;
            let found = unpack(&room[..used]);
            Ok((found.len() == count, found))
        })?;
        let count = found.len();
        pairs.extend(found);
        Ok(count)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let row = pack(writes);
        self.api.done(unsafe { (self.api.write)(self.handle, start_of(&row), row.len()) })
    }

    fn flush(&self) -> StoreResult<()> {
        self.api.done(unsafe { (self.api.flush)(self.handle) })
    }

    fn idle(&self) -> StoreResult<bool> {
        Ok(self.told()?.idle)
    }

    fn levels(&self) -> Vec<LevelStats> {
        let levels = self.told().map(|told| told.levels).unwrap_or_default();
        let level = |level: Level| LevelStats {
            tables: level.tables,
            bytes: level.bytes,
            target: level.target,
            ..LevelStats::default()
        };
        levels.into_iter().map(level).collect()
    }

    fn stats(&self) -> StoreStats {
        let Ok(told) = self.told() else { return StoreStats::default() };
        StoreStats {
            wal_bytes: told.wal_bytes,
            flush_bytes: told.flush_bytes,
            compaction_read: told.compaction_read,
            compaction_written: told.compaction_written,
            l0_compactions: told.l0_compactions,
            widest_job: told.widest_job,
            waits: told.waits,
            ..StoreStats::default()
        }
    }

    fn marks(&self, clock: &Clock) -> Marks {
        let text = self.api.take(unsafe { (self.api.marks)(self.handle) }).unwrap_or_default();
        let Ok(told) = serde_json::from_str::<Told>(&text) else { return Marks::default() };
        let marks = Marks { jobs: told.jobs, chains: Vec::new() };
        marks.shifted(clock.now() as f64 / 1e9 - told.now)
    }

    fn close(mut self: Box<Self>) -> StoreResult<()> {
        let handle = std::mem::replace(&mut self.handle, -1);
        self.api.done(unsafe { (self.api.close)(handle) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_less_than_a_write() {
        if let Err(why) = api() {
            eprintln!("SKIPPED: {why}");
            return;
        }
        let cost = call_cost().unwrap();
        eprintln!("an empty call takes {cost:.1} ns");
        assert!(cost > 0.0 && cost < 2_000.0, "{cost} ns");
    }

    #[test]
    fn pairs_in_a_row_are_taken_apart() {
        let row = pack(&[Write::Put(b"key", b"value"), Write::Delete(b"k2")]);
        assert_eq!(row, b"\x01\x03\0\0\0\x05\0\0\0keyvalue\0\x02\0\0\0\0\0\0\0k2");
        // What is read comes without the first byte.
        let both = [(b"key".to_vec(), b"value".to_vec()), (b"k2".to_vec(), Vec::new())];
        assert_eq!(unpack(&[&row[1..17], &row[18..]].concat()), both);
    }
}
