//! Counters by merge: several threads count visits of pages without reading.
//!
//! ```text
//! cargo run -p vlsm --example counters [FOLDER]
//! ```
//!
//! A merge writes an operand. The operator of the keyspace combines the operands when the key is
//! read, or when compactions rewrite them. So no thread reads, waits for another, or loses an
//! increment. Two of the operators are built in (`add`, `max`); the third is this program's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::{Batch, Db, Keyspace, KeyspaceOptions, MergeOperator, Result, WriteOptions};

const PAGES: [&str; 3] = ["/", "/about", "/docs"];
const THREADS: u64 = 4;
const VISITS: u64 = 300;

/// Keeps the count, the least and the largest of numbers. A value and an operand are three numbers
/// of eight bytes each.
struct Summary;

/// The count, the least and the largest.
type Parts = [u64; 3];

impl Summary {
    fn operand(number: u64) -> Vec<u8> {
        encode([1, number, number])
    }
}

fn encode(parts: Parts) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Option<Parts> {
    if bytes.len() != 24 {
        return None;
    }
    let part = |i: usize| Some(u64::from_be_bytes(bytes[i * 8..i * 8 + 8].try_into().ok()?));
    Some([part(0)?, part(1)?, part(2)?])
}

impl MergeOperator for Summary {
    /// The name is stored with the keyspace; opening the store without the operator fails.
    fn name(&self) -> &str {
        "example.summary"
    }

    fn check_operand(&self, _key: &[u8], operand: &[u8]) -> std::result::Result<(), &'static str> {
        decode(operand).map(|_| ()).ok_or("an operand is three numbers: 24 bytes, big-endian")
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut all = base.into_iter().chain(operands.iter().copied()).map(decode);
        let first = all.next()??;
        let sum = all.try_fold(first, |[count, least, largest], next| {
            let [n, low, high] = next?;
            Some([count + n, least.min(low), largest.max(high)])
        })?;
        Some(encode(sum))
    }

    /// Operands can be combined before the value is known. This keeps the number of a hot key's
    /// operands small.
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands)
    }
}

/// The value of a counter; an absent counter is zero.
fn count(counters: &Keyspace, key: &str) -> Result<u64> {
    let bytes = counters.get(key)?;
    Ok(bytes.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("`add` writes 8"))))
}

/// One thread's visits. Each is one batch over three keyspaces.
fn visit(db: &Db, visits: &Keyspace, longest: &Keyspace, times: &Keyspace) -> Result<()> {
    for n in 0..VISITS {
        let page = PAGES[(n % 3) as usize];
        let took = 1000 + n;
        let mut batch = Batch::new();
        batch.merge(visits, page, 1_u64.to_le_bytes()); // `add` takes little-endian numbers
        batch.merge(longest, page, took.to_be_bytes()); // `max` compares bytes, so big-endian
        batch.merge(times, page, Summary::operand(took));
        db.write(&batch, WriteOptions::default())?;
    }
    Ok(())
}

/// Counts visits in the store in `folder` from several threads, and reads the counters.
pub fn run(folder: &Path) -> Result<String> {
    let db = Db::builder(folder).merge_operator(Arc::new(Summary)).open()?;
    let keyspace = |name: &str, operator: &str| {
        db.create_keyspace(name, KeyspaceOptions::new().merge_operator(operator))
    };
    let visits = keyspace("visits", "add")?;
    let longest = keyspace("longest", "max")?;
    let times = keyspace("times", "example.summary")?;
    let before = count(&visits, "/")?;

    std::thread::scope(|scope| {
        let work = || visit(&db, &visits, &longest, &times);
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;

    assert_eq!(count(&visits, "/")? - before, THREADS * VISITS / 3); // no visit was lost
    let sum = times.get("/")?.and_then(|bytes| decode(&bytes)).expect("it was merged");
    assert_eq!(sum, [count(&visits, "/")?, 1000, 1297]);
    assert_eq!(longest.get("/")?.as_deref(), Some(&1297_u64.to_be_bytes()[..]));
    // An operand of a wrong length is refused before anything is written.
    assert!(matches!(visits.merge("/", "one"), Err(vlsm::Error::OperandRefused { .. })));

    let mut said = String::new();
    for page in PAGES {
        let more = if before == 0 { "" } else { " since the first run" };
        said += &format!("{page}: {} visits{more}\n", count(&visits, page)?);
    }
    db.close()?;
    Ok(said)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
