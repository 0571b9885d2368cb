//! `leno lab`: the benchmark lab.

use std::io;

use clap::Subcommand;
use leno_lab::error::Result;
use leno_lab::experiment::{self, ListOptions, Options};
<<<<<<< HEAD
use leno_lab::report;
=======
use leno_lab::report::{self, Written};
>>>>>>> runner

/// What the lab can do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the scenarios, and the targets with what each needs
    List(ListOptions),
    /// Run real proxies between a load and real servers
    Run(Options),
<<<<<<< HEAD
    /// Write summary.md and report.html again, from the raw runs
=======
    /// Make the report of an experiment again, from its raw runs
>>>>>>> runner
    Report(report::Options),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::List(options) => experiment::list(options, &mut io::stdout()),
            Self::Run(options) => experiment::run(options),
<<<<<<< HEAD
            Self::Report(options) => report::run(options),
=======
            Self::Report(options) => report::write(&options.dir).map(|Written { summary, page }| {
                println!("{} and {}", page.display(), summary.display());
            }),
>>>>>>> runner
        }
    }
}
