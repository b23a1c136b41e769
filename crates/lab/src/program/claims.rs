//! `vlsm-lab claims`: writes the page of all verdicts from the figures that were kept. It measures
//! nothing.

use crate::figures::claims;
use crate::files;
use std::io::{self, Write};
use std::path::PathBuf;
use vlsm_cli::failure;

/// Options of `vlsm-lab claims`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the kept figures and of reasons.toml
    #[arg(long, value_name = "DIR", default_value = claims::FIGURES)]
    figures: PathBuf,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = claims::PAGE)]
    out: PathBuf,
}

/// Writes the page.
pub fn run(args: &Args) -> failure::Result {
    let page = claims::page(&args.figures)?;
    files::write(&args.out, &page)?;
    writeln!(io::stdout(), "wrote {}", args.out.display())?;
    Ok(())
}
