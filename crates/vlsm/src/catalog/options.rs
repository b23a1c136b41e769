//! The options of a keyspace, and their text in the manifest. Some are fixed when the keyspace is
//! created, because changing them would change the meaning of its data. The others can change at
//! any time, and apply to later writes.

use crate::options::{Compression, Options};
use crate::rules::Own;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vlsm_core::{ByteCount, Error, OptionDifference, Result};
use vlsm_disk::manifest;

/// Options of a keyspace. The regions and the merge operator are fixed when it is created.
/// [`Keyspace::set_options`](crate::Keyspace::set_options) changes the others.
///
/// Options of SSTs and memtables that are not set are those of the store ([`Options`]).
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
    /// The keys at which the second and each further region begins: strictly ascending, none empty.
    pub splits: Vec<Bytes>,
    /// The name of the operator for [`Keyspace::merge`](crate::Keyspace::merge): `append`, `add`,
    /// `max`, or one given to [`Builder::merge_operator`](crate::Builder::merge_operator).
    pub merge_operator: Option<String>,
    /// The time after which a put expires. Not possible together with a merge operator. A change
    /// applies to later puts.
    pub ttl: Option<Duration>,
    /// Compression by level, L0 first; the last one serves all deeper levels. A change applies to
    /// SSTs that are written later.
    pub compression: Option<Vec<Compression>>,
    /// Length of a block of an SST.
    pub block_bytes: Option<ByteCount>,
    /// Bits per key of an SST's Bloom filter; 0 for none.
    pub bits_per_key: Option<u32>,
    /// Length of a memtable. Small memtables are flushed early, so less of the keyspace is in
    /// memory and in the WAL. It must not exceed the store's length. If the store is later opened
    /// with smaller memtables, the store's length applies.
    pub memtable_bytes: Option<ByteCount>,
}

/// The options as the manifest stores them. The regions have a field of their own there.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    merge_operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_micros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Vec<Compression>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_key: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memtable_bytes: Option<u64>,
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

    /// Sets the time to live: values expire after this time.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Sets the compression by level, L0 first; the last one serves all deeper levels.
    #[must_use]
    pub fn compression(self, by_level: impl IntoIterator<Item = Compression>) -> Self {
        Self { compression: Some(by_level.into_iter().collect()), ..self }
    }

    /// Sets the length of a block of an SST.
    #[must_use]
    pub fn block_bytes(self, bytes: ByteCount) -> Self {
        Self { block_bytes: Some(bytes), ..self }
    }

    /// Sets the bits per key of an SST's Bloom filter; 0 for none.
    #[must_use]
    pub fn bits_per_key(self, bits: u32) -> Self {
        Self { bits_per_key: Some(bits), ..self }
    }

    /// Sets the length of a memtable.
    #[must_use]
    pub fn memtable_bytes(self, bytes: ByteCount) -> Self {
        Self { memtable_bytes: Some(bytes), ..self }
    }

    /// Refuses options that the store's options do not allow. Called when the options are set: a
    /// store that is later opened with smaller memtables seals at its own size.
    pub(crate) fn check_within(&self, store: &Options) -> Result<()> {
        let most = store.policy.tree.memtable_bytes;
        match self.memtable_bytes {
            Some(bytes) if bytes > most => Err(Error::InvalidOption {
                option: "memtable_bytes",
                why: format!(
                    "it is {bytes} for a keyspace, and the memtables of this store hold {most}: \
                     lower it, or open the store with larger ones (policy.tree.memtable_bytes)"
                ),
            }),
            _ => Ok(()),
        }
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
                "a keyspace cannot have both a merge operator and a time to live: an operand on a \
                 value that expires would have no lasting meaning"
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
        self.own().check()
    }

    /// The options of SSTs and memtables that the keyspace sets.
    pub(super) fn own(&self) -> Own {
        Own {
            compression: self.compression.clone(),
            block_bytes: self.block_bytes,
            bits_per_key: self.bits_per_key,
            memtable_bytes: self.memtable_bytes,
        }
    }

    /// The differing options that cannot be changed.
    pub(crate) fn fixed_differences(&self, asked: &Self) -> Vec<OptionDifference> {
        let mut differences = self.differences(asked);
        let fixed = ["splits", "merge_operator"];
        differences.retain(|difference| fixed.contains(&difference.option));
        differences
    }

    /// The options that differ from these.
    pub(super) fn differences(&self, asked: &Self) -> Vec<OptionDifference> {
        let mut differences = Vec::new();
        let mut compare = |option, existing: String, asked: String| {
            differences.push(OptionDifference::new(option, existing, asked));
        };
        if self.splits != asked.splits {
            // Errors contain no keys, so only the number of keys is shown, and whether the keys
            // differ at the same number.
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
        let own = |options: &Self| {
            let Self { compression, block_bytes, bits_per_key, memtable_bytes, .. } = options;
            [
                ("compression", compression.as_ref().map(|levels| format!("{levels:?}"))),
                ("block_bytes", block_bytes.map(|bytes| bytes.to_string())),
                ("bits_per_key", bits_per_key.map(|bits| bits.to_string())),
                ("memtable_bytes", memtable_bytes.map(|bytes| bytes.to_string())),
            ]
        };
        for ((option, ours), (_, theirs)) in own(self).into_iter().zip(own(asked)) {
            if ours != theirs {
                let say = |value: Option<String>| value.unwrap_or_else(|| "the store's".into());
                compare(option, say(ours), say(theirs));
            }
        }
        differences
    }

    /// Encodes all options except the regions as text for the manifest.
    pub(crate) fn to_text(&self) -> Result<String> {
        let recorded = Recorded {
            merge_operator: self.merge_operator.clone(),
            ttl_micros: self.ttl.map(|ttl| ttl.as_micros() as u64),
            compression: self.compression.clone(),
            block_bytes: self.block_bytes.map(|bytes| bytes.0),
            bits_per_key: self.bits_per_key,
            memtable_bytes: self.memtable_bytes.map(|bytes| bytes.0),
        };
        toml::to_string(&recorded).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Reads the options of a keyspace from its record in the manifest.
    pub(super) fn of(keyspace: &manifest::Keyspace) -> Result<Self, String> {
        let recorded: Recorded = toml::from_str(&keyspace.options).map_err(|e| e.to_string())?;
        Ok(Self {
            splits: keyspace.regions.iter().skip(1).map(|region| region.lo.clone()).collect(),
            merge_operator: recorded.merge_operator,
            ttl: recorded.ttl_micros.map(Duration::from_micros),
            compression: recorded.compression,
            block_bytes: recorded.block_bytes.map(ByteCount),
            bits_per_key: recorded.bits_per_key,
            memtable_bytes: recorded.memtable_bytes.map(ByteCount),
        })
    }
}
