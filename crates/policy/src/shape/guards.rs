//! Guards: the keys at which a level of `flsm` is divided.
//!
//! Source: "PebblesDB: Building Key-Value Stores using Fragmented Log-Structured Merge Trees"
//! (2017), §3.1 to §3.3 and §4.4; the published code of PebblesDB, which hashes each key that is
//! written.
//! 1. A key is a guard of a level if the last bits of its hash are zero. The level says how many
//!    bits. A deeper level asks for fewer, so a guard of one level is a guard of all deeper levels,
//!    as in a skip list.
//! 2. A guard divides a level once a merge has written it: the merge begins an SST with it. Such a
//!    guard is *known*. It is the lower end of a table, and its hash says that it is a guard.
//! 3. A merge cuts before each guard that it writes and at each known guard that it passes.
//! 4. A guard that was deleted is known as long as a table begins with it. When the last such table
//!    is rewritten, the guard is gone, and the two parts become one.
//!
//! So guards depend on the keys and on the tables alone. Nothing records them, and they are the
//! same after recovery.
//!
//! Deviation: PebblesDB makes a key a guard of a level when it is written, and records the guard in
//! the manifest; a compaction makes it effective (its "uncommitted guards"). It removes guards only
//! on request.
//!
//! Cost: one hash for each new user key of a merge, and one for the lower end of each table below
//! within the range of a job.

use vlsm_core::{KeyRange, Table, Version};

/// Whether a key is a guard of a level that asks for this number of bits.
#[inline]
#[must_use]
pub fn is_guard(key: &[u8], bits: u32) -> bool {
    hash(key).trailing_zeros() >= bits
}

/// The known guards within a range, in order, by the tables of the levels from `from` on.
#[must_use]
pub fn known(version: &Version, from: u8, bits: u32, range: &KeyRange) -> Vec<bytes::Bytes> {
    let mut guards: Vec<_> = inside(version, from, bits, range).cloned().collect();
    guards.sort_unstable();
    guards.dedup();
    guards
}

/// Whether a known guard divides the table.
#[must_use]
pub fn divide(version: &Version, from: u8, bits: u32, table: &Table) -> bool {
    inside(version, from, bits, &table.range).next().is_some()
}

/// The known guards of a range, except for its lower end, in the order of the levels.
fn inside<'a>(
    version: &'a Version,
    from: u8,
    bits: u32,
    range: &'a KeyRange,
) -> impl Iterator<Item = &'a bytes::Bytes> {
    let levels = version.levels.iter().skip(usize::from(from.max(1)) - 1);
    let tables = levels.flat_map(move |tables| tables.overlapping(range));
    let ends = tables.map(|table| &table.range.lo);
    ends.filter(move |lo| **lo > range.lo && is_guard(lo, bits))
}

/// A hash of a key: eight bytes at a time, then a mix of all bits (the finalizer of MurmurHash3).
/// It may never change, because guards would move.
fn hash(key: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = ODD ^ key.len() as u64;
    for part in key.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_core::text;

    #[test]
    fn a_bit_more_halves_the_guards() {
        let keys: Vec<String> = (0..1 << 16).map(|n| format!("key{n:08}")).collect();
        let mut before = keys.len();
        for bits in 1..=6 {
            let guards = keys.iter().filter(|key| is_guard(key.as_bytes(), bits)).count();
            let half = before / 2;
            assert!(guards.abs_diff(half) < 200, "{bits} bits: {guards} of {}", keys.len());
            before = guards;
        }
        assert!(keys.iter().all(|key| is_guard(key.as_bytes(), 0)));
    }

    #[test]
    fn the_hash_never_changes() {
        let hashes = ["", "a", "12345678", "123456789"].map(|key| hash(key.as_bytes()));
        let expected = [
            11_286_133_854_226_296_554,
            643_282_525_761_089_411,
            3_666_005_328_473_237_286,
            4_574_679_724_613_885_523,
        ];
        assert_eq!(hashes, expected);
    }

    /// The first letters that are guards with one bit, and that are none.
    #[test]
    fn lower_ends_of_tables_that_hash_to_guards_are_known() {
        let letters = ('b'..='y').map(String::from);
        let (guards, others): (Vec<_>, Vec<_>) =
            letters.partition(|letter| is_guard(letter.as_bytes(), 1));
        let (guard, other) = (&guards[0], &others[0]);
        let tree = format!("L1: 1:8[{guard},z]\nL2: 2:8[{other},z]\nL3: 3:8[{guard},z]");
        let version = text::parse(&tree).expect("parses");
        let all = KeyRange::closed("a", "z");
        let known = |from| known(&version, from, 1, &all);
        assert_eq!(known(1), [guard.as_bytes()], "once, and no other lower end");
        assert_eq!(known(2), [guard.as_bytes()]);
        assert!(known(4).is_empty());
        let table = version.level(1).iter().next().expect("one");
        assert!(!divide(&version, 1, 1, table), "it begins with the guard");
    }
}
