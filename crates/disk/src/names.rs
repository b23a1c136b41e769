//! The numbers in the names of the store's files: their form and their bound.
//!
//! A number counts only in the form in which the store writes it, so that the path made of the
//! number is the path of the file. It counts only below a bound, so that later numbers can be
//! written, too. Any other file is foreign: the store neither reads nor removes it, and its name
//! does not affect the numbers of new files.

use std::path::Path;

/// The bound of file numbers, exclusive.
const NUMBER_END: u64 = 1 << 56;

/// The digits of a number in a name, at least six.
#[must_use]
pub fn digits(number: u64) -> String {
    format!("{number:06}")
}

/// The number of a file whose name is `prefix`, digits, `suffix`; none for any other name.
#[must_use]
pub fn number(name: &Path, prefix: &str, suffix: &str) -> Option<u64> {
    let name = name.file_name()?.to_str()?;
    let written = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let number = written.parse().ok().filter(|number| *number < NUMBER_END)?;
    (digits(number) == written).then_some(number)
}

/// The two numbers of a file whose name is digits, `-`, digits, `suffix`; none for any other name.
#[must_use]
pub fn pair(name: &Path, suffix: &str) -> Option<(u64, u64)> {
    let (first, second) = name.file_name()?.to_str()?.strip_suffix(suffix)?.split_once('-')?;
    Some((number(Path::new(first), "", "")?, number(Path::new(second), "", "")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_numbers() {
        let pair = |name: &str| pair(Path::new(name), ".values");
        assert_eq!(pair("x/000012-1234567.values"), Some((12, 1_234_567)));
        for stranger in
            ["000012.values", "12-000007.values", "000012-7.values", "000012-000007.wal"]
        {
            assert_eq!(pair(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn only_names_as_the_store_writes_them_have_a_number() {
        let sst = |name: &str| number(Path::new(name), "", ".sst");
        for (name, found) in [("000000.sst", 0), ("000042.sst", 42), ("1234567.sst", 1_234_567)] {
            assert_eq!(sst(name), Some(found), "{name}");
        }
        let strangers = ["7.sst", "0000042.sst", "+00042.sst", "00004a.sst", "000042.wal", ".sst"];
        for name in strangers {
            assert_eq!(sst(name), None, "{name}");
        }
        let last = NUMBER_END - 1;
        assert_eq!(sst(&format!("{last}.sst")), Some(last));
        for beyond in [NUMBER_END, u64::MAX] {
            assert_eq!(sst(&format!("{beyond}.sst")), None);
        }
        assert_eq!(sst("18446744073709551616.sst"), None);
        assert_eq!(number(Path::new("x/MANIFEST-000003"), "MANIFEST-", ""), Some(3));
    }
}
