//! A closed loop without data: random inserts through memtables, candidates, jobs and installs, by
//! the same policy code that the engine runs, on files that hold only keys and ages.
//!
//! Asserted all along: every version is sound and legal for its shape; jobs take the oldest of L0
//! first; L0 and the levels keep to their bounds, SSTs to their sizes; whenever nothing runs,
//! something can start as long as a memtable waits. At the end: levels within their targets, and
//! every key shows its newest entry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::*;
use vlsm_policy::shape::cuts::grade;
use vlsm_policy::*;

/// Bytes of one entry.
const ENTRY: u64 = 1 << 10;

/// Entries of a file: key and age, by key.
type Entries = Vec<(u32, u64)>;

struct Job {
    id: JobId,
    candidate: Arc<Candidate>,
    version: Version,
    left: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Report {
    user: u64,
    written: u64,
    files: u64,
    /// vSSTs written to L1, and the good ones by either reading.
    l1_files: u64,
    l1_bytes: Bytes,
    good_by_count: u64,
    good_by_ratio: u64,
    chain_max: usize,
    width_max: Bytes,
}

struct Model {
    options: PolicyOptions,
    policies: Policies,
    version: Version,
    contents: HashMap<u64, Entries>,
    sealed: Vec<(MemtableId, BTreeMap<u32, u64>)>,
    active: BTreeMap<u32, u64>,
    newest: BTreeMap<u32, u64>,
    jobs: Vec<Job>,
    ids: u64,
    age: u64,
    random: u64,
    workers: usize,
    report: Report,
}

fn key(number: u32) -> bytes::Bytes {
    number.to_be_bytes().to_vec().into()
}

impl Model {
    fn new(options: PolicyOptions, workers: usize, seed: u64) -> Self {
        Self {
            policies: options.build().expect("legal options"),
            options,
            version: Version::default(),
            contents: HashMap::new(),
            sealed: Vec::new(),
            active: BTreeMap::new(),
            newest: BTreeMap::new(),
            jobs: Vec::new(),
            ids: 0,
            age: 0,
            random: seed | 1,
            workers,
            report: Report::default(),
        }
    }

    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as u32
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn facts(&self) -> TreeFacts {
        let memtable = |(id, entries): &(MemtableId, BTreeMap<u32, u64>)| {
            let (first, last) = (entries.first_key_value(), entries.last_key_value());
            MemtableFacts {
                id: *id,
                bytes: Bytes(entries.len() as u64 * ENTRY),
                range: first.zip(last).map(|(a, b)| KeyRange::closed(key(*a.0), key(*b.0))),
                seq_max: entries.values().max().map_or(Seq::ZERO, |age| Seq(*age)),
                ready: true,
            }
        };
        TreeFacts {
            memtables: self.sealed.iter().map(memtable).collect(),
            memtable_bytes: self.options.memtable_bytes,
            ..TreeFacts::default()
        }
    }

    /// Inserts a key, waiting for memory as a writer would.
    fn insert(&mut self, number: u32) {
        self.age += 1;
        self.active.insert(number, self.age);
        self.newest.insert(number, self.age);
        self.report.user += ENTRY;
        if self.active.len() as u64 * ENTRY < self.options.memtable_bytes.0 {
            return;
        }
        while self.sealed.len() + 1 >= self.options.memtable_count || self.stopped() {
            self.tick(true);
        }
        let id = MemtableId(self.id());
        self.sealed.push((id, std::mem::take(&mut self.active)));
        self.tick(false);
    }

    fn stopped(&self) -> bool {
        self.policies.0.pressure(&self.version, &self.facts()).stop >= 1.0
    }

    /// Decides and starts, then lets one job go on. With `must`, it is a fault if nothing can
    /// happen.
    fn tick(&mut self, must: bool) -> bool {
        let busy = self.busy();
        let facts = self.facts();
        let shape = self.policies.0.clone();
        let candidates = shape.candidates(&self.version, &facts, &busy);
        assert!(candidates.len() < 100, "bounded in number");
        for candidate in &candidates {
            self.check_order(candidate);
        }
        let running = |job: &Job| Running {
            job: job.id,
            candidate: job.candidate.clone(),
            done: Bytes::ZERO,
            left: job.candidate.bytes_in,
            paused_since: None,
        };
        let running: Vec<_> = self.jobs.iter().map(running).collect();
        let signals = Signals { workers: self.workers, ..Signals::default() };
        let list: Vec<_> = candidates.iter().collect();
        let grants = self.policies.1.decide(&signals, &list, &running);
        for index in grants.start {
            let candidate = Arc::new(candidates[index].clone());
            for job in &self.jobs {
                assert!(!job.candidate.collides(&candidate), "{candidate:?}");
            }
            let left = 1 + candidate.bytes_in.0 / self.options.memtable_bytes.0.max(1);
            let id = JobId(self.id());
            self.jobs.push(Job { id, candidate, version: self.version.clone(), left });
        }
        let chain = shape.chain_behind_l0(&self.version, &facts);
        self.report.chain_max = self.report.chain_max.max(chain.stages.len());
        let width = chain.stages.iter().map(|stage| stage.1).sum();
        self.report.width_max = self.report.width_max.max(width);
        if self.jobs.is_empty() {
            assert!(!must, "no progress: {}\n{candidates:?}", text::summary(&self.version));
            return false;
        }
        let chosen = self.random() as usize % self.jobs.len();
        self.jobs[chosen].left -= 1;
        if self.jobs[chosen].left == 0 {
            let job = self.jobs.swap_remove(chosen);
            self.install(&job);
            self.check();
        }
        true
    }

    fn busy(&self) -> Busy {
        let held = |job: &Job| Reservation { job: job.id, candidate: job.candidate.clone() };
        Busy { reservations: self.jobs.iter().map(held).collect() }
    }

    /// The rule of age order, as the engine checks it.
    fn check_order(&self, candidate: &Candidate) {
        let taken = |run: &Run| {
            let mut places = candidate.inputs.tables.iter().map(|(place, _)| *place);
            places.any(|place| place == Place::L0(run.id))
        };
        let overlaps = |run: &Run| run.tables.overlapping(&candidate.range).next().is_some();
        let runs: Vec<bool> =
            self.version.l0.iter().filter(|run| overlaps(run)).map(taken).collect();
        let first = runs.iter().position(|taken| *taken).unwrap_or(runs.len());
        let last = runs.iter().rposition(|taken| *taken).map_or(first, |last| last + 1);
        assert!(runs[first..last].iter().all(|taken| *taken), "neighbours by age: {candidate:?}");
        if candidate.output_level == 1 && candidate.conflicts.is_empty() {
            assert!(first == 0 || first == runs.len(), "the oldest first: {candidate:?}");
        }
        let memtables = &candidate.inputs.memtables;
        let sealed: Vec<MemtableId> = self.sealed.iter().map(|(id, _)| *id).collect();
        assert!(sealed.starts_with(memtables), "memtables, the oldest first: {candidate:?}");
        let over_l0 = !memtables.is_empty() && candidate.output_level > 0 && !runs.is_empty();
        assert!(!over_l0, "memtables before an older run of L0: {candidate:?}");
    }

    fn install(&mut self, job: &Job) {
        let candidate = &*job.candidate;
        let mut edit = VersionEdit::default();
        for (place, table) in &candidate.inputs.tables {
            edit.remove(*place, table);
        }
        edit.cursors.extend(candidate.sets_cursor.clone());
        let run = RunId(self.id());
        let add = |edit: &mut VersionEdit, table: Arc<Table>| match candidate.output_level {
            0 if candidate.kind == JobKind::Flush => edit.add_l0(run, RunOrigin::Flush, table),
            0 => edit.add_l0(run, RunOrigin::Merge, table),
            level => edit.add(level, table),
        };
        if candidate.kind == JobKind::TrivialMove {
            candidate.inputs.tables.iter().for_each(|(_, table)| add(&mut edit, table.clone()));
        } else {
            for entries in self.cut(job, self.merged(candidate)) {
                let table = self.write(job, entries);
                add(&mut edit, table);
            }
        }
        self.sealed.retain(|(id, _)| !candidate.inputs.memtables.contains(id));
        self.version = edit.apply(&self.version).expect("the edit applies");
    }

    fn merged(&self, candidate: &Candidate) -> Entries {
        let mut merged: BTreeMap<u32, u64> = BTreeMap::new();
        let tables = candidate.inputs.tables.iter();
        let files = tables.flat_map(|(_, table)| self.contents[&table.file.number.0].iter());
        let memtables =
            self.sealed.iter().filter(|(id, _)| candidate.inputs.memtables.contains(id));
        let memory: Vec<_> = memtables.flat_map(|(_, entries)| entries.clone()).collect();
        for (key, age) in files.chain(&memory) {
            let newest = merged.entry(*key).or_default();
            *newest = (*newest).max(*age);
        }
        merged.into_iter().collect()
    }

    fn cut(&self, job: &Job, entries: Entries) -> Vec<Entries> {
        let rule = self.policies.0.cuts(&job.version, &job.candidate);
        let sizes = match rule {
            CutRule::LookAhead { sst_min, sst_max, .. } => Some((sst_min, sst_max)),
            CutRule::Size { sst } => Some((sst, sst)),
            CutRule::Never => None,
        };
        let next = rule.next_level().map(|level| job.version.level(level).clone());
        let mut cutter = Cutter::new(rule, next.unwrap_or_default());
        let mut files: Vec<Entries> = Vec::new();
        for (number, age) in entries {
            let written = Bytes(files.last().map_or(0, |file| file.len() as u64 * ENTRY));
            if cutter.before(&key(number), written) || files.is_empty() {
                files.push(Vec::new());
            }
            files.last_mut().expect("one is open").push((number, age));
        }
        if let Some((least, most)) = sizes {
            let bytes = |file: &Entries| Bytes(file.len() as u64 * ENTRY);
            // All sizes here are whole entries.
            assert!(files.iter().all(|file| bytes(file) <= most), "none is larger than S_M");
            let but_last = &files[..files.len() - 1];
            assert!(but_last.iter().all(|file| bytes(file) >= least), "smaller than S_m");
        }
        files
    }

    fn write(&mut self, job: &Job, entries: Entries) -> Arc<Table> {
        let bytes = Bytes(entries.len() as u64 * ENTRY);
        let number = FileNumber(self.id());
        let meta = FileMeta {
            number,
            bytes,
            smallest: key(entries[0].0),
            largest: key(entries[entries.len() - 1].0),
            seq_min: Seq(entries.iter().map(|entry| entry.1).min().unwrap_or(0)),
            seq_max: Seq(entries.iter().map(|entry| entry.1).max().unwrap_or(0)),
            ..FileMeta::default()
        };
        let table = Arc::new(Table::whole(Arc::new(meta)));
        self.report.written += bytes.0;
        self.report.files += 1;
        if job.candidate.output_level == 1 && !job.version.level(2).is_empty() {
            let max = self.options.growth as f64;
            let by = |overlap| {
                grade(&table.range, bytes, job.version.level(2), overlap, max) == Grade::Good
            };
            self.report.l1_files += 1;
            self.report.l1_bytes += bytes;
            self.report.good_by_count += u64::from(by(Overlap::Count));
            self.report.good_by_ratio += u64::from(by(Overlap::Ratio));
        }
        self.contents.insert(number.0, entries);
        table
    }

    /// Bounds that hold at every moment.
    fn check(&self) {
        self.version.check().expect("sound");
        let shape = &self.policies.0;
        shape.check(&self.version).expect("legal");
        let options = &self.options;
        if options.shape != "tiered_l0" {
            assert!(self.version.l0.len() <= options.l0_max, "L0 is bounded");
        }
        let Some(overflow) = options.overflow else { return };
        // The jobs of one decision may bring in some SSTs more than was asked for, each cut a key
        // late. Tiering brings all of L0 into L1, and where there is no L0 all of memory.
        let tiered = ["tiered_l0", "sp_lsm"].contains(&options.shape.as_str());
        let step = options.sst_max * if tiered { 8 } else { 3 };
        let levels = shape.pressure(&self.version, &self.facts()).levels;
        for level in levels.into_iter().skip(usize::from(tiered)) {
            if let Some(target) = level.target {
                let bound = target + overflow + step;
                assert!(level.bytes <= bound, "{level:?} beyond {bound}");
            }
        }
    }

    /// Runs until nothing is left to do.
    fn drain(&mut self) {
        let active = std::mem::take(&mut self.active);
        if !active.is_empty() {
            let id = MemtableId(self.id());
            self.sealed.push((id, active));
        }
        while self.tick(!self.sealed.is_empty()) {}
        for level in self.policies.0.pressure(&self.version, &self.facts()).levels {
            assert_eq!(level.debt, Bytes::ZERO, "{}", text::summary(&self.version));
        }
        for (number, age) in &self.newest {
            assert_eq!(self.get(*number), Some(*age), "the newest entry shows");
        }
    }

    fn get(&self, number: u32) -> Option<u64> {
        let wanted = key(number);
        let l0 = self.version.l0.iter().rev().map(|run| &run.tables);
        l0.chain(&self.version.levels).find_map(|tables| {
            let entries = &self.contents[&tables.find(&wanted)?.file.number.0];
            let index = entries.binary_search_by_key(&number, |entry| entry.0).ok()?;
            Some(entries[index].1)
        })
    }
}

/// The profile with its sizes divided, so that a few ten thousand entries fill three levels.
fn small(name: &str) -> PolicyOptions {
    let mut options = profile(name).expect("known");
    let sst = Bytes(32 * ENTRY);
    options.memtable_bytes = sst;
    options.sst_max = sst;
    options.sst_min = Bytes(8 * ENTRY);
    options.growth = 4;
    options.phi = 12;
    options.l1_bytes = sst * 4;
    options.overflow = options.overflow.map(|overflow| Bytes(overflow.0.min(sst.0 * 4)));
    options.debt_soft = options.debt_soft.map(|debt| debt / 2048);
    options.debt_hard = options.debt_hard.map(|debt| debt / 2048);
    options.l0_max = options.l0_max.min(8);
    options.l0_slowdown = options.l0_slowdown.min(6);
    options
}

fn run(options: PolicyOptions, workers: usize, inserts: u32, keys: fn(u32, u32) -> u32) -> Report {
    let mut model = Model::new(options, workers, 0x9e37_79b9_7f4a_7c15);
    for n in 0..inserts {
        let random = model.random();
        model.insert(keys(n, random));
    }
    model.drain();
    model.report
}

const NAMES: [&str; 7] =
    ["vlsm", "vlsm-4", "rocksdb", "rocksdb-io", "rocksdb-debt64", "lsmi", "cruise"];

fn run_all(keys: fn(u32, u32) -> u32) {
    for name in NAMES {
        for workers in [1, 4] {
            run(small(name), workers, 12_000, keys);
        }
    }
}

#[test]
fn uniform_keys() {
    run_all(|_, random| random);
}

#[test]
fn few_keys_overwritten() {
    run_all(|_, random| random % 5_000);
}

#[test]
fn ascending_and_descending_keys() {
    run_all(|n, _| n);
    run_all(|n, _| u32::MAX - n);
}

#[test]
fn hot_ranges() {
    // Nine of ten inserts go to a thousandth of the keys, which moves on.
    run_all(|n, random| {
        let hot = (n / 2_000) << 22;
        if random % 10 == 0 { random } else { hot + random % (1 << 22) }
    });
}

#[test]
fn odd_sizes_make_progress_too() {
    for name in NAMES {
        let mut options = small(name);
        options.l0_max = options.l0_trigger;
        options.overflow = Some(Bytes::ZERO);
        options.l1_bytes = options.sst_max;
        options.phi = 2;
        options.growth = 2;
        options.memtable_count = 5;
        run(options.clone(), 2, 10_000, |_, random| random);
        options.levels = 2;
        options.memtable_bytes = options.sst_max * 3;
        run(options.clone(), 2, 10_000, |_, random| random);
        options.trivial_move = false;
        options.overlap = Overlap::Ratio;
        run(options, 1, 10_000, |n, _| n.wrapping_mul(0x9e37_79b1));
    }
}

/// vSSTs are cut by overlap, but never below S_m, nor beyond S_M; `cut` asserts it.
#[test]
fn vssts_are_of_sizes_from_s_min_to_s_max() {
    for overlap in [Overlap::Count, Overlap::Ratio] {
        let mut options = small("vlsm");
        options.overlap = overlap;
        options.sst_min = Bytes(5 * ENTRY);
        options.sst_max = Bytes(23 * ENTRY);
        let report = run(options, 2, 12_000, |_, random| random);
        // By the ratio most are poor, and closed at S_m.
        let mean = report.l1_bytes.0 / report.l1_files / ENTRY;
        assert!((5..23).contains(&mean), "{overlap:?}: {mean} entries a vSST");
    }
}

/// Every memtable covers all keys, and a vSST of the least size overlaps more of L2 than a good one
/// may: L1 is drained through poor ones.
#[test]
fn too_few_good_vssts_still_make_progress() {
    for overlap in [Overlap::Count, Overlap::Ratio] {
        for workers in [1, 4] {
            let mut options = small("vlsm");
            options.overlap = overlap;
            options.growth = 2;
            options.phi = 64;
            options.sst_min = options.sst_max;
            let report = run(options, workers, 20_000, |n, _| n.wrapping_mul(0x9e37_79b1));
            let good = match overlap {
                Overlap::Count => report.good_by_count,
                Overlap::Ratio => report.good_by_ratio,
            };
            assert!(report.l1_files > 500, "{report:?}");
            assert!(good * 4 < report.l1_files, "{overlap:?}: there are good ones: {report:?}");
        }
    }
}

/// The papers' sizes, one entry standing for 128 KB; long enough to fill the levels down to L2.
/// `FIGURES=1 cargo test --release -p vlsm-policy --test model -- --nocapture figures`
#[test]
fn figures() {
    if std::env::var_os("FIGURES").is_none() {
        return;
    }
    let scaled = |name: &str| {
        let mut options = profile(name).expect("known");
        let down = |bytes: Bytes| Bytes(bytes.0 / 128);
        options.memtable_bytes = down(options.memtable_bytes);
        options.sst_max = down(options.sst_max);
        options.sst_min = down(options.sst_min);
        options.l1_bytes = down(options.l1_bytes);
        options.overflow = options.overflow.map(down);
        options.debt_soft = options.debt_soft.map(down);
        options.debt_hard = options.debt_hard.map(down);
        options
    };
    let print = |name: &str, options: PolicyOptions| {
        let report = run(options, 2, 120_000, |_, random| random);
        let share = |good: u64| 100 * good / report.l1_files.max(1);
        println!(
            "{name}: write amplification {:.1}, good by count {} %, by ratio {} %, \
             chain behind L0 at most {} stages, {} (in full size)",
            report.written as f64 / report.user as f64,
            share(report.good_by_count),
            share(report.good_by_ratio),
            report.chain_max,
            report.width_max * 128
        );
    };
    for name in NAMES {
        print(name, scaled(name));
    }
    let but = |name: &str, change: fn(&mut PolicyOptions)| {
        let mut options = scaled(name);
        change(&mut options);
        options
    };
    print("vlsm, by ratio", but("vlsm", |o| o.overlap = Overlap::Ratio));
    print("vlsm, S_m = S_M / 2", but("vlsm", |o| o.sst_min = o.sst_max / 2));
    print("vlsm-4, Φ = 64", but("vlsm-4", |o| o.phi = 64));
    let half = |o: &mut PolicyOptions| (o.phi, o.sst_min) = (64, o.sst_max / 2);
    print("vlsm-4, Φ = 64, S_m = S_M / 2", but("vlsm-4", half));
}
