//! The common parts of the tests: the library, which `cargo test` alone does not build, a header
//! that is made from the list of functions, and C programs that are compiled against both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The folder of this crate.
pub const HOME: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the libraries.
pub fn libraries() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--package", "vlsm-rocksdb", "--target-dir"]).arg(target);
        run(cargo.current_dir(HOME));
        target.join("debug")
    });
    &FOLDER
}

/// The lines of `functions.txt` that are functions.
pub fn functions() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(HOME).join("functions.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    lines.map(str::to_owned).collect()
}

/// The name of a function.
pub fn name(line: &str) -> &str {
    line.split('(').next().unwrap().rsplit(' ').next().unwrap()
}

/// Runs a command to its end and returns its output. Fails with the output if the command fails.
pub fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{said}\n{told}", out.status);
    said.into_owned()
}

/// Writes `functions.h` with a declaration of every function of the list.
fn write_header(folder: &Path) {
    let functions = functions();
    let mut types = BTreeSet::new();
    for word in
        functions.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
    {
        if word.starts_with("rocksdb_") && word.ends_with("_t") && word != "rocksdb_slice_t" {
            types.insert(word);
        }
    }
    let mut header = String::from(
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\
         typedef void *callback;\n\
         typedef struct { const char *data; size_t size; } rocksdb_slice_t;\n",
    );
    for each in types {
        header.push_str(&format!("typedef struct {each} {each};\n"));
    }
    for function in functions {
        let function = function.replace("char** errptr", "char**");
        header.push_str(&function.replace("()", "(void)"));
        header.push_str(";\n");
    }
    std::fs::write(folder.join("functions.h"), header).unwrap();
}

/// A folder with a compiled program.
pub fn program(source: &str, linked: &[String]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    write_header(folder.path());
    let program = folder.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-g", "-I"]).arg(folder.path());
    cc.arg("-I").arg(Path::new(HOME).join("tests/common"));
    cc.arg(Path::new(HOME).join("tests").join(source)).arg("-o").arg(&program).args(linked);
    cc.arg("-lpthread");
    run(&mut cc);
    (folder, program)
}

/// The arguments for the shared library.
pub fn shared() -> Vec<String> {
    let folder = libraries().display().to_string();
    vec![format!("-L{folder}"), "-lrocksdb".into(), format!("-Wl,-rpath,{folder}")]
}

/// The arguments for the static library, with what it needs of the system.
pub fn fixed() -> Vec<String> {
    let library = libraries().join("librocksdb.a").display().to_string();
    [&library, "-lpthread", "-ldl", "-lm", "-lgcc_s"].map(str::to_owned).to_vec()
}
