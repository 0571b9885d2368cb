//! The experiment from its options to the last line of `runs.jsonl`, with its meshes in turn.

use std::collections::HashMap;
use std::time::Duration;

use super::access::Access;
use super::mesh::Mesh;
use super::options::duration_s;
use super::stage::{Plot, Stage};
use super::turn::Measurement;
use super::usage::{ContainerName, IdleCpus, Kubelets};
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::experiment::machine::started;
use crate::experiment::options::{Options, Settings};
use crate::experiment::output::Output;
use crate::experiment::progress::Progress;
use crate::experiment::record::{Ceiling, Experiment, Machine, Scenario, Skipped, TargetKind, Version};
use crate::experiment::runner::command;
use crate::experiment::schedule;
use crate::foreground::Foreground;
use crate::formats::fortio;
use crate::report::{self, Written};

/// Time that a run takes beside its load: until the kubelets have measured all containers again.
const AROUND_A_RUN: Duration = Duration::from_secs(20);
/// The image, if Leno is not installed in the cluster.
const USUAL_IMAGE: &str = concat!("leno:", env!("CARGO_PKG_VERSION"));

/// Runs an experiment in a cluster and writes its files, run by run. Removes everything from the cluster at the end, also
/// after an error or Ctrl-C.
///
/// # Errors
/// If the options request something impossible, the cluster cannot be reached or lacks a mesh, the user lacks rights, or
/// a Pod cannot start. A mesh whose run fails is skipped and named in `lab.json`; failed calls are counted.
pub(in crate::experiment) fn run(options: &Options, words: impl Iterator<Item = String>) -> Result<()> {
    let settings = options.settings()?;
    let settings = match duration_s(options) {
        Some(seconds) => Settings { measured: Duration::from_secs(seconds.into()), ..settings },
        None => settings,
    };
    let request = options.cluster.workload.request(settings.protocol)?;
    let mut foreground = Foreground::new()?;
    let access = foreground.wait(Access::connect(&options.cluster))?;
    foreground.wait(access.ensure_rights(request.is_some()))?;
    let workload = match options.cluster.workload.service.as_ref().zip(request) {
        Some((service, request)) => Some(foreground.wait(Workload::find(&access, service, request))?),
        None => None,
    };
    let meshes = foreground.wait(access.meshes(options.cluster.mesh.as_deref()))?;
    if settings.scenario == Scenario::Footprint && meshes.iter().all(|(mesh, _)| *mesh == Mesh::None) {
        let why = "the cluster has no mesh, or --mesh names none".to_owned();
        return Err(Error::Cluster { what: "footprint measures the memory of proxies".to_owned(), why });
    }
    let kinds: Vec<Mesh> = meshes.iter().map(|(mesh, _)| *mesh).collect();
    foreground.wait(access.ensure_free(&kinds))?;
    let output = Output::create(&settings.out)?;
    let command = command(words, settings.seed);
    let namespaces: Vec<String> = kinds.iter().map(|mesh| mesh.namespace()).collect();
    let mut lab = Lab { options, settings: &settings, workload, access: access.clone(), foreground, output };
    let measured = lab.measure(meshes, command);
    lab.foreground.begin("deleting the lab's namespaces", namespaces.len() as u32);
    let deleted = lab.foreground.wait(access.delete(&namespaces));
    if let (Err(_), Err(left)) = (&measured, &deleted) {
        lab.foreground.say(&format!("warning: {left}; remove it with: leno lab clean"))?;
    }
    measured.and(deleted)
}

/// An experiment.
struct Lab<'a> {
    options: &'a Options,
    settings: &'a Settings,
    /// The user's workload that the load calls; `None` if the load calls servers of the lab.
    workload: Option<Workload>,
    access: Access,
    foreground: Foreground,
    output: Output,
}

impl Lab<'_> {
    fn measure(&mut self, meshes: Vec<(Mesh, Version)>, command: String) -> Result<()> {
        let (settings, load_pods) = (self.settings, self.options.cluster.load_pods());
        let image = self.options.cluster.image.clone().unwrap_or_else(|| image(&meshes));
        let (nodes, cluster) = self.foreground.wait(self.access.describe(&image, load_pods))?;
        let (kinds, versions): (Vec<Mesh>, Vec<Version>) = meshes.into_iter().unzip();
        let mut experiment = Experiment {
            scenario: settings.scenario,
            protocol: settings.protocol,
            traffic: settings.traffic,
            graph: None,
            command,
            started: started(),
            duration_s: settings.measured.as_secs() as u32,
            warm_up_s: settings.warm_up.as_secs() as u32,
            backends: self.workload.as_ref().map_or(settings.backends, |workload| workload.servers) as u32,
            machine: Machine::here(),
            cluster: Some(cluster),
            workload: self.workload.as_ref().map(|workload| workload.description.clone()),
            targets: versions.iter().map(|version| version.target).collect(),
            versions,
            skipped: Vec::new(),
            ceiling: Ceiling::default(),
        };
        self.output.describe(&experiment)?;
        let workload = self.workload.as_ref();
        let plot = Plot { settings, loads: load_pods as usize, image: &image, workload };
        let mut stages = HashMap::new();
        let bar = self.foreground.begin("namespaces that are ready:", kinds.len() as u32);
        for mesh in kinds {
            let stage = self.foreground.wait(Stage::set_up(&self.access, mesh, plot))?;
            stages.insert(mesh.target(), stage);
            bar.inc(1);
        }
        let kubelets = Kubelets::new(self.access.client.clone(), nodes);
        let all: Vec<_> = stages.values().flat_map(|stage| stage.containers.all()).collect();
        self.foreground.begin("measuring the proxies without a load, about half a minute", 1);
        let idle = self.foreground.wait(idle_cpus(&kubelets, &all))?;
        bar.finish_and_clear();
        self.run_all(&mut experiment, &stages, &kubelets, &idle)
    }

    fn run_all(
        &mut self,
        experiment: &mut Experiment,
        stages: &HashMap<TargetKind, Stage>,
        kubelets: &Kubelets,
        idle: &IdleCpus,
    ) -> Result<()> {
        let settings = self.settings;
        // Without server names, all servers of a user's workload count as one.
        let servers = if self.workload.is_some() { 1 } else { settings.backends };
        let turns = schedule::turns(settings, &experiment.targets, servers);
        let progress = Progress::new(turns.len(), settings.warm_up + settings.measured + AROUND_A_RUN);
        for turn in turns {
            let is_given_up = experiment.skipped.iter().any(|skipped| skipped.target == turn.target);
            let Some(stage) = stages.get(&turn.target).filter(|_| !is_given_up) else {
                progress.pass();
                continue;
            };
            progress.begin(&turn);
            let measurement =
                Measurement { settings, stage, kubelets, idle, load_pods: self.options.cluster.load_pods() as usize };
            match self.foreground.wait(measurement.measure(&turn)) {
                Ok(run) => {
                    self.output.append(&run)?;
                    fortio::save(&settings.out, experiment, &run)?;
                    progress.end(&run)?;
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let why = format!("given up in repeat {}: {error}", turn.repeat);
                    progress.pass();
                    progress.say(&format!("{}: {why}", turn.target))?;
                    experiment.skipped.push(Skipped { target: turn.target, why });
                    self.output.describe(experiment)?;
                }
            }
        }
        progress.finish();
        let Written { summary, page } = report::write(&settings.out)?;
        progress.say(&format!("report: {} and {}", page.display(), summary.display()))
    }
}

/// Measures the CPUs that containers use without a load.
async fn idle_cpus(kubelets: &Kubelets, containers: &[ContainerName]) -> Result<IdleCpus> {
    // The first measurements of a container may date from its start.
    let first = kubelets.read_again(containers).await?;
    let second = kubelets.read_again(containers).await?;
    Ok(first.zip(second).map(|(first, second)| second.idle_since(&first)).unwrap_or_default())
}

/// The image `leno` of the same registry and version as the cluster's leno-control.
fn image(meshes: &[(Mesh, Version)]) -> String {
    let control = meshes.iter().find(|(mesh, _)| *mesh == Mesh::Leno);
    let found = control.and_then(|(_, Version { version, .. })| {
        let (registry, tag) = version.rsplit_once("leno-control")?;
        Some(format!("{registry}leno{tag}"))
    });
    found.unwrap_or_else(|| USUAL_IMAGE.to_owned())
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
