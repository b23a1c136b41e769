//! The places where a running merge closes an SST: at a size, or by looking ahead at the next
//! level.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §4.2. A
//! merge calls [`Cutter::before`] once for each *new* user key, so it never splits the versions of
//! one user key over two SSTs.
//!
//! Look-ahead:
//! 1. the open vSST covers [its first key, its last key]. It overlaps the tables of the next level
//!    that share a key with that range;
//! 2. if the vSST has S_m bytes and would overlap more than f with one more key, close it before
//!    that key;
//! 3. if the vSST has S_M bytes, close it before the next key.
//!
//! So a *good* vSST (overlap ≤ f) has S_m to S_M bytes. A *poor* vSST, whose overlap exceeded f
//! while it was smaller than S_m, has S_m bytes. The last vSST of a job may be smaller than S_m.
//!
//! A range tombstone may overlap any number of tables with hardly a byte. Under a range tombstone
//! the lower ends of the next level's tables are places to cut at, too, and S_m does not hold
//! there. So an SST under a range tombstone overlaps no more than f either.
//!
//! Aligned (RocksDB's `CompactionOutputs::ShouldStopBefore`, since 7.8; here with a fixed share of
//! the size, and no SST is larger than it):
//! 1. if the SST has three quarters of its size, close it before the first key that is not before
//!    the next table of the next level;
//! 2. if the SST has its size, close it before the next key.
//!
//! Guards (PebblesDB (2017), §3.4; `guards.rs`):
//! 1. close before a key that is a guard, and before the first key that is not before a known
//!    guard;
//! 2. if the SST has its size, close it before the next key;
//! 3. under a range tombstone known guards are places to cut at, too.
//!
//! Readings. The paper's symbols are lost in its text. [`Overlap::Count`] is the number of
//! overlapped SSTs. [`Overlap::Ratio`] is their bytes ÷ the bytes of the vSST, as the text says.
//! The ratio falls while the vSST grows, so only the moment of the call counts.
//!
//! Cost: the cutter caches the lower end of the first table that is not overlapped yet. So a key
//! costs one comparison, mostly of its first eight bytes. Each crossed table and each closed vSST
//! costs O(log tables). The tables are those of the version at the job's start. If the level
//! changes before the install, the output is still legal.

use super::{CutRule, Overlap, guards};
use std::sync::Arc;
use vlsm_core::{Bytes, KeyRange, Table, Tables, Version, key};

/// Says whether a vSST is cheap to merge into the next level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grade {
    /// Overlap at most f.
    Good,
    /// Overlap beyond f.
    Poor,
}

/// Grades an SST of `bytes` over `range` against the next level.
///
/// Cost: O(log tables + overlapped tables). It stops at the table that decides the grade.
#[must_use]
pub fn grade(range: &KeyRange, bytes: Bytes, next: &Tables, overlap: Overlap, max: f64) -> Grade {
    let mut seen = Seen::default();
    for table in next.overlapping(range) {
        seen.add(table);
        if seen.exceeds(bytes, overlap, max) {
            return Grade::Poor;
        }
    }
    Grade::Good
}

/// The tables that the open vSST overlaps.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: u64,
    bytes: u64,
}

impl Seen {
    fn add(&mut self, table: &Table) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(table.bytes.0);
    }

    fn exceeds(&self, written: Bytes, overlap: Overlap, max: f64) -> bool {
        match overlap {
            Overlap::Count => self.count as f64 > max,
            Overlap::Ratio => self.bytes as f64 > max * written.as_f64(),
        }
    }
}

/// The bytes from which on an aligned SST ends with a table of the next level. A table of the next
/// level meets an f-th of an SST, so hardly any SST of f = 8 finds no end within a quarter.
#[must_use]
pub fn aligned_min(sst: Bytes) -> Bytes {
    Bytes(sst.0 - sst.0 / 4)
}

/// Says, key by key, where a merge closes its SSTs.
#[derive(Debug)]
pub struct Cutter {
    rule: CutRule,
    next: Tables,
    seen: Seen,
    /// The first table after the last key, and the head of its lower end.
    ahead: Option<(u64, Arc<Table>)>,
    /// The known guards that lie ahead, the next one last.
    guards: Vec<bytes::Bytes>,
    opened: bool,
}

impl Cutter {
    /// A cutter with this rule for a job over this range, with the tree as of the job's start.
    #[must_use]
    pub fn of(rule: CutRule, version: &Version, range: &KeyRange) -> Self {
        let next = rule.next_level().map(|level| version.level(level).clone());
        let mut cutter = Self::new(rule, next.unwrap_or_default());
        if let CutRule::Guards { bits, from, .. } = rule {
            cutter.guards = guards::known(version, from, bits, range);
            cutter.guards.reverse();
        }
        cutter
    }

    /// A cutter with this rule. `next_level` is the level that the rule looks at
    /// ([`CutRule::next_level`]), as of the job's start. A rule of a fixed size ignores it. No
    /// guard is known.
    #[must_use]
    pub fn new(rule: CutRule, next_level: Tables) -> Self {
        let (seen, guards) = (Seen::default(), Vec::new());
        Self { rule, next: next_level, seen, ahead: None, guards, opened: false }
    }

    /// Whether to close the open SST before this user key is added to it. Call it once for each new
    /// user key, in ascending order, from the first key on. `written` is the open SST's size so
    /// far.
    ///
    /// After `true` this key is the first of the next SST.
    #[inline]
    pub fn before(&mut self, user_key: &[u8], written: Bytes) -> bool {
        match self.rule {
            CutRule::Never => false,
            CutRule::Size { sst } => written >= sst,
            CutRule::Guards { sst, bits, .. } => {
                let passed = self.pass_guards(user_key) || guards::is_guard(user_key, bits);
                std::mem::replace(&mut self.opened, true) && (passed || written >= sst)
            }
            CutRule::Aligned { .. } | CutRule::LookAhead { .. } if !self.opened => {
                self.note_opened(user_key);
                false
            }
            CutRule::Aligned { sst, .. } => {
                let crossed = self.cross_to(user_key);
                self.close_if(user_key, written >= sst || crossed && written >= aligned_min(sst))
            }
            CutRule::LookAhead { sst_min, sst_max, overlap_max, overlap, .. } => {
                self.cross_to(user_key);
                let full = written >= sst_max
                    || (written >= sst_min && self.seen.exceeds(written, overlap, overlap_max));
                self.close_if(user_key, full)
            }
        }
    }

    #[inline]
    fn close_if(&mut self, user_key: &[u8], close: bool) -> bool {
        if close {
            self.note_opened(user_key);
        }
        close
    }

    /// Counts the tables of the next level up to this key. True if there were any.
    #[inline]
    fn cross_to(&mut self, user_key: &[u8]) -> bool {
        let Some((head, table)) = &self.ahead else { return false };
        let crossed = match key::prefix(user_key).cmp(head) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !table.range.starts_after(user_key),
            std::cmp::Ordering::Greater => true,
        };
        if crossed {
            self.cross(user_key);
        }
        crossed
    }

    /// Drops the known guards up to this key. True if there were any.
    #[inline]
    fn pass_guards(&mut self, user_key: &[u8]) -> bool {
        let before = self.guards.len();
        while self.guards.last().is_some_and(|guard| **guard <= *user_key) {
            self.guards.pop();
        }
        self.guards.len() < before
    }

    /// The next place after the last key passed in where a merge can cut as at a key, if a range
    /// tombstone reaches that far: the lower end of a table of the next level, or a known guard.
    #[must_use]
    pub fn ahead(&self) -> Option<&bytes::Bytes> {
        let guard = self.guards.last().filter(|_| self.opened);
        self.ahead.as_ref().map(|(_, table)| &table.range.lo).or(guard)
    }

    /// Like [`Cutter::before`], for a place under a range tombstone. There the open SST counts as
    /// at least S_m long, because it may overlap far more bytes than it has.
    pub fn before_under_tombstone(&mut self, place: &[u8], written: Bytes) -> bool {
        let least = match self.rule {
            CutRule::LookAhead { sst_min, .. } => sst_min,
            CutRule::Never
            | CutRule::Size { .. }
            | CutRule::Aligned { .. }
            | CutRule::Guards { .. } => Bytes::ZERO,
        };
        self.before(place, written.max(least))
    }

    /// Notes that the caller opened an SST with this first key. Not needed after [`Cutter::before`]
    /// has returned `true`.
    pub fn note_opened(&mut self, first_key: &[u8]) {
        self.opened = true;
        self.seen = Seen::default();
        let mut tables = self.next.starting_at(first_key);
        let mut ahead = tables.next();
        if let Some(table) = ahead.filter(|table| !table.range.starts_after(first_key)) {
            self.seen.add(table);
            ahead = tables.next();
        }
        self.ahead = ahead.map(|table| (key::prefix(&table.range.lo), table.clone()));
    }

    /// Counts the tables up to this key, which is not before the table ahead.
    #[cold]
    fn cross(&mut self, user_key: &[u8]) {
        let Some((_, first)) = self.ahead.take() else { return };
        for table in self.next.starting_at(&first.range.lo) {
            if table.range.starts_after(user_key) {
                self.ahead = Some((key::prefix(&table.range.lo), table.clone()));
                return;
            }
            self.seen.add(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_core::text;

    fn next() -> Tables {
        text::parse("L2: 1:8[b,c] 2:8[d,e] 3:8[g,h] 4:8[k,z]").expect("parses").level(2).clone()
    }

    fn rule(overlap: Overlap, overlap_max: f64) -> CutRule {
        let (sst_min, sst_max) = (Bytes(2), Bytes(8));
        CutRule::LookAhead { sst_min, sst_max, overlap_max, overlap, next_level: 2 }
    }

    /// The first keys of the SSTs when each key is one byte long.
    fn firsts(rule: CutRule, keys: &str) -> String {
        let mut cutter = Cutter::new(rule, next());
        let mut written = 0;
        let mut out = String::new();
        for key in keys.chars() {
            if cutter.before(key.to_string().as_bytes(), Bytes(written)) || out.is_empty() {
                out.push(key);
                written = 0;
            }
            written += 1;
        }
        out
    }

    #[test]
    fn closes_before_the_key_that_overlaps_one_too_many() {
        assert_eq!(firsts(rule(Overlap::Count, 1.0), "abcdefgh"), "adg");
        assert_eq!(firsts(rule(Overlap::Count, 2.0), "abcdefgh"), "ag");
        assert_eq!(firsts(rule(Overlap::Count, 9.0), "abcdefghijklm"), "ai", "at S_M");
        // A jump over whole tables counts them; below S_m it must go on, and close at S_m.
        assert_eq!(firsts(rule(Overlap::Count, 1.0), "azz"), "az");
        assert_eq!(firsts(rule(Overlap::Count, 1.0), "bzz"), "bz");
        assert_eq!(firsts(CutRule::Size { sst: Bytes(3) }, "abcdefgh"), "adg");
        assert_eq!(firsts(CutRule::Never, "abcdefgh"), "a");
    }

    #[test]
    fn aligned_ssts_end_before_a_table_of_the_next_level() {
        let rule = |sst| CutRule::Aligned { sst: Bytes(sst), next_level: 2 };
        assert_eq!(
            firsts(rule(4), "abcdefghijklm"),
            "adgk",
            "from three keys on, where one begins"
        );
        assert_eq!(firsts(rule(3), "abcdefghijklm"), "adgjm", "at three, the size");
        assert_eq!(firsts(rule(8), "abcdefghijklm"), "ag", "of eight from six on");
        assert_eq!(firsts(rule(4), "lmnopq"), "lp", "nothing begins any more");
    }

    #[test]
    fn under_a_tombstone_every_table_ahead_is_a_place_to_cut() {
        for (overlap, max, expected) in
            [(Overlap::Count, 1.0, "dgk"), (Overlap::Count, 2.0, "g"), (Overlap::Ratio, 8.0, "g")]
        {
            let mut cutter = Cutter::new(rule(overlap, max), next());
            assert!(!cutter.before(b"a", Bytes(1)), "nothing is open");
            let mut cuts = String::new();
            while let Some(place) = cutter.ahead().cloned() {
                if cutter.before_under_tombstone(&place, Bytes(1)) {
                    cuts.push(place[0] as char);
                }
            }
            assert_eq!(cuts, expected, "{overlap:?} {max}");
        }
    }

    /// With three bits, the letters g and y are guards.
    #[test]
    fn guards_and_known_guards_are_places_to_cut_at() {
        let tree = text::parse("L3: 1:8[a,f] 2:8[g,x] 3:8[z,zz]").expect("parses");
        let cuts = |from: u8, sst: u64, keys: &str| {
            let rule = CutRule::Guards { sst: Bytes(sst), bits: 3, from };
            let mut cutter = Cutter::of(rule, &tree, &KeyRange::closed("a", "z"));
            let mut written = 0;
            let mut cut = String::new();
            for key in keys.chars() {
                if cutter.before(key.to_string().as_bytes(), Bytes(written)) {
                    cut.push(key);
                    written = 0;
                }
                written += 1;
            }
            cut
        };
        assert_eq!(cuts(1, 99, "afghxyz"), "gy");
        assert_eq!(cuts(1, 99, "afhxz"), "h", "g is known, z is no guard");
        assert_eq!(cuts(4, 99, "afhxz"), "", "g is not known below L3");
        assert_eq!(cuts(1, 99, "ghyz"), "y", "nothing is open before the first key");
        assert_eq!(cuts(1, 2, "abcdgh"), "cg", "at the size as well");
        let rule = CutRule::Guards { sst: Bytes(99), bits: 3, from: 1 };
        let mut cutter = Cutter::of(rule, &tree, &KeyRange::closed("a", "z"));
        assert_eq!(cutter.ahead(), None, "nothing is open");
        assert!(!cutter.before(b"a", Bytes(0)));
        assert_eq!(cutter.ahead().map(|guard| &guard[..]), Some(&b"g"[..]));
        assert!(cutter.before_under_tombstone(b"g", Bytes(1)));
        assert_eq!(cutter.ahead(), None);
    }

    #[test]
    fn the_ratio_falls_while_the_vsst_grows() {
        // 8 bytes overlapped by 2 written: 4; 16 by 3: more than 5.
        assert_eq!(firsts(rule(Overlap::Ratio, 5.0), "abcdefgh"), "adg");
        // Crossing before S_m leaves a poor one of S_m bytes.
        assert_eq!(firsts(rule(Overlap::Ratio, 1.0), "bcdefgh"), "bdfh");
    }

    #[test]
    fn grades_by_both_readings() {
        let range = KeyRange::closed("c", "g");
        let by = |overlap, max| grade(&range, Bytes(6), &next(), overlap, max);
        assert_eq!(by(Overlap::Count, 3.0), Grade::Good);
        assert_eq!(by(Overlap::Count, 2.0), Grade::Poor);
        assert_eq!(by(Overlap::Ratio, 4.0), Grade::Good);
        assert_eq!(by(Overlap::Ratio, 3.9), Grade::Poor);
    }
}
