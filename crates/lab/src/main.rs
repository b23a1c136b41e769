//! The `vlsm-lab` program: starts the laboratory. The module `program` of the library implements
//! its commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    vlsm_lab::program::main()
}
