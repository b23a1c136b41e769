//! Merge operators: writes that change a value without reading it.
//!
//! [`Keyspace::merge`](crate::Keyspace::merge) writes an operand without reading. Reads combine the
//! operands with the value below them. Compactions also combine them and store the result, so that
//! later reads have less work. An operator should refuse an operand that it can never combine when
//! the operand is written ([`MergeOperator::check_operand`]). Otherwise later reads of the key
//! fail.
//!
//! Three operators are built in: `append`, `add` and `max`.

use std::sync::Arc;

/// Combines operands with a value. It must be a pure function, because reads and compactions call
/// it repeatedly: the same arguments must always give the same result.
///
/// ```
/// use vlsm::MergeOperator;
///
/// /// Sets bits of a byte.
/// struct Flags;
///
/// impl MergeOperator for Flags {
///     fn name(&self) -> &str {
///         "example.flags"
///     }
///     fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
///         let mut all = base.into_iter().chain(operands.iter().copied());
///         all.try_fold(0, |bits, part| Some(bits | *part.first()?)).map(|bits| vec![bits])
///     }
/// }
/// ```
///
/// A program without the operator can still open the store
/// ([`Builder::keep_unknown_operators`](crate::Builder::keep_unknown_operators)):
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// use std::sync::Arc;
/// use vlsm::{Db, Error, KeyspaceOptions, MergeOperator};
///
/// struct Last;
/// impl MergeOperator for Last {
///     fn name(&self) -> &str {
///         "mine.last"
///     }
///     fn merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
///         operands.last().map(|last| last.to_vec())
///     }
/// }
///
/// let db = Db::builder(&path).merge_operator(Arc::new(Last)).open()?;
/// let words = db.create_keyspace("words", KeyspaceOptions::new().merge_operator("mine.last"))?;
/// words.put("plain", "a value")?;
/// words.merge("merged", "an operand")?;
/// db.close()?;
///
/// let db = Db::builder(&path).keep_unknown_operators(true).open()?;
/// let words = db.keyspace("words")?;
/// assert_eq!(words.get("plain")?.as_deref(), Some(&b"a value"[..]));
/// assert!(matches!(words.get("merged"), Err(Error::UnknownMergeOperator { .. })));
/// words.compact_range(..)?; // keeps the operand
/// db.close()?;
///
/// let db = Db::builder(&path).merge_operator(Arc::new(Last)).open()?;
/// assert_eq!(db.keyspace("words")?.get("merged")?.as_deref(), Some(&b"an operand"[..]));
/// db.close()
/// # }
/// ```
pub trait MergeOperator: Send + Sync {
    /// The name of the operator, as recorded in the manifest. An operator that combines differently
    /// needs another name. Called once, when the operator is registered.
    fn name(&self) -> &str;

    /// Checks that [`merge`](Self::merge) can combine `operand`. It is called before any part of
    /// the batch is written. An error refuses the whole batch with
    /// [`Error::OperandRefused`](crate::Error::OperandRefused) and gives the reason, as in "an
    /// operand is 8 bytes long". By default every operand is accepted. A panic also refuses the
    /// batch.
    ///
    /// # Errors
    /// The problem with the operand, as a static text, so that errors contain no key or value.
    fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        let _ = (key, operand);
        Ok(())
    }

    /// Applies `operands`, oldest first, to `base`, the value of `key` before them (none if it was
    /// absent), and returns the new value. Returns none if they cannot be combined. Reads of the
    /// key then fail with [`Error::MergeFailed`](crate::Error::MergeFailed), iterators continue
    /// after it, and compactions keep its entries unchanged. A panic counts as none;
    /// [`Event::CallbackPanicked`](crate::Event::CallbackPanicked) reports the first one.
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// Combines `operands`, oldest first, into one operand with the same effect. Returns none if
    /// that is impossible. The result only saves space and time. A panic counts as none.
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }
}

/// Stands for an operator that is not registered, in a store that is opened without it. It combines
/// nothing, so compactions keep all operands as they are. It refuses new operands.
pub(super) struct Unknown;

impl MergeOperator for Unknown {
    /// Unused: errors have the name that the manifest records.
    fn name(&self) -> &str {
        "unknown"
    }
    fn check_operand(&self, _: &[u8], _: &[u8]) -> Result<(), &'static str> {
        Err("it is not registered: use a program that registers it")
    }
    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// The built-in operator of this name.
pub(super) fn built_in(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name {
        "append" => Some(Arc::new(Append)),
        "add" => Some(Arc::new(Add)),
        "max" => Some(Arc::new(Max)),
        _ => None,
    }
}

/// `append`: appends the operands to the value.
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut all = base.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| all.extend_from_slice(operand));
        Some(all)
    }
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands)
    }
}

/// `add`: adds 64-bit little-endian numbers, signed or unsigned, and wraps around. An absent value
/// is zero.
struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "add"
    }
    fn check_operand(&self, _: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        match operand.len() {
            8 => Ok(()),
            _ => Err("an operand of `add` is a 64-bit number: 8 bytes, little-endian"),
        }
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut sum = 0u64;
        for number in base.into_iter().chain(operands.iter().copied()) {
            sum = sum.wrapping_add(u64::from_le_bytes(number.try_into().ok()?));
        }
        Some(sum.to_le_bytes().to_vec())
    }
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands)
    }
}

/// `max`: keeps the largest value, compared byte by byte like keys.
struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "max"
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        base.into_iter().chain(operands.iter().copied()).max().map(<[u8]>::to_vec)
    }
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands)
    }
}

#[cfg(test)]
mod tests {
    use super::built_in;

    #[test]
    fn built_in_operators() {
        let merge = |name: &str, base: Option<&[u8]>, operands: &[&[u8]]| {
            built_in(name).expect("known").merge(b"key", base, operands)
        };
        assert_eq!(merge("append", Some(b"a"), &[b"b", b"c"]), Some(b"abc".to_vec()));
        assert_eq!(merge("max", Some(b"b"), &[b"a", b"c"]), Some(b"c".to_vec()));
        let (three, minus_one) = (3u64.to_le_bytes(), (-1i64).to_le_bytes());
        assert_eq!(merge("add", Some(&three), &[&minus_one]), Some(2u64.to_le_bytes().to_vec()));
        assert_eq!(merge("add", None, &[&minus_one]), Some(minus_one.to_vec()));
        assert_eq!(merge("add", Some(b"no number"), &[&three]), None);
        let check = |name: &str, operand: &[u8]| {
            built_in(name).expect("known").check_operand(b"key", operand).is_ok()
        };
        assert!(check("add", &three) && !check("add", b"") && !check("add", b"123456789"));
        assert!(["append", "max"].into_iter().all(|name| check(name, b"") && check(name, b"x")));
        assert!(built_in("unheard of").is_none());
    }
}
