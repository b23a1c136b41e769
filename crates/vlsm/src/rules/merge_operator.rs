//! Merge operators: writes that say how a value changes instead of what it is.
//!
//! [`Keyspace::merge`](crate::Keyspace::merge) writes an operand without reading. Reads combine the
//! operands with the value below them; compactions do the same once, so that reads find less to do.
//! What an operator can never combine it should refuse when it is written
//! ([`MergeOperator::check_operand`]): later there is only a key that cannot be read.
//!
//! Three operators are known to every build: `append`, `add` and `max`.

use std::sync::Arc;

/// Combines operands with a value. Must be pure: what it makes of the same arguments never changes,
/// because reads and compactions ask it again and again.
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
pub trait MergeOperator: Send + Sync {
    /// Its name, as it stands in the manifest. An operator that combines otherwise than before
    /// needs another name. Asked once, when the operator is registered.
    fn name(&self) -> &str;

    /// Whether `operand` is one that [`merge`](Self::merge) can combine. Asked when it is written,
    /// before anything of the batch is: an error refuses the whole batch with
    /// [`Error::OperandRefused`](crate::Error::OperandRefused) and says why, as in "an operand is 8
    /// bytes long". Without this method every operand is taken. A panic refuses, too.
    ///
    /// # Errors
    /// What is wrong with the operand. A text that is known beforehand, so that no key and no value
    /// comes into errors.
    fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        let _ = (key, operand);
        Ok(())
    }

    /// The value of `key` after `operands`, oldest first, were applied to `base`, its value before
    /// (none where it was absent). None when they do not fit: reads of the key then fail with
    /// [`Error::MergeFailed`](crate::Error::MergeFailed), iterators go on behind it, and
    /// compactions keep everything as it is. A panic counts as none; the first one is told by
    /// [`Event::CallbackPanicked`](crate::Event::CallbackPanicked).
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `operands`, oldest first, do one after the other. None when there
    /// is none. Only saves space and time. A panic counts as none.
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }
}

/// The operator of this name that every build knows.
pub(super) fn built_in(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name {
        "append" => Some(Arc::new(Append)),
        "add" => Some(Arc::new(Add)),
        "max" => Some(Arc::new(Max)),
        _ => None,
    }
}

/// `append`: the value, and behind it the operands.
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

/// `add`: 64-bit numbers, little-endian, signed or not, are added and wrap around. Absent is zero.
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

/// `max`: the largest one, compared as keys are: byte by byte.
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
