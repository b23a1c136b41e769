//! Inputs made by hand: what a crafted file would say, and sound ones to begin from.
//!
//! Huge lengths, sums that wrap, counts of zero, numbers at the end of their range, what is cut
//! off. `cargo run -p vlsm-fuzz --example seeds` writes them into the
//! corpus.

use crate::records::record;
use crate::sst::{Frame, block_of};

/// An input: its target, its name, its bytes.
pub type Seed = (&'static str, &'static str, Vec<u8>);

/// All inputs made by hand.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    [wal(), manifest(), blocks(), sst(), store(), trace(), texts()].concat()
}

const HUGE: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
const HUGE32: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

fn batch(key: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0, 1, key.len() as u8], key, &[value.len() as u8], value].concat()
}

fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn trace() -> Vec<Seed> {
    // number of chunks, version, total that the end says; per chunk: count, payload
    let file = |total: u8, chunks: &[(u8, &[u8])]| {
        let mut out = vec![chunks.len() as u8, 1, total];
        for (count, payload) in chunks {
            out.push(*count);
            out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
            out.extend_from_slice(payload);
        }
        out
    };
    let put = [1, 20, 3, 3, b'k', b'e', b'y', 5];
    let scan = [4, 7, 3, 1, b'k', 100];
    let range = [5, 0, 3, 1, b'a', 1, b'b'];
    let all = [&put[..], &scan, &range].concat();
    let mut huge = file(1, &[(1, &[&[0, 0, 3][..], &HUGE[..]].concat())]);
    huge.extend_from_slice(b"key");
    vec![
        ("trace", "sound", file(4, &[(3, &all), (1, &put)])),
        ("trace", "empty", file(0, &[])),
        ("trace", "count-wrong", file(2, &[(2, &put)])),
        ("trace", "total-wrong", file(9, &[(1, &put)])),
        ("trace", "kind-unknown", file(1, &[(1, &[9, 0, 3, 0])])),
        ("trace", "time-before-the-beginning", file(1, &[(1, &[0, 1, 3, 0])])),
        ("trace", "key-length-huge", huge),
        ("trace", "value-length-huge", file(1, &[(1, &[&put[..7], &HUGE[..]].concat())])),
    ]
}

fn wal() -> Vec<Seed> {
    let put = batch(b"key", b"value");
    // flags, torn, filled, first and second sequence number, seal
    let file = |flags: u8, len: u16, synced: u16, first: &[u8], second: &[u8]| {
        let mut out = vec![flags, 255, 0, 0];
        out.extend_from_slice(&u64s(&[1, 1]));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&synced.to_le_bytes());
        out.extend_from_slice(&(first.len() as u16).to_le_bytes());
        [&out[..], first, second].concat()
    };
    let (one, two) = (record(1, 1, &put), record(1, 2, &put));
    let len = one.len() as u16;
    let mut long = record(1, 1, &put);
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let fragment = [&u64s(&[7])[..], &[0; 4], &put[..]].concat();
    let mut commit = u64s(&[7]);
    commit.extend_from_slice(&1_u32.to_le_bytes());
    commit.extend_from_slice(&crc32c::crc32c(&put).to_le_bytes());
    commit.extend_from_slice(&u64s(&[put.len() as u64]));
    let mut claims = commit.clone();
    claims[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    claims[16..].copy_from_slice(&u64::MAX.to_le_bytes());
    let large = [record(2, 0, &fragment), record(3, 2, &commit)].concat();
    let orphan = record(3, 2, &commit);
    let greedy = [record(2, 0, &fragment), record(3, 2, &claims)].concat();
    vec![
        ("wal_file", "sound", file(0, len, len, &one, &two)),
        ("wal_file", "one-file", file(64, 0, 0, &one, &[])),
        ("wal_file", "seal-cuts-a-record", file(0, len - 8, 0, &one, &two)),
        ("wal_file", "seal-beyond-the-end", file(0, u16::MAX, u16::MAX, &one, &two)),
        ("wal_file", "length-huge", file(0, len, 0, &long, &two)),
        (
            "wal_file",
            "length-huge-after-a-record",
            file(64, 0, 0, &[&one[..], &long].concat(), &[]),
        ),
        ("wal_file", "sequence-descends", file(64, 0, 0, &[&two[..], &one].concat(), &[])),
        ("wal_file", "sequence-largest", file(64, 0, 0, &record(1, (1 << 56) - 1, &put), &[])),
        ("wal_file", "empty-records", file(64, 0, 0, &record(1, 1, &[]).repeat(5), &[])),
        ("wal_file", "large", file(64, 0, 0, &large, &[])),
        ("wal_file", "commit-without-fragments", file(64, 0, 0, &orphan, &[])),
        ("wal_file", "commit-claims-huge", file(64, 0, 0, &greedy, &[])),
        ("wal_file", "commit-over-two-files", file(0, 64, 0, &large[..64], &large[64..])),
        ("wal_file", "no-predecessor", file(32, 0, 0, &one, &two)),
        ("wal_batch", "sound", put.repeat(3)),
        ("wal_batch", "key-length-huge", [&[0, 1][..], &HUGE].concat()),
        ("wal_batch", "value-length-huge", [&[0, 1, 1, b'k'][..], &HUGE].concat()),
        ("wal_batch", "number-too-long", [0x80; 12].into()),
        ("wal_batch", "kind-unknown", vec![0, 9, 1, b'k']),
    ]
}

fn manifest() -> Vec<Seed> {
    let store = [&[1][..], &u64s(&[5])].concat();
    let keyspace = b"\x02\x00\x07default\x00\x01\x00\x00".to_vec();
    let numbers = vec![4, 9, 1, 1, 9, 0, 9];
    // number, uid, bytes, checksum, entries, tombstones, smallest, largest, sequence numbers, whole
    let table = |number: u8, bytes: &[u8]| {
        let mut out = vec![number];
        out.extend_from_slice(&u64s(&[3]));
        out.extend_from_slice(bytes);
        out.extend_from_slice(&u64s(&[4]));
        out.extend_from_slice(b"\x01\x00\x01a\x01b\x01\x02\x00");
        out
    };
    let edit = |changes: &[Vec<u8>]| {
        let mut out = vec![5, 0, 1, 9, 0, changes.len() as u8];
        changes.iter().for_each(|change| out.extend_from_slice(change));
        out
    };
    let add = |level: u8, table: &[u8]| [&[level, 0, 0][..], table].concat();
    let add_l0 = [&[0, 1, 0, 0][..], &table(1, &[100])].concat();
    let sound = [&store[..], &keyspace, &numbers, &edit(&[add_l0])].concat();
    let with = |tail: &[u8]| [&store[..], &keyspace, tail].concat();
    let items = |name, bytes| ("manifest_items", name, bytes);
    let file = |name, filled: u16, records: Vec<u8>| {
        let input = [&filled.to_le_bytes()[..], &[255], &records].concat();
        ("manifest_file", name, input)
    };
    let mut long = record(1, 0, &store);
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let wraps = edit(&[add(1, &table(1, &HUGE)), add(2, &table(2, &HUGE))]);
    vec![
        items("sound", sound.clone()),
        items("empty", vec![]),
        items("cut-off", sound[..sound.len() - 3].to_vec()),
        items("name-length-huge", [&[2, 0][..], &HUGE].concat()),
        items("regions-huge", [&b"\x02\x00\x01d\x00"[..], &HUGE].concat()),
        items("changes-huge", [&[5, 0, 0, 0][..], &HUGE].concat()),
        items("cursors-huge", [&[5, 0, 0][..], &HUGE].concat()),
        items("bytes-wrap", with(&wraps)),
        items("level-too-deep", with(&edit(&[add(200, &table(1, &[9]))]))),
        items("one-file-twice", with(&edit(&[add(1, &table(1, &[9])), add(2, &table(1, &[9]))]))),
        items("tree-unknown", edit(&[])),
        items("keyspace-twice", with(&keyspace)),
        items("next-file-largest", with(&[&[4][..], &HUGE, &[1, 1, 1, 1, 1]].concat())),
        file("sound", 0, record(1, 0, &sound)),
        file(
            "several",
            0,
            [record(1, 0, &store), record(1, 0, &keyspace), record(4, 0, &[])].concat(),
        ),
        file("length-huge", 0, long),
        file("snapshot-too-short", u16::MAX, record(1, 0, &sound)),
        ("manifest_current", "sound", b"\0MANIFEST-000001".to_vec()),
        ("manifest_current", "number-huge", b"\0MANIFEST-99999999999999999999999".to_vec()),
        ("manifest_current", "another-file", b"\0../../etc/passwd".to_vec()),
        ("manifest_current", "not-text", b"\x01\xff\xfe\n".to_vec()),
    ]
}

fn blocks() -> Vec<Seed> {
    let sound = block_of(&["plum", "zebra"]);
    let tail =
        |restarts: u32, entries: u32| [restarts.to_le_bytes(), entries.to_le_bytes()].concat();
    let entry = |shared: &[u8], unshared: &[u8], value: &[u8]| {
        let mut out = [shared, unshared, value, b"plum"].concat();
        out.extend_from_slice(&u64s(&[0x101]));
        let entries = out.len() as u32;
        [out, vec![0; 4], tail(1, entries)].concat()
    };
    let mut cut = sound.clone();
    cut.truncate(sound.len() - 5);
    let mut packed = vec![1];
    packed.extend_from_slice(&u32::MAX.to_le_bytes());
    let block = |name, bytes| ("sst_block", name, bytes);
    vec![
        block("sound", sound.clone()),
        block("empty", vec![]),
        block("cut-off", cut),
        block("no-restart", [vec![0, 1, 0, b'a'], u64s(&[1]), tail(0, 12)].concat()),
        block("no-entry", [vec![0; 4], tail(1, 0)].concat()),
        block("restarts-huge", [sound.clone(), tail(u32::MAX, 1)].concat()),
        block("restarts-wrap", [sound.clone(), tail(0x4000_0001, 1)].concat()),
        block("entries-huge", [sound, tail(1, u32::MAX)].concat()),
        block("restart-outside", [vec![0xff; 4], tail(1, 1)].concat()),
        block("key-length-huge", entry(&[0], &HUGE32, &[0])),
        block("value-length-huge", entry(&[0], &[4], &HUGE32)),
        block("shares-what-is-not", entry(&[9], &[4], &[0])),
        ("sst_packed", "sound", [vec![0], block_of(&["apple", "pear"])].concat()),
        ("sst_packed", "says-huge", packed),
        ("sst_packed", "length-zero", vec![1, 0, 0, 0, 0, 0]),
        ("sst_packed", "unknown", vec![3, 1, 2, 3]),
    ]
}

fn sst() -> Vec<Seed> {
    let block = block_of(&["apple", "pear"]).len() as u8 + 9;
    let second = block_of(&["plum", "zebra"]).len() as u8 + 9;
    let index = |count: &[u8], last: &[u8]| {
        [count, &[0, 2, b'p', b'l', block], &[0, 2, b'z', b'z'], last].concat()
    };
    let line = |probes: u32| [vec![0xff; 64], probes.to_le_bytes().into()].concat();
    let properties = Frame::sound().properties;
    let file = |sections: [u64; 12], version: u32| {
        let mut footer = u64s(&sections);
        footer.resize(116, 1);
        footer.extend_from_slice(&version.to_le_bytes());
        [footer, vec![7; 200]].concat()
    };
    let most = u64::MAX;
    let (footer, body) = Frame::sound().parts();
    let sound = [footer, body];
    vec![
        ("sst_index", "sound", index(&[2], &[second])),
        ("sst_index", "no-block", index(&[0], &[second])),
        ("sst_index", "count-huge", index(&HUGE32, &[second])),
        ("sst_index", "extent-huge", index(&[2], &HUGE32)),
        ("sst_index", "extent-zero", index(&[2], &[0])),
        (
            "sst_index",
            "descends",
            [&[2, 0, 2, b'z', b'z', block][..], &[0, 1, b'a', block]].concat(),
        ),
        ("sst_index", "suffix-huge", [&[1, 0][..], &HUGE32].concat()),
        ("sst_filter", "sound", line(6)),
        ("sst_filter", "no-probe", line(0)),
        ("sst_filter", "probes-huge", line(u32::MAX)),
        ("sst_filter", "no-line", 6_u32.to_le_bytes().into()),
        ("sst_ranges", "sound", b"\x02\x01b\x01d\x02\x09\x03\x01d\x01e\x01\x05".to_vec()),
        ("sst_ranges", "count-huge", [&HUGE[..], b"\x01b\x01d\x01\x09"].concat()),
        ("sst_ranges", "sequence-numbers-huge", [&b"\x01\x01b\x01d"[..], &HUGE, &[9]].concat()),
        ("sst_ranges", "key-length-huge", [&[1][..], &HUGE, b"b"].concat()),
        ("sst_ranges", "out-of-order", b"\x02\x01d\x01e\x01\x09\x01b\x01c\x01\x05".to_vec()),
        ("sst_ranges", "outside", b"\x01\x01b\x02zz\x01\x09".to_vec()),
        ("sst_ranges", "none", vec![0]),
        ("sst_properties", "sound", properties.clone()),
        ("sst_properties", "one-is-missing", properties[10..].to_vec()),
        ("sst_properties", "length-huge", [&properties[..], &[99], &HUGE32].concat()),
        ("sst_properties", "must-be-understood", [&properties[..], &[0x90, 0]].concat()),
        ("sst_file", "sound", sound.concat()),
        ("sst_file", "parts-wrap", file([most, 1, 0, 0, most, 0, most, 0, 0, most, 1, 0], 1)),
        ("sst_file", "parts-huge", file([0, most, 0, most, 0, 0, most, 0, 0, most, 0, 0], 1)),
        ("sst_file", "parts-empty", file([0; 12], 1)),
        ("sst_file", "index-is-the-file", file([0, 100, 0, 100, 0, 0, 100, 0, 0, 100, 100, 0], 1)),
        ("sst_file", "version-newer", file([0, 100, 0, 100, 0, 0, 100, 0, 0, 100, 100, 0], 9)),
    ]
}

fn store() -> Vec<Seed> {
    let put = batch(b"key", b"value");
    let wal = |name, flags: u8, seq: u64, payload: &[u8]| {
        let len = payload.len() as u16;
        let parts = [&[flags][..], &seq.to_le_bytes(), &len.to_le_bytes(), payload];
        ("store_wal", name, parts.concat())
    };
    let manifest = |name, bytes: &[u8]| ("store_manifest", name, bytes.to_vec());
    let (removal, most) = ([&put[..], &[0, 0, 3], b"key"].concat(), (1 << 56) - 1);
    vec![
        wal("sound", 0, 0, &put),
        wal("put-and-delete", 0, 0, &removal),
        wal("tree-unknown", 0, 0, &[&HUGE[..], &put[1..]].concat()),
        wal("sequence-largest", 1, most, &put.repeat(3)),
        wal("sequence-almost-largest", 1, most - 5, &put),
        wal("sequence-zero", 1, 0, &put),
        wal("cut-off", 0, 0, &put[..5]),
        manifest("empty", &[]),
        manifest(
            "numbers-largest",
            b"\x04\x80\x80\x80\x80\x80\x80\x80\x80\x01\x01\x01\x01\x00\x01",
        ),
        manifest("a-wal-that-is-not-there", &[4, 1, 1, 1, 1, 99, 1]),
        manifest("drops-the-default", &[3, 0]),
        manifest("a-second-keyspace", b"\x02\x05\x01k\x00\x01\x00\x05"),
        manifest("regions-descend", b"\x02\x05\x01k\x00\x03\x00\x05\x01z\x06\x01a\x07"),
        manifest("regions-of-one-tree", b"\x02\x05\x01k\x00\x02\x00\x05\x01z\x05"),
        manifest("keyspace-without-regions", b"\x02\x05\x01k\x00\x00"),
        manifest("tree-of-another", b"\x02\x05\x01k\x00\x01\x00\x00"),
        manifest(
            "flushed-sequence-largest",
            b"\x05\x00\x01\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00",
        ),
    ]
}

fn texts() -> Vec<Seed> {
    let text = |target, name, text: &str| (target, name, text.as_bytes().to_vec());
    let nested = "[".repeat(2000);
    vec![
        ("options", "defaults", vlsm::Options::default().to_toml().unwrap_or_default().into()),
        text("options", "numbers-largest", "workers = 9223372036854775807\nquantum = -1\n"),
        text("options", "nested", &format!("a = {nested}")),
        text("options", "no-limit", "[policy]\noverflow = \"none\"\ndebt_soft = \"some\"\n"),
        text(
            "version",
            "sound",
            "L0 r7 flush seq 5-6: 12:8M[a,k]\nL1: 3:4M[g,k)/8M[g,p]\ncursor L1 g\nflushed 60\n",
        ),
        text("version", "numbers-huge", "L1: 99999999999999999999999:9G[a,b]\n"),
        text(
            "version",
            "bytes-wrap",
            "L1: 1:18446744073709551615G[a,b] 2:18446744073709551615[c,d]\n",
        ),
        text("version", "level-huge", "L255: 1:1M[a,b]\ncursor L300 x\n"),
        text("record", "tsv", "\0key\tvalue\\x00\\n"),
        text("record", "tsv-ends-in-escape", "\0key\\x\t\\"),
        text("record", "hex", "\x02006b\tFF"),
        text("record", "hex-odd", "\x020\t"),
        text("record", "json", "\x01{\"key\": \"a\\u00e9\", \"value_base64\": \"/w==\"}"),
        text("record", "json-nested", &format!("\x01{{\"key\": {nested}")),
        text("record", "json-half-a-pair", "\x01{\"key\": \"\\ud800\", \"value\": \"\"}"),
        text("escape", "sound", "a\\t\\xff\\0\\\\"),
        text("escape", "base64", "/w=="),
        text("escape", "base64-padding", "===="),
        ("escape", "not-text", vec![0xff, 0xc3, b'\\', 0xe2, 0x80, 0x8b]),
        text("lines", "several", "\u{3}a\n\nlonger than sixteen bytes\nlast"),
        text("lines", "no-feed", "\0sixteen bytes!!!"),
    ]
}
