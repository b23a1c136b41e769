//! C programs that use the library: compiled against the header with all warnings as errors, linked
//! with the shared and the static library, and run.
//!
//! The address sanitizer and Valgrind are used if the machine has them; the test reports each that
//! is missing.
// Tests use the real file system and clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The folder of the libraries, which `cargo test` alone does not build.
fn libraries() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--package", "vlsm-c", "--target-dir"]).arg(target);
        run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
        target.join("debug")
    });
    &FOLDER
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Runs a command to its end. Fails with its output if the command fails.
fn run(command: &mut Command) {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{said}\n{told}", out.status);
}

fn works(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Compiles a program. `linked` are the arguments that name the library.
fn compile(compiler: &str, source: &Path, to: &Path, linked: &[&str]) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(include);
    command.arg(source).arg("-o").arg(to).args(linked);
    run(&mut command);
}

/// The arguments for the shared library.
fn shared() -> [String; 3] {
    let folder = libraries().display().to_string();
    [format!("-L{folder}"), "-lvlsm".into(), format!("-Wl,-rpath,{folder}")]
}

/// The arguments for the static library, with what it needs of the system.
fn fixed() -> [String; 5] {
    let library = libraries().join("libvlsm.a").display().to_string();
    [library, "-lpthread".into(), "-ldl".into(), "-lm".into(), "-lgcc_s".into()]
}

fn borrow<const N: usize>(of: &[String; N]) -> [&str; N] {
    of.each_ref().map(String::as_str)
}

/// A folder with a compiled program.
fn program(name: &str, linked: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile("cc", &source(name), &program, linked);
    (folder, program)
}

#[test]
fn every_function_works_from_c() {
    for linked in [&borrow(&shared())[..], &borrow(&fixed())[..]] {
        let (folder, program) = program("api.c", linked);
        run(Command::new(program).arg(folder.path()));
    }
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    let fixed = fixed();
    let linked = [&["-fsanitize=address,undefined"][..], &borrow(&fixed)[..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let (empty, there) = (folder.path().join("empty.c"), folder.path().join("empty"));
    std::fs::write(&empty, "int main(void) { return 0; }").unwrap();
    if !works(
        Command::new("cc").arg("-fsanitize=address,undefined").arg(&empty).arg("-o").arg(&there),
    ) {
        println!("SKIPPED: cc has no address sanitizer");
        return;
    }
    let (folder, program) = program("api.c", &linked);
    run(Command::new(program).arg(folder.path()).arg("without forks"));
}

#[test]
fn valgrind_finds_nothing() {
    if !works(Command::new("valgrind").arg("--version")) {
        println!("SKIPPED: valgrind is not installed");
        return;
    }
    let (folder, program) = program("api.c", &borrow(&shared()));
    let mut command = Command::new("valgrind");
    command.args([
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "-q",
    ]);
    run(command.arg(program).arg(folder.path()).arg("without forks"));
}

#[test]
fn the_header_is_one_of_cplusplus_too() {
    if !works(Command::new("c++").arg("--version")) {
        println!("SKIPPED: there is no C++ compiler");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("version.cc"), folder.path().join("version"));
    let text = "#include <vlsm.h>\nint main() { return vlsm_abi_version() != VLSM_ABI_VERSION; }\n";
    std::fs::write(&source, text).unwrap();
    compile("c++", &source, &program, &borrow(&shared()));
    run(&mut Command::new(program));
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let (folder, program) = program("killed.c", &borrow(&shared()));
    let store = folder.path().join("store");
    for round in 0..20 {
        let mut child = Command::new(&program).arg(&store).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let until = Instant::now() + Duration::from_millis(20 + 7 * round);
        let mut told = lines.next().unwrap().unwrap();
        while Instant::now() < until {
            told = lines.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        // The lines that are still in the pipe were acknowledged before it died.
        for line in lines.map_while(Result::ok) {
            if line.parse::<u64>().is_ok() {
                told = line;
            }
        }
        child.wait().unwrap();
        run(Command::new(&program).arg(&store).arg(&told));
    }
}

#[test]
fn the_example_of_the_readme_works() {
    let readme = include_str!("../README.md");
    let example = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("example.c"), folder.path().join("example"));
    std::fs::write(&source, example).unwrap();
    compile("cc", &source, &program, &borrow(&shared()));
    let out = Command::new(program).current_dir(folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "green\n", "{out:?}");
}
