//! `leno lab compare`: results of any tools side by side.
//!
//! The path of the data: `formats::read` -> `side` -> `report::Mean` -> `table` or `json`

mod json;
mod side;
mod table;

use std::io::Write;
use std::path::PathBuf;

use crate::error::{Result, io};
use side::sides;

/// Options of `leno lab compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Results: directories of `leno lab run`, JSON files of Fortio or ghz, or directories of such files; the first is
    /// the base of all gaps
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Prints the comparison.
///
/// # Errors
/// If a result cannot be read, or the output cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let sides = sides(&options.results)?;
    let written = if options.json { json::write(&sides, out) } else { table::write(&sides, out) };
    written.map_err(io("standard output"))
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
