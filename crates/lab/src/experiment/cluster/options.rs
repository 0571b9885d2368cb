//! The options of `leno lab run --cluster`, and the combinations with other options that it rejects.

use std::path::PathBuf;

use super::mesh::Mesh;
use super::workload_options::{self, WorkloadOptions};
use crate::error::{Error, Result};
use crate::experiment::options::{Options, refuse};
use crate::experiment::record::{CallPolicy, Scenario};

/// Default number of load Pods.
const USUAL_LOAD_PODS: u32 = 2;
/// Scenario `rollout`: shortest measured time. A Pod needs several seconds to end and to start again.
const LEAST_ROLLOUT_S: u32 = 30;

/// Options for an experiment in a Kubernetes cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "In a Kubernetes cluster")]
pub struct ClusterOptions {
    /// Run the servers and the load in the cluster of the kubeconfig, in namespaces that are deleted at the end
    #[arg(long)]
    pub cluster: bool,
    /// Kubeconfig of the cluster [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub context: Option<String>,
    /// Meshes to measure, each in a namespace of its own; the value none measures the cluster without a mesh [default:
    /// none, and each working mesh that the cluster has]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', requires = "cluster")]
    pub mesh: Option<Vec<Mesh>>,
    /// Image with the program leno, for servers and load [default: leno, from the registry and of the version of the
    /// cluster's leno-control, if Leno is installed]
    #[arg(long, value_name = "IMAGE", requires = "cluster")]
    pub image: Option<String>,
    /// Pods that share the load; a load with fewer connections uses fewer Pods [default: 2]
    #[arg(long, value_name = "N", requires = "cluster", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub load_pods: Option<u32>,
    #[command(flatten)]
    pub workload: WorkloadOptions,
}

impl ClusterOptions {
    pub(super) fn load_pods(&self) -> u32 {
        self.load_pods.unwrap_or(USUAL_LOAD_PODS)
    }
}

/// Returns an error if an option or the scenario is not possible in a cluster.
pub(in crate::experiment) fn refuse_impossible(options: &Options) -> Result<()> {
    let scenario = options.scenario;
    refuse_other_scenarios(scenario, "--cluster", "it configures or restarts the proxies itself", is_possible)?;
    workload_options::refuse_impossible(options)?;
    let binaries = "--leno-proxy, --traefik or --linkerd2-proxy";
    for (given, flag, why) in [
        (options.targets.is_some(), "--targets", "--mesh names the targets of a cluster"),
        (options.pin, "--pin", "Kubernetes assigns the CPUs"),
        (!options.programs.words().is_empty(), binaries, "the mesh brings its own proxies"),
    ] {
        refuse(given, flag, scenario, &format!("with --cluster, {why}"))?;
    }
    let hedges = options.conditions.hedge.iter().flatten().any(|&policy| policy != CallPolicy::Once);
    refuse(hedges, "--hedge", scenario, "with --cluster, the mesh's own policies decide about hedges")?;
    match options.duration_s() {
        duration_s if scenario == Scenario::Rollout && duration_s < LEAST_ROLLOUT_S => Err(Error::Usage(format!(
            "--duration-s {duration_s} is too short for rollout in a cluster, where each Pod needs seconds to start; use \
             {LEAST_ROLLOUT_S} or more"
        ))),
        _ => Ok(()),
    }
}

/// Returns an error if `scenario` is not possible with the option `flag`. The error lists the possible scenarios.
pub(super) fn refuse_other_scenarios(
    scenario: Scenario,
    flag: &str,
    why: &str,
    is_possible: fn(Scenario) -> bool,
) -> Result<()> {
    if is_possible(scenario) {
        return Ok(());
    }
    let possible = Scenario::ALL.into_iter().filter(|&it| is_possible(it));
    let possible: Vec<String> = possible.map(|it| it.to_string()).collect();
    Err(Error::Usage(format!("{scenario} cannot run with {flag}: {why}; use one of {}", possible.join(", "))))
}

fn is_possible(scenario: Scenario) -> bool {
    use Scenario::{Connections, Crowd, FastFail, Footprint, Ladder, Recover, Rollout, SlowPod, Streams};
    matches!(scenario, SlowPod | Connections | FastFail | Recover | Ladder | Crowd | Footprint | Rollout | Streams)
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
