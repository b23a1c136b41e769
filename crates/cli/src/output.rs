//! The result of a command that prints no records: a line for people on stderr, or with `--json`
//! one JSON object on stdout.
//!
//! Sizes are in bytes and times in seconds; names of fields do not change. Failures are lines on
//! stderr in both cases, and the exit codes are the same.

use crate::failure::{Result, say};
use serde_json::Value;
use std::io::{self, Write};

/// The form of the result.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct OutputArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl OutputArgs {
    /// Prints the result: the line, if there is one, or the JSON.
    pub fn tell(self, line: Option<String>, json: Value) -> Result {
        if self.json {
            let mut out = io::stdout().lock();
            writeln!(out, "{json:#}")?;
            return Ok(out.flush()?);
        }
        line.into_iter().for_each(say);
        Ok(())
    }
}
