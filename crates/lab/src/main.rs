//! Starts the `vlsm-lab` program: the laboratory. What its commands do is in the library beside it
//! (`program`).

use std::process::ExitCode;

fn main() -> ExitCode {
    vlsm_lab::program::main()
}
