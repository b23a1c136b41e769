//! Starts the `vlsm` program. Its commands are in the library of this crate, which tests and the
//! fuzzer also use.

use std::process::ExitCode;

fn main() -> ExitCode {
    vlsm_cli::main()
}
