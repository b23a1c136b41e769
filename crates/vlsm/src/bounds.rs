//! Ranges of keys as callers write them: `"a".."q"`, `..="q"`, `key..`, `..`, or a pair of bounds.
//!
//! With the standard library's `RangeBounds` the key type of `..` is unknown, so callers would have
//! to name an irrelevant type. [`KeyBounds`] is the same trait with bytes as keys.

use bytes::Bytes;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: any of the standard library's ranges over keys that are bytes, or a pair of
/// bounds.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = vlsm::Db::open(folder.path().join("store"))?;
/// use std::ops::Bound;
///
/// for key in ["a", "b", "c", "d"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..).count(), 4);
/// assert_eq!(db.range("b".."d").count(), 2);
/// assert_eq!(db.range(vec![b'b']..=vec![b'd']).count(), 3);
/// assert_eq!(db.range((Bound::Excluded("b"), Bound::Unbounded)).count(), 2);
/// # db.close()
/// # }
/// ```
pub trait KeyBounds {
    /// The two ends.
    fn key_bounds(&self) -> (Bound<Bytes>, Bound<Bytes>);
}

impl<T: KeyBounds + ?Sized> KeyBounds for &T {
    fn key_bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
        (**self).key_bounds()
    }
}

impl KeyBounds for RangeFull {
    fn key_bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

fn own<K: AsRef<[u8]>>(key: &K) -> Bytes {
    Bytes::copy_from_slice(key.as_ref())
}

macro_rules! key_bounds {
    ($($range:ident, |$this:ident| $lo:expr, $hi:expr;)*) => {$(
        impl<K: AsRef<[u8]>> KeyBounds for $range<K> {
            fn key_bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
                let $this = self;
                ($lo, $hi)
            }
        }
    )*};
}

key_bounds! {
    Range, |at| Bound::Included(own(&at.start)), Bound::Excluded(own(&at.end));
    RangeFrom, |at| Bound::Included(own(&at.start)), Bound::Unbounded;
    RangeInclusive, |at| Bound::Included(own(at.start())), Bound::Included(own(at.end()));
    RangeTo, |at| Bound::Unbounded, Bound::Excluded(own(&at.end));
    RangeToInclusive, |at| Bound::Unbounded, Bound::Included(own(&at.end));
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn key_bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
        (self.0.as_ref().map(own), self.1.as_ref().map(own))
    }
}
