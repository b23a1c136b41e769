//! The public methods of a batch, which take handles to keyspaces. The batch itself is in
//! `write/batch`; it names trees instead of handles.

use crate::bounds::KeyBounds;
use crate::keyspace::Keyspace;
pub use crate::write::batch::{Batch, MAX_BATCH_LEN};
use std::time::Duration;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::Kind;

impl Batch {
    /// Sets a key of a keyspace to a value.
    ///
    /// If the key or value exceeds the limits, [`Db::write`](crate::Db::write) refuses the whole
    /// batch.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.add_put(&keyspace.info, key.as_ref(), value.as_ref());
    }

    /// Sets a key of a keyspace to a value that expires after `ttl` from now.
    ///
    /// If the keyspace has a merge operator, [`Db::write`](crate::Db::write) refuses the batch: the
    /// result of an operand would change when the value below it expires.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.add_expiring(&keyspace.info, key.as_ref(), value.as_ref(), ttl);
    }

    /// Changes the value of a key by an operand of the keyspace's merge operator.
    ///
    /// If the keyspace has no operator, [`Db::write`](crate::Db::write) refuses the whole batch. If
    /// the operator refuses the operand ([`MergeOperator::check_operand`]), it does so with
    /// [`Error::OperandRefused`].
    ///
    /// [`MergeOperator::check_operand`]: crate::MergeOperator::check_operand
    pub fn merge(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.add_merge(&keyspace.info, key.as_ref(), operand.as_ref());
    }

    /// Removes a key of a keyspace, if it exists.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.add(&keyspace.info, Kind::Delete, key.as_ref(), &[]);
    }

    /// Removes all keys of a range, at the cost of one write for each region that it touches. An
    /// empty range changes nothing. A range without an upper end takes 64 KiB of the batch, because
    /// the end that is stored must be larger than any key.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyBounds) {
        self.add_range(&keyspace.info, range.key_bounds());
    }
}
