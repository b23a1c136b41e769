//! Starts the `vlsm` program. What its commands do is in the library beside it, which tests and the
//! fuzzer use, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    vlsm_cli::main()
}
