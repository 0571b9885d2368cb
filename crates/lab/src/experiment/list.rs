//! `leno lab list`: the possible measurements on this machine.

use std::io::{self, Write};

use super::record::{Scenario, TargetKind};
use crate::error::{Result, io as io_error};
use crate::targets::{self, Programs};

/// Options of `leno lab list`.
#[derive(Debug, Clone, clap::Args)]
pub struct ListOptions {
    /// Target whose page to print: its data plane, the source of its settings, and what it does not show
    #[arg(value_enum, value_name = "TARGET")]
    pub target: Option<TargetKind>,
    #[command(flatten)]
    pub programs: Programs,
}

/// Prints the scenarios, and the targets with their requirements and whether this machine fulfils them; or the page of
/// one target.
///
/// # Errors
/// If `out` cannot be written to.
pub fn list(options: &ListOptions, out: &mut dyn Write) -> Result<()> {
    let version = |kind| targets::version(kind, &options.programs).map_err(|error| error.to_string());
    if let Some(kind) = options.target {
        return write_page(kind, &version(kind), out).map_err(io_error("writing to the terminal"));
    }
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
        write_target(*kind, version, out)?;
    }
    writeln!(out, "\nleno lab list TARGET prints what a target is made of.")?;
    writeln!(out, "leno lab run slow-pod --help says how they are run.")
}

fn write_target(
    kind: TargetKind,
    version: &std::result::Result<String, String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "  {kind:12} {}", kind.what())?;
    match version {
        Ok(version) => writeln!(out, "  {:12} ready: {version}", ""),
        Err(why) => writeln!(out, "  {:12} not here: {why}\n  {:12} needs: {}", "", "", kind.install()),
    }
}

fn write_page(kind: TargetKind, version: &std::result::Result<String, String>, out: &mut dyn Write) -> io::Result<()> {
    write_target(kind, version, out)?;
    write!(out, "\n{}", kind.page())
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
