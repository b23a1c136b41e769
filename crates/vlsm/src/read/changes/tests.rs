//! The reads of a transaction: what is found in them, and what they take.

use super::*;

const TREE: TreeId = TreeId(1);

/// Parses a part, as in `b..=d`, `<b..d` (without its lower end) or `..d`.
fn part(text: &str) -> Part {
    let (lo, hi) = text.split_once("..").expect("two ends");
    let key = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let lo = match lo.strip_prefix('<') {
        Some(lo) => Bound::Excluded(key(lo)),
        None if lo.is_empty() => Bound::Unbounded,
        None => Bound::Included(key(lo)),
    };
    let hi = match hi.strip_prefix('=') {
        Some(hi) => Bound::Included(key(hi)),
        None if hi.is_empty() => Bound::Unbounded,
        None => Bound::Excluded(key(hi)),
    };
    (lo, hi)
}

fn text(part: &Part) -> String {
    let key = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
    let lo = match &part.0 {
        Bound::Included(lo) => key(lo),
        Bound::Excluded(lo) => format!("<{}", key(lo)),
        Bound::Unbounded => String::new(),
    };
    let hi = match &part.1 {
        Bound::Included(hi) => format!("={}", key(hi)),
        Bound::Excluded(hi) => key(hi),
        Bound::Unbounded => String::new(),
    };
    format!("{lo}..{hi}")
}

#[test]
fn parts_are_merged_where_they_meet() {
    for (parts, expected) in [
        ("a..c b..d", "a..d"),
        ("b..d a..c", "a..d"),
        ("a..=c c..d", "a..d"),
        ("a..c c..d", "a..c c..d"),
        ("a..z b..c d..=e", "a..z"),
        ("..c b..", ".."),
        ("x.. a..=b", "a..=b x.."),
        ("<a..c a..=a", "a..c"),
        ("a..b a..=b", "a..=b"),
    ] {
        let all = parts.split_whitespace().map(part).collect();
        let found: Vec<_> = merged(all).iter().map(text).collect();
        assert_eq!(found.join(" "), expected, "{parts}");
    }
}

#[test]
fn repeated_reads_take_the_memory_of_one() {
    let mut reads = Reads::default();
    for round in 0..50 {
        for number in 0..100u32 {
            reads.add_key(TREE, &number.to_be_bytes()).expect("not too much");
        }
        assert!(reads.keys.len() <= 200, "{} in round {round}", reads.keys.len());
    }
    let index = reads.index();
    assert_eq!(index.of(TREE).map(|of| of.keys.len()), Some(100));
}

#[test]
fn a_key_and_a_range_are_found_in_the_reads() {
    use ConflictKind::{Key, Range};
    let mut reads = Reads::default();
    reads.add_key(TREE, b"c").expect("not too much");
    for text in ["e..=g", "k..", "<i..j"] {
        let (lo, hi) = part(text);
        let trees = vec![TREE];
        let read = RangeRead { trees, lo, hi, front: None, back: None, all: true };
        reads.add_range(read).expect("not too much");
    }
    let index = reads.index();
    for (key, expected) in [
        ("b", None),
        ("c", Some(Key)),
        ("d", None),
        ("e", Some(Range)),
        ("g", Some(Range)),
        ("ga", None),
        ("i", None),
        ("ia", Some(Range)),
        ("j", None),
        ("z", Some(Range)),
    ] {
        assert_eq!(index.of_key(TREE, key.as_bytes()), expected, "{key}");
        assert_eq!(index.of_key(TreeId(2), key.as_bytes()), None);
    }
    for (lo, hi, expected) in [
        ("a", "c", None),
        ("a", "ca", Some(Key)),
        ("c", "d", Some(Key)),
        ("d", "e", None),
        ("d", "ea", Some(Range)),
        ("g", "h", Some(Range)),
        ("ga", "i", None),
        ("j", "k", None),
        ("y", "z", Some(Range)),
    ] {
        let found = index.of_range(TREE, lo.as_bytes(), hi.as_bytes());
        assert_eq!(found, expected, "{lo} {hi}");
    }
}

#[test]
fn what_was_walked_over_is_read() {
    let key = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let (lo, hi) = part("..m");
    let mut range = RangeRead { trees: vec![TREE], lo, hi, front: None, back: None, all: false };
    let read = |range: &RangeRead, key: &str| {
        range.parts().any(|p| !before(key.as_bytes(), &p.0) && !behind(key.as_bytes(), &p.1))
    };
    assert!(!read(&range, "a"));
    range.front = key("c");
    assert!(read(&range, "a") && read(&range, "c") && !read(&range, "ca"));
    range.back = key("k");
    assert!(read(&range, "l") && !read(&range, "m") && !read(&range, "e"));
    range.all = true;
    assert!(read(&range, "e") && !read(&range, "m"));
}
