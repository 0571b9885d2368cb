//! `leno lab list`: the possible measurements on this machine.

use std::io::{self, Write};
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::record::{Scenario, TargetKind};
use crate::error::{Result, io as io_error};
use crate::publication;
use crate::targets::{self, Programs};

/// Options of `leno lab list`.
#[derive(Debug, Clone, clap::Args)]
pub struct ListOptions {
    /// Target, publication or scenario (retry-storm, tail) whose page to print: what it consists of, and what it does not
    /// show
    #[arg(value_enum, value_name = "NAME")]
    pub name: Option<Listed>,
    #[command(flatten)]
    pub programs: Programs,
}

/// A name with a page that `leno lab list` can print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    Target(TargetKind),
    /// A scenario that has a page of its own, in addition to its one-line description.
    Scenario(Scenario),
    Publication(publication::Name),
}

impl ValueEnum for Listed {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Listed>> = LazyLock::new(|| {
            let targets = TargetKind::ALL.into_iter().map(Listed::Target);
            let scenarios =
                Scenario::ALL.into_iter().filter(|scenario| scenario.page().is_some()).map(Listed::Scenario);
            let publications = publication::Name::ALL.into_iter().map(Listed::Publication);
            targets.chain(scenarios).chain(publications).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Target(target) => target.to_possible_value(),
            Self::Scenario(scenario) => scenario.to_possible_value(),
            Self::Publication(name) => name.to_possible_value(),
        }
    }
}

/// Prints the scenarios, the publications and the targets; or, if the options have a name, the page with this name.
///
/// For each target, prints its requirements, and whether this machine fulfills them.
///
/// # Errors
/// If `out` cannot be written to.
pub fn list(options: &ListOptions, out: &mut dyn Write) -> Result<()> {
    let version = |kind| targets::version(kind, &options.programs).map_err(|error| error.to_string());
    let written = match options.name {
        Some(Listed::Target(kind)) => write_page(kind, &version(kind), out),
        Some(Listed::Scenario(scenario)) => write_scenario(scenario, out),
        Some(Listed::Publication(name)) => publication::write_page(name, &options.programs, out),
        None => {
            let rows: Vec<_> = TargetKind::ALL.into_iter().map(|kind| (kind, version(kind))).collect();
            write_list(&rows, out)
        }
    };
    written.map_err(io_error("writing to the terminal"))
}

fn write_list(rows: &[(TargetKind, std::result::Result<String, String>)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Scenarios")?;
    for scenario in Scenario::ALL {
        writeln!(out, "  {scenario:12} {}", scenario.what())?;
    }
    writeln!(out, "\nPublications")?;
    for name in publication::Name::ALL {
        writeln!(out, "  {name:16} {}", name.who())?;
    }
    writeln!(out, "\nTargets")?;
    for (kind, version) in rows {
        write_target(*kind, version, out)?;
    }
    writeln!(out, "\nleno lab list NAME prints what a target, a publication, retry-storm or tail is made of.")?;
    writeln!(out, "leno lab run --help says how scenarios are run, and leno lab publish --help how publications are.")
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

fn write_scenario(scenario: Scenario, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {scenario:12} {}", scenario.what())?;
    write!(out, "\n{}", scenario.page().unwrap_or_default())
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
