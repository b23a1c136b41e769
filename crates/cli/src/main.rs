//! Starts the `vlsm` program. The library of this crate has its commands; tests and the fuzzer use
//! that library, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    vlsm_cli::main()
}
