//! The books that are kept of one store: which clients were told what, and what it may show.
//!
//! Batches in the WAL are one history over all keyspaces. Batches outside it promise less: one
//! keyspace each, nothing across keyspaces, and what was not flushed is lost with the process. But
//! within one tree they are flushed in commit order and whole. So each keyspace of a single tree
//! has a history of its own for them, under a prefix of its own, of which only a flush (or an
//! orderly close) is a promise: after a crash it must show an exact prefix, at least up to the last
//! flush.

use crate::history::{Cut, History, Loss};
use crate::oracle::{Contents, Op, Write};
use crate::world::{LATE_MAX, SPACES};

/// Keys that are written outside the WAL begin so.
const UNLOGGED: &[u8] = b"nowal/";

/// The number of batches of each client, by book.
pub type Cuts = Vec<Cut>;

/// One history, and where its keys lie.
#[derive(Debug, Clone)]
pub struct Book {
    /// Whether its batches are in the WAL.
    pub logged: bool,
    /// Its keyspaces, by their numbers in the store.
    pub spaces: Vec<usize>,
    /// What clients were told.
    pub history: History,
}

impl Book {
    fn new(logged: bool, spaces: Vec<usize>, clients: usize) -> Self {
        let history = History::new(clients, spaces.len());
        Self { logged, spaces, history }
    }

    /// A key of the book as the store has it.
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
    /// Of a new store with so many clients. Book 0 is the one of the WAL.
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

    /// Notes a batch that a client is about to write; returns it as the store gets it.
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

    /// What a view taken now must show.
    #[must_use]
    pub fn acknowledged(&self) -> Cuts {
        self.books.iter().map(|book| book.history.acknowledged()).collect()
    }

    /// What a view taken now may show.
    #[must_use]
    pub fn issued(&self) -> Cuts {
        self.books.iter().map(|book| book.history.issued()).collect()
    }

    /// What was acknowledged before a flush that has ended survives everything.
    pub fn flushed(&mut self, acknowledged: &Cuts) {
        for (book, cut) in self.books.iter_mut().zip(acknowledged) {
            book.history.keep(cut);
        }
    }

    /// Notes how a life of the store ended.
    pub fn lose(&mut self, loss: Loss) {
        self.books.iter_mut().for_each(|book| book.history.lose(loss));
    }

    /// So much time passes that all values expire that ever do.
    pub fn expire(&mut self) {
        self.books.iter_mut().for_each(|book| book.history.expire());
    }

    /// Checks a view.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, view: &Contents, must: &Cuts, may: &Cuts) -> Result<(), String> {
        for (book, (must, may)) in self.books.iter().zip(must.iter().zip(may)) {
            let told = |why| format!("{}{why}", book.name());
            book.history.check(&book.part(view), must, may).map_err(told)?;
        }
        Ok(())
    }

    /// Checks what a reopened store shows, and goes on from there.
    ///
    /// # Errors
    /// What is wrong with it.
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
