//! `leno lab export`: writes an experiment's runs for other tools.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{fortio, smp};
use crate::error::{Error, Result, io};
use crate::report::{self, Recorded};

/// Options of `leno lab export`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Form of the files
    #[arg(long, value_enum, value_name = "NAME")]
    pub format: Format,
    /// Directory of an experiment, as written by `leno lab run --out`; the files go into its subdirectory fortio or smp
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The file format of the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Service Mesh Performance: a YAML file for each message of its schema
    Smp,
    /// JSON for `fortio report`, as `leno lab run` already writes it
    Fortio,
}

/// Writes the files and prints their directory.
///
/// # Errors
/// If the experiment cannot be read or has no run with latencies, or if a file cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let (dir, runs) = export(options.format, &options.dir)?;
    writeln!(out, "{}: {runs} runs", dir.display()).map_err(io("standard output"))
}

/// Writes the files. Returns their directory and the number of runs.
fn export(format: Format, dir: &Path) -> Result<(PathBuf, usize)> {
    let Recorded { experiment, runs, .. } = report::read(dir)?;
    let mut count = 0;
    for run in &runs {
        let written = match format {
            Format::Fortio => fortio::write(dir, &experiment, run, experiment.started.clone())?,
            Format::Smp => smp::write(dir, &experiment, run)?,
        };
        count += usize::from(written.is_some());
    }
    if count == 0 {
        let what = "has no run with latencies; choose a scenario other than memory and tcp";
        return Err(Error::Usage(format!("{} {what}", dir.display())));
    }
    let name = match format {
        Format::Fortio => fortio::DIR,
        Format::Smp => smp::DIR,
    };
    Ok((dir.join(name), count))
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
