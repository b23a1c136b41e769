//! Keyspaces that are cleared, in the history of a script.
//!
//! A clear is a batch of its client that removes all keys of a keyspace, the markers too, and has
//! no marker of its own. So the markers of a view may fit several cuts. All that the bounds allow
//! are tried, and one must explain every key. Only one client may write to a keyspace that is
//! cleared: the history does not know which writes of other clients came before a clear.

use super::{Cut, History, Issued, shown_in};
use crate::oracle::{Contents, Op, Write};

impl History {
    /// Records that a client is about to clear a keyspace. Returns what that does to the keys.
    pub fn issue_clear(&mut self, client: usize, space: usize) -> Write {
        // No key of a test begins with this byte.
        let all = Write { space, key: Vec::new(), op: Op::DeleteRange(vec![0xff]) };
        let after = self.acknowledged();
        let issued = Issued { writes: vec![all.clone()], after, clears: Some(space) };
        self.clients[client].issued.push(issued);
        all
    }

    /// Whether a client has cleared a keyspace.
    pub(super) fn any_clear(&self) -> bool {
        let mut batches = self.clients.iter().flat_map(|client| &client.issued);
        batches.any(|batch| batch.clears.is_some())
    }

    /// Checks a view, with every cut that its markers allow.
    pub(super) fn check_with_clears(
        &self,
        view: &Contents,
        must: &Cut,
        may: &Cut,
    ) -> Result<Cut, String> {
        let mut cuts: Vec<Cut> = vec![Vec::new()];
        for client in 0..self.clients.len() {
            let shown = (0..self.spaces.min(2)).map(|space| shown_in(view, client, space));
            let shown = shown.collect::<Result<Vec<_>, _>>()?;
            let fits = |number: &u64| {
                let spaces = shown.iter().enumerate();
                spaces
                    .into_iter()
                    .all(|(space, shown)| *shown == self.marked(client, *number, space))
            };
            let numbers: Vec<u64> = (must[client]..=may[client]).filter(fits).collect();
            if numbers.is_empty() {
                return Err(format!(
                    "client {client}: the markers {shown:?} fit no batch of {} to {}",
                    must[client], may[client]
                ));
            }
            let longer = |cut: &Cut| -> Vec<Cut> {
                numbers.iter().map(|number| [&cut[..], &[*number]].concat()).collect()
            };
            cuts = cuts.iter().flat_map(longer).collect();
        }
        let mut why = String::new();
        // The largest cuts come first, so that the found cut is not smaller than necessary.
        for cut in cuts.into_iter().rev() {
            match self.check_cut(view, 0..self.spaces, &cut, must, may) {
                Ok(()) => return Ok(cut),
                Err(wrong) => why = wrong,
            }
        }
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Loss, Promise};

    fn contents(writes: &[Write]) -> Contents {
        let mut contents = Contents::new(3);
        writes.iter().for_each(|write| contents.apply(write));
        contents
    }

    #[test]
    fn a_clear_is_there_or_not_and_nothing_in_between() {
        let mut history = History::new(2, 3);
        let mut writes = history.issue(0, vec![Write::put(0, "a", "1"), Write::put(1, "b", "1")]);
        history.acknowledge(0, Promise::Power);
        let before = contents(&writes);
        writes.push(history.issue_clear(0, 0));
        let after = contents(&writes);
        let none = vec![0, 0];
        assert_eq!(history.check(&before, &none, &vec![2, 0]), Ok(vec![1, 0]));
        assert_eq!(history.check(&after, &none, &vec![2, 0]), Ok(vec![2, 0]));
        let mut half = before.clone();
        half.apply(&Write::delete(0, "a"));
        assert!(history.check(&half, &none, &vec![2, 0]).is_err(), "half a clear");
        history.acknowledge(0, Promise::Power);
        history.lose(Loss::Power);
        assert!(history.clone().reopened(&before).is_err(), "a clear is durable");
        assert_eq!(history.reopened(&after), Ok(vec![2, 0]));
        // Writes after a clear show that the clear took effect.
        writes.extend(history.issue(0, vec![Write::put(2, "c", "1")]));
        let later = contents(&writes);
        assert_eq!(history.check(&later, &none, &vec![3, 0]), Ok(vec![3, 0]));
        let mut back = later;
        back.apply(&Write::put(0, "a", "1"));
        assert!(history.check(&back, &none, &vec![3, 0]).is_err(), "a key came back");
    }
}
