//! The history of concurrent clients, and the contents of the store that are consistent with it.
//!
//! Each client numbers its batches 1, 2, 3, … and has at most one in flight. Every batch writes its
//! number to the client's marker key in the first two keyspaces. So a view of the store tells how
//! many batches of each client it shows: the *cut*, one number per client. (An ingest is a batch on
//! one of the two keyspaces and has its marker there only.) All other keys of a client are its own,
//! except a few that all clients share. The value of a shared key names its batch.
//!
//! The history records with each batch how many batches of every client had been acknowledged when
//! it was issued. The store orders a batch after all of those. So a view of the store is right if
//! 1. the cut lies between the least that the view must show and the most that it may show,
//! 2. it is closed: with a batch it shows all batches that were acknowledged before that batch was
//!    issued (exact prefix, across clients and keyspaces),
//! 3. each client's own keys are exactly those of its batches within the cut (atomicity, no
//!    resurrection),
//! 4. each shared key shows a batch within the cut, and no batch within the cut must have
//!    overwritten it.
//!
//! With a single client this is the exact prefix of everything.
//!
//! The least that a view must show: a snapshot must show all batches that were acknowledged before
//! it was taken. A store that is reopened after power loss must show the cut of the last `Sync`
//! acknowledgement, and after the death of the process that of the last `Buffered` one.

mod clears;

use crate::oracle::{Contents, Op, Show, Write};
use std::ops::Range;

/// A number of batches for each client.
pub type Cut = Vec<u64>;

/// The promise of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// The batch survives nothing until a later promise.
    Lazy,
    /// The batch survives the death of the process.
    Process,
    /// The batch survives power loss.
    Power,
}

/// The loss since the store was last open, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// Nothing: the store was closed in order.
    Nothing,
    /// The process died. All that it had written to the file system remains.
    Process,
    /// The power failed.
    Power,
}

#[derive(Debug, Clone, Hash)]
struct Issued {
    writes: Vec<Write>,
    /// The batches that were acknowledged when this one was issued.
    after: Cut,
    /// The keyspace that it clears.
    clears: Option<usize>,
}

#[derive(Debug, Clone, Default, Hash)]
struct Client {
    issued: Vec<Issued>,
    acknowledged: u64,
}

/// The batches that clients issued, and their acknowledgements.
#[derive(Debug, Clone, Hash)]
pub struct History {
    spaces: usize,
    clients: Vec<Client>,
    /// The cuts that survive at least: the death of the process, and power loss.
    kept_by_process: Cut,
    kept_by_power: Cut,
    lost: Loss,
}

/// The key under which a client's batches put their number.
#[must_use]
pub fn marker(client: usize) -> Vec<u8> {
    format!("client/{client:02}").into_bytes()
}

/// The value of a shared key.
#[must_use]
pub fn shared_value(client: usize, number: u64, padding: usize) -> Vec<u8> {
    format!("{client}:{number}:{}", "s".repeat(padding)).into_bytes()
}

/// Whether a key is one that all clients write.
#[must_use]
pub fn is_shared(key: &[u8]) -> bool {
    key.starts_with(b"shared/")
}

fn is_marker(key: &[u8]) -> bool {
    key.starts_with(b"client/")
}

impl History {
    /// An empty history of `clients` clients on `spaces` keyspaces.
    #[must_use]
    pub fn new(clients: usize, spaces: usize) -> Self {
        let none = vec![0; clients];
        Self {
            spaces,
            clients: vec![Client::default(); clients],
            kept_by_process: none.clone(),
            kept_by_power: none,
            lost: Loss::Nothing,
        }
    }

    /// The number that a client's next batch will have.
    #[must_use]
    pub fn next_number(&self, client: usize) -> u64 {
        self.clients[client].issued.len() as u64 + 1
    }

    /// Records a batch that a client is about to write, and adds its markers.
    pub fn issue(&mut self, client: usize, writes: Vec<Write>) -> Vec<Write> {
        self.issue_in(0..self.spaces.min(2), client, writes)
    }

    /// Records a batch that writes to only these of the first two keyspaces, and adds its markers.
    pub fn issue_in(
        &mut self,
        spaces: Range<usize>,
        client: usize,
        mut writes: Vec<Write>,
    ) -> Vec<Write> {
        let number = self.next_number(client);
        for space in spaces {
            writes.push(Write::put(space, marker(client), number.to_string()));
        }
        let after = self.acknowledged();
        let issued = Issued { writes: writes.clone(), after, clears: None };
        self.clients[client].issued.push(issued);
        writes
    }

    /// Records that a client's last batch was acknowledged.
    pub fn acknowledge(&mut self, client: usize, promise: Promise) {
        let number = self.clients[client].issued.len() as u64;
        self.clients[client].acknowledged = number;
        let mut cut = self.clients[client].issued[number as usize - 1].after.clone();
        cut[client] = number;
        if promise >= Promise::Process {
            raise(&mut self.kept_by_process, &cut);
        }
        if promise >= Promise::Power {
            raise(&mut self.kept_by_power, &cut);
        }
    }

    /// Removes a client's last batch, which the store refused without writing anything.
    pub fn refuse(&mut self, client: usize) {
        self.clients[client].issued.pop();
    }

    /// The cut of the acknowledged batches: a view taken now must show at least these.
    #[must_use]
    pub fn acknowledged(&self) -> Cut {
        self.clients.iter().map(|client| client.acknowledged).collect()
    }

    /// The cut of the issued batches: a view taken now may show at most these.
    #[must_use]
    pub fn issued(&self) -> Cut {
        self.clients.iter().map(|client| client.issued.len() as u64).collect()
    }

    /// The cut that survives the death of the process, or (`process` is false) a loss of power.
    #[must_use]
    pub fn kept(&self, process: bool) -> Cut {
        if process { self.kept_by_process.clone() } else { self.kept_by_power.clone() }
    }

    /// Records that the batches of this cut survive every loss from now on.
    pub fn keep(&mut self, cut: &Cut) {
        raise(&mut self.kept_by_process, cut);
        raise(&mut self.kept_by_power, cut);
    }

    /// The values that a client's own key may have: the one after all acknowledged batches, and the
    /// one after all issued batches. They differ only if a batch failed.
    #[must_use]
    pub fn own_values(&self, client: usize, space: usize, key: &[u8]) -> [Option<Vec<u8>>; 2] {
        let Client { issued, acknowledged } = &self.clients[client];
        let after = |batches: usize| {
            let mut contents = Contents::new(self.spaces);
            let writes = issued[..batches].iter().flat_map(|batch| &batch.writes);
            let touching = writes.filter(|write| write.touches(space, key));
            touching.for_each(|write| contents.apply(write));
            contents.get(space, key).map(<[u8]>::to_vec)
        };
        [after(*acknowledged as usize), after(issued.len())]
    }

    /// Checks a view.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn check(&self, view: &Contents, must: &Cut, may: &Cut) -> Result<Cut, String> {
        if self.any_clear() {
            return self.check_with_clears(view, must, may);
        }
        let cut = self.cut_of(view)?;
        self.check_cut(view, 0..self.spaces, &cut, must, may)?;
        Ok(cut)
    }

    /// The last of a client's batches up to this one whose marker a keyspace has.
    fn marked(&self, client: usize, number: u64, space: usize) -> u64 {
        let issued = &self.clients[client].issued;
        let batches = issued.iter().zip(1..).take_while(|(_, other)| *other <= number);
        let own = marker(client);
        let has = |batch: &Issued| batch.writes.iter().any(|w| w.space == space && w.key == own);
        batches.fold(0, |last, (batch, number)| match batch.clears == Some(space) {
            true => 0,
            false if has(batch) => number,
            false => last,
        })
    }

    /// Checks a view of one keyspace only. The keyspace must have markers.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn check_space(
        &self,
        view: &Contents,
        space: usize,
        must: &Cut,
        may: &Cut,
    ) -> Result<(), String> {
        let clients = 0..self.clients.len();
        let cut =
            clients.map(|client| shown_in(view, client, space)).collect::<Result<Cut, _>>()?;
        self.check_cut(view, space..space + 1, &cut, must, may)
    }

    fn check_cut(
        &self,
        view: &Contents,
        spaces: Range<usize>,
        cut: &Cut,
        must: &Cut,
        may: &Cut,
    ) -> Result<(), String> {
        // Batches without a marker in the one keyspace do not count.
        let counted = |client: usize, number: u64| match spaces.len() < self.spaces {
            true => self.marked(client, number, spaces.start),
            false => number,
        };
        for client in 0..self.clients.len() {
            let (shown, must, may) = (cut[client], counted(client, must[client]), may[client]);
            if shown < must {
                return Err(format!("client {client}: batch {must} is lost, only {shown} there"));
            }
            if shown > may {
                return Err(format!("client {client}: batch {shown} appears, {may} were issued"));
            }
        }
        self.check_closed(cut, counted)?;
        self.check_own(view, spaces.clone(), cut)?;
        for space in spaces {
            for key in self.shared_keys(space) {
                let seen = view.get(space, &key);
                self.check_shared(space, &key, seen, cut, cut)?;
            }
        }
        Ok(())
    }

    /// Records how a life of the store ended.
    pub fn lose(&mut self, loss: Loss) {
        self.lost = self.lost.max(loss);
    }

    /// Checks the contents of a reopened store, and takes them as the new state.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn reopened(&mut self, view: &Contents) -> Result<Cut, String> {
        self.expire();
        let must = match self.lost {
            Loss::Power => self.kept_by_power.clone(),
            Loss::Process => self.kept_by_process.clone(),
            Loss::Nothing => self.acknowledged(),
        };
        let told = |why| format!("after the loss of {:?}: {why}", self.lost);
        let cut = self.check(view, &must, &self.issued()).map_err(told)?;
        self.lost = Loss::Nothing;
        for (client, shown) in self.clients.iter_mut().zip(&cut) {
            client.issued.truncate(*shown as usize);
            client.acknowledged = *shown;
        }
        // A reopened store must not lose what it has shown.
        self.kept_by_process = cut.clone();
        self.kept_by_power = cut.clone();
        Ok(cut)
    }

    /// Records that all values with an expiry have expired between two lives.
    pub fn expire(&mut self) {
        let batches = self.clients.iter_mut().flat_map(|client| &mut client.issued);
        for write in batches.flat_map(|batch| &mut batch.writes) {
            if matches!(write.op, Op::Expiring(_)) {
                write.op = Op::Delete;
            }
        }
    }

    fn cut_of(&self, view: &Contents) -> Result<Cut, String> {
        let shown = |client: usize| {
            let spaces = 0..self.spaces.min(2);
            let shown = spaces.map(|space| shown_in(view, client, space));
            let shown = shown.collect::<Result<Vec<_>, _>>()?;
            let cut = shown.iter().copied().max().unwrap_or(0);
            let torn = |space: &usize| shown[*space] != self.marked(client, cut, *space);
            match (0..shown.len()).find(torn) {
                // The caller reports a batch that was not issued.
                Some(_) if cut > self.clients[client].issued.len() as u64 => Ok(cut),
                Some(_) => Err(format!(
                    "client {client}: a torn batch: the markers {shown:?} in the keyspaces"
                )),
                None => Ok(cut),
            }
        };
        (0..self.clients.len()).map(shown).collect()
    }

    fn check_closed(&self, cut: &Cut, counted: impl Fn(usize, u64) -> u64) -> Result<(), String> {
        for (client, shown) in cut.iter().enumerate().filter(|(_, shown)| **shown > 0) {
            let after = &self.clients[client].issued[*shown as usize - 1].after;
            let missing = |other: &usize| cut[*other] < counted(*other, after[*other]);
            if let Some(other) = (0..cut.len()).find(missing) {
                return Err(format!(
                    "a hole: batch {shown} of client {client} is there, {} of client {other}, \
                     acknowledged before it was issued, is not (only {})",
                    after[other], cut[other]
                ));
            }
        }
        Ok(())
    }

    fn check_own(&self, view: &Contents, spaces: Range<usize>, cut: &Cut) -> Result<(), String> {
        let mut expected = Contents::new(self.spaces);
        for (client, shown) in self.clients.iter().zip(cut) {
            let batches = client.issued.iter().take(*shown as usize);
            let writes = batches.flat_map(|batch| &batch.writes);
            let here = writes.filter(|write| spaces.contains(&write.space));
            here.for_each(|write| expected.apply(write));
        }
        for space in spaces {
            for key in self.shared_keys(space) {
                let seen = view.get(space, &key).map(<[u8]>::to_vec);
                expected.apply(&Write { space, key, op: seen.map_or(Op::Delete, Op::Put) });
            }
        }
        expected
            .difference(view)
            .map_or(Ok(()), |difference| Err(format!("with the batches {cut:?}: {difference}")))
    }

    fn shared_keys(&self, space: usize) -> Vec<Vec<u8>> {
        let batches = self.clients.iter().flat_map(|client| &client.issued);
        let writes = batches.flat_map(|batch| &batch.writes);
        let shared = writes.filter(|write| write.space == space && is_shared(&write.key));
        let mut keys: Vec<_> = shared.map(|write| write.key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Checks the value of one shared key in a view that must have the batches of `must` and may
    /// have those up to `may`.
    ///
    /// # Errors
    /// The value, with all writes of the key.
    pub fn check_shared(
        &self,
        space: usize,
        key: &[u8],
        seen: Option<&[u8]>,
        must: &Cut,
        may: &Cut,
    ) -> Result<(), String> {
        // The writes of the key: (client, batch number, whether it puts).
        let writes: Vec<(usize, u64, bool)> = (0..self.clients.len())
            .flat_map(|client| self.writes_of(client, space, key, may[client]))
            .collect();
        let overwritten = |(client, number, _): (usize, u64, bool)| {
            writes.iter().any(|(other, later, _)| {
                *later <= must[*other] && self.is_after((*other, *later), (client, number))
            })
        };
        let right = match seen.map(written_by) {
            Some(Some((client, number))) => {
                writes.contains(&(client, number, true)) && !overwritten((client, number, true))
            }
            Some(None) => false,
            None => {
                let deletes = writes.iter().filter(|write| !write.2);
                let never_put = !writes.iter().any(|write| write.1 <= must[write.0]);
                never_put || deletes.copied().any(|delete| !overwritten(delete))
            }
        };
        if right {
            return Ok(());
        }
        let seen = seen.map_or("nothing".into(), |seen| Show(seen).to_string());
        Err(format!(
            "keyspace {space}, shared key {}: shows {seen}, with batches {must:?} to {may:?} and \
             writes (client, batch, put) {writes:?}",
            Show(key)
        ))
    }

    fn writes_of(
        &self,
        client: usize,
        space: usize,
        key: &[u8],
        may: u64,
    ) -> impl Iterator<Item = (usize, u64, bool)> {
        let batches = self.clients[client].issued.iter().take(may as usize);
        batches.zip(1..).filter_map(move |(batch, number)| {
            let last = batch.writes.iter().rfind(|w| w.space == space && w.key == key)?;
            Some((client, number, matches!(last.op, Op::Put(_))))
        })
    }

    /// Whether the store must order one batch after another.
    fn is_after(&self, later: (usize, u64), earlier: (usize, u64)) -> bool {
        if later.0 == earlier.0 {
            return later.1 > earlier.1;
        }
        self.clients[later.0].issued[later.1 as usize - 1].after[earlier.0] >= earlier.1
    }
}

/// The number of a client's last batch, by its marker in a keyspace.
fn shown_in(view: &Contents, client: usize, space: usize) -> Result<u64, String> {
    let text = view.get(space, &marker(client)).map_or(Ok("0"), std::str::from_utf8);
    let number = text.ok().and_then(|text| text.parse::<u64>().ok());
    number.ok_or(format!("client {client}: its marker is not a number"))
}

fn raise(cut: &mut Cut, to: &Cut) {
    for (number, to) in cut.iter_mut().zip(to) {
        *number = (*number).max(*to);
    }
}

/// The batch that wrote a shared value.
fn written_by(value: &[u8]) -> Option<(usize, u64)> {
    let mut parts = std::str::from_utf8(value).ok()?.split(':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether the oracle itself owns a key. Tests do not write such keys.
#[must_use]
pub fn is_reserved(key: &[u8]) -> bool {
    is_marker(key) || is_shared(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::ALL;

    /// Two clients, each with two batches; the second of client 1 was issued after the first of
    /// client 0 was acknowledged.
    fn history() -> History {
        let mut history = History::new(2, 2);
        history.issue(0, vec![Write::put(0, "a", "1"), Write::put(0, "shared/x", "0:1:")]);
        history.issue(1, vec![Write::put(1, "b", "1")]);
        history.acknowledge(1, Promise::Power);
        history.acknowledge(0, Promise::Process);
        history.issue(1, vec![Write::delete(1, "b"), Write::put(0, "shared/x", "1:2:")]);
        history.issue(0, vec![Write::put(1, "a", "2")]);
        history
    }

    fn view(writes: &[(usize, &str, &str)]) -> Contents {
        let mut contents = Contents::new(2);
        for (space, key, value) in writes {
            contents.apply(&Write::put(*space, *key, *value));
        }
        contents
    }

    const FIRST: [(usize, &str, &str); 6] = [
        (0, "client/00", "1"),
        (1, "client/00", "1"),
        (0, "client/01", "1"),
        (1, "client/01", "1"),
        (0, "a", "1"),
        (1, "b", "1"),
    ];

    fn reopened(view: &Contents, loss: Loss) -> Result<Cut, String> {
        let mut history = history();
        history.lose(loss);
        history.reopened(view)
    }

    #[test]
    fn right_views_pass() {
        let mut right = view(&FIRST);
        right.apply(&Write::put(0, "shared/x", "0:1:"));
        assert_eq!(reopened(&right, Loss::Process), Ok(vec![1, 1]));
        assert_eq!(reopened(&right, Loss::Nothing), Ok(vec![1, 1]));
        let least = view(&[(0, "client/01", "1"), (1, "client/01", "1"), (1, "b", "1")]);
        assert_eq!(reopened(&least, Loss::Power), Ok(vec![0, 1]));
        assert!(reopened(&least, Loss::Process).is_err(), "an acknowledged batch is lost");
    }

    #[test]
    fn a_batch_on_one_keyspace_is_marked_there() {
        let mut history = History::new(1, 2);
        history.issue(0, vec![Write::put(0, "a", "1")]);
        history.issue_in(1..2, 0, vec![Write::put(1, "b", "2")]);
        let markers = [(0, "client/00", "1"), (1, "client/00", "2"), (0, "a", "1")];
        let half = view(&markers);
        assert!(history.check(&half, &vec![0], &vec![2]).is_err(), "the ingested key is missing");
        let mut whole = half;
        whole.apply(&Write::put(1, "b", "2"));
        assert_eq!(history.check(&whole, &vec![2], &vec![2]), Ok(vec![2]));
        for space in [0, 1] {
            let one = Contents::from_iter([(space, whole.range(space, &ALL))]);
            assert_eq!(history.check_space(&one, space, &vec![2], &vec![2]), Ok(()));
        }
        whole.apply(&Write::put(1, "client/00", "1"));
        let why = history.check(&whole, &vec![1], &vec![2]).expect_err("half of the second batch");
        assert!(why.contains("key \"b\""), "{why}");
        let mut first = view(&markers[..1]);
        first.apply(&Write::put(0, "a", "1"));
        let why = history.check(&first, &vec![1], &vec![2]).expect_err("half of the first batch");
        assert!(why.contains("torn"), "{why}");
    }

    #[test]
    fn wrong_views_are_told() {
        let complain = |view: &Contents| reopened(view, Loss::Power).expect_err("wrong");
        assert!(complain(&Contents::new(2)).contains("batch 1 is lost"));
        let mut torn = view(&FIRST);
        torn.apply(&Write::put(0, "client/00", "2"));
        assert!(complain(&torn).contains("torn"));
        let stale = view(&FIRST);
        assert!(complain(&stale).contains("shared key"), "the shared put is missing");
        let mut hole = view(&[(0, "client/01", "2"), (1, "client/01", "2")]);
        hole.apply(&Write::put(0, "shared/x", "1:2:"));
        assert!(complain(&hole).contains("a hole"));
        let mut risen = view(&FIRST);
        risen.apply(&Write::put(0, "shared/x", "0:1:"));
        risen.apply(&Write::put(0, "z", "1"));
        assert!(complain(&risen).contains("key \"z\": expected nothing"));
        let mut old = view(&FIRST);
        for space in [0, 1] {
            old.apply(&Write::put(space, "client/01", "2"));
        }
        old.apply(&Write::delete(1, "b"));
        old.apply(&Write::put(0, "shared/x", "0:1:"));
        assert!(complain(&old).contains("shared key"), "an overwritten value shows");
    }
}
