//! `leno lab list`: the possible measurements on this machine.

use std::io::{self, Write};
use std::path::PathBuf;

use super::record::{Scenario, TargetKind};
use crate::error::{Result, io as io_error};
use crate::targets;

/// Options of `leno lab list`.
#[derive(Debug, Clone, clap::Args)]
pub struct ListOptions {
    /// The leno-proxy binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_proxy: Option<PathBuf>,
}

/// Prints the scenarios, and the targets with their requirements and whether this machine fulfils them.
///
/// # Errors
/// If `out` cannot be written to.
pub fn list(options: &ListOptions, out: &mut dyn Write) -> Result<()> {
    let version = |kind| targets::version(kind, options.leno_proxy.as_deref()).map_err(|error| error.to_string());
    let rows: Vec<_> = TargetKind::ALL.into_iter().map(|kind| (kind, version(kind))).collect();
    write_list(&rows, out).map_err(io_error("writing to the terminal"))
}

fn write_list(rows: &[(TargetKind, std::result::Result<String, String>)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Scenarios")?;
    for scenario in Scenario::ALL {
        writeln!(out, "  {scenario:12} {}", scenario.what())?;
    }
    writeln!(out, "\nTargets")?;
    for (kind, version) in rows {
        writeln!(out, "  {kind:12} {}", kind.what())?;
        match version {
            Ok(version) => writeln!(out, "  {:12} ready: {version}", "")?,
            Err(why) => writeln!(out, "  {:12} not here: {why}\n  {:12} needs: {}", "", "", kind.install())?,
        }
    }
    writeln!(out, "\nleno lab run slow-pod --help says how they are run.")
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
