//! Writes the inputs made by hand into the corpus of each target.
//! The fuzzer begins from them; the replay runs them with what the fuzzer found.
#![allow(clippy::disallowed_methods, reason = "a tool that writes files of the source tree")]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, name, bytes) in vlsm_fuzz::seeds::seeds() {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
