//! The commands of the state machine, and what they do.
//! All nodes execute the same ones in the same order.

use openraft::{BasicNode, Entry};
use serde::{Deserialize, Serialize};
use vlsm_openraft::{Apply, Changes, MAX_KEY_LEN, SnapshotFile};

openraft::declare_raft_types!(
    /// The types of this program's cluster.
    pub Config:
        D = Command,
        R = Answer,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<Config>,
        SnapshotData = SnapshotFile,
);

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Sets the value.
    Put {
        /// Of which key.
        key: String,
        /// To this.
        value: String,
    },
    /// Removes the key.
    Delete {
        /// Which.
        key: String,
    },
    /// Sets the value if it has the expected one.
    Cas {
        /// Of which key.
        key: String,
        /// The present value; none if the key must not exist.
        expected: Option<String>,
        /// The new one.
        value: String,
    },
}

impl Command {
    /// Refuses what no node could store. It is asked before a command is proposed: one in the log
    /// that cannot be executed would stop all nodes.
    ///
    /// # Errors
    /// A key or a value that is too long.
    pub fn check(&self) -> Result<(), String> {
        let (key, value) = match self {
            Self::Put { key, value } | Self::Cas { key, value, .. } => (key, value.len()),
            Self::Delete { key } => (key, 0),
        };
        check_key(key)?;
        if value > MAX_VALUE_LEN {
            return Err(format!("the value has {value} bytes; {MAX_VALUE_LEN} is the limit"));
        }
        Ok(())
    }
}

/// The longest value. An entry with it goes to the other nodes in one request.
const MAX_VALUE_LEN: usize = 1 << 20;

/// Refuses a key that no node could store.
///
/// # Errors
/// A key that is too long.
pub fn check_key(key: &str) -> Result<(), String> {
    if key.len() > MAX_KEY_LEN {
        return Err(format!("the key has {} bytes; {MAX_KEY_LEN} is the limit", key.len()));
    }
    Ok(())
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the command changed the key. Only compare-and-set can be refused.
    pub done: bool,
    /// The value before.
    pub before: Option<String>,
}

/// The application.
pub struct Pairs;

impl Apply<Config> for Pairs {
    fn apply(&self, changes: &mut Changes<'_>, command: Command) -> vlsm::Result<Answer> {
        let before = |changes: &Changes<'_>, key: &str| {
            let value = changes.get(key)?;
            Ok::<_, vlsm::Error>(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
        };
        match command {
            Command::Put { key, value } => {
                let before = before(changes, &key)?;
                changes.put(key, value)?;
                Ok(Answer { done: true, before })
            }
            Command::Delete { key } => {
                let before = before(changes, &key)?;
                changes.delete(key)?;
                Ok(Answer { done: true, before })
            }
            Command::Cas { key, expected, value } => {
                let before = before(changes, &key)?;
                let done = before == expected;
                if done {
                    changes.put(key, value)?;
                }
                Ok(Answer { done, before })
            }
        }
    }

    fn empty(&self) -> Answer {
        Answer { done: true, before: None }
    }
}
