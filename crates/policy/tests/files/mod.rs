//! Files without data: one tree whose files hold keys and ages alone, under the same edits that the
//! engine makes. All tests that run policies in a loop share it.
//!
//! The test determines the bytes of an entry. The output of a job is merged and cut as in the
//! engine, by the shape's rule. The age of each key's newest entry is known, to check that no job
//! loses it or hides it behind an older one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::*;
use vlsm_policy::shape::cuts::aligned_min;
use vlsm_policy::shape::vlsm::L1Limit;
use vlsm_policy::*;

/// Entries of a file: key and age, by key.
pub type Entries = Vec<(u32, u64)>;

/// Numbers that look random and are the same in every run.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn number(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

/// A key as policies see it.
fn key(number: u32) -> bytes::Bytes {
    number.to_be_bytes().to_vec().into()
}

/// One tree.
#[derive(Debug, Clone)]
pub struct Tree {
    pub id: TreeId,
    pub version: Version,
    /// Sealed memtables, oldest first: their facts for shapes, and their entries.
    pub sealed: Vec<(MemtableFacts, Entries)>,
    /// Bytes of one entry.
    entry: u64,
    active: BTreeMap<u32, u64>,
    /// The age of each key's newest entry.
    newest: BTreeMap<u32, u64>,
    /// The entries of every file that there ever was.
    contents: HashMap<u64, Arc<Entries>>,
    numbers: u64,
    age: u64,
}

impl Tree {
    pub fn new(id: TreeId, entry: u64) -> Self {
        Self {
            id,
            version: Version::default(),
            sealed: Vec::new(),
            entry,
            active: BTreeMap::new(),
            newest: BTreeMap::new(),
            contents: HashMap::new(),
            numbers: 0,
            age: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Writes a key into the active memtable.
    pub fn insert(&mut self, number: u32) {
        self.age += 1;
        self.active.insert(number, self.age);
        self.newest.insert(number, self.age);
    }

    pub fn active_bytes(&self) -> Bytes {
        Bytes(self.active.len() as u64 * self.entry)
    }

    /// Seals the active memtable, if it holds anything.
    pub fn seal(&mut self) {
        let entries: Entries = std::mem::take(&mut self.active).into_iter().collect();
        let id = MemtableId(self.number());
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let facts = MemtableFacts {
            id,
            bytes: Bytes(entries.len() as u64 * self.entry),
            range: Some(KeyRange::closed(key(first.0), key(last.0))),
            seq_max: Seq(entries.iter().map(|entry| entry.1).max().unwrap_or(0)),
            ready: true,
            wanted: false,
        };
        self.sealed.push((facts, entries));
    }

    pub fn facts(&self, now: Micros, memtable_bytes: Bytes) -> TreeFacts {
        TreeFacts {
            tree: self.id,
            now,
            memtables: self.sealed.iter().map(|(facts, _)| facts.clone()).collect(),
            memtable_bytes,
        }
    }

    /// Installs the output of a job, cut by the shape's rule and the tree as of the job's start.
    /// Returns the SSTs that it wrote.
    pub fn install(
        &mut self,
        shape: &dyn Shape,
        as_of: (&Version, &TreeFacts),
        candidate: &Candidate,
    ) -> Vec<Arc<Table>> {
        let mut edit = VersionEdit::default();
        for (place, table) in &candidate.inputs.tables {
            edit.remove(*place, table);
        }
        edit.cursors.extend(candidate.sets_cursor.clone());
        let moves = candidate.kind == JobKind::TrivialMove;
        let written: Vec<Arc<Table>> = match moves {
            true => Vec::new(),
            false => {
                let files = self.cut(shape, as_of, candidate, self.merged(candidate));
                let sketch = shape.sketches() && candidate.output_level == 0;
                files.into_iter().map(|entries| self.write(entries, sketch)).collect()
            }
        };
        let run = RunId(self.number());
        let inputs = candidate.inputs.tables.iter().map(|(_, table)| table);
        for table in written.iter().chain(inputs.filter(|_| moves)) {
            match candidate.output_level {
                0 if candidate.kind == JobKind::Flush => {
                    edit.add_l0(run, RunOrigin::Flush, table.clone());
                }
                0 => edit.add_l0(run, RunOrigin::Merge, table.clone()),
                level => edit.add(level, table.clone()),
            }
        }
        self.sealed.retain(|(facts, _)| !candidate.inputs.memtables.contains(&facts.id));
        self.version = edit.apply(&self.version).expect("the edit applies");
        written
    }

    /// Returns the newest entry of each key in a job's inputs.
    fn merged(&self, candidate: &Candidate) -> Entries {
        let mut merged = Entries::new();
        for (_, table) in &candidate.inputs.tables {
            merged.extend_from_slice(&self.contents[&table.file.number.0]);
        }
        for (facts, entries) in &self.sealed {
            if candidate.inputs.memtables.contains(&facts.id) {
                merged.extend_from_slice(entries);
            }
        }
        // The inputs are sorted runs one after the other, which makes this sort fast.
        merged.sort_by_key(|&(number, age)| (number, Reverse(age)));
        merged.dedup_by_key(|entry| entry.0);
        merged
    }

    fn cut(
        &self,
        shape: &dyn Shape,
        (as_of, facts): (&Version, &TreeFacts),
        candidate: &Candidate,
        entries: Entries,
    ) -> Vec<Entries> {
        let rule = shape.cuts(as_of, facts, candidate);
        let sizes = match rule {
            CutRule::LookAhead { sst_min, sst_max, .. } => Some((sst_min, sst_max)),
            CutRule::Size { sst } => Some((sst, sst)),
            CutRule::Aligned { sst, .. } => Some((aligned_min(sst), sst)),
            CutRule::Guards { sst, .. } => Some((Bytes::ZERO, sst)),
            CutRule::Never => None,
        };
        let mut cutter = Cutter::of(rule, as_of, &candidate.range);
        let mut files: Vec<Entries> = Vec::new();
        for (number, age) in entries {
            let written = Bytes(files.last().map_or(0, |file| file.len() as u64 * self.entry));
            if cutter.before(&number.to_be_bytes(), written) || files.is_empty() {
                files.push(Vec::new());
            }
            files.last_mut().expect("one is open").push((number, age));
        }
        if let Some((least, most)) = sizes {
            let bytes = |file: &Entries| Bytes(file.len() as u64 * self.entry);
            // A size that is no whole number of entries is exceeded by less than one.
            let most = most + Bytes(self.entry);
            assert!(files.iter().all(|file| bytes(file) < most), "none is larger than S_M");
            let but_last = &files[..files.len() - 1];
            assert!(but_last.iter().all(|file| bytes(file) >= least), "smaller than S_m");
        }
        files
    }

    fn write(&mut self, entries: Entries, sketch: bool) -> Arc<Table> {
        let number = FileNumber(self.number());
        let keys = entries.iter().map(|entry| entry.0.into());
        let meta = FileMeta {
            number,
            bytes: Bytes(entries.len() as u64 * self.entry),
            smallest: key(entries[0].0),
            largest: key(entries[entries.len() - 1].0),
            seq_min: Seq(entries.iter().map(|entry| entry.1).min().unwrap_or(0)),
            seq_max: Seq(entries.iter().map(|entry| entry.1).max().unwrap_or(0)),
            sketch: sketch.then(|| Arc::new(Sketch::of_numbers(keys))),
            ..FileMeta::default()
        };
        self.contents.insert(number.0, Arc::new(entries));
        Arc::new(Table::whole(Arc::new(meta)))
    }

    /// The rule of age order, as the engine checks it.
    pub fn check_order(&self, candidate: &Candidate) -> Result<(), String> {
        let taken = |run: &Run| {
            let mut places = candidate.inputs.tables.iter().map(|(place, _)| *place);
            places.any(|place| place == Place::L0(run.id))
        };
        let overlaps = |run: &Run| run.tables.overlapping(&candidate.range).next().is_some();
        let runs: Vec<bool> =
            self.version.l0.iter().filter(|run| overlaps(run)).map(taken).collect();
        let first = runs.iter().position(|taken| *taken).unwrap_or(runs.len());
        let last = runs.iter().rposition(|taken| *taken).map_or(first, |last| last + 1);
        if !runs[first..last].iter().all(|taken| *taken) {
            return Err(format!("runs that are no neighbours by age: {candidate:?}"));
        }
        let oldest = first == 0 || first == runs.len();
        if candidate.output_level > 0 && candidate.conflicts.is_empty() && !oldest {
            return Err(format!("not the oldest run first: {candidate:?}"));
        }
        if let Some((level, table)) = candidate.jumps_over(&self.version) {
            return Err(format!("over L{level}:{}: {candidate:?}", table.file.number));
        }
        let memtables = &candidate.inputs.memtables;
        let sealed: Vec<MemtableId> = self.sealed.iter().map(|(facts, _)| facts.id).collect();
        if !sealed.starts_with(memtables) {
            return Err(format!("not the oldest memtables first: {candidate:?}"));
        }
        if !memtables.is_empty() && candidate.output_level > 0 && !runs.is_empty() {
            return Err(format!("memtables before an older run of L0: {candidate:?}"));
        }
        Ok(())
    }

    /// Checks the invariants that hold at every moment: the version's and the shape's own, and the
    /// bounds of L0, L1 and the overflow of levels.
    pub fn check(&self, shape: &dyn Shape, options: &PolicyOptions) -> Result<(), String> {
        self.version.check().map_err(|why| why.to_string())?;
        shape.check(&self.version).map_err(|why| why.to_string())?;
        let tiered = ["tiered_l0", "triad"].contains(&&*options.shape);
        let runs = self.version.l0.len();
        if !tiered && runs > options.tree.l0_max {
            return Err(format!("L0 has {runs} runs, at most {}", options.tree.l0_max));
        }
        // If L1 may not exceed its target, only a run larger than the target exceeds it, in an
        // empty L1.
        let run = options.tree.memtable_bytes + Bytes(self.entry);
        let drained = match &*options.shape {
            "vlsm" => options.shapes.vlsm.l1_limit == L1Limit::Target,
            name => name == "lsmi",
        };
        let l1 = options.tree.l1_bytes.max(run);
        if drained && options.tree.levels > 1 && self.version.level(1).bytes() > l1 {
            return Err(format!("L1 beyond {l1}: {}", text::summary(&self.version)));
        }
        let Some(overflow) = options.tree.overflow.filter(|_| options.shape != "blsm") else {
            return Ok(());
        };
        // The jobs of one decision may bring in some SSTs more than requested, each cut a key late.
        // Tiering brings all of L0 into L1, and where there is no L0 all of memory.
        let tiered = tiered || options.shape == "sp_lsm";
        let step = options.tree.sst_max * if tiered { 8 } else { 3 };
        let facts = self.facts(Micros::ZERO, options.tree.memtable_bytes);
        let levels = shape.pressure(&self.version, &facts).levels;
        for level in levels.into_iter().skip(usize::from(tiered)) {
            let bound = level.target.map(|target| target + overflow + step);
            if bound.is_some_and(|bound| level.bytes > bound) {
                return Err(format!("{level:?} beyond its overflow of {overflow}"));
            }
        }
        Ok(())
    }

    /// Checks that a read of every `every`-th key returns its newest entry.
    pub fn check_newest(&self, every: usize) -> Result<(), String> {
        for (number, age) in self.newest.iter().step_by(every) {
            let shown = self.get(*number);
            if shown != Some(*age) {
                return Err(format!("key {number} shows {shown:?}, its newest entry is {age}"));
            }
        }
        Ok(())
    }

    fn get(&self, number: u32) -> Option<u64> {
        let active = self.active.get(&number).copied();
        let sealed = || self.sealed.iter().rev().find_map(|(_, entries)| age_of(entries, number));
        active.or_else(sealed).or_else(|| {
            let wanted = key(number);
            let l0 = self.version.l0.iter().rev().map(|run| &run.tables);
            l0.chain(&self.version.levels).find_map(|tables| {
                let table = tables.find(&wanted)?;
                age_of(&self.contents[&table.file.number.0], number)
            })
        })
    }
}

fn age_of(entries: &[(u32, u64)], number: u32) -> Option<u64> {
    let index = entries.binary_search_by_key(&number, |entry| entry.0).ok()?;
    Some(entries[index].1)
}
