//! The limits of keyspaces, and the errors for those that cannot be made.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::time::Duration;
use vlsm::{Db, Error, KeyspaceOptions};

#[test]
fn names_that_nobody_could_type_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    for name in ["", "a/b", "/", "line\nfeed", "nul\0", "\u{7f}", "\u{85}", "tab\t", "\u{202e}x"] {
        let error = db.create_keyspace(name, KeyspaceOptions::new()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{name:?}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("keyspace") && text.contains(&format!("{name:?}")), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    for name in ["a", " ", "a b", "a.b", "größe", "😀", "-", "..", "a\\b", "DEFAULT"] {
        db.create_keyspace(name, KeyspaceOptions::new()).unwrap();
    }
    let mut names = db.keyspaces();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    names.sort();
    let mut again = db.keyspaces();
    again.sort();
    assert_eq!(again, names);
}

#[test]
fn a_keyspace_with_other_options_says_which_differ() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    let second = Duration::from_secs(1);
    let make = |name, options| db.create_keyspace(name, options).map(drop);
    make("plain", KeyspaceOptions::new()).unwrap();
    make("sums", KeyspaceOptions::new().merge_operator("add")).unwrap();
    make("short", KeyspaceOptions::new().ttl(second)).unwrap();
    make("split", KeyspaceOptions::splits(["secret"])).unwrap();
    let differs = |name, options, says: &[&str], silent: &[&str]| {
        let text = make(name, options).unwrap_err().to_string();
        says.iter().for_each(|what| assert!(text.contains(what), "{what}: {text}"));
        silent.iter().for_each(|what| assert!(!text.contains(what), "{what}: {text}"));
    };
    let max = || KeyspaceOptions::new().merge_operator("max");
    differs("sums", max(), &["\"sums\"", "merge_operator", "\"add\"", "\"max\""], &["ttl", "spl"]);
    differs("plain", max(), &["merge_operator", "none", "\"max\""], &["ttl", "splits"]);
    differs("sums", KeyspaceOptions::new(), &["merge_operator", "\"add\"", "none"], &["ttl"]);
    let hour = KeyspaceOptions::new().ttl(3600 * second);
    differs("short", hour, &["ttl", "1s", "3600s"], &["merge_operator", "splits"]);
    let split = |keys: &[&'static str]| KeyspaceOptions::splits(keys.to_vec());
    // Split keys are keys, and keys appear in no error.
    differs("split", split(&["hidden"]), &["splits", "1 key"], &["secret", "hidden", "ttl"]);
    differs("split", split(&["a", "b"]), &["splits", "1 key", "2 keys"], &["secret", "\"a\""]);
    differs("plain", split(&["a"]), &["splits", "0 keys", "1 key"], &["ttl"]);
    let both = split(&["a"]).merge_operator("max");
    differs("short", both, &["ttl", "1s", "none", "splits", "merge_operator"], &["\"a\""]);
    db.close().unwrap();
    let other = Db::builder(&path).default_keyspace(max()).open().unwrap_err().to_string();
    assert!(other.contains("merge_operator") && other.contains("\"max\""), "{other}");
}
