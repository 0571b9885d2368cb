//! `leno lab`: the benchmark lab.

use std::io;

use clap::Subcommand;
use leno_lab::error::Result;
use leno_lab::experiment::{self, CleanOptions, ListOptions, Options};
use leno_lab::formats::export;
use leno_lab::load::command as load;
use leno_lab::tls::tunnel;
use leno_lab::{compare, control_plane, publication, report, simulate};

/// Actions of the lab.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the scenarios, the publications, and the targets with their requirements
    List(ListOptions),
    /// Run real proxies between a load generator and real servers, on this machine or in a cluster
    Run(Box<Options>),
    /// Remove what a run with --cluster left in the cluster because it was killed
    Clean(CleanOptions),
    /// Repeat a published comparison: measure everything in its table, and add a row for Leno
    Publish(publication::Options),
    /// Measure the control plane of a real cluster: its memory, and how soon changes reach a thousand proxies
    ControlPlane(control_plane::Options),
    /// Write summary.md and report.html again from the raw runs
    Report(report::Options),
    /// Compare results of the lab, of Fortio and of ghz: percentiles, rate, errors, and the gaps to the first
    Compare(compare::Options),
    /// Write an experiment's runs for other tools: Service Mesh Performance or Fortio
    Export(export::Options),
    /// Test balancers alone against slow and failing servers, in simulated time
    Simulate(simulate::Options),
    /// Run one end of a TLS tunnel for connections: the baseline for comparisons with a mesh
    #[command(hide = true)]
    Tunnel(tunnel::Options),
    /// Run one load for a coordinator in another process
    #[command(hide = true)]
    Load(load::Options),
}

impl Command {
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::List(options) => experiment::list(options, &mut io::stdout()),
            Self::Run(options) => experiment::run(options),
            Self::Clean(options) => experiment::clean(options, &mut io::stdout()),
            Self::Publish(options) => publication::run(options, &mut io::stdout()),
            Self::ControlPlane(options) => control_plane::run(options),
            Self::Report(options) => report::run(options),
            Self::Compare(options) => compare::run(options, &mut io::stdout()),
            Self::Export(options) => export::run(options, &mut io::stdout()),
            Self::Simulate(options) => simulate::run(options, &mut io::stdout()),
            Self::Tunnel(options) => tunnel::run(options),
            Self::Load(options) => load::run(options),
        }
    }
}
