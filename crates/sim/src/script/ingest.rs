//! The script commands that ingest files: alone, and concurrent with a client that writes the same
//! keys. For the oracle an ingest is a batch on one keyspace. The store decides the order of two
//! concurrent writes; it must then keep that order.

use super::parse::{key, number, numbers, space_of};
use super::{Command, Outcomes, Player, Trouble, same};
use crate::env::SimEnv;
use crate::history::{Promise, shared_value};
use crate::oracle::Write;
use crate::world::World;
use std::ops::Range;
use std::sync::Arc;
use vlsm::IngestOptions;
use vlsm_core::Result;

/// The keys of an ingest, their keyspace, and the length of their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    space: usize,
    keys: Range<u64>,
    len: usize,
    /// Whether another client writes the same keys concurrently.
    beside: bool,
}

/// The command `ingest` or `beside`.
pub(super) fn command(words: &[&str], beside: bool) -> std::result::Result<Command, String> {
    let [space, range, len] = words else { return Err("what is brought in?".into()) };
    let (space, keys, len) = (space_of(space)?, numbers(range)?, number(len)? as usize);
    if space > 1 {
        return Err(format!("keyspace {space} has no markers: bring it in elsewhere"));
    }
    Ok(Command::Ingest(Brought { space, keys, len, beside }))
}

impl Brought {
    fn shared(&self, n: u64, client: usize, number: u64) -> Write {
        let key = [b"shared/", &key(n)[..]].concat();
        Write::put(self.space, key, shared_value(client, number, self.len))
    }
}

impl Player {
    /// Ingests keys.
    pub(super) fn ingest(
        self: &Arc<Self>,
        env: &Arc<SimEnv>,
        world: &World,
        what: &Brought,
    ) -> Outcomes<()> {
        if what.beside {
            return self.beside(env, world, what);
        }
        let put = |n| Write::put(what.space, key(n), vec![b'i'; what.len]);
        let issued = self.bring_in(env, world, what.keys.clone().map(put).collect(), 10)?;
        issued.iter().for_each(|write| self.state.lock().contents.apply(write));
        Ok(())
    }

    fn bring_in(
        &self,
        env: &Arc<SimEnv>,
        world: &World,
        writes: Vec<Write>,
        count: usize,
    ) -> Result<Vec<Write>> {
        let space = writes.first().map_or(0, |write| write.space);
        let issued = self.state.lock().history.issue_in(space..space + 1, 0, writes);
        world.ingest(env, &issued, count, IngestOptions::moving())?;
        self.state.lock().history.acknowledge(0, Promise::Power);
        Ok(issued)
    }

    /// Ingests one key per file, so that most files fit into deeper levels, while the other client
    /// writes one batch per key.
    fn beside(self: &Arc<Self>, env: &Arc<SimEnv>, world: &World, what: &Brought) -> Outcomes<()> {
        let (player, other_world, others) = (self.clone(), world.clone(), what.clone());
        let other = env.task("beside", move || -> Result<()> {
            for n in others.keys.clone() {
                let issued = {
                    let history = &mut player.state.lock().history;
                    let number = history.next_number(1);
                    history.issue(1, vec![others.shared(n, 1, number)])
                };
                other_world.write(&issued, Promise::Process)?;
                player.state.lock().history.acknowledge(1, Promise::Process);
            }
            Ok(())
        });
        let number = self.state.lock().history.next_number(0);
        let writes = what.keys.clone().map(|n| what.shared(n, 0, number)).collect();
        let brought_in = self.bring_in(env, world, writes, 1);
        let written = other.join();
        written.ok_or_else(|| Trouble::Wrong("the client beside it vanished".into()))??;
        brought_in?;
        let found = world.contents()?;
        let mut state = self.state.lock();
        let (must, may) = (state.history.acknowledged(), state.history.issued());
        state.history.check(&found, &must, &may).map_err(Trouble::Wrong)?;
        state.contents = found;
        drop(state);
        self.same_by_gets(world, what)
    }

    /// Checks that gets and iterators agree on the later write.
    fn same_by_gets(&self, world: &World, what: &Brought) -> Outcomes<()> {
        let mut found = self.state.lock().contents.clone();
        for n in what.keys.clone() {
            let Write { space, key, .. } = what.shared(n, 0, 0);
            if let Some(value) = world.get(space, &key)? {
                found.apply(&Write::put(space, key, value));
            }
        }
        same(&self.state.lock().contents, &found)
    }
}
