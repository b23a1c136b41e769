//! Concurrent transactions, and a check that one order, in which they run one after the other,
//! explains all that they saw.
//!
//! Each key holds a list of numbers. A transaction reads lists and ranges of keys, and appends
//! numbers that no other transaction appends. So a list gives the order of its appends, and the
//! result of a read shows which of them it saw (as in "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", 2020). This gives edges between committed transactions:
//! 1. *ww*: it appended to a list directly after the other.
//! 2. *wr*: it read a list up to an append of the other.
//! 3. *rw*: the other appended to a list directly after the part that it read. A read of a range
//!    reads every key in it, also absent ones.
//! 4. *time*: it began after the other had ended.
//!
//! A cycle of edges means that no order explains what was seen. Besides, no list may have an append
//! of a transaction that did not commit, no append may be lost, and a transaction must see its own.
//!
//! A transaction that failed with a conflict has read its snapshot nevertheless, so its reads
//! count.
//!
//! Lists are kept in three ways: in one keyspace an append reads the list and puts the longer one,
//! in another it is an operand of the merge operator, which reads nothing, and some lists belong to
//! one client, which ingests the longer one as a file or puts it. Some appends are plain batches,
//! some with the delete of a range that is empty, some transactions are large, and flushes and
//! compactions go on meanwhile.

use crate::disk::Disk;
use crate::env::{SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::{Op, Write};
use crate::rng::Rng;
use crate::world::{MERGES, Mechanisms, World};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Batch, IngestOptions, Transaction, WriteOptions};
use vlsm_core::Error;
use vlsm_disk::Env;

/// The digits of a number in a list.
const DIGITS: usize = 4;
/// The keys of each keyspace; fewer than five, so that they are in the order of their numbers.
const KEYS: u64 = 4;
/// The key of a list that belongs to one client, between those of the others.
const OWNED: u64 = 2;
/// More than this many bytes make a large batch.
const LARGE: usize = 300 << 10;

/// A list: keyspace and key.
type List = (usize, Vec<u8>);

/// A transaction, as its client saw it.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// The numbers that others had appended to each list that it read.
    reads: Vec<(List, Vec<u64>)>,
    appends: Vec<(List, u64)>,
    committed: bool,
    begun: Duration,
    ended: Duration,
}

/// How often each kind of event occurred.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that read, and committed.
    pub committed: u64,
    /// Transactions that met another write.
    pub conflicts: u64,
    /// Edges by kind: ww, wr, rw.
    pub edges: [u64; 3],
}

/// The keys of the lists in a keyspace. Those of the second one lie in several regions.
fn key(number: u64) -> Vec<u8> {
    format!("k{}", number * 2 + 1).into_bytes()
}

/// The key of the owned lists.
fn owned() -> Vec<u8> {
    format!("k{OWNED}").into_bytes()
}

/// The keys of all lists of a keyspace.
fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS).map(key).chain([owned()])
}

/// The numbers of a list.
fn numbers(list: &[u8]) -> Result<Vec<u64>, String> {
    let chunks = list.chunks(DIGITS).map(|chunk| std::str::from_utf8(chunk).ok()?.parse().ok());
    chunks.collect::<Option<_>>().ok_or_else(|| format!("a list of {} bytes", list.len()))
}

/// One client: its transactions, one after the other.
struct Client {
    /// Whether the owned lists are its own.
    owns: bool,
    /// The contents of its own lists, by keyspace.
    owned: [Vec<u8>; 2],
    env: Arc<SimEnv>,
    world: World,
    rng: Rng,
    next: Arc<Mutex<u64>>,
    seen: Vec<Seen>,
}

impl Client {
    fn run(mut self, count: u64) -> Result<Vec<Seen>, String> {
        for _ in 0..count {
            let mut seen = Seen { begun: self.env.now(), ..Seen::default() };
            let result = match self.rng.below(10) {
                0 => self.plain(&mut seen),
                1..5 if self.owns => self.own(&mut seen),
                _ => self.transaction(&mut seen),
            };
            match result {
                Ok(()) => seen.committed = true,
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
            seen.ended = self.env.now();
            self.seen.push(seen);
            match self.rng.below(12) {
                0 => self.world.flush().map_err(|error| error.to_string())?,
                1 => self.env.sleep(Duration::from_micros(self.rng.below(2_000))),
                _ => {}
            }
        }
        Ok(self.seen)
    }

    fn number(&self) -> u64 {
        let mut next = self.next.lock();
        *next += 1;
        *next
    }

    /// Appends to an owned list without a transaction: by a file, or by a put with a delete of an
    /// empty range.
    fn own(&mut self, seen: &mut Seen) -> vlsm::Result<()> {
        let (space, number) = (self.rng.index(2), self.number());
        let key = owned();
        self.owned[space].extend_from_slice(format!("{number:0DIGITS$}").as_bytes());
        let list = self.owned[space].clone();
        seen.appends.push(((space, key.clone()), number));
        let put = Write { space, key, op: Op::Put(list) };
        if self.rng.one_in(2) {
            return self.world.ingest(&self.env, &[put], 1, IngestOptions::default());
        }
        let nothing = Op::DeleteRange(b"k20".to_vec());
        let delete = Write { space, key: b"k11".to_vec(), op: nothing };
        self.world.write(&[delete, put], Promise::Process)
    }

    /// A batch that appends without a transaction.
    fn plain(&mut self, seen: &mut Seen) -> vlsm::Result<()> {
        let mut batch = Batch::new();
        let space = self.world.space(MERGES);
        for _ in 0..self.rng.between(1, 3) {
            let (list, number) = ((MERGES, key(self.rng.below(KEYS))), self.number());
            batch.merge(&space, &list.1, format!("{number:0DIGITS$}"));
            seen.appends.push((list, number));
        }
        self.world.db().write(&batch, WriteOptions::default())
    }

    fn transaction(&mut self, seen: &mut Seen) -> vlsm::Result<()> {
        let mut transaction = self.world.db().transaction();
        for _ in 0..self.rng.between(1, 5) {
            match self.rng.below(8) {
                0..3 => self.read(&transaction, seen)?,
                3 => self.read_range(&transaction, seen)?,
                4 => {
                    // Undone writes leave no trace.
                    transaction.savepoint();
                    self.append(&mut transaction, &mut seen.clone())?;
                    transaction.rollback_to_savepoint()?;
                }
                _ => self.append(&mut transaction, seen)?,
            }
            self.env.interleave();
        }
        if self.rng.one_in(25) {
            transaction.put(&self.world.space(2), "padding", vec![7; LARGE])?;
        }
        transaction.commit()
    }

    /// Notes a list that was read. Its end must be what the transaction itself has appended.
    fn note(seen: &mut Seen, list: List, found: &[u8]) -> vlsm::Result<()> {
        let wrong = |why: String| Error::Internal(format!("WRONG ANSWER: {why}"));
        let mut found = numbers(found).map_err(wrong)?;
        let own = seen.appends.iter().filter(|(of, _)| *of == list).map(|(_, number)| *number);
        let own: Vec<u64> = own.collect();
        if !found.ends_with(&own) {
            return Err(wrong(format!("own appends {own:?} are not at the end of {found:?}")));
        }
        found.truncate(found.len() - own.len());
        seen.reads.push((list, found));
        Ok(())
    }

    fn read(&mut self, transaction: &Transaction, seen: &mut Seen) -> vlsm::Result<()> {
        let key = match self.rng.below(KEYS + 1) {
            KEYS => owned(),
            number => key(number),
        };
        let list = (self.rng.index(2), key);
        let found = transaction.get(&self.world.space(list.0), &list.1)?;
        Self::note(seen, list, &found.unwrap_or_default())
    }

    /// Reads a range of keys from both ends, or a part of it.
    fn read_range(&mut self, transaction: &Transaction, seen: &mut Seen) -> vlsm::Result<()> {
        let space = self.rng.index(2);
        let (from, to) = (key(self.rng.below(KEYS)), key(self.rng.below(KEYS + 1)));
        let mut pairs = transaction.range(&self.world.space(space), from.clone()..to.clone());
        let mut found = BTreeMap::new();
        // The keys that were walked over: up to the first, and from the second on.
        let (mut front, mut back, mut all) = (None, None, false);
        for _ in 0..self.rng.between(1, 2 * KEYS) {
            let backwards = self.rng.one_in(2);
            let pair = if backwards { pairs.next_back() } else { pairs.next() };
            let Some((key, list)) = pair.transpose()? else {
                all = true;
                break;
            };
            *(if backwards { &mut back } else { &mut front }) = Some(key.to_vec());
            found.insert(key.to_vec(), list);
            self.env.interleave();
        }
        // An absent key within the range that was walked over counts as read, too.
        let walked = |key: &Vec<u8>| {
            let front = front.as_ref().is_some_and(|front| key <= front);
            *key >= from && *key < to && (all || front || back.as_ref().is_some_and(|b| key >= b))
        };
        for key in keys().filter(walked) {
            let list = found.get(&key).cloned().unwrap_or_default();
            Self::note(seen, (space, key), &list)?;
        }
        Ok(())
    }

    fn append(&mut self, transaction: &mut Transaction, seen: &mut Seen) -> vlsm::Result<()> {
        let (list, number) = ((self.rng.index(2), key(self.rng.below(KEYS))), self.number());
        let (space, text) = (self.world.space(list.0), format!("{number:0DIGITS$}"));
        if list.0 == MERGES {
            transaction.merge(&space, &list.1, text)?;
        } else {
            let before = transaction.get(&space, &list.1)?.unwrap_or_default();
            Self::note(seen, list.clone(), &before)?;
            transaction.put(&space, &list.1, [&before[..], text.as_bytes()].concat())?;
        }
        seen.appends.push((list, number));
        Ok(())
    }
}

/// Runs transactions of several clients and looks for an order of them.
///
/// # Errors
/// A cycle, or another wrong answer, with the seed.
pub fn run(seed: u64) -> Result<Counts, String> {
    let outcome = SimEnv::run(&SimConfig::new(seed), &Disk::new(), move |env| {
        let mut rng = Rng::new(seed);
        let mechanisms = *rng.pick(Mechanisms::all());
        let options = mechanisms.options(&mut rng);
        let open = World::open(&env, &options).map_err(|error| error.to_string())?;
        let (clients, count) = (rng.between(2, 5), rng.between(5, 30));
        let next: Arc<Mutex<u64>> = Arc::default();
        let mut begin = |number| {
            let (env, world, next) = (env.clone(), open.clone(), next.clone());
            let (rng, owns, owned) = (rng.fork(number), number == 0, Default::default());
            let client = Client { owns, owned, rng, env, world, next, seen: Vec::new() };
            client.env.clone().task("client", move || client.run(count))
        };
        let tasks: Vec<_> = (0..clients).map(&mut begin).collect();
        let mut seen = Vec::new();
        for task in tasks {
            seen.extend(task.join().ok_or("a client vanished")??);
        }
        let mut lists = BTreeMap::new();
        for space in [0, MERGES] {
            for key in keys() {
                let found = open.get(space, &key).map_err(|error| error.to_string())?;
                lists.insert((space, key), numbers(&found.unwrap_or_default())?);
            }
        }
        let checked = check(&seen, &lists);
        open.close().map_err(|error| error.to_string())?;
        checked.map_err(|why| format!("{mechanisms}: {why}"))
    });
    outcome.expect("ends").map_err(|why| format!("seed {seed}: {why}"))
}

/// Checks what was seen against the lists at the end.
fn check(seen: &[Seen], lists: &BTreeMap<List, Vec<u64>>) -> Result<Counts, String> {
    let mut writer = BTreeMap::new();
    for (index, one) in seen.iter().enumerate() {
        for (list, number) in &one.appends {
            let there = lists[list].contains(number);
            if there != one.committed {
                let what = if there { "was refused and is there" } else { "is lost" };
                return Err(format!("append {number} to {list:?} {what}"));
            }
            writer.insert(*number, index);
        }
    }
    let committed = || seen.iter().filter(|one| one.committed);
    let mut counts = Counts {
        committed: committed().filter(|one| !one.reads.is_empty()).count() as u64,
        conflicts: seen.iter().filter(|one| !one.committed).count() as u64,
        ..Counts::default()
    };
    let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut add = |from: usize, to: usize, kind: Option<usize>| {
        if from != to {
            edges.entry(from).or_default().insert(to);
            kind.into_iter().for_each(|kind| counts.edges[kind] += 1);
        }
    };
    for (of, list) in lists {
        check_list(of, list, seen, &writer)?;
        for pair in list.windows(2) {
            add(writer[&pair[0]], writer[&pair[1]], Some(0));
        }
    }
    for (index, one) in seen.iter().enumerate() {
        for (list, read) in &one.reads {
            let whole = &lists[list];
            if !whole.starts_with(read) {
                return Err(format!("{list:?} was read as {read:?}, and is {whole:?}"));
            }
            if let Some(last) = read.last() {
                add(writer[last], index, Some(1));
            }
            if let Some(next) = whole.get(read.len()) {
                add(index, writer[next], Some(2));
            }
        }
        let later = seen.iter().enumerate().filter(|(_, other)| other.begun > one.ended);
        later.for_each(|(later, _)| add(index, later, None));
    }
    match cycle(&edges, seen.len()) {
        None => Ok(counts),
        Some(cycle) => {
            let told: Vec<_> = cycle.iter().map(|index| format!("{:?}", seen[*index])).collect();
            Err(format!("transactions have no order:\n{}", told.join("\n")))
        }
    }
}

/// Checks that each number of a list was appended once, and those of one transaction next to each
/// other and in their order.
fn check_list(
    of: &List,
    list: &[u64],
    seen: &[Seen],
    writer: &BTreeMap<u64, usize>,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{of:?}, {list:?}: {what}"));
    let Some(by) =
        list.iter().map(|number| writer.get(number).copied()).collect::<Option<Vec<_>>>()
    else {
        return wrong("a number that nobody appended, or that was undone");
    };
    let mut at = 0;
    while at < list.len() {
        let appends = seen[by[at]].appends.iter().filter(|(to, _)| to == of);
        let appends: Vec<u64> = appends.map(|(_, number)| *number).collect();
        if appends.is_empty() || list.get(at..at + appends.len()) != Some(&appends[..]) {
            return wrong("the appends of one transaction are not together and in order");
        }
        at += appends.len();
    }
    let once: BTreeSet<_> = list.iter().collect();
    if once.len() < list.len() { wrong("a number comes twice") } else { Ok(()) }
}

/// A cycle of the graph, if there is one: what is left when nodes without predecessors are removed
/// again and again has one.
fn cycle(edges: &BTreeMap<usize, BTreeSet<usize>>, count: usize) -> Option<Vec<usize>> {
    let mut into = vec![0; count];
    edges.values().flatten().for_each(|to| into[*to] += 1);
    let mut free: Vec<usize> = (0..count).filter(|node| into[*node] == 0).collect();
    let mut removed = 0;
    while let Some(node) = free.pop() {
        removed += 1;
        for to in edges.get(&node).into_iter().flatten() {
            into[*to] -= 1;
            if into[*to] == 0 {
                free.push(*to);
            }
        }
    }
    if removed == count {
        return None;
    }
    // Every node that is left has a predecessor that is left: walk back until one comes again.
    let before = |node: usize| {
        let from = edges.iter().find(|(from, to)| into[**from] > 0 && to.contains(&node));
        from.map(|(from, _)| *from).expect("a node that is left has a predecessor")
    };
    let mut walk = vec![into.iter().position(|count| *count > 0)?];
    loop {
        let next = before(*walk.last()?);
        if let Some(start) = walk.iter().position(|node| *node == next) {
            let mut found = walk.split_off(start);
            found.reverse();
            return Some(found);
        }
        walk.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(reads: &[(u64, &[u64])], appends: &[(u64, u64)]) -> Seen {
        let list = |number: u64| (0, key(number));
        Seen {
            reads: reads.iter().map(|(of, read)| (list(*of), read.to_vec())).collect(),
            appends: appends.iter().map(|(of, number)| (list(*of), *number)).collect(),
            committed: true,
            ..Seen::default()
        }
    }

    fn judged(seen: &[Seen], lists: &[(u64, &[u64])]) -> Result<Counts, String> {
        let mut all: BTreeMap<List, Vec<u64>> = keys().map(|key| ((0, key), Vec::new())).collect();
        all.extend(lists.iter().map(|(of, list)| ((0, key(*of)), list.to_vec())));
        check(seen, &all)
    }

    #[test]
    fn anomalies_are_cycles_and_orders_are_none() {
        // Lost update: both read the empty list and append.
        let lost = [one(&[(0, &[])], &[(0, 1)]), one(&[(0, &[])], &[(0, 2)])];
        assert!(judged(&lost, &[(0, &[1, 2])]).unwrap_err().contains("no order"));
        // Write skew: each reads what the other writes.
        let skew = [one(&[(0, &[])], &[(1, 1)]), one(&[(1, &[])], &[(0, 2)])];
        assert!(judged(&skew, &[(0, &[2]), (1, &[1])]).unwrap_err().contains("no order"));
        // One after the other.
        let serial = [one(&[(0, &[])], &[(1, 1)]), one(&[(1, &[1])], &[(0, 2)])];
        let counts = judged(&serial, &[(0, &[2]), (1, &[1])]).unwrap();
        assert_eq!((counts.committed, counts.edges[1] > 0), (2, true));
        // This order is right only if the two overlap, not if the first ended before the second
        // began.
        let mut stale = [one(&[], &[(0, 1)]), one(&[(0, &[])], &[(1, 2)])];
        assert!(judged(&stale, &[(0, &[1]), (1, &[2])]).is_ok());
        stale[0].ended = Duration::from_secs(1);
        (stale[1].begun, stale[1].ended) = (Duration::from_secs(2), Duration::from_secs(3));
        assert!(judged(&stale, &[(0, &[1]), (1, &[2])]).unwrap_err().contains("no order"));
    }

    #[test]
    fn refused_appends_stay_away_and_others_stay() {
        let mut refused = one(&[], &[(0, 1)]);
        refused.committed = false;
        assert!(judged(&[refused.clone()], &[]).is_ok());
        assert!(judged(&[refused], &[(0, &[1])]).unwrap_err().contains("was refused"));
        assert!(judged(&[one(&[], &[(0, 1)])], &[]).unwrap_err().contains("is lost"));
        let torn = [one(&[], &[(0, 1), (0, 2)]), one(&[(0, &[2])], &[])];
        assert!(judged(&torn, &[(0, &[1, 2])]).unwrap_err().contains("was read as"));
        let twice = [one(&[], &[(0, 1)]), one(&[], &[(0, 2)])];
        assert!(judged(&twice, &[(0, &[1, 2, 1])]).unwrap_err().contains("twice"));
        assert!(judged(&twice, &[(0, &[1, 2, 3])]).unwrap_err().contains("nobody appended"));
        let swapped = [one(&[], &[(0, 1), (0, 2)])];
        assert!(judged(&swapped, &[(0, &[2, 1])]).unwrap_err().contains("in order"));
        // A number in a list that it was not appended to.
        let astray = [one(&[], &[(0, 1)])];
        assert!(judged(&astray, &[(0, &[1]), (1, &[1])]).unwrap_err().contains("in order"));
        // The reads of a refused transaction count, too.
        let mut stale =
            [one(&[(0, &[]), (1, &[2])], &[]), one(&[], &[(0, 1)]), one(&[], &[(1, 2)])];
        stale[0].committed = false;
        (stale[1].ended, stale[2].begun) = (Duration::from_secs(1), Duration::from_secs(2));
        stale[2].ended = Duration::from_secs(3);
        assert!(judged(&stale, &[(0, &[1]), (1, &[2])]).unwrap_err().contains("no order"));
    }
}
