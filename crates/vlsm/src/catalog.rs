//! The keyspaces of a store: the options of each, and its trees.
//!
//! A keyspace is one or more *regions*: trees over a static partition of its key range, fixed when
//! it is created (vLSM (2024), §2.1). The handles that users have are in `keyspace`.

use crate::rules::{Extensions, Rules};
use crate::shared::clock::Clock;
use crate::sync::Mutex;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Error, OptionDifference, Result, TreeId};
use vlsm_disk::manifest;

/// The keyspace that every store has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// Options of a new keyspace. They are fixed for its life.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use vlsm::{Db, KeyspaceOptions};
///
/// let db = Db::open(folder.path().join("store"))?;
/// let visits = db.create_keyspace("visits", KeyspaceOptions::new().merge_operator("add"))?;
/// visits.merge("ada", 1u64.to_le_bytes())?;
/// visits.merge("ada", 1u64.to_le_bytes())?;
/// assert_eq!(visits.get("ada")?.as_deref(), Some(&2u64.to_le_bytes()[..]));
///
/// let hour = std::time::Duration::from_secs(3600);
/// let sessions = db.create_keyspace("sessions", KeyspaceOptions::new().ttl(hour))?;
/// sessions.put("ada", "here for an hour")?;
/// # db.close()
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// The keys at which the second and each further region begins: strictly ascending, not empty
    /// keys.
    pub splits: Vec<Bytes>,
    /// The name of the operator for [`Keyspace::merge`](crate::Keyspace::merge): `append`, `add`,
    /// `max`, or one given to [`Builder::merge_operator`](crate::Builder::merge_operator).
    pub merge_operator: Option<String>,
    /// Time until a put expires. Excludes a merge operator.
    pub ttl: Option<Duration>,
}

/// The options as the manifest stores them; the regions have a field of their own there.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    merge_operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_micros: Option<u64>,
}

impl KeyspaceOptions {
    /// The default options: one region.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Divides the keyspace into regions at these keys; one more region lies before the first key.
    #[must_use]
    pub fn splits(splits: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self { splits: splits.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets the merge operator.
    #[must_use]
    pub fn merge_operator(self, name: impl Into<String>) -> Self {
        Self { merge_operator: Some(name.into()), ..self }
    }

    /// Values expire after this time.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let ascending = self.splits.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.splits.iter().any(Bytes::is_empty) {
            return Err(Error::InvalidArgument(
                "the split keys of a keyspace must be strictly ascending and not empty".into(),
            ));
        }
        if self.ttl.is_some() && self.merge_operator.is_some() {
            return Err(Error::InvalidArgument(
                "a keyspace cannot have both a merge operator and a time to live: an operand over \
                 a value that expires would have no meaning that lasts"
                    .into(),
            ));
        }
        let micros = self.ttl.map_or(1, |ttl| ttl.as_micros());
        if micros == 0 || i64::try_from(micros).is_err() {
            return Err(Error::InvalidArgument(
                "the time to live of a keyspace must be between one microsecond and 290,000 years"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The options that differ from these.
    fn differences(&self, asked: &Self) -> Vec<OptionDifference> {
        let mut differences = Vec::new();
        let mut compare = |option, existing: String, asked: String| {
            differences.push(OptionDifference::new(option, existing, asked));
        };
        if self.splits != asked.splits {
            // Keys appear in no error, so only their number is shown, and whether only they differ.
            let (ours, theirs) = (self.splits.len(), asked.splits.len());
            let other = if ours == theirs { "other " } else { "" };
            let count = |count, other| {
                let s = if count == 1 { "" } else { "s" };
                format!("{count} {other}key{s}")
            };
            compare("splits", count(ours, ""), count(theirs, other));
        }
        if self.merge_operator != asked.merge_operator {
            let say = |name: &Option<String>| match name {
                Some(name) => format!("{name:?}"),
                None => "none".to_owned(),
            };
            compare("merge_operator", say(&self.merge_operator), say(&asked.merge_operator));
        }
        if self.ttl != asked.ttl {
            let say = |ttl: Option<Duration>| match ttl {
                Some(ttl) => format!("{ttl:?}"),
                None => "none".to_owned(),
            };
            compare("ttl", say(self.ttl), say(asked.ttl));
        }
        differences
    }

    /// The regions; their trees are numbered from `first` on.
    pub(crate) fn regions(&self, first: u64) -> Vec<manifest::Region> {
        let los = std::iter::once(Bytes::new()).chain(self.splits.iter().cloned());
        los.zip(first..).map(|(lo, tree)| manifest::Region { lo, tree: TreeId(tree) }).collect()
    }

    /// Encodes the merge operator and the time to live as text for the manifest.
    pub(crate) fn to_text(&self) -> Result<String> {
        let recorded = Recorded {
            merge_operator: self.merge_operator.clone(),
            ttl_micros: self.ttl.map(|ttl| ttl.as_micros() as u64),
        };
        toml::to_string(&recorded).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Reads the options of a keyspace from its record in the manifest.
    fn of(keyspace: &manifest::Keyspace) -> Result<Self, String> {
        let recorded: Recorded = toml::from_str(&keyspace.options).map_err(|e| e.to_string())?;
        Ok(Self {
            splits: keyspace.regions.iter().skip(1).map(|region| region.lo.clone()).collect(),
            merge_operator: recorded.merge_operator,
            ttl: recorded.ttl_micros.map(Duration::from_micros),
        })
    }
}

/// An open keyspace: its identity, options, trees, and the rules for its entries.
pub(crate) struct KeyspaceInfo {
    /// The random number of its store.
    pub store: u64,
    pub name: String,
    pub options: KeyspaceOptions,
    pub trees: Vec<TreeId>,
    pub rules: Arc<Rules>,
    /// The clock that decides when a put expires.
    pub clock: Arc<Clock>,
}

/// Refuses a name that a person could not read or type. Keyspaces that have one already stay.
pub(crate) fn check_name(name: &str) -> Result<()> {
    // What moves the text around it or is not seen at all.
    let unseen = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || c == '\u{feff}'
            || c.is_control()
    };
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('/') {
        "it holds '/'"
    } else if name.contains(unseen) {
        "it holds characters that nobody sees"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!(
        "a keyspace cannot have the name {name:?}: {why}; choose one of visible characters"
    )))
}

impl KeyspaceInfo {
    /// Refuses options that it was not made with.
    pub fn check_options(&self, asked: &KeyspaceOptions) -> Result<()> {
        let differences = self.options.differences(asked);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::KeyspaceExists { keyspace: self.name.clone(), differences })
    }

    /// Index of the region that holds a key.
    pub fn region_of(&self, key: &[u8]) -> usize {
        self.options.splits.partition_point(|split| split.as_ref() <= key)
    }

    /// The tree of the region that holds a key.
    #[inline]
    pub fn tree_of(&self, key: &[u8]) -> TreeId {
        match self.trees.as_slice() {
            [only] => *only,
            trees => trees[self.region_of(key)],
        }
    }

    /// Builds a keyspace from its record in the manifest.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the options were written by a newer version,
    /// [`Error::UnknownMergeOperator`].
    pub fn of(
        clock: &Arc<Clock>,
        store: u64,
        keyspace: &manifest::Keyspace,
        extensions: &Extensions,
    ) -> Result<Self> {
        let name = keyspace.name.clone();
        let options = KeyspaceOptions::of(keyspace).map_err(|why| {
            let what = format!(
                "the options of keyspace {name:?} in the manifest are not known here: use a newer \
                 vlsm ({why})"
            );
            Error::InvalidArgument(what)
        })?;
        let rules = extensions.rules(&name, options.merge_operator.as_deref(), options.ttl)?;
        let trees = keyspace.regions.iter().map(|region| region.tree).collect();
        Ok(Self { store, name, options, trees, rules, clock: clock.clone() })
    }
}

/// All keyspaces of an open store.
pub(crate) struct Catalog {
    /// The random number of the store.
    store: u64,
    clock: Arc<Clock>,
    /// The code that the store was opened with.
    extensions: Extensions,
    keyspaces: Mutex<Vec<Arc<KeyspaceInfo>>>,
}

impl Catalog {
    pub fn new(
        store: u64,
        clock: Arc<Clock>,
        extensions: Extensions,
        keyspaces: Vec<Arc<KeyspaceInfo>>,
    ) -> Self {
        Self { store, clock, extensions, keyspaces: Mutex::new(keyspaces) }
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().iter().find(|info| info.name == name).cloned()
    }

    /// All keyspaces.
    pub fn keyspaces(&self) -> Vec<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().clone()
    }

    /// The keyspace that a tree belongs to.
    pub fn owner(&self, tree: TreeId) -> Option<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().iter().find(|info| info.trees.contains(&tree)).cloned()
    }

    /// Builds a keyspace from its record in the manifest.
    ///
    /// # Errors
    /// As [`KeyspaceInfo::of`].
    pub fn info(&self, keyspace: &manifest::Keyspace) -> Result<Arc<KeyspaceInfo>> {
        KeyspaceInfo::of(&self.clock, self.store, keyspace, &self.extensions).map(Arc::new)
    }

    /// Adds one that was made.
    pub fn add(&self, info: Arc<KeyspaceInfo>) {
        self.keyspaces.lock().push(info);
    }
}
