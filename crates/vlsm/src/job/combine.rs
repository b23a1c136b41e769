//! Selects the versions of a user key that a job writes: those that a reader may still see, with
//! merge operands combined where possible.
//!
//! The sorted snapshots cut the sequence numbers into *stripes*: the number of snapshots that do
//! not see a version is its stripe. Readers see only the newest state of a stripe, so within one
//! stripe:
//! 1. the newest version that is not an operand decides; the versions below it are shadowed;
//! 2. a version below a range tombstone of the same stripe is hidden, and dropped like a shadowed
//!    one;
//! 3. operands are held back until the version to which they apply; then one put replaces all of
//!    them. If that version is in an older stripe or elsewhere in the tree, the operator may
//!    combine the operands into one. Otherwise, or if the operator fails or panics, they are
//!    written unchanged;
//! 4. if no older version lies below, the key is absent before its first version, and the operands
//!    apply to absence.
//!
//! The newest version of a hot key that stays in memory (`hot`) shadows like any other, but is not
//! written.
//!
//! A tombstone in the oldest stripe is dropped, too, if no older version lies below. An expired
//! value that no snapshot sees becomes a tombstone. The compaction filter is called for the
//! remaining value of the newest stripe. If it panics, the value stays unchanged.
//!
//! Invariants: the output ascends in tree order, because only operands of one key are held back; no
//! operand is lost. Bound: at most [`HELD_MAX`] operands and [`HELD_BYTES`] are held back; beyond
//! that the stripe's operands are written unchanged. Threads and locks: owned by one job, no lock.

use crate::job::merge::MergeCounters;
use crate::job::output::{Fragment, Outputs};
use crate::rules::resolve::expiry;
use crate::rules::{Decision, Rules};
use std::ops::Range;
use std::sync::Arc;
use vlsm_core::key::{EXPIRY_LEN, MAX_VALUE_LEN};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Kind, Micros, RangeTombstones, Result, Seq, Trailer};

/// The most operands held back at once, and their most bytes.
const HELD_MAX: usize = 1000;
const HELD_BYTES: usize = 1 << 20;

/// The facts by which a job selects the versions of a key that stay.
#[derive(Default)]
pub(crate) struct MergeContext {
    /// The sequence numbers that readers hold, as of the job's start.
    pub snapshots: Vec<Seq>,
    /// Whether no older version of any key of the job lies below its output.
    pub nothing_below: bool,
    /// The range tombstones of all inputs.
    pub ranges: RangeTombstones,
    /// Entries that stay in memory, in order; each is the newest of its key.
    pub left_out: Vec<Seq>,
    /// Whether several memtables among the inputs may have the same entry.
    pub copies: bool,
    pub rules: Arc<Rules>,
    /// Whether the compaction filter is called, if there is one.
    pub filters: bool,
    /// Wall-clock time of the job's start.
    pub now: Micros,
    /// The level that is written.
    pub level: u8,
}

impl MergeContext {
    /// The number of snapshots that do not see this sequence number.
    #[inline]
    fn stripe(&self, seq: Seq) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < seq)
    }

    /// The newest tombstone of each stripe in each fragment. The other tombstones hide no further
    /// entries.
    fn hiding(&self) -> RangeTombstones {
        let mut ranges = self.ranges.clone();
        ranges.retain(|seqs| {
            let mut kept = seqs.to_vec();
            kept.dedup_by_key(|seq| self.stripe(*seq));
            kept
        });
        ranges
    }

    /// The tombstones among these that must be written.
    fn lasting(&self, mut hiding: RangeTombstones) -> RangeTombstones {
        if self.nothing_below {
            let lasts = |seq: &Seq| self.stripe(*seq) > 0;
            hiding.retain(|seqs| seqs.iter().copied().filter(lasts).collect());
        }
        hiding
    }
}

/// The state of the current stripe of the current key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only operands so far, all of them held back.
    Open,
    /// Only operands so far, which were written unchanged.
    GaveUp,
    /// Older versions do not matter.
    Decided,
}

/// Selects versions, key by key.
pub(crate) struct Combine {
    context: MergeContext,
    /// The fragments that hide entries, in key order, and the first fragment that does not end
    /// before the current key.
    hiding: Vec<Fragment>,
    next: usize,
    /// The fragment over the current key.
    over: Option<usize>,
    stripe: usize,
    state: State,
    /// The held-back operands, newest first, with their places in `bytes`, and their key.
    held: Vec<(Seq, Range<usize>)>,
    bytes: Vec<u8>,
    key: Vec<u8>,
    /// Whether an entry of the current key was written.
    key_is_out: bool,
    /// Whether, if the newest version of a key is a put, it is written unchanged, and no other
    /// version.
    is_plain: bool,
    pub outputs: Outputs,
    pub counters: MergeCounters,
}

impl Combine {
    /// Selects by `context`, and writes to `outputs`.
    pub fn new(mut context: MergeContext, mut outputs: Outputs) -> Self {
        context.snapshots.sort_unstable();
        context.snapshots.dedup();
        let ranges = context.hiding();
        let hiding = fragments(&ranges);
        outputs.set_ranges(fragments(&context.lasting(ranges)));
        let filters = context.filters && context.rules.filter.is_some();
        let is_plain = context.snapshots.is_empty()
            && context.left_out.is_empty()
            && hiding.is_empty()
            && !filters;
        Self {
            context,
            hiding,
            next: 0,
            over: None,
            stripe: 0,
            state: State::Decided,
            held: Vec::new(),
            bytes: Vec::new(),
            key: Vec::new(),
            key_is_out: false,
            is_plain,
            outputs,
            counters: MergeCounters::default(),
        }
    }

    /// Handles the next entry in tree order. `new_key` states that the previous entry had another
    /// user key.
    #[inline]
    pub fn entry(
        &mut self,
        new_key: bool,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
    ) -> Result<()> {
        if self.is_plain && new_key && trailer.kind_number() == Kind::Put as u8 {
            // The same as `any_entry` does in this case.
            self.end_key();
            (self.stripe, self.state, self.key_is_out) = (0, State::Decided, false);
            self.emit_now(key, trailer, value);
            return Ok(());
        }
        self.any_entry(new_key, key, trailer, value)
    }

    fn any_entry(
        &mut self,
        new_key: bool,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
    ) -> Result<()> {
        let stripe = self.context.stripe(trailer.seq());
        if new_key {
            self.end_key();
            self.key_is_out = false;
            if !self.hiding.is_empty() {
                self.find_over(key);
            }
        } else if stripe != self.stripe {
            self.end_stripe(false);
        } else if self.state == State::Decided {
            self.counters.dropped_shadowed += 1;
            return Ok(());
        }
        if new_key || stripe != self.stripe {
            self.stripe = stripe;
            self.state = State::Open;
        }
        if self.is_hidden(trailer.seq()) {
            self.state = State::Decided;
            self.counters.dropped_shadowed += 1;
            return Ok(());
        }
        if trailer.kind() == Some(Kind::Merge) {
            self.operand(key, trailer, value);
            return Ok(());
        }
        let gave_up = self.state == State::GaveUp;
        self.state = State::Decided;
        self.base(gave_up, key, trailer, value)
    }

    /// Whether two memtables may have the same entry.
    pub fn allows_copies(&self) -> bool {
        self.context.copies
    }

    /// Ends the current key: the next entry has another key, or there is none.
    #[inline]
    pub fn end_key(&mut self) {
        if !self.held.is_empty() {
            self.end_stripe(true);
        }
    }

    fn find_over(&mut self, key: &[u8]) {
        while self.hiding.get(self.next).is_some_and(|fragment| fragment.hi.as_ref() <= key) {
            self.next += 1;
        }
        let over = self.hiding.get(self.next).is_some_and(|fragment| fragment.lo.as_ref() <= key);
        self.over = over.then_some(self.next);
    }

    /// Whether a range tombstone of the current stripe covers this version of the stripe.
    #[inline]
    fn is_hidden(&self, seq: Seq) -> bool {
        let Some(over) = self.over else { return false };
        let seqs = &self.hiding[over].seqs;
        let newer = seqs.partition_point(|tombstone| *tombstone > seq);
        newer > 0 && self.context.stripe(seqs[newer - 1]) == self.stripe
    }

    /// Handles a version that is not an operand and that no newer version of its stripe shadows.
    #[inline]
    fn base(&mut self, gave_up: bool, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if !self.context.left_out.is_empty()
            && self.context.left_out.binary_search(&trailer.seq()).is_ok()
        {
            return Ok(());
        }
        let (mut trailer, mut value) = (trailer, value);
        let is_newest = self.stripe == self.context.snapshots.len();
        if trailer.kind() == Some(Kind::PutExpiring)
            && is_newest
            && expiry(value)? <= self.context.now
        {
            trailer = Trailer::new(trailer.seq(), Kind::Delete);
            value = &[];
        }
        let kept = gave_up || !self.held.is_empty();
        if !self.held.is_empty() {
            let base = match trailer.kind() {
                Some(Kind::Put) => Some(Some(value)),
                Some(Kind::Delete) => Some(None),
                // This does not occur in a keyspace with a merge operator.
                _ => None,
            };
            if base.is_some_and(|base| self.combine(base)) {
                self.counters.combined += 1;
                return Ok(());
            }
            self.keep_held();
        }
        if trailer.kind() == Some(Kind::Delete) {
            self.tombstone(key, trailer);
        } else if (is_newest || planted::is(Bug::SnapshotFiltered)) && !kept && self.asks_filter() {
            self.filtered(key, trailer, value);
        } else {
            self.emit(key, trailer, value);
        }
        Ok(())
    }

    fn emit(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        self.emit_now(key, trailer, value);
    }

    #[inline(always)]
    fn emit_now(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        self.counters.entries_out += 1;
        let may_cut = !self.key_is_out || planted::is(Bug::UserKeySplit);
        self.outputs.add(may_cut, key, trailer, value);
        self.key_is_out = true;
    }

    fn tombstone(&mut self, key: &[u8], trailer: Trailer) {
        if self.stripe == 0 && self.context.nothing_below {
            self.counters.dropped_tombstones += 1;
        } else {
            self.emit(key, trailer, &[]);
        }
    }

    #[inline]
    fn asks_filter(&self) -> bool {
        self.context.filters && self.context.rules.filter.is_some()
    }

    /// Applies the compaction filter to a value that no snapshot sees, and writes the result.
    #[cold]
    fn filtered(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        let skip = if trailer.kind() == Some(Kind::PutExpiring) { EXPIRY_LEN } else { 0 };
        match self.context.rules.filter(self.context.level, key, &value[skip..]) {
            Decision::Change(new) if skip + new.len() <= MAX_VALUE_LEN => {
                self.emit(key, trailer, &[&value[..skip], &new].concat());
            }
            Decision::Remove => self.tombstone(key, Trailer::new(trailer.seq(), Kind::Delete)),
            Decision::Keep | Decision::Change(_) => self.emit(key, trailer, value),
        }
    }

    /// Holds an operand back, if there is room for it.
    #[cold]
    fn operand(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        let is_full = |this: &Self| {
            this.held.len() >= HELD_MAX || this.bytes.len() + value.len() > HELD_BYTES
        };
        let mut holds = self.state == State::Open && self.context.rules.operator.is_some();
        if holds && !self.held.is_empty() && is_full(self) {
            holds = self.held.len() > 1 && self.combine_partly() && !is_full(self);
        }
        if !holds {
            self.keep_held();
            self.state = State::GaveUp;
            self.emit(key, trailer, value);
            return;
        }
        if self.held.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.held.push((trailer.seq(), start..self.bytes.len()));
    }

    /// Ends a stripe without a base for its held-back operands.
    #[cold]
    fn end_stripe(&mut self, ends_key: bool) {
        if self.held.is_empty() {
            return;
        }
        // If a range tombstone of the stripe does not hide the operands, it is older than all of
        // them.
        let of_stripe = |seq: &Seq| self.context.stripe(*seq) == self.stripe;
        let deleted = self.over.is_some_and(|over| self.hiding[over].seqs.iter().any(of_stripe));
        let is_absent = deleted || (ends_key && self.context.nothing_below);
        if is_absent && self.combine(None) {
            return;
        }
        if !is_absent && self.held.len() > 1 {
            self.combine_partly();
        }
        self.keep_held();
    }

    /// Writes the held-back operands as one put over this base. Returns false if the operator
    /// cannot combine them.
    fn combine(&mut self, base: Option<&[u8]>) -> bool {
        let operands = self.operands();
        let Ok(value) = self.context.rules.merge(&self.key, base, &operands) else { return false };
        self.counters.combined += operands.len() as u64 - 1;
        let trailer = Trailer::new(self.held[0].0, Kind::Put);
        self.clear_held();
        let key = std::mem::take(&mut self.key);
        match self.stripe == self.context.snapshots.len() && self.asks_filter() {
            true => self.filtered(&key, trailer, &value),
            false => self.emit(&key, trailer, &value),
        }
        self.key = key;
        true
    }

    /// Replaces the held-back operands by one. Returns false if the operator cannot combine them.
    fn combine_partly(&mut self) -> bool {
        let operands = self.operands();
        let Some(one) = self.context.rules.merge_partial(&self.key, &operands) else {
            return false;
        };
        self.counters.combined += operands.len() as u64 - 1;
        let newest = self.held[0].0;
        self.clear_held();
        self.held.push((newest, 0..one.len()));
        self.bytes = one;
        true
    }

    /// The held-back operands, oldest first.
    fn operands(&self) -> Vec<&[u8]> {
        self.held.iter().rev().map(|(_, place)| &self.bytes[place.clone()]).collect()
    }

    /// Writes the held-back operands unchanged.
    #[cold]
    fn keep_held(&mut self) {
        let (held, bytes) = (std::mem::take(&mut self.held), std::mem::take(&mut self.bytes));
        let key = std::mem::take(&mut self.key);
        for (seq, place) in &held {
            self.emit(&key, Trailer::new(*seq, Kind::Merge), &bytes[place.clone()]);
        }
        (self.held, self.bytes, self.key) = (held, bytes, key);
        self.clear_held();
    }

    fn clear_held(&mut self) {
        self.held.clear();
        self.bytes.clear();
    }
}

/// The fragments in key order; adjacent equal fragments are joined.
fn fragments(ranges: &RangeTombstones) -> Vec<Fragment> {
    let mut fragments: Vec<Fragment> = Vec::new();
    for (lo, fragment) in ranges.iter() {
        match fragments.last_mut() {
            Some(last) if last.hi == *lo && last.seqs == fragment.seqs => {
                last.hi = fragment.hi.clone();
            }
            _ => fragments.push(Fragment {
                lo: lo.clone(),
                hi: fragment.hi.clone(),
                seqs: fragment.seqs.clone(),
            }),
        }
    }
    fragments
}
