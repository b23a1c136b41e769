//! Merges against a model: random entries, snapshots, tombstones, cut rules, sources and quanta.

mod meaning;
mod speed;

use super::*;
use crate::job::output::UNWRITTEN_MAX;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Bytes, FileNumber, FileUid, KeyRange, Kind, Seq, Tables};
use vlsm_disk::env::{Env, Priority};
use vlsm_disk::sst::{Finished, SstOptions, SstReader, SstWriter, Tail};
use vlsm_disk::{IoPool, Rank, RealEnv};
use vlsm_policy::shape::CutRule;
use vlsm_policy::shape::cuts::Cutter;
use vlsm_testfs::MemFile;

type Entry = (Vec<u8>, Trailer, Vec<u8>);

/// A cursor over a vector, in place of a memtable's.
struct VecCursor(Vec<Entry>, usize);

impl Cursor for VecCursor {
    fn valid(&self) -> bool {
        self.1 < self.0.len()
    }
    fn key(&self) -> &[u8] {
        &self.0[self.1].0
    }
    fn trailer(&self) -> Trailer {
        self.0[self.1].1
    }
    fn value(&self) -> &[u8] {
        &self.0[self.1].2
    }
    fn seek_first(&mut self) -> Result<()> {
        self.1 = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.1 = self.0.len().saturating_sub(1);
        Ok(())
    }
    fn seek(&mut self, _: &[u8], _: Trailer) -> Result<()> {
        unimplemented!("merges do not seek")
    }
    fn seek_before(&mut self, _: &[u8], _: Trailer) -> Result<()> {
        unimplemented!("merges do not seek")
    }
    fn next(&mut self) -> Result<()> {
        self.1 += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unimplemented!("merges go forward")
    }
}

fn pool() -> IoPool {
    let env: Arc<dyn Env> = RealEnv::new();
    let done = env.condition(Duration::from_micros(20));
    IoPool::new(&env, 2, Priority::Normal, done).expect("started")
}

fn open(bytes: Vec<u8>, summary: vlsm_disk::sst::SstSummary) -> Arc<SstReader> {
    let meta = summary.into_meta(FileNumber(1));
    Arc::new(SstReader::open(Arc::new(MemFile(bytes)), Path::new("x.sst"), &meta).expect("opens"))
}

fn sst(entries: &[Entry]) -> Arc<SstReader> {
    sst_with(entries, SstOptions::default())
}

fn sst_with(entries: &[Entry], options: SstOptions) -> Arc<SstReader> {
    let mut writer = SstWriter::new(options, FileUid(entries.len() as u64));
    entries.iter().for_each(|(key, trailer, value)| writer.add(key, *trailer, value));
    let mut bytes = Vec::new();
    while let Some((_, chunk)) = writer.take_full() {
        bytes.extend_from_slice(&chunk);
    }
    let Finished { chunks: rest, summary, .. } = writer.finish();
    rest.iter().for_each(|(_, chunk)| bytes.extend_from_slice(chunk));
    open(bytes, summary)
}

/// A run in two tables that are slices of one file, cut at the middle key.
fn sliced(entries: &[Entry]) -> Source {
    let reader = sst(entries);
    let (lo, hi) = (entries[0].0.clone(), entries[entries.len() - 1].0.clone());
    let cut = entries[entries.len() / 2].0.clone();
    let mut tables = vec![(reader.clone(), KeyRange::closed(cut.clone(), hi))];
    if lo < cut {
        tables.insert(0, (reader, KeyRange::half_open(lo, cut)));
    }
    Source::tables(Scanner::new(tables, 20_000, READ_DEPTH))
}

/// Without snapshots and special cases; nothing lies below.
fn everything() -> MergeContext {
    MergeContext { nothing_below: true, filters: true, ..MergeContext::default() }
}

fn outputs(rule: CutRule) -> Outputs {
    outputs_above(rule, Tables::default())
}

fn outputs_above(rule: CutRule, next: Tables) -> Outputs {
    let mut uid = 0;
    Outputs::new(SstOptions::default(), Cutter::new(rule, next), move || {
        uid += 1;
        FileUid(uid)
    })
}

/// Runs a merge to its end, and writes late. Returns the bytes of the files.
fn finish(merge: &mut Merge, pool: &IoPool, quantum: u64) -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = Vec::new();
    let mut ran = 0;
    loop {
        let step = merge.step(pool.ranked(Rank::Later), quantum).expect("sound");
        if let Step::Ran(bytes) = step {
            ran += bytes;
            assert!(bytes < quantum + 100_000);
            assert!(merge.outputs().unwritten() < UNWRITTEN_MAX + (8 << 20));
            continue;
        }
        while let Some(request) = merge.outputs().next_write() {
            files.resize(files.len().max(request.file + 1), Vec::new());
            assert_eq!(files[request.file].len(), request.offset as usize, "chunks in order");
            files[request.file].extend_from_slice(&request.buf);
            merge.outputs().written(request.buf);
        }
        if step == Step::Done {
            assert!(merge.counters().bytes_in >= ran);
            assert_eq!(merge.outputs().unwritten(), 0);
            return files;
        }
    }
}

fn read(bytes: Vec<u8>, summary: &vlsm_disk::sst::SstSummary) -> Vec<Entry> {
    let reader = open(bytes, summary.clone());
    let cache = Arc::new(vlsm_disk::sst::BlockCache::new(0));
    let mut cursor = reader.cursor(&cache, false);
    let mut entries = Vec::new();
    cursor.seek_first().expect("sound");
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.trailer(), cursor.value().to_vec()));
        cursor.next().expect("sound");
    }
    entries
}

/// The entries that a merge must write, by the definition of visibility.
fn model(entries: &[Entry], snapshots: &[Seq], drop_tombstones: bool) -> Vec<Entry> {
    let mut by_key: BTreeMap<&[u8], Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_key.entry(&entry.0).or_default().push(entry);
    }
    let mut out = Vec::new();
    for versions in by_key.values_mut() {
        versions.sort_by_key(|entry| std::cmp::Reverse(entry.1));
        let readers = snapshots.iter().copied().chain([Seq::MAX]);
        let mut seen: Vec<&Entry> = readers
            .filter_map(|seq| versions.iter().find(|entry| entry.1.seq() <= seq).copied())
            .collect();
        seen.sort_by_key(|entry| std::cmp::Reverse(entry.1));
        seen.dedup();
        let oldest = snapshots.iter().copied().min().unwrap_or(Seq::MAX);
        seen.retain(|entry| {
            !(drop_tombstones && entry.1.kind() == Some(Kind::Delete) && entry.1.seq() <= oldest)
        });
        out.extend(seen.into_iter().cloned());
    }
    out
}

fn arb_runs() -> impl Strategy<Value = Vec<(bool, Vec<Entry>)>> {
    let entry = (0u32..60, any::<bool>(), prop_oneof![9 => 0usize..90, 1 => 0usize..70_000]);
    let run = (any::<bool>(), prop::collection::vec(entry, 1..120));
    prop::collection::vec(run, 1..6).prop_map(|runs| {
        let mut seq = 0;
        let mut make_run = |(memory, entries): (bool, Vec<(u32, bool, usize)>)| {
            let mut entries: Vec<Entry> = entries
                .into_iter()
                .map(|(key, put, len)| {
                    seq += 1;
                    let kind = if put { Kind::Put } else { Kind::Delete };
                    let value = if put { vec![seq as u8; len] } else { Vec::new() };
                    (format!("user-{key:03}").into(), Trailer::new(Seq(seq), kind), value)
                })
                .collect();
            entries.sort_by(|a, b| key::compare(&a.0, a.1, &b.0, b.1));
            (memory, entries)
        };
        runs.into_iter().map(&mut make_run).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn merges_as_the_model_says(
        runs in arb_runs(),
        snapshots in prop::collection::vec(0u64..700, 0..5),
        drop_tombstones in any::<bool>(),
        sst_bytes in prop::sample::select(vec![1u64, 3000, 50_000, 1 << 30]),
        quantum in prop::sample::select(vec![1u64, 5000, 1 << 20]),
    ) {
        let pool = pool();
        let snapshots: Vec<Seq> = snapshots.into_iter().map(Seq).collect();
        let all: Vec<Entry> = runs.iter().flat_map(|run| run.1.clone()).collect();
        let sources = runs
            .iter()
            .map(|(memory, run)| match memory {
                true => Source::memory(VecCursor(run.clone(), 0)),
                false => sliced(run),
            })
            .collect();
        let outputs = outputs(CutRule::Size { sst: Bytes(sst_bytes) });
        let context = MergeContext {
            snapshots: snapshots.clone(),
            nothing_below: drop_tombstones,
            ..MergeContext::default()
        };
        let mut merge = Merge::new(sources, context, outputs).expect("sound");
        let files = finish(&mut merge, &pool, quantum);
        let counters = merge.counters();
        let summaries = merge.outputs().finished().to_vec();
        prop_assert_eq!(files.len(), summaries.len());
        for pair in summaries.windows(2) {
            prop_assert!(pair[0].properties.largest < pair[1].properties.smallest);
            prop_assert!(pair[0].bytes.0 >= sst_bytes, "all but the last are full");
        }
        let found: Vec<Entry> =
            files.into_iter().zip(&summaries).flat_map(|(file, s)| read(file, s)).collect();
        let expected = model(&all, &snapshots, drop_tombstones);
        prop_assert_eq!(counters.entries_in, all.len() as u64);
        prop_assert_eq!(counters.entries_out, expected.len() as u64);
        let dropped = counters.dropped_shadowed + counters.dropped_tombstones;
        prop_assert_eq!(counters.entries_in - dropped, counters.entries_out);
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_merge_of_nothing_is_done() {
    let pool = pool();
    let sources = vec![Source::memory(VecCursor(Vec::new(), 0))];
    let rule = CutRule::Size { sst: Bytes(1) };
    let mut merge = Merge::new(sources, everything(), outputs(rule)).expect("sound");
    assert_eq!(merge.step(pool.ranked(Rank::Later), 100).expect("sound"), Step::Done);
    assert!(merge.outputs().finished().is_empty() && merge.outputs().next_write().is_none());
}

#[test]
fn tails_of_ssts_are_kept_up_to_the_bound_of_unwritten_output() {
    let pool = pool();
    let entries: Vec<Entry> = (0..300u64)
        .map(|n| (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), vec![1; 60_000]))
        .collect();
    let rule = CutRule::Size { sst: Bytes::mib(2) };
    let mut kept = Vec::new();
    for bound in [1, 6_000, UNWRITTEN_MAX] {
        let sources = vec![Source::memory(VecCursor(entries.clone(), 0))];
        let outputs = outputs(rule).bounded(bound);
        let mut merge = Merge::new(sources, everything(), outputs).expect("sound");
        assert_eq!(finish(&mut merge, &pool, 1 << 20).len(), 9);
        let bytes = merge.outputs().tail_bytes();
        let tails = merge.outputs().take_tails();
        assert_eq!((tails.len(), tails.iter().flatten().map(Tail::memory_bytes).sum()), (9, bytes));
        kept.push(tails.iter().flatten().count());
    }
    assert!(kept[0] == 0 && (1..9).contains(&kept[1]) && kept[2] == 9, "{kept:?}");
}

#[test]
fn unwritten_output_blocks_and_disorder_is_an_error() {
    let pool = pool();
    let value = vec![1; 60_000];
    let entries: Vec<Entry> = (0..300u64)
        .map(|n| (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), value.clone()))
        .collect();
    let rule = CutRule::Size { sst: Bytes::mib(2) };
    let sources = vec![Source::memory(VecCursor(entries.clone(), 0))];
    let mut merge = Merge::new(sources, everything(), outputs(rule)).expect("sound");
    while let Step::Ran(_) = merge.step(pool.ranked(Rank::Later), 1 << 20).expect("sound") {}
    assert!(merge.outputs().is_full() && merge.counters().entries_in < 300);
    assert_eq!(finish(&mut merge, &pool, 1 << 20).len(), 9);

    let swapped = entries.into_iter().rev().collect();
    let sources = vec![Source::memory(VecCursor(swapped, 0))];
    let mut merge = Merge::new(sources, everything(), outputs(rule)).expect("sound");
    assert!(merge.step(pool.ranked(Rank::Later), 1 << 20).is_err());
}
