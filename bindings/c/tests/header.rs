//! `include/vlsm.h` declares exactly the functions and types of the sources. After a change of the
//! sources, `HEADER=write cargo test --test header` replaces the file.
// Tests use the real file system and clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which the header is read.
    for name in [
        "lib",
        "error",
        "buffer",
        "options",
        "callbacks",
        "db",
        "keyspace",
        "snapshot",
        "iter",
        "batch",
        "transaction",
        "files",
    ] {
        builder = builder.with_src(folder.join("src").join(name).with_extension("rs"));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let path = folder.join("include/vlsm.h");
    if std::env::var("HEADER").is_ok_and(|what| what == "write") {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == made, "include/vlsm.h is old: HEADER=write cargo test --test header");
}
