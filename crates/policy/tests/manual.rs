//! Manual compactions, job by job: their proposals, their waits, and their end.

use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::{
    Bytes as ByteCount, FileMeta, FileNumber, JobId, Micros, Place, Seq, Table, Tables, Version,
    VersionEdit, text,
};
use vlsm_policy::shape::manual::{Manual, Next};
use vlsm_policy::{Busy, Candidate, Reservation, TreeFacts, TreeOptions};

/// Applies the result of a job: one output table with the candidate's key range.
fn apply(version: &Version, candidate: &Candidate, next_file: &mut u64) -> Version {
    let mut edit = VersionEdit::default();
    candidate.inputs.tables.iter().for_each(|(place, table)| edit.remove(*place, table));
    let file = FileMeta {
        number: FileNumber(*next_file),
        bytes: ByteCount::mib(1),
        smallest: candidate.range.lo.clone(),
        largest: candidate.range.hi.clone(),
        ..FileMeta::default()
    };
    *next_file += 1;
    edit.add(candidate.output_level, Arc::new(Table::whole(Arc::new(file))));
    edit.apply(version).expect("a sound edit")
}

fn table(file: u64, lo: &str, hi: &str, tombstones: u64) -> Arc<Table> {
    Arc::new(Table::whole(Arc::new(FileMeta {
        number: FileNumber(file),
        bytes: ByteCount::mib(1),
        smallest: lo.to_owned().into(),
        largest: hi.to_owned().into(),
        tombstones,
        seq_min: Seq(file),
        seq_max: Seq(file),
        ..FileMeta::default()
    })))
}

fn tree() -> Version {
    let mut edit = VersionEdit::default();
    for (run, lo, hi) in [(11, "x", "z"), (12, "a", "f"), (13, "b", "k"), (99, "a", "c")] {
        let origin = vlsm_core::RunOrigin::Flush;
        edit.add_l0(vlsm_core::RunId(run), origin, table(run, lo, hi, 0));
    }
    for (file, lo, hi, tombstones, level) in [
        (1, "a", "d", 0, 1),
        (2, "e", "h", 0, 1),
        (3, "a", "c", 3, 3),
        (4, "d", "g", 0, 3),
        (5, "p", "q", 7, 3),
    ] {
        edit.add(level, table(file, lo, hi, tombstones));
    }
    for (file, key, expires) in [(6, "r", 7), (7, "s", 8)] {
        let (smallest, largest) = (key.into(), key.into());
        let (number, expires) = (FileNumber(file), Some(Micros(expires)));
        let file = FileMeta { number, smallest, largest, expires, ..FileMeta::default() };
        edit.add(3, Arc::new(Table::whole(Arc::new(file))));
    }
    edit.apply(&Version::default()).expect("sound")
}

fn run(mut version: Version, lo: &'static str, hi: Option<&'static str>) -> (Version, usize) {
    let mut manual = Manual::new(lo.into(), hi.map(Into::into), Seq(50), Micros(7));
    let (facts, options) = (TreeFacts::default(), TreeOptions::default());
    let (mut jobs, mut next_file) = (0, 1000);
    loop {
        let idle = Busy::default();
        let candidate = match manual.next(&version, &facts, &idle, &options) {
            Next::Done => return (version, jobs),
            Next::Wait => panic!("nothing to wait for"),
            Next::Job(candidate) => candidate,
        };
        let again = manual.next(&version, &facts, &idle, &options);
        assert_eq!(again, Next::Job(candidate.clone()), "the same until done");
        // While a job holds it, it is not proposed again.
        let candidate = Arc::new(*candidate);
        let held = Reservation { job: JobId(1), candidate: candidate.clone() };
        let busy = Busy { reservations: vec![held] };
        assert_eq!(manual.next(&version, &facts, &busy, &options), Next::Wait);
        version = apply(&version, &candidate, &mut next_file);
        jobs += 1;
        assert!(jobs < 50);
    }
}

#[test]
fn everything_ends_in_the_last_level() {
    let (version, jobs) = run(tree(), "", None);
    let later: Vec<u64> = version.l0.iter().map(|run| run.id.0).collect();
    assert_eq!(later, [99], "what came after the request stays: {}", text::print(&version));
    assert!(version.levels[..2].iter().all(Tables::is_empty), "{}", text::print(&version));
    let stale = version.levels[2].iter().any(|table| table.file.tombstones > 0);
    assert!(!stale && jobs >= 5, "{jobs} jobs: {}", text::print(&version));
}

#[test]
fn it_ends_while_a_writer_appends_keys() {
    let mut version = tree();
    let mut manual = Manual::new(Bytes::new(), None, Seq(50), Micros(7));
    let (facts, options) = (TreeFacts::default(), TreeOptions::default());
    let mut next_file = 1000;
    for round in 0..50 {
        let next = manual.next(&version, &facts, &Busy::default(), &options);
        let Next::Job(candidate) = next else {
            assert_eq!(next, Next::Done);
            return;
        };
        version = apply(&version, &candidate, &mut next_file);
        let (key, mut edit) = (format!("zz{round:02}"), VersionEdit::default());
        edit.add(1, table(2000 + round, &key, &key, 0));
        version = edit.apply(&version).expect("sound");
    }
    panic!("it follows the writer: {}", text::print(&version));
}

#[test]
fn it_follows_tables_that_a_shape_moves_deeper() {
    let mut edit = VersionEdit::default();
    edit.add(1, table(1, "a", "d", 3));
    edit.add(1, table(2, "e", "h", 3));
    let version = edit.apply(&Version::default()).expect("sound");
    let moved = |version: &Version, file: u64| {
        let mut edit = VersionEdit::default();
        let tables = version.level(1).iter().find(|table| table.file.number.0 == file);
        let table = tables.expect("a table of L1").clone();
        edit.remove(Place::Level(1), &table);
        edit.add(2, table);
        edit.apply(version).expect("sound")
    };
    // A table is moved when it is next, when another table is next, and after its own turn.
    for (jobs_before, moves) in [(0, 1), (0, 2), (1, 2), (1, 1000)] {
        let mut manual = Manual::new(Bytes::new(), None, Seq(50), Micros(7));
        let (facts, options) = (TreeFacts::default(), TreeOptions::default());
        let (mut version, mut next_file) = (version.clone(), 1000);
        for jobs in 0.. {
            assert!(jobs < 10, "{}", text::print(&version));
            if jobs == jobs_before {
                // The table is proposed first, by a request that then waits for the job that moves
                // the table.
                let _ = manual.next(&version, &facts, &Busy::default(), &options);
                version = moved(&version, moves);
            }
            match manual.next(&version, &facts, &Busy::default(), &options) {
                Next::Job(job) => version = apply(&version, &job, &mut next_file),
                next => {
                    assert_eq!(next, Next::Done);
                    break;
                }
            }
        }
        let last = version.level(2);
        assert!(version.level(1).is_empty(), "{}", text::print(&version));
        assert!(!last.is_empty() && last.iter().all(|table| table.file.tombstones == 0));
    }
}

#[test]
fn a_range_leaves_the_rest_where_it_is() {
    let (version, jobs) = run(tree(), "p", Some("q"));
    assert_eq!((version.l0.len(), jobs), (4, 1), "{}", text::print(&version));
    assert_eq!(version.level(1).len(), 2);
    assert!(version.level(3).find(b"p").is_some_and(|table| table.file.number.0 >= 1000));
    let (version, jobs) = run(tree(), "r", Some("t"));
    let rewritten = |key: &[u8]| version.level(3).find(key).map(|t| t.file.number.0 >= 1000);
    assert_eq!((jobs, rewritten(b"r"), rewritten(b"s")), (1, Some(true), Some(false)));
    let (same, jobs) = run(tree(), "m", Some("n"));
    assert!(jobs == 0 && same == tree());
}
