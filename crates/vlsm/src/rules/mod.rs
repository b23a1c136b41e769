//! The rules of one keyspace beyond put and delete: its merge operator, its time to live, its
//! compaction filter.
//!
//! A keyspace's record in the manifest names the operator. Code cannot be stored, so the caller
//! passes it at open ([`Extensions`]). A missing operator is an error before anything is written; a
//! caller that need not merge may open the store without it ([`Extensions::keep_unknown`]). Every
//! tree of a keyspace has the same [`Rules`] for reads and jobs. User code is called only here,
//! with its panics caught (`callback`).
//!
//! Threads and locks: immutable once the store is open.

mod compaction_filter;
mod merge_operator;
pub(crate) mod resolve;

pub use compaction_filter::{CompactionFilter, Decision};
pub use merge_operator::MergeOperator;

use crate::options::{Compression, Options};
use crate::shared::callback::{Guarded, Panicked};
use crate::shared::events::Events;
use merge_operator::{Unknown, built_in};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Callback;
use vlsm_core::key::MAX_VALUE_LEN;
use vlsm_core::{ByteCount, Error, Result};
use vlsm_disk::sst::SstOptions;

/// The user code with which a store is opened.
#[derive(Default, Clone)]
pub(crate) struct Extensions {
    /// The operators by name.
    pub operators: Vec<(String, Arc<dyn MergeOperator>)>,
    pub filters: Vec<NamedFilter>,
    /// Whether missing operators are allowed. Operands of their keyspaces are then kept as they
    /// are, and keys with operands cannot be read.
    pub keep_unknown: bool,
    /// The events that report panics of this code; none before the store is open.
    pub events: Option<Arc<Events>>,
}

/// A compaction filter and its keyspace.
#[derive(Clone)]
pub(crate) struct NamedFilter {
    pub keyspace: String,
    pub name: String,
    pub filter: Arc<dyn CompactionFilter>,
}

impl Extensions {
    /// The same code, with missing operators allowed or not.
    pub fn keeping(&self, keep_unknown: bool) -> Self {
        Self { keep_unknown, ..self.clone() }
    }

    /// Refuses two operators of one name, and two filters for one keyspace.
    pub fn check(&self) -> Result<()> {
        for (index, (name, _)) in self.operators.iter().enumerate() {
            let earlier = self.operators[..index].iter().any(|(other, _)| other == name);
            if earlier || built_in(name).is_some() {
                let what = format!("there are two merge operators {name:?}: rename one");
                return Err(Error::InvalidArgument(what));
            }
        }
        for (index, NamedFilter { keyspace, .. }) in self.filters.iter().enumerate() {
            if self.filters[..index].iter().any(|other| other.keyspace == *keyspace) {
                let what = format!("there are two compaction filters for keyspace {keyspace:?}");
                return Err(Error::InvalidArgument(what));
            }
        }
        Ok(())
    }

    /// The rules of a keyspace. Its compaction filter is that of the name `opened_as`.
    ///
    /// # Errors
    /// [`Error::UnknownMergeOperator`].
    pub fn rules(
        &self,
        (keyspace, opened_as): (&str, &str),
        operator: Option<&str>,
        ttl: Option<Duration>,
        own: Own,
    ) -> Result<Arc<Rules>> {
        let mut unknown = false;
        let operator = match operator {
            None => None,
            Some(name) => {
                let code = match self.operator(name) {
                    Some(code) => code,
                    None if self.keep_unknown => {
                        unknown = true;
                        Arc::new(Unknown)
                    }
                    None => return Err(unknown_operator(keyspace, name)),
                };
                let events = self.events.clone();
                Some(Guarded::new(code, Callback::MergeOperator, (name, keyspace), events))
            }
        };
        let filter = self.filters.iter().find(|filter| filter.keyspace == opened_as);
        let filter = filter.map(|NamedFilter { name, filter, .. }| {
            let (code, events) = (filter.clone(), self.events.clone());
            Guarded::new(code, Callback::CompactionFilter, (name, keyspace), events)
        });
        let keyspace = keyspace.to_owned();
        Ok(Arc::new(Rules { keyspace, operator, unknown, ttl, filter, own }))
    }

    fn operator(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        let own = self.operators.iter().find(|(other, _)| other == name);
        own.map(|(_, operator)| operator.clone()).or_else(|| built_in(name))
    }
}

/// The error for an operator that is not registered.
fn unknown_operator(keyspace: &str, name: &str) -> Error {
    Error::UnknownMergeOperator { keyspace: keyspace.to_owned(), name: name.to_owned() }
}

/// The rules of one keyspace.
#[derive(Default)]
pub(crate) struct Rules {
    /// The name of the keyspace, for errors.
    pub keyspace: String,
    pub operator: Option<Guarded<dyn MergeOperator>>,
    /// Whether the operator only stands for one that is not registered.
    pub unknown: bool,
    /// The time to live of a put that does not set one.
    pub ttl: Option<Duration>,
    pub filter: Option<Guarded<dyn CompactionFilter>>,
    pub own: Own,
}

/// The options of SSTs and memtables that a keyspace sets instead of the store's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    pub compression: Option<Vec<Compression>>,
    pub block_bytes: Option<ByteCount>,
    pub bits_per_key: Option<u32>,
    pub memtable_bytes: Option<ByteCount>,
}

impl Own {
    /// The store's options, overridden by these.
    pub fn over(&self, options: &Options) -> Options {
        let mut options = options.clone();
        if let Some(compression) = &self.compression {
            options.compression.clone_from(compression);
        }
        options.block_bytes = self.block_bytes.unwrap_or(options.block_bytes);
        options.bits_per_key = self.bits_per_key.unwrap_or(options.bits_per_key);
        options
    }

    /// Refuses impossible values.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn check(&self) -> Result<()> {
        self.over(&Options::default()).check()?;
        match self.memtable_bytes {
            Some(bytes) if bytes < ByteCount::kib(64) => Err(Error::InvalidOption {
                option: "memtable_bytes",
                why: format!("it is {bytes}, and the least is 64 KiB"),
            }),
            _ => Ok(()),
        }
    }

    /// The options of an SST that is written for a level.
    pub fn sst(&self, options: &Options, level: u8, created: Duration) -> SstOptions {
        self.over(options).sst(level, created)
    }

    /// The size at which a memtable of the keyspace is sealed, if `store` is the store's size.
    #[inline]
    pub fn memtable_bytes(&self, store: u64) -> u64 {
        self.memtable_bytes.map_or(store, |own| own.0.min(store))
    }
}

impl Rules {
    /// Checks that the operator accepts this operand.
    ///
    /// # Errors
    /// [`Error::OperandRefused`]; [`Error::InvalidArgument`] if there is no operator.
    pub fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let Some(operator) = &self.operator else {
            return Err(Error::InvalidArgument(format!(
                "keyspace {:?} has no merge operator: make one with \
                 KeyspaceOptions::merge_operator",
                self.keyspace
            )));
        };
        let checked = operator.call(|operator| operator.check_operand(key, operand));
        let why = match checked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(Panicked) => "the operator panicked on it, so correct the operator",
        };
        let (keyspace, operator) = (self.keyspace.clone(), operator.name().to_owned());
        Err(Error::OperandRefused { keyspace, operator, why })
    }

    /// The value of a key with this base and these operands, which are ordered oldest first.
    ///
    /// # Errors
    /// [`Error::MergeFailed`] if there is no operator, it cannot combine them, or it panicked;
    /// [`Error::UnknownMergeOperator`].
    pub fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let operator = self.operator.as_ref();
        if let Some(operator) = operator.filter(|_| self.unknown) {
            return Err(unknown_operator(&self.keyspace, operator.name()));
        }
        match operator.map(|operator| operator.call(|code| code.merge(key, base, operands))) {
            Some(Ok(Some(value))) if value.len() <= MAX_VALUE_LEN => Ok(value),
            failed => {
                let operator = operator.map_or("none", |operator| operator.name());
                let (keyspace, operator) = (self.keyspace.clone(), operator.to_owned());
                let panicked = matches!(failed, Some(Err(Panicked)));
                Err(Error::MergeFailed { keyspace, operator, panicked })
            }
        }
    }

    /// Combines several operands, oldest first, into one. None if the operator cannot combine them,
    /// or panicked.
    pub fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let operator = self.operator.as_ref()?;
        let merged = operator.call(|operator| operator.merge_partial(key, operands)).ok()?;
        merged.filter(|value| value.len() <= MAX_VALUE_LEN)
    }

    /// The filter's decision about a value. The value stays if there is no filter, or if it
    /// panicked.
    pub fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        let Some(filter) = &self.filter else { return Decision::Keep };
        let decided = filter.call(|filter| filter.filter(level, key, value));
        decided.unwrap_or(Decision::Keep)
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}
