//! WiredTiger, the B-tree store of MongoDB, in C: a shared library (folder `wiredtiger/`) that is
//! loaded at run time. `peers/build` makes it from WiredTiger's source, or from an installed one.
//!
//! It is a row store with WiredTiger's own page sizes (leaves of 32 KB) and no compression. It has
//! no memtables: changes are made on pages in its cache, which has the memory of memtables and
//! cache together. Eviction threads (as many as background threads, as MongoDB sets a fixed number)
//! write changed pages; when a fifth of the cache is changed, clients help them and wait for it.
//!
//! - WAL: `transaction_sync=(enabled=true,method=none)` acknowledges a write when its record was
//!   written by `write()`, which is our buffered mode; `method=fsync` is `Sync`; `enabled=false`
//!   leaves the record in the process's buffer, which is `Lazy`.
//! - Checkpoints write all changed pages and make old WALs needless. WiredTiger has none by
//!   default; MongoDB makes one every 60 seconds, and before its version 3.6 also every 2 GB of
//!   WAL. Here bytes decide, so that a scaled run has as many of them: [`CHECKPOINT`] memtables'
//!   worth, which is 2 GB with memtables of 64 MB. Without a WAL the 60 seconds remain. A file of
//!   the WAL has a twentieth of that (WiredTiger: 100 MB).
//! - I/O: data is direct if the specification has both direct I/O and direct reads, because
//!   WiredTiger has one switch for both. Its manual advises against that: a thread that evicts
//!   waits for the device then. The WAL is always buffered.
//!
//! Sessions and cursors belong to one thread at a time: each client thread takes a session from the
//! instance's list at its first call and gives it back when it ends. A region is a database of its
//! own with its share of the cache. A transaction that lost a conflict is tried again.

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io, keep, wal};
use libloading::Library;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock, Weak};
use vlsm::Durability;
use vlsm_core::Bytes;
use vlsm_core::units::MIB;
use vlsm_measure::store::{StoreResult, StoreStats, WaitStats, Write};

pub const KIND: Kind = Kind {
    name: "wiredtiger",
    configs: &[(
        "default",
        "a B-tree with WiredTiger's own page sizes, the cache as large as memtables and cache",
    )],
    version: || Ok(api()?.version()),
    open,
};

/// Memtables' worth of WAL between two checkpoints.
const CHECKPOINT: u64 = 32;
/// The most that WiredTiger takes.
const CHECKPOINT_MAX: u64 = 2048 * MIB;
/// Sessions of one instance: clients and WiredTiger's own threads.
const SESSIONS: u32 = 1024;

/// A `WT_CONNECTION`.
#[repr(C)]
struct Connection {
    _of_the_library: [u8; 0],
}

/// A session with its cursor.
#[repr(C)]
struct Session {
    _of_the_library: [u8; 0],
}

/// `change` of shim.c.
#[repr(C)]
struct Change {
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    put: i32,
}

/// `counts` of shim.c.
#[repr(C)]
#[derive(Default)]
struct Counts {
    log_bytes: u64,
    pages_written: u64,
    pages_read: u64,
    evictions_by_clients: u64,
    evictions_by_clients_us: u64,
}

type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize);
type Get = unsafe extern "C" fn(
    *mut Session,
    *const u8,
    usize,
    Option<Sink>,
    *mut c_void,
    *mut i64,
) -> c_int;
type Scan = unsafe extern "C" fn(
    *mut Session,
    *const u8,
    usize,
    usize,
    Option<Sink>,
    *mut c_void,
    *mut usize,
) -> c_int;

/// The library's functions.
struct Api {
    version: unsafe extern "C" fn(*mut i32, *mut i32, *mut i32) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    open: unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut Connection) -> c_int,
    close: unsafe extern "C" fn(*mut Connection) -> c_int,
    client: unsafe extern "C" fn(*mut Connection, *mut *mut Session) -> c_int,
    forget: unsafe extern "C" fn(*mut Session),
    put: unsafe extern "C" fn(*mut Session, *const u8, usize, *const u8, usize) -> c_int,
    delete: unsafe extern "C" fn(*mut Session, *const u8, usize) -> c_int,
    write: unsafe extern "C" fn(*mut Session, *const Change, usize) -> c_int,
    get: Get,
    scan: Scan,
    checkpoint: unsafe extern "C" fn(*mut Session) -> c_int,
    counts: unsafe extern "C" fn(*mut Session, *mut Counts) -> c_int,
}

/// The folder of its source, where `peers/build` leaves the library too.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/wiredtiger");

/// The library, loaded at its first use.
fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(String::clone)
}

fn load() -> Result<Api, String> {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    let name = format!("{DLL_PREFIX}peers_wiredtiger{DLL_SUFFIX}");
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let mut folders = beside.into_iter().chain([PathBuf::from(SOURCE)]);
    let file = folders.find_map(|folder| Some(folder.join(&name)).filter(|file| file.exists()));
    let file = file.ok_or_else(|| {
        format!(
            "its library is not built: run peers/build (needs pip and CMake, or Debian's \
             libwiredtiger-dev), which puts {name} in peers/wiredtiger"
        )
    })?;
    // SAFETY: it is our own library, and loading it runs nothing.
    let library = unsafe { Library::new(&file) };
    let library = library.map_err(|error| format!("{}: {error}", file.display()))?;
    Api::of(Box::leak(Box::new(library))).map_err(|error| {
        format!("{} is of another version ({error}): run peers/build", file.display())
    })
}

impl Api {
    fn of(library: &'static Library) -> Result<Self, libloading::Error> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types above are those of the functions in wiredtiger/shim.c.
                *unsafe { library.get($name)? }
            };
        }
        Ok(Self {
            version: function!(b"peer_version"),
            error: function!(b"peer_error"),
            open: function!(b"peer_open"),
            close: function!(b"peer_close"),
            client: function!(b"peer_client"),
            forget: function!(b"peer_forget"),
            put: function!(b"peer_put"),
            delete: function!(b"peer_delete"),
            write: function!(b"peer_write"),
            get: function!(b"peer_get"),
            scan: function!(b"peer_scan"),
            checkpoint: function!(b"peer_checkpoint"),
            counts: function!(b"peer_counts"),
        })
    }

    fn version(&self) -> String {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: it writes three numbers.
        unsafe { (self.version)(&raw mut major, &raw mut minor, &raw mut patch) };
        format!("{major}.{minor}.{patch}")
    }

    /// The outcome of a call.
    #[inline]
    fn done(&self, code: c_int) -> StoreResult<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text ends with a zero and stays where it is.
        let text = unsafe { CStr::from_ptr((self.error)(code)) };
        Err(format!("wiredtiger: {}", text.to_string_lossy()).into())
    }
}

/// A session; only the thread that took it uses it.
#[derive(Clone, Copy)]
struct Mine(*mut Session);

// SAFETY: WiredTiger's sessions may go from thread to thread, if only one uses them at a time.
unsafe impl Send for Mine {}

#[derive(Default)]
struct Sessions {
    all: Vec<Mine>,
    /// Sessions that no thread uses.
    free: Vec<Mine>,
}

/// An open database with its sessions.
struct Database {
    api: &'static Api,
    connection: *mut Connection,
    sessions: Mutex<Sessions>,
}

// SAFETY: a WT_CONNECTION may be used by all threads at once.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    fn take(&self) -> StoreResult<Mine> {
        let mut sessions = self.sessions.lock();
        if let Some(free) = sessions.free.pop() {
            return Ok(free);
        }
        let mut session = null_mut();
        // SAFETY: the connection is open until this is dropped.
        self.api.done(unsafe { (self.api.client)(self.connection, &raw mut session) })?;
        sessions.all.push(Mine(session));
        Ok(Mine(session))
    }
}

/// A session of a thread, given back when the thread ends.
struct Held {
    of: Weak<Database>,
    session: Mine,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(database) = self.of.upgrade() {
            database.sessions.lock().free.push(self.session);
        }
    }
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

struct Tree {
    api: &'static Api,
    /// Threads that end look whether it is still there, but do not use the connection.
    database: Arc<Database>,
    open: bool,
}

impl Tree {
    /// Calls with this thread's session.
    #[inline]
    fn call(&self, call: impl FnOnce(*mut Session) -> c_int) -> StoreResult<()> {
        let own = Arc::as_ptr(&self.database);
        HELD.with_borrow_mut(|held| {
            let session = match held.iter().find(|one| one.of.as_ptr() == own) {
                Some(one) => one.session,
                None => {
                    let session = self.database.take()?;
                    held.retain(|one| one.of.strong_count() > 0);
                    held.push(Held { of: Arc::downgrade(&self.database), session });
                    session
                }
            };
            self.api.done(call(session.0))
        })
    }

    fn shut(&mut self) -> StoreResult<()> {
        if !std::mem::replace(&mut self.open, false) {
            return Ok(());
        }
        // SAFETY: nobody calls any more, because this is the only owner.
        let closed = self.api.done(unsafe { (self.api.close)(self.database.connection) });
        for session in self.database.sessions.lock().all.drain(..) {
            // SAFETY: its connection is closed, so no thread uses it.
            unsafe { (self.api.forget)(session.0) };
        }
        closed
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A failure is returned by `close`, which was called before if there was no other one.
        drop(self.shut());
    }
}

/// Returns WiredTiger's configuration string, and the interval of its checkpoints in words.
fn config(setup: &Setup, share: u64, direct: bool) -> (String, String) {
    let options = &setup.spec.options;
    let threads = setup.threads.clamp(1, 20);
    let bytes = options.policy.tree.memtable_bytes.0.saturating_mul(CHECKPOINT);
    let bytes = bytes.clamp(8 * MIB, CHECKPOINT_MAX);
    let file = (bytes / 20).min(100 * MIB);
    let logged = |sync: &str| {
        let log = format!("log=(enabled=true,file_max={file}),checkpoint=(log_size={bytes})");
        (format!("{log},transaction_sync=({sync})"), format!("{} of WAL", Bytes(bytes)))
    };
    let (log, checkpoints) = match options.durability {
        Durability::Sync => logged("enabled=true,method=fsync"),
        Durability::Buffered => logged("enabled=true,method=none"),
        Durability::Lazy => logged("enabled=false"),
        _ => ("checkpoint=(wait=60)".to_owned(), "60 s".to_owned()),
    };
    let config = format!(
        "create,use_environment=false,config_base=false,statistics=(fast),session_max={SESSIONS},\
         cache_size={share},eviction=(threads_min={threads},threads_max={threads}),{log}{}",
        if direct { ",direct_io=[data]" } else { "" },
    );
    (config, checkpoints)
}

fn open(setup: &Setup) -> Opened {
    let api = api()?;
    let options = &setup.spec.options;
    let share = setup.memory() / setup.folders.len() as u64;
    let direct = options.direct_io && options.direct_reads;
    let (config, checkpoints) = config(setup, share, direct);
    let config = CString::new(config)?;
    let mut trees: Vec<Box<dyn Instance>> = Vec::new();
    for folder in setup.folders {
        let folder = CString::new(folder.as_os_str().as_bytes())?;
        let mut connection = null_mut();
        // SAFETY: both texts end with a zero.
        api.done(unsafe { (api.open)(folder.as_ptr(), config.as_ptr(), &raw mut connection) })?;
        let database = Database { api, connection, sessions: Mutex::default() };
        trees.push(Box::new(Tree { api, database: Arc::new(database), open: true }));
    }
    let described: Described = vec![
        ("cache", format!("{} each", Bytes(share))),
        ("WAL", wal(options.durability)),
        ("checkpoint every", checkpoints),
        ("writes", io(direct)),
        ("reads", io(direct)),
    ];
    Ok((trees, described))
}

/// Keeps a pair that the library read.
///
/// # Safety
/// `of` is a list that nobody else uses, and key and value are as long as said.
unsafe extern "C" fn sink(
    of: *mut c_void,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
) {
    // An empty one may have no place.
    let bytes = |start: *const u8, length| match length {
        0 => &[][..],
        // SAFETY: as said above.
        _ => unsafe { std::slice::from_raw_parts(start, length) },
    };
    // SAFETY: as said above.
    let mut into = Some(unsafe { &mut *of.cast::<Pairs>() });
    keep(&mut into, bytes(key, key_length), bytes(value, value_length));
}

/// A list as the library takes it: nothing where nobody wants the pairs.
fn receiver(into: Option<&mut Pairs>) -> (Option<Sink>, *mut c_void) {
    match into {
        Some(pairs) => (Some(sink), (&raw mut *pairs).cast()),
        None => (None, null_mut()),
    }
}

fn change(write: &Write<'_>) -> Change {
    let (key, value, put): (&[u8], &[u8], bool) = match *write {
        Write::Put(key, value) => (key, value, true),
        Write::Delete(key) => (key, &[], false),
    };
    Change {
        key: key.as_ptr(),
        key_length: key.len(),
        value: if put { value.as_ptr() } else { null() },
        value_length: value.len(),
        put: put.into(),
    }
}

// SAFETY of all calls: the session is of an open connection, no other thread has it, each slice is
// as long as said, and the library reads none of the pointers after its return.
impl Instance for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.call(|session| unsafe {
            (self.api.put)(session, key.as_ptr(), key.len(), value.as_ptr(), value.len())
        })
    }

    fn get(&self, key: &[u8], into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let ((sink, list), mut length) = (receiver(into), -1);
        self.call(|session| unsafe {
            (self.api.get)(session, key.as_ptr(), key.len(), sink, list, &raw mut length)
        })?;
        Ok(usize::try_from(length).ok())
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.call(|session| unsafe { (self.api.delete)(session, key.as_ptr(), key.len()) })
    }

    fn scan(&self, start: &[u8], limit: usize, into: Option<&mut Pairs>) -> StoreResult<usize> {
        let ((sink, list), mut count) = (receiver(into), 0);
        self.call(|session| unsafe {
            let count = &raw mut count;
            (self.api.scan)(session, start.as_ptr(), start.len(), limit, sink, list, count)
        })?;
        Ok(count)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let changes: Vec<Change> = writes.iter().map(change).collect();
        self.call(|session| unsafe { (self.api.write)(session, changes.as_ptr(), changes.len()) })
    }

    /// A checkpoint; it returns when it is on the device.
    fn flush(&self) -> StoreResult<()> {
        self.call(|session| unsafe { (self.api.checkpoint)(session) })
    }

    fn idle(&self) -> StoreResult<bool> {
        Ok(true)
    }

    fn stats(&self) -> StoreStats {
        let mut counts = Counts::default();
        let told = self.call(|session| unsafe { (self.api.counts)(session, &raw mut counts) });
        if told.is_err() {
            return StoreStats::default();
        }
        StoreStats {
            wal_bytes: counts.log_bytes,
            flush_bytes: counts.pages_written,
            read_bytes: counts.pages_read,
            waits: vec![WaitStats {
                cause: "eviction by clients".into(),
                count: counts.evictions_by_clients,
                total_us: counts.evictions_by_clients_us,
                longest_us: 0,
            }],
            ..StoreStats::default()
        }
    }

    fn close(mut self: Box<Self>) -> StoreResult<()> {
        self.shut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_measure::spec::StoreSpec;

    /// One instance in a folder, or nothing where this build has none.
    fn tree(folder: &Path, durability: Durability, direct: bool) -> Option<Box<dyn Instance>> {
        if let Err(why) = api() {
            eprintln!("SKIPPED: {why}");
            return None;
        }
        let mut options = vlsm::Options::default();
        options.durability = durability;
        (options.direct_io, options.direct_reads) = (direct, direct);
        let (kind, config) = (KIND.name.into(), String::new());
        let spec = StoreSpec { kind, config, options, cache: 8 << 20, regions: 1 };
        let folders = [folder.to_owned()];
        let setup = Setup { spec: &spec, config: "default", folders: &folders, threads: 2 };
        Some(open(&setup).unwrap().0.remove(0))
    }

    /// A copy of what the files have at this moment, as after the death of the process.
    #[expect(clippy::disallowed_methods, reason = "the files are of a store that is not ours")]
    fn copy(from: &Path) -> tempfile::TempDir {
        let to = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
        }
        to
    }

    #[test]
    fn an_acknowledged_write_outlives_the_process_if_it_is_to() {
        for (durability, kept) in [
            (Durability::Sync, true),
            (Durability::Buffered, true),
            // A lazy one may be kept: WiredTiger writes its buffer 20 times a second.
            (Durability::NoWal, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let Some(db) = tree(folder.path(), durability, false) else { return };
            // A few bytes, so that a log's buffer is not filled.
            db.put(b"key", b"value").unwrap();
            db.write(&[Write::Put(b"one", b"1"), Write::Put(b"two", b"")]).unwrap();
            let after = copy(folder.path());
            let copied = tree(after.path(), durability, false).unwrap();
            let lengths = [&b"key"[..], b"one", b"two"].map(|key| copied.get(key, None).unwrap());
            let wanted = if kept { [Some(5), Some(1), Some(0)] } else { [None; 3] };
            assert_eq!(lengths, wanted, "{durability:?}");
            copied.close().unwrap();
            db.close().unwrap();
        }
    }

    #[test]
    fn transactions_in_conflict_are_all_done_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let Some(db) = tree(folder.path(), Durability::Buffered, false) else { return };
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..500_u32 {
                        let value = [thread.to_le_bytes(), round.to_le_bytes()].concat();
                        let own = format!("own-{thread}-{round}");
                        let (one, other) = (Write::Put(b"a", &value), Write::Put(b"b", &value));
                        db.write(&[one, Write::Put(own.as_bytes(), b""), other]).unwrap();
                    }
                });
            }
        });
        let mut all = Pairs::new();
        assert_eq!(db.scan(b"", 10_000, Some(&mut all)).unwrap(), 2 + 4 * 500);
        assert_eq!((&all[0].0[..], &all[1].0[..]), (&b"a"[..], &b"b"[..]));
        assert_eq!(all[0].1, all[1].1, "both are of one transaction");
        db.close().unwrap();
    }

    #[test]
    fn sessions_of_threads_that_ended_are_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let Some(db) = tree(folder.path(), Durability::Lazy, false) else { return };
        // Many more threads, one after the other, than there may be sessions.
        for _ in 0..SESSIONS + 100 {
            // `join` waits for the thread itself, which the end of a scope does not.
            std::thread::scope(|scope| {
                scope.spawn(|| db.put(b"key", b"value").unwrap()).join().unwrap();
            });
        }
        assert_eq!(db.get(b"key", None).unwrap(), Some(5));
        assert_eq!(db.scan(b"kez", 10, None).unwrap(), 0, "behind the last key");
        assert_eq!(db.scan(b"k", 10, None).unwrap(), 1, "from before the first key");
        db.close().unwrap();
    }

    #[test]
    fn direct_io_reads_what_it_wrote() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let Some(db) = tree(folder.path(), Durability::Buffered, true) else { return };
        let value = [7; 1000];
        for key in 0..100_u64 {
            db.put(&key.to_be_bytes(), &value).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let db = tree(folder.path(), Durability::Buffered, true).unwrap();
        let mut all = Pairs::new();
        assert_eq!(db.scan(&50_u64.to_be_bytes(), 1000, Some(&mut all)).unwrap(), 50);
        assert!(all.iter().all(|(_, read)| *read == value));
        assert!(db.stats().read_bytes > 50_000, "{:?}", db.stats());
    }
}
