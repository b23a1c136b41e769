//! What the entries of one keyspace mean beyond put and delete: its merge operator, its time to
//! live, its compaction filter.
//!
//! A keyspace's record in the manifest names the operator; code cannot be stored, so a store is
//! opened with everything that it needs ([`Extensions`]), and an operator that is missing is an
//! error before anything is written. Every tree of a keyspace carries the same [`Rules`], where
//! reads and jobs find them.
//!
//! Threads and locks: immutable once the store is open.

mod compaction_filter;
mod merge_operator;

pub use compaction_filter::{CompactionFilter, Decision};
pub use merge_operator::MergeOperator;

use crate::keyspace::KeyspaceOptions;
use merge_operator::built_in;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::key::MAX_VALUE_LEN;
use vlsm_core::{Error, Result};

/// The code that a store is opened with.
#[derive(Default, Clone)]
pub(crate) struct Extensions {
    pub operators: Vec<Arc<dyn MergeOperator>>,
    /// Each with the name of its keyspace.
    pub filters: Vec<(String, Arc<dyn CompactionFilter>)>,
}

impl Extensions {
    /// Refuses two of one name.
    pub fn check(&self) -> Result<()> {
        for (index, operator) in self.operators.iter().enumerate() {
            let name = operator.name();
            let earlier = self.operators[..index].iter().any(|other| other.name() == name);
            if earlier || built_in(name).is_some() {
                let what = format!("there are two merge operators {name:?}: rename one");
                return Err(Error::InvalidArgument(what));
            }
        }
        for (index, (keyspace, _)) in self.filters.iter().enumerate() {
            if self.filters[..index].iter().any(|(other, _)| other == keyspace) {
                let what = format!("there are two compaction filters for keyspace {keyspace:?}");
                return Err(Error::InvalidArgument(what));
            }
        }
        Ok(())
    }

    /// The rules of a keyspace.
    ///
    /// # Errors
    /// [`Error::UnknownMergeOperator`].
    pub fn rules(&self, keyspace: &str, options: &KeyspaceOptions) -> Result<Arc<Rules>> {
        let operator = match &options.merge_operator {
            None => None,
            Some(name) => Some(self.operator(name).ok_or_else(|| {
                let (keyspace, name) = (keyspace.to_owned(), name.clone());
                Error::UnknownMergeOperator { keyspace, name }
            })?),
        };
        let filter = self.filters.iter().find(|(name, _)| name == keyspace);
        Ok(Arc::new(Rules {
            keyspace: keyspace.to_owned(),
            operator,
            ttl: options.ttl,
            filter: filter.map(|(_, filter)| filter.clone()),
        }))
    }

    fn operator(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        let own = self.operators.iter().find(|operator| operator.name() == name).cloned();
        own.or_else(|| built_in(name))
    }
}

/// What the entries of one keyspace mean.
#[derive(Default)]
pub(crate) struct Rules {
    /// Its name, for errors.
    pub keyspace: String,
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// How long a put lives that says nothing else.
    pub ttl: Option<Duration>,
    pub filter: Option<Arc<dyn CompactionFilter>>,
}

impl Rules {
    /// The value of a key with this base and these operands, oldest first. None when there is no
    /// operator, or it cannot.
    pub fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let merged = self.operator.as_ref()?.merge(key, base, operands);
        merged.filter(|value| value.len() <= MAX_VALUE_LEN)
    }

    /// One operand in place of several, oldest first.
    pub fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let merged = self.operator.as_ref()?.merge_partial(key, operands);
        merged.filter(|value| value.len() <= MAX_VALUE_LEN)
    }

    /// What to say when [`Rules::merge`] could not.
    pub fn merge_failed(&self) -> Error {
        let operator = self.operator.as_ref().map_or("none", |operator| operator.name());
        Error::MergeFailed { keyspace: self.keyspace.clone(), operator: operator.to_owned() }
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}
