//! The script command `reached`: it checks the state for which a script was written. So a script
//! fails if other drawn options keep the store from that state.

use super::parse::number;
use super::{Command, Outcomes, Player, Trouble};
use crate::env::SimEnv;
use crate::world::{FOLDER, World};
use std::path::Path;
use std::time::Duration;
use vlsm::{Stats, WorkStats};
use vlsm_disk::Env;

/// How often a store that has not reached its state is looked at, and how long after each other.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(1);

/// A counter of the store: its work since it was opened, or its state at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// Memtables that were sealed.
    Memtables,
    /// Flushes that ended.
    Flushes,
    /// Compactions that merged.
    Compactions,
    /// Entries that compactions dropped.
    Dropped,
    /// Poor vSSTs that were merged.
    Poor,
    /// WAL files in the folder, those to be used again included.
    Wals,
    /// Hot keys that flushes left in memory.
    Kept,
    /// Values that flushes left in the WAL.
    Logged,
    /// The deepest level that has an SST.
    Level,
}

const MILESTONES: [(&str, Milestone); 9] = [
    ("memtables", Milestone::Memtables),
    ("flushes", Milestone::Flushes),
    ("compactions", Milestone::Compactions),
    ("dropped", Milestone::Dropped),
    ("poor", Milestone::Poor),
    ("wals", Milestone::Wals),
    ("kept", Milestone::Kept),
    ("logged", Milestone::Logged),
    ("level", Milestone::Level),
];

/// The command `reached WHAT N`.
pub(super) fn command(what: &str, least: &str) -> Result<Command, String> {
    let known = MILESTONES.iter().find(|(name, _)| *name == what);
    let (_, milestone) = known.ok_or_else(|| format!("a store does not reach {what:?}"))?;
    Ok(Command::Reached(*milestone, number(least)?))
}

impl Player {
    /// Checks that the store reaches at least this number, for which its jobs may need a moment.
    ///
    /// A store whose calls fail may have refused the operations that lead there.
    pub(super) fn reached(
        &self,
        env: &SimEnv,
        world: &World,
        what: Milestone,
        least: u64,
    ) -> Outcomes<()> {
        let mut found = what.of(env, &world.db().stats());
        for _ in 0..LOOKS {
            if self.faulty || found >= least {
                return Ok(());
            }
            env.sleep(BETWEEN);
            found = what.of(env, &world.db().stats());
        }
        Err(Trouble::Wrong(format!("the script needs {what:?} to be {least}, but it is {found}")))
    }
}

impl Milestone {
    fn of(self, env: &SimEnv, stats: &Stats) -> u64 {
        let merges = |count: fn(&WorkStats) -> u64| stats.compactions.iter().map(count).sum();
        match self {
            Self::Memtables => stats.rotations,
            Self::Flushes => stats.flush.jobs,
            Self::Compactions => merges(|work| work.jobs - work.moves),
            Self::Dropped => merges(|work| work.entries_dropped),
            Self::Poor => merges(|work| work.poor_in),
            Self::Wals => wals(env),
            Self::Kept => stats.kept_keys,
            Self::Logged => stats.logged_values,
            Self::Level => {
                let filled = stats.levels.iter().filter(|level| level.tables > 0);
                filled.map(|level| u64::from(level.level)).max().unwrap_or(0)
            }
        }
    }
}

fn wals(env: &SimEnv) -> u64 {
    let files = env.fs().read_dir(Path::new(FOLDER)).unwrap_or_default();
    files.iter().filter(|file| file.extension() == Some("wal".as_ref())).count() as u64
}
