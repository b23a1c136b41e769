//! The ledger of one store: the promises that clients received, and the contents that the store may
//! show.
//!
//! Batches in the WAL are one history over all keyspaces. Batches outside the WAL promise less.
//! Each belongs to one keyspace, they promise nothing across keyspaces, and those that are not
//! flushed are lost with the process. But within one tree they are flushed whole and in commit
//! order. So each keyspace of a single tree has a history of its own for them, under a key prefix
//! of its own. In that history only a flush (or an orderly close) is a promise: after a crash the
//! keyspace must show an exact prefix of the history, at least up to the last flush.

use crate::history::{Cut, History, Loss};
use crate::oracle::{Contents, Op, Write};
use crate::world::{LATE_MAX, SPACES};

/// The prefix of keys that are written outside the WAL.
const UNLOGGED: &[u8] = b"nowal/";

/// One cut for each book.
pub type Cuts = Vec<Cut>;

/// One history, and the place of its keys in the store.
#[derive(Debug, Clone)]
pub struct Book {
    /// Whether its batches are in the WAL.
    pub logged: bool,
    /// The numbers of its keyspaces in the store.
    pub spaces: Vec<usize>,
    /// The batches that clients issued, and their acknowledgements.
    pub history: History,
}

impl Book {
    fn new(logged: bool, spaces: Vec<usize>, clients: usize) -> Self {
        let history = History::new(clients, spaces.len());
        Self { logged, spaces, history }
    }

    /// A key of the book as it is in the store.
    #[must_use]
    pub fn key(&self, key: &[u8]) -> Vec<u8> {
        if self.logged { key.to_vec() } else { [UNLOGGED, key].concat() }
    }

    /// The book's part of the store's contents.
    fn part(&self, view: &Contents) -> Contents {
        let mut part = Contents::new(self.spaces.len());
        for (inner, space) in self.spaces.iter().enumerate() {
            for (key, value) in view.pairs(*space) {
                match key.strip_prefix(UNLOGGED) {
                    None if self.logged => part.apply(&Write::put(inner, key, value)),
                    Some(key) if !self.logged => part.apply(&Write::put(inner, key, value)),
                    _ => {}
                }
            }
        }
        part
    }

    fn name(&self) -> String {
        match self.logged {
            true => String::new(),
            false => format!("outside the WAL, keyspace {}: ", self.spaces[0]),
        }
    }
}

/// All books of a store.
#[derive(Debug, Clone)]
pub struct Ledger {
    books: Vec<Book>,
}

impl Ledger {
    /// The ledger of a new store with `clients` clients. Book 0 is that of the WAL.
    #[must_use]
    pub fn new(clients: usize) -> Self {
        let mut books = vec![Book::new(true, (0..SPACES.len() + LATE_MAX).collect(), clients)];
        let single = SPACES.iter().enumerate().filter(|(_, (_, splits))| splits.is_empty());
        books.extend(single.map(|(space, _)| Book::new(false, vec![space], clients)));
        Self { books }
    }

    /// Number of books.
    #[must_use]
    pub fn books(&self) -> usize {
        self.books.len()
    }

    /// A book.
    #[must_use]
    pub fn book(&self, book: usize) -> &Book {
        &self.books[book]
    }

    /// The history of a book.
    pub fn history(&mut self, book: usize) -> &mut History {
        &mut self.books[book].history
    }

    /// Records a batch that a client is about to write. Returns it as the store receives it.
    pub fn issue(&mut self, book: usize, client: usize, writes: Vec<Write>) -> Vec<Write> {
        let book = &mut self.books[book];
        let writes = book.history.issue(client, writes);
        let real = |write: Write| {
            let (space, key) = (book.spaces[write.space], book.key(&write.key));
            let op = match write.op {
                Op::DeleteRange(end) => Op::DeleteRange(book.key(&end)),
                op => op,
            };
            Write { space, key, op }
        };
        writes.into_iter().map(real).collect()
    }

    /// The cuts that a view taken now must show at least.
    #[must_use]
    pub fn acknowledged(&self) -> Cuts {
        self.books.iter().map(|book| book.history.acknowledged()).collect()
    }

    /// The cuts that a view taken now may show at most.
    #[must_use]
    pub fn issued(&self) -> Cuts {
        self.books.iter().map(|book| book.history.issued()).collect()
    }

    /// The cuts that survive the death of the process, or (`process` is false) a loss of power.
    #[must_use]
    pub fn kept(&self, process: bool) -> Cuts {
        self.books.iter().map(|book| book.history.kept(process)).collect()
    }

    /// Records a flush that has ended. The batches that were acknowledged before it survive every
    /// loss.
    pub fn flushed(&mut self, acknowledged: &Cuts) {
        for (book, cut) in self.books.iter_mut().zip(acknowledged) {
            book.history.keep(cut);
        }
    }

    /// Records how a life of the store ended.
    pub fn lose(&mut self, loss: Loss) {
        self.books.iter_mut().for_each(|book| book.history.lose(loss));
    }

    /// Records that all values with an expiry have expired.
    pub fn expire(&mut self) {
        self.books.iter_mut().for_each(|book| book.history.expire());
    }

    /// Checks a view.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn check(&self, view: &Contents, must: &Cuts, may: &Cuts) -> Result<(), String> {
        self.shown(view, must, may).map(drop)
    }

    /// Checks a view, and returns the cuts that it shows.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn shown(&self, view: &Contents, must: &Cuts, may: &Cuts) -> Result<Cuts, String> {
        let checked = self.books.iter().zip(must.iter().zip(may)).map(|(book, (must, may))| {
            let told = |why| format!("{}{why}", book.name());
            book.history.check(&book.part(view), must, may).map_err(told)
        });
        checked.collect()
    }

    /// Checks the contents of a reopened store, and takes them as the new state.
    ///
    /// # Errors
    /// The batch or the key that violates the history.
    pub fn reopened(&mut self, view: &Contents) -> Result<Cuts, String> {
        let reopened = |book: &mut Book| {
            let (part, name) = (book.part(view), book.name());
            book.history.reopened(&part).map_err(|why| format!("{name}{why}"))
        };
        self.books.iter_mut().map(reopened).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Promise;

    #[test]
    fn batches_outside_the_wal_are_lost_back_to_the_last_flush_and_no_further() {
        let mut ledger = Ledger::new(1);
        let mut view = Contents::new(SPACES.len());
        for number in 1..=3 {
            let writes = ledger.issue(1, 0, vec![Write::put(0, "k", number.to_string())]);
            assert!(writes.iter().all(|write| write.key.starts_with(UNLOGGED)), "{writes:?}");
            ledger.history(1).acknowledge(0, Promise::Lazy);
            if number == 2 {
                writes.iter().for_each(|write| view.apply(write));
                let acknowledged = ledger.acknowledged();
                ledger.flushed(&acknowledged);
            }
        }
        let all = ledger.issued();
        let why = ledger.check(&view, &all, &all).expect_err("the third batch is missing");
        assert!(why.contains("outside the WAL") && why.contains("batch 3 is lost"), "{why}");
        ledger.lose(Loss::Power);
        let none = Contents::new(SPACES.len());
        assert!(ledger.clone().reopened(&none).is_err(), "what was flushed must be there");
        assert_eq!(ledger.reopened(&view), Ok(vec![vec![0], vec![2], vec![0]]));
    }
}
