//! A closed loop without data: random inserts through memtables, candidates, jobs and installs, by
//! the same policy code that the engine runs ([`round::tick`]), on files that hold only keys and
//! ages. No time passes, so rates mean nothing: writers stop when the shape requires it.
//!
//! Asserted at every step: every version is sound and legal for its shape; jobs take the oldest of
//! L0 first; L0 and the levels keep to their bounds, SSTs to their sizes; whenever nothing runs,
//! something can start as long as a memtable waits. At the end: levels within their targets, and
//! every key shows its newest entry.

mod files;

use files::{Random, Tree};
use std::sync::Arc;
use vlsm_core::*;
use vlsm_policy::round::{Changed, Deciders, Known, Observed, World};
use vlsm_policy::shape::cuts::{Grade, grade};
use vlsm_policy::shape::vlsm::{L1Limit, VlsmOptions};
use vlsm_policy::*;

/// Bytes of one entry.
const ENTRY: u64 = 1 << 10;

struct Job {
    id: JobId,
    candidate: Arc<Candidate>,
    version: Version,
    facts: TreeFacts,
    left: u64,
}

impl Job {
    fn running(&self) -> Running {
        Running {
            job: self.id,
            candidate: self.candidate.clone(),
            done: Bytes::ZERO,
            left: self.candidate.bytes_in,
            paused_since: None,
            installing: false,
        }
    }
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
    /// SSTs that jobs took out of L1, and the poor ones by the reading in force.
    l1_out: u64,
    poor_out: u64,
    /// Merges of L0 into L1, and the bytes in L1 when they began.
    merges: u64,
    l1_before: Bytes,
    chain_max: usize,
    width_max: Bytes,
}

struct Model {
    options: PolicyOptions,
    shape: Arc<dyn Shape>,
    /// None while a decision is made.
    deciders: Option<Deciders>,
    tree: Tree,
    /// Whether the tree or its jobs changed since the last call of the shape.
    marked: bool,
    known: Known,
    jobs: Vec<Job>,
    job_ids: u64,
    random: Random,
    workers: usize,
    report: Report,
}

impl Model {
    fn new(options: PolicyOptions, workers: usize, seed: u64) -> Self {
        let (shape, schedule, admission) = options.build().expect("legal options");
        Self {
            shape,
            deciders: Some(Deciders { schedule, admission }),
            options,
            tree: Tree::new(TreeId::default(), ENTRY),
            marked: true,
            known: Known::default(),
            jobs: Vec::new(),
            job_ids: 0,
            random: Random::new(seed),
            workers,
            report: Report::default(),
        }
    }

    fn facts(&self) -> TreeFacts {
        self.tree.facts(Micros::ZERO, self.options.tree.memtable_bytes)
    }

    /// Inserts a key, waiting for memory as a writer would.
    fn insert(&mut self, number: u32) {
        self.tree.insert(number);
        self.report.user += ENTRY;
        if self.tree.active_bytes() < self.options.tree.memtable_bytes {
            return;
        }
        while self.tree.sealed.len() + 1 >= self.options.tree.memtable_count || self.stopped() {
            self.tick(true);
        }
        self.tree.seal();
        self.tick(false);
    }

    fn stopped(&self) -> bool {
        self.shape.pressure(&self.tree.version, &self.facts()).stop >= 1.0
    }

    /// Decides and starts, then lets one job continue. With `must`, it is a fault if no progress is
    /// possible.
    fn tick(&mut self, must: bool) -> bool {
        self.marked = true;
        let (shape, mut deciders) = (self.shape.clone(), self.deciders.take().expect("one tick"));
        round::tick(&*shape, &mut deciders, self).expect("grants that can be carried out");
        self.deciders = Some(deciders);
        let chain = shape.chain(&self.tree.version, &self.facts());
        self.report.chain_max = self.report.chain_max.max(chain.stages.len());
        let width = chain.stages.iter().map(|stage| stage.1).sum();
        self.report.width_max = self.report.width_max.max(width);
        if self.jobs.is_empty() {
            let (tree, candidates) = (text::summary(&self.tree.version), &self.known.candidates);
            assert!(!must, "no progress: {tree}\n{candidates:?}");
            return false;
        }
        let chosen = self.random.number() as usize % self.jobs.len();
        self.jobs[chosen].left -= 1;
        if self.jobs[chosen].left == 0 {
            let job = self.jobs.swap_remove(chosen);
            self.count_inputs(&job.candidate);
            for table in self.tree.install(&*shape, (&job.version, &job.facts), &job.candidate) {
                self.count(&job, &table);
            }
            self.tree.check(&*shape, &self.options).expect("sound and within bounds");
        }
        true
    }

    fn busy(&self) -> Busy {
        let held = |job: &Job| Reservation { job: job.id, candidate: job.candidate.clone() };
        Busy { reservations: self.jobs.iter().map(held).collect() }
    }

    fn start(&mut self, candidate: Arc<Candidate>) {
        for job in &self.jobs {
            assert!(!job.candidate.collides(&candidate), "{candidate:?}");
        }
        if candidate.frees == Class::L0 && candidate.output_level == 1 {
            self.report.merges += 1;
            self.report.l1_before += self.tree.version.level(1).bytes();
        }
        let left = 1 + candidate.bytes_in.0 / self.options.tree.memtable_bytes.0.max(1);
        self.job_ids += 1;
        let id = JobId(self.job_ids);
        let (version, facts) = (self.tree.version.clone(), self.facts());
        self.jobs.push(Job { id, candidate, version, facts, left });
    }

    /// Counts the SSTs that a job takes out of L1, before it is installed.
    fn count_inputs(&mut self, candidate: &Candidate) {
        if candidate.frees != Class::Level(1) {
            return;
        }
        let (l2, max) = (self.tree.version.level(2), self.options.tree.growth as f64);
        let by = self.options.shapes.vlsm.overlap;
        let out = candidate.inputs.tables.iter().filter(|(place, _)| place.level() == 1);
        for (_, table) in out {
            self.report.l1_out += 1;
            let grade = grade(&table.range, table.bytes, l2, by, max);
            self.report.poor_out += u64::from(grade == Grade::Poor);
        }
    }

    /// Counts an SST that a job wrote.
    fn count(&mut self, job: &Job, table: &Table) {
        let l2 = job.version.level(2);
        self.report.written += table.bytes.0;
        self.report.files += 1;
        if job.candidate.output_level == 1 && !l2.is_empty() {
            let max = self.options.tree.growth as f64;
            let by = |overlap| grade(&table.range, table.bytes, l2, overlap, max) == Grade::Good;
            self.report.l1_files += 1;
            self.report.l1_bytes += table.bytes;
            self.report.good_by_count += u64::from(by(Overlap::Count));
            self.report.good_by_ratio += u64::from(by(Overlap::Ratio));
        }
    }

    /// Runs until nothing is left to do.
    fn drain(&mut self) {
        self.tree.seal();
        self.tree.sealed.iter_mut().for_each(|(facts, _)| facts.wanted = true);
        while self.tick(!self.tree.sealed.is_empty()) {}
        for level in self.shape.pressure(&self.tree.version, &self.facts()).levels {
            assert_eq!(level.debt, Bytes::ZERO, "{}", text::summary(&self.tree.version));
        }
        self.tree.check_newest(1).expect("the newest entry shows");
    }
}

impl World for Model {
    fn changed(&mut self) -> Vec<Changed> {
        let changed = std::mem::take(&mut self.marked).then(|| Changed {
            tree: self.tree.id,
            busy: self.busy(),
            version: Arc::new(self.tree.version.clone()),
            facts: self.facts(),
            may_start: true,
        });
        changed.into_iter().collect()
    }

    fn know(&mut self, _: &Changed, known: Known) {
        assert!(known.candidates.len() < 100, "bounded in number");
        for candidate in &known.candidates {
            self.tree.check_order(candidate).expect("in order of age");
        }
        self.known = known;
    }

    fn observe(&mut self) -> Observed {
        let pressure = vec![(self.tree.id, self.known.pressure.clone())];
        Observed {
            candidates: self.known.candidates.clone(),
            signals: Signals { workers: self.workers, pressure, ..Signals::default() },
            running: self.jobs.iter().map(Job::running).collect(),
        }
    }

    fn act(&mut self, grants: &Grants, observed: &Observed) -> bool {
        for id in &grants.cancel {
            self.jobs.retain(|job| job.id != *id);
        }
        for &index in &grants.start {
            self.start(observed.candidates[index].clone());
        }
        self.marked = !(grants.start.is_empty() && grants.cancel.is_empty());
        self.marked
    }

    fn admit(&mut self, _: Admit, _: Option<Micros>) {}
}

/// The profile with its sizes divided, so that a few ten thousand entries fill three levels.
fn small(name: &str) -> PolicyOptions {
    let mut options = profile(name).expect("known");
    let sst = Bytes(32 * ENTRY);
    options.tree.memtable_bytes = sst;
    options.tree.sst_max = sst;
    options.shapes.vlsm.sst_min = Bytes(8 * ENTRY);
    options.tree.growth = 4;
    options.shapes.vlsm.phi = 12;
    options.tree.l1_bytes = sst * 4;
    options.tree.overflow = options.tree.overflow.map(|overflow| Bytes(overflow.0.min(sst.0 * 4)));
    options.tree.debt_soft = options.tree.debt_soft.map(|debt| debt / 2048);
    options.tree.debt_hard = options.tree.debt_hard.map(|debt| debt / 2048);
    options.tree.l0_max = options.tree.l0_max.min(8);
    options.tree.l0_slowdown = options.tree.l0_slowdown.min(6);
    // A guard of the last level every 64 keys.
    options.shapes.flsm.top_level_bits = 14;
    options
}

fn run(options: PolicyOptions, workers: usize, inserts: u32, keys: fn(u32, u32) -> u32) -> Report {
    let mut model = Model::new(options, workers, 0x9e37_79b9_7f4a_7c15);
    for n in 0..inserts {
        let random = model.random.number();
        model.insert(keys(n, random));
    }
    model.drain();
    model.report
}

const NAMES: [&str; 11] = [
    "vlsm",
    "vlsm-4",
    "rocksdb",
    "rocksdb-io",
    "rocksdb-debt64",
    "rocksdb-overflow64",
    "triad",
    "lsmi",
    "cruise",
    "pebblesdb",
    "blsm",
];

/// The same shape with the other limit of L1.
fn with_overflow_in_l1(name: &str) -> Option<PolicyOptions> {
    let mut options = small(name);
    options.shapes.vlsm.l1_limit = L1Limit::Overflow;
    (options.shape == "vlsm").then_some(options)
}

fn run_all(keys: fn(u32, u32) -> u32) {
    for name in NAMES {
        for workers in [1, 4] {
            run(small(name), workers, 12_000, keys);
            if let Some(options) = with_overflow_in_l1(name) {
                run(options, workers, 12_000, keys);
            }
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
    // Nine of ten inserts go to a thousandth of the keys, and these keys change over time.
    run_all(|n, random| {
        let hot = (n / 2_000) << 22;
        if random % 10 == 0 { random } else { hot + random % (1 << 22) }
    });
}

#[test]
fn odd_sizes_make_progress_too() {
    for name in NAMES {
        let mut options = small(name);
        options.tree.l0_max = options.tree.l0_trigger;
        options.tree.overflow = Some(Bytes::ZERO);
        options.tree.l1_bytes = options.tree.sst_max;
        options.shapes.vlsm.phi = 2;
        options.tree.growth = 2;
        options.tree.memtable_count = 5;
        run(options.clone(), 2, 10_000, |_, random| random);
        options.tree.levels = 2;
        options.tree.memtable_bytes = options.tree.sst_max * 3;
        run(options.clone(), 2, 10_000, |_, random| random);
        options.tree.trivial_move = false;
        options.shapes.vlsm.overlap = Overlap::Ratio;
        run(options, 1, 10_000, |n, _| n.wrapping_mul(0x9e37_79b1));
    }
}

/// Guards from one in a few keys to very few, and levels and runs from the fewest on.
#[test]
fn guards_of_any_density() {
    for (levels, runs, trigger) in [(1, 1, 1), (1, 4, 2), (2, 3, 3), (3, 2, 1), (4, 3, 2)] {
        for (last_bits, rewrite_ratio) in [(2, 1), (6, 2), (30, 0)] {
            let mut options = small("pebblesdb");
            let own = &mut options.shapes.flsm;
            (own.guarded_levels, own.guard_runs, own.guard_trigger) = (levels, runs, trigger);
            own.top_level_bits = last_bits + levels * own.bit_decrement;
            own.rewrite_ratio = rewrite_ratio;
            run(options.clone(), 3, 4_000, |_, random| random % 10_000);
            options.tree.trivial_move = false;
            options.tree.l0_trigger = 1;
            run(options, 1, 4_000, |n, _| n.wrapping_mul(0x9e37_79b1));
        }
    }
}

/// A tree of another shape, whose tables straddle guards, deeper than the options say or not.
#[test]
fn a_tree_gets_guards_later() {
    for (before, levels) in [("rocksdb", 2), ("vlsm", 1), ("lsmi", 4)] {
        let mut old = small(before);
        old.tree.levels = 7;
        old.tree.growth = 2;
        let mut model = Model::new(old, 3, 1);
        for _ in 0..12_000 {
            let random = model.random.number();
            model.insert(random % 50_000);
        }
        model.drain();
        model.options = small("pebblesdb");
        model.options.shapes.flsm.guarded_levels = levels;
        (model.shape, ..) = model.options.build().expect("legal options");
        for _ in 0..12_000 {
            let random = model.random.number();
            model.insert(random % 50_000);
        }
        model.drain();
    }
}

/// vSSTs are cut by overlap, but never below S_m, nor beyond S_M; `cut` asserts it.
#[test]
fn vssts_are_of_sizes_from_s_min_to_s_max() {
    for overlap in [Overlap::Count, Overlap::Ratio] {
        let mut options = small("vlsm");
        options.shapes.vlsm.overlap = overlap;
        options.shapes.vlsm.sst_min = Bytes(5 * ENTRY);
        options.tree.sst_max = Bytes(23 * ENTRY);
        let report = run(options, 2, 12_000, |_, random| random);
        // By the ratio most are poor, and closed at S_m. The last one of a job may be smaller.
        let files = report.l1_files - report.merges;
        let mean = report.l1_bytes.0 / files / ENTRY;
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
            options.shapes.vlsm.overlap = overlap;
            options.tree.growth = 2;
            options.shapes.vlsm.phi = 64;
            options.shapes.vlsm.sst_min = options.tree.sst_max;
            let report = run(options, workers, 20_000, |n, _| n.wrapping_mul(0x9e37_79b1));
            let good = match overlap {
                Overlap::Ratio => report.good_by_ratio,
                _ => report.good_by_count,
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
        options.tree.memtable_bytes = down(options.tree.memtable_bytes);
        options.tree.sst_max = down(options.tree.sst_max);
        options.shapes.vlsm.sst_min = down(options.shapes.vlsm.sst_min);
        options.tree.l1_bytes = down(options.tree.l1_bytes);
        options.tree.overflow = options.tree.overflow.map(down);
        options.tree.debt_soft = options.tree.debt_soft.map(down);
        options.tree.debt_hard = options.tree.debt_hard.map(down);
        options
    };
    let print = |name: &str, options: PolicyOptions| {
        let (tree, vlsm) = (options.tree.clone(), options.shape == "vlsm");
        let report = run(options, 2, 120_000, |_, random| random);
        let percent = |part: u64, of: u64| match vlsm {
            true => format!("{} %", (100 * part + of / 2) / of.max(1)),
            false => "–".into(),
        };
        let l1 = match report.merges {
            0 => "–".into(),
            merges => {
                let full = tree.l1_bytes.as_f64() * merges as f64;
                format!("{:.2}", report.l1_before.as_f64() / full)
            }
        };
        println!(
            "| {name} | {:.1} | {} | {} | {} | {l1} | {}, {} |",
            report.written as f64 / report.user as f64,
            percent(report.good_by_count, report.l1_files),
            percent(report.good_by_ratio, report.l1_files),
            percent(report.poor_out, report.l1_out),
            report.chain_max,
            report.width_max * 128
        );
    };
    for name in NAMES {
        print(name, scaled(name));
        if let Some(mut options) = with_overflow_in_l1(name).map(|_| scaled(name)) {
            options.shapes.vlsm.l1_limit = L1Limit::Overflow;
            print(&format!("{name}, L1 with overflow"), options);
        }
    }
    for (name, phi) in [("vlsm", 32), ("vlsm-4", 64)] {
        for overlap in [Overlap::Count, Overlap::Ratio] {
            for (least, parts) in
                [("S_M / 8", 8), ("S_M / 4", 4), ("S_M / 2", 2), ("S_M − block", 1)]
            {
                let mut options = scaled(name);
                let sst = options.tree.sst_max;
                // A block is smaller than an entry, which is the smallest unit here.
                let sst_min = if parts == 1 { sst - Bytes(ENTRY) } else { sst / parts };
                let mut vlsm = VlsmOptions::default();
                (vlsm.sst_min, vlsm.phi, vlsm.overlap) = (sst_min, phi, overlap);
                options.shapes.vlsm = vlsm;
                let by = format!("{overlap:?}").to_lowercase();
                print(&format!("{name}, Φ = {phi}, by {by}, S_m = {least}"), options);
            }
        }
    }
}
