//! The acknowledgements that children gave for one store, and the contents that it must therefore
//! have.

use super::{
    CLOSED, LOGGED, THREADS, UNLOGGED, UNLOGGED_SLOTS, changes, clock, durability_of, open, value,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vlsm::{Durability, Keyspace};

/// Counts of lives, acknowledgements and checks.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Lives that ended before the first acknowledgement, and after it.
    pub in_opening: u64,
    pub in_writing: u64,
    /// Lives that ended with an orderly close.
    pub closed: u64,
    pub acknowledged: u64,
    pub acknowledged_sync: u64,
    /// Acknowledged batches that were gone, as they may be, and batches that were found.
    pub lost: u64,
    pub survived: u64,
    pub checks: u64,
    pub keys_checked: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Self) {
        self.in_opening += other.in_opening;
        self.in_writing += other.in_writing;
        self.closed += other.closed;
        self.acknowledged += other.acknowledged;
        self.acknowledged_sync += other.acknowledged_sync;
        self.lost += other.lost;
        self.survived += other.survived;
        self.checks += other.checks;
        self.keys_checked += other.keys_checked;
    }

    /// The same for programs to read.
    pub fn counts(&self) -> String {
        format!(
            "ended in opening={}, ended in writing={}, closed={}, operations={}, \
             acknowledged as sync={}, lost={}, survived={}, checks={}, keys checked={}",
            self.in_opening,
            self.in_writing,
            self.closed,
            self.acknowledged,
            self.acknowledged_sync,
            self.lost,
            self.survived,
            self.checks,
            self.keys_checked
        )
    }
}

/// One store and its journal.
pub struct Journal {
    pub profile: &'static str,
    pub seed: u64,
    store: PathBuf,
    /// The last batch of each thread acknowledged in any way, and so that it must stay, and why.
    told: [u64; THREADS],
    durable: [(u64, String); THREADS],
    /// The state of the store at the last check, and how many batches of each thread it has.
    model: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    applied: [u64; THREADS],
    pub seen: Seen,
}

impl Journal {
    pub fn new(store: &Path, profile: &'static str, seed: u64) -> Self {
        Self {
            profile,
            seed,
            store: store.to_owned(),
            told: [0; THREADS],
            durable: std::array::from_fn(|_| (0, String::new())),
            model: BTreeMap::new(),
            applied: [0; THREADS],
            seen: Seen::default(),
        }
    }

    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Enters the acknowledgements of a child. `holds` says which of them must hold, by the
    /// durability and by the number of bytes of acknowledgements before it.
    pub fn enter(&mut self, told: &[u8], how: &str, holds: impl Fn(Durability, usize) -> bool) {
        let mut last = [0; THREADS];
        for (index, one) in told.chunks_exact(9).enumerate() {
            let n = u64::from_le_bytes(one[1..].try_into().unwrap());
            if one[0] == CLOSED {
                if holds(Durability::Sync, index * 9) {
                    (0..THREADS).for_each(|thread| self.must_stay(thread, last[thread], "closed"));
                    self.seen.closed += 1;
                }
                continue;
            }
            let thread = usize::from(one[0]);
            let durability = durability_of(self.seed, thread, n);
            (self.told[thread], last[thread]) = (n, n);
            if holds(durability, index * 9) {
                let why = format!("{durability:?}, as number {index} of a life; {how}");
                self.must_stay(thread, n, &why);
            }
            self.seen.acknowledged += 1;
            self.seen.acknowledged_sync += u64::from(durability == Durability::Sync);
        }
        match told.is_empty() {
            true => self.seen.in_opening += 1,
            false => self.seen.in_writing += 1,
        }
    }

    fn must_stay(&mut self, thread: usize, n: u64, why: &str) {
        if n > self.durable[thread].0 {
            self.durable[thread] = (n, why.to_owned());
        }
    }

    /// Opens the store, compares it with the journal and closes it. What was read must stay.
    pub fn check(&mut self, what: &str) {
        let what = format!("{what}, profile {}, seed {}", self.profile, self.seed);
        let (db, logged, unlogged) = open(&self.store, self.profile, self.seed)
            .unwrap_or_else(|error| panic!("{what}: it does not open: {error}"));
        let clocks: Vec<_> =
            (0..THREADS).map(|thread| clock(&logged[0], thread).unwrap()).collect();
        for (thread, (n, known)) in clocks.iter().enumerate() {
            let (durable, why) = &self.durable[thread];
            assert!(
                n >= durable,
                "{what}: thread {thread} has {n}, acknowledged were {durable} ({why})"
            );
            for (other, known) in known.iter().enumerate() {
                let (there, _) = clocks[other];
                assert!(
                    there >= *known,
                    "{what}: batch {n} of thread {thread} is there, and came after batch {known} \
                     of thread {other}, but of those only {there} are"
                );
            }
            self.seen.lost += self.told[thread].saturating_sub(*n);
            self.apply(thread, *n, &what);
            self.told[thread] = *n;
            self.must_stay(thread, *n, "it had been read");
        }
        self.compare(&what, &logged);
        for pair in unlogged.iter() {
            let (key, found) = pair.unwrap();
            let n = u64::from_le_bytes(found[..8].try_into().unwrap());
            let sound =
                found == value(n, found.len()) && *key == (n % UNLOGGED_SLOTS).to_le_bytes();
            assert!(sound, "{what}: a pair of {UNLOGGED} was never written");
        }
        self.seen.checks += 1;
        let limit = db.options().wal_limit.0;
        db.close().unwrap();
        self.bounded(&what, limit);
    }

    /// Checks that the files of a life are bounded by its WAL limit and its live data, however many
    /// lives there were before.
    fn bounded(&self, what: &str, wal_limit: u64) {
        let files: Vec<_> = std::fs::read_dir(&self.store).unwrap().map(Result::unwrap).collect();
        let is = |name: &std::ffi::OsStr, end: &str| name.to_string_lossy().ends_with(end);
        let bytes_of = |end: &str| -> u64 {
            let of = files.iter().filter(|file| is(&file.file_name(), end));
            of.map(|file| file.metadata().unwrap().len()).sum()
        };
        let (wals, ssts) = (bytes_of(".wal"), bytes_of(".sst"));
        assert!(wals <= wal_limit, "{what}: {wals} bytes of WAL");
        let live: usize = self.model.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        let most = 20 * live as u64 + (8 << 20);
        assert!(ssts <= most, "{what}: {ssts} bytes of SSTs for {live} live ones");
        let most = 40 + ssts / (4 << 10);
        assert!(files.len() as u64 <= most, "{what}: {} files", files.len());
    }

    /// Does to the model what the store says it did.
    fn apply(&mut self, thread: usize, upto: u64, what: &str) {
        let before = self.applied[thread];
        assert!(upto >= before, "{what}: batches that had been read are gone: {before}, {upto}");
        for n in before + 1..=upto {
            for (keyspace, key, value) in changes(self.seed, thread, n) {
                match value {
                    Some(value) => self.model.insert((keyspace, key), value),
                    None => self.model.remove(&(keyspace, key)),
                };
            }
        }
        self.seen.survived += upto - before;
        self.applied[thread] = upto;
    }

    fn compare(&mut self, what: &str, logged: &[Keyspace]) {
        let mut expected = self.model.iter();
        for (keyspace, name) in LOGGED.iter().enumerate() {
            let pairs = logged[keyspace].iter().map(|pair| pair.unwrap());
            for (key, value) in pairs.filter(|(key, _)| !key.starts_with(b"clock ")) {
                let wanted = expected.next().map(|((k, key), value)| (*k, &key[..], &value[..]));
                let found = Some((keyspace, &key[..], &value[..]));
                assert!(wanted == found, "{what}: keyspace {name} is not as it was written");
                self.seen.keys_checked += 1;
            }
        }
        assert!(expected.next().is_none(), "{what}: a key is missing");
    }
}
