//! Tests of the choice of hot keys.

use super::*;
use crate::memtable::Arena;
use parking_lot::Mutex;
use vlsm_core::MemtableId;

/// Accepts all entries, in memory of its own.
#[derive(Default)]
struct Takes {
    taken: Mutex<Vec<(String, u64)>>,
    /// The number of parts offered.
    parts: Mutex<u64>,
}

impl Keeps for Takes {
    fn keep(&self, _: TreeId, _: &[Arc<Memtable>], hot: &[Hot]) -> Kept {
        *self.parts.lock() += 1;
        for hot in hot {
            let bytes: usize = hot.key.len() + hot.value.len();
            assert!(bytes <= PART, "{bytes} bytes");
            let key = String::from_utf8(hot.key.clone()).expect("text");
            self.taken.lock().push((key, hot.seq.0));
        }
        Kept::Some(hot.len() as u64, 0, Pending::ready(Ok(())))
    }
}

/// Memtables of these words, with sequence numbers from 1 on: `a` is a put of that key, `-a` a
/// delete, `+a` an operand, `~a` a put that expires, `a*9` a put of a value of 9 KB.
fn memtables(texts: &[&str]) -> Vec<Arc<Memtable>> {
    let mut seq = Seq(0);
    let memtable = |(text, id): (&&str, u64)| {
        let memtable = Arc::new(Memtable::new(MemtableId(id), Arena::new(1 << 20)));
        for word in text.split_whitespace() {
            seq.0 += 1;
            let (kind, key) = match word.split_at(1) {
                ("-", key) => (Kind::Delete, key),
                ("+", key) => (Kind::Merge, key),
                ("~", key) => (Kind::PutExpiring, key),
                _ => (Kind::Put, word),
            };
            let (key, kilobytes) = key.split_once('*').unwrap_or((key, "0"));
            let value = vec![1; kilobytes.parse::<usize>().expect("a number") << 10];
            let size = Memtable::entry_size(key.len(), value.len(), seq);
            let mut space = memtable.reserve(1, size, seq..=seq).expect("room");
            memtable.insert(&mut space, key.as_bytes(), Trailer::new(seq, kind), &value);
            memtable.end_write();
        }
        memtable
    };
    texts.iter().zip(1..).map(memtable).collect()
}

/// The hot keys, with the sequence numbers of their versions; the same at any quantum.
fn hot(share: f64, texts: &[&str]) -> String {
    let memtables = memtables(texts);
    let mut found = Vec::new();
    for quantum in [1, 40, 1 << 20] {
        let takes = Arc::new(Takes::default());
        let hot = HotKeys { share, keeps: takes.clone() };
        let mut choosing = Choosing::of(TreeId(1), &hot, &memtables).expect("plain memtables");
        while !matches!(choosing.step(quantum).expect("memory"), Chosen::Done) {}
        assert_eq!(choosing.kept().0, takes.taken.lock().len() as u64);
        let taken = takes.taken.lock();
        let words: Vec<String> = taken.iter().map(|(key, seq)| format!("{key}{seq}")).collect();
        found.push(words.join(" "));
    }
    found.dedup();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn the_most_updated_keys_are_hot_up_to_their_share() {
    let text = ["a a a b b c d d d e f g"];
    assert_eq!(hot(1.0, &text), "a3 b5 d9", "all that have an older version");
    assert_eq!(hot(0.3, &text), "a3 d9", "two of seven keys");
    assert_eq!(hot(0.15, &text), "a3", "of equal ones the first");
    assert_eq!(hot(0.1, &text), "", "less than one key");
    assert_eq!(hot(1.0, &["a b c"]), "");
    assert_eq!(hot(1.0, &[""]), "");
}

#[test]
fn only_plain_puts_are_hot() {
    assert_eq!(hot(1.0, &["a -a b +b c ~c -d d +e e ~f f"]), "d8 e10 f12");
}

#[test]
fn versions_count_over_all_memtables() {
    assert_eq!(hot(1.0, &["a b c", "b c d", "c"]), "b4 c7");
    assert_eq!(hot(0.25, &["a b c", "b c d", "c"]), "c7");
}

#[test]
fn hot_keys_have_at_most_half_of_the_bytes() {
    // Four entries of 9 KB: each hot key counts 9 KB once, and half of all bytes is a little over
    // 18 KB.
    assert_eq!(hot(1.0, &["a b c d a*9 b*9 c*9 d*9"]), "a5 b6");
    assert_eq!(hot(1.0, &["a*9 a*17 b*9 b*9 x*9 y*9"]), "b4", "larger than a part");
}

#[test]
fn parts_are_bounded() {
    let text: String = (10..90).map(|n| format!("k{n}*1 k{n}*1 ")).collect();
    let takes = Arc::new(Takes::default());
    let hot = HotKeys { share: 1.0, keeps: takes.clone() };
    let mut choosing = Choosing::of(TreeId(1), &hot, &memtables(&[&text])).expect("plain");
    while !matches!(choosing.step(1 << 30).expect("memory"), Chosen::Done) {}
    assert_eq!((takes.taken.lock().len(), *takes.parts.lock()), (80, 5), "of 16 KB each");
}

#[test]
fn no_key_is_hot_beside_a_part_or_outside_of_the_wal() {
    let takes: Arc<dyn Keeps> = Arc::new(Takes::default());
    let hot = HotKeys { share: 1.0, keeps: takes };
    let (unlogged, large) = (memtables(&["a a"]), memtables(&["a a"]));
    unlogged[0].note_unlogged();
    assert!(Choosing::of(TreeId(1), &hot, &unlogged).is_none());
    large[0].attach(memtables(&["b"]).remove(0), Seq(2));
    assert!(Choosing::of(TreeId(1), &hot, &large).is_none());
    assert!(Choosing::of(TreeId(1), &hot, &[]).is_none());
}

#[test]
fn what_is_left_to_a_memtable_of_the_same_flush_is_not_left_out() {
    let three = memtables(&["a b", "c d", "e"]);
    three[0].note_left(three[2].id(), [Seq(2)]);
    three[0].note_left(MemtableId(9), [Seq(1)]);
    three[0].note_left(MemtableId(9), [Seq(1)]);
    assert_eq!(left_out(&three[..2]), [Seq(1), Seq(2)]);
    assert_eq!(left_out(&three), [Seq(1)]);
}
