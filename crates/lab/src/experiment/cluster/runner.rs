//! The experiment from its options to the last line of `runs.jsonl`. The runs of the meshes take turns.

use std::collections::HashMap;
use std::time::Duration;

use super::access::{Access, Meshes, left_out, taken};
use super::mesh::Mesh;
use super::nodes::Nodes;
use super::stage::{Plot, Stage};
use super::turn::Measurement;
use super::usage::{ContainerName, IdleCpus, Kubelets};
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::experiment::cases::Case;
use crate::experiment::machine::started;
use crate::experiment::options::{Options, Settings};
use crate::experiment::output::Output;
use crate::experiment::progress::Progress;
use crate::experiment::record::{Ceiling, Experiment, Machine, Placement, Scenario, Skipped, TargetKind, Version};
use crate::experiment::runner::command;
use crate::experiment::schedule;
use crate::foreground::Foreground;
use crate::formats::fortio;
use crate::namespaces::{RunId, delete_namespaces};
use crate::report::{self, Written};

/// Estimated time that a run takes in addition to its load: it waits until the kubelets have measured all containers.
const AROUND_A_RUN: Duration = Duration::from_secs(20);
/// Default image of the servers and the load, if Leno is not installed in the cluster.
const USUAL_IMAGE: &str = concat!("leno:", env!("CARGO_PKG_VERSION"));

/// Runs an experiment in a cluster and writes its files, run by run. At the end, also after an error or Ctrl-C, deletes
/// all objects that it created in the cluster, and no objects of other runs.
///
/// # Errors
/// If the options request something impossible, the cluster cannot be reached or lacks a mesh, the user lacks rights,
/// or a Pod cannot start. A mesh that does not work, and that no option names, is left out. A mesh whose run fails is
/// skipped. `lab.json` names both. Failed calls are counted.
pub(in crate::experiment) fn run(options: &Options, words: impl Iterator<Item = String>) -> Result<()> {
    let settings = options.settings()?;
    let request = options.cluster.workload.request(settings.protocol)?;
    let mut foreground = Foreground::new()?;
    let access =
        foreground.wait(Access::connect(options.cluster.kubeconfig.as_deref(), options.cluster.context.as_deref()))?;
    foreground.wait(access.ensure_rights(request.is_some()))?;
    let workload = match options.cluster.workload.service.as_ref().zip(request) {
        Some((service, request)) => Some(foreground.wait(Workload::find(&access, service, request))?),
        None => None,
    };
    let meshes = foreground.wait(access.meshes(options.cluster.mesh.as_deref()))?;
    let kinds: Vec<Mesh> = meshes.measured.iter().map(|(mesh, _)| *mesh).collect();
    ensure_measurable(settings.scenario, &kinds, &meshes.left_out)?;
    for Skipped { target, why } in &meshes.left_out {
        foreground.say(&format!("{target} is left out: {why}"))?;
    }
    foreground.wait(access.ensure_free(&kinds))?;
    let output = Output::create(&settings.out)?;
    let command = command(words, settings.seed);
    let (settings, workload) = (&settings, workload.as_ref());
    let id = RunId::random();
    let mut lab = Lab { id: &id, options, settings, workload, access: &access, foreground, output, made: Vec::new() };
    let measured = lab.measure(meshes, command);
    let Lab { mut foreground, made, .. } = lab;
    foreground.begin("deleting the lab's namespaces", made.len() as u32);
    // Forget the signals that have arrived so far. Only a further signal interrupts the deletion.
    foreground.forget_signals();
    let deleted = foreground.wait(delete_namespaces(&access.client, &made, |it| id.has_made(it)));
    if let Err(left) = &deleted {
        let may_be_left = made.join(", ");
        foreground.say(&format!("warning: {left}; {may_be_left} may be left; remove them with: leno lab clean"))?;
    }
    measured.and(deleted)
}

/// An experiment.
struct Lab<'a> {
    id: &'a RunId,
    options: &'a Options,
    settings: &'a Settings,
    /// The user's workload that the load calls; `None` if the load calls servers of the lab.
    workload: Option<&'a Workload>,
    access: &'a Access,
    foreground: Foreground,
    output: Output,
    /// The names of the namespaces that this run has created or tried to create. Another run may have created a
    /// namespace of the same name.
    made: Vec<String>,
}

impl Lab<'_> {
    fn measure(&mut self, meshes: Meshes, command: String) -> Result<()> {
        let (settings, access, workload) = (self.settings, self.access, self.workload);
        let load_pods = load_pods(&settings.cases, self.options.cluster.load_pods());
        let image = self.options.cluster.image.clone().unwrap_or_else(|| image(&meshes.measured));
        let (nodes, cluster) = self.foreground.wait(access.describe(&image, load_pods))?;
        let (kinds, versions): (Vec<Mesh>, Vec<Version>) = meshes.measured.into_iter().unzip();
        let mut experiment = Experiment {
            scenario: settings.scenario,
            protocol: settings.protocol,
            traffic: settings.traffic,
            graph: None,
            command,
            started: started(),
            duration_s: settings.measured.as_secs() as u32,
            warm_up_s: settings.warm_up.as_secs() as u32,
            repeats: settings.repeat,
            backends: workload.map_or(settings.backends, |workload| workload.servers) as u32,
            machine: Machine::here(),
            cluster: Some(cluster),
            workload: workload.map(|workload| workload.description.clone()),
            targets: versions.iter().map(|version| version.target).collect(),
            versions,
            skipped: meshes.left_out,
            ceiling: Ceiling::default(),
        };
        self.output.describe(&experiment)?;
        let nodes_of_pods = Nodes::default();
        let plot = Plot { settings, loads: load_pods as usize, image: &image, workload, nodes: &nodes_of_pods };
        let (mut stages, mut placements) = (HashMap::new(), Vec::new());
        let bar = self.foreground.begin("namespaces that are ready:", kinds.len() as u32);
        for &mesh in &kinds {
            match self.foreground.wait(access.make_namespace(mesh, self.id)) {
                Ok(false) => return Err(taken(&mesh.namespace())),
                made => {
                    // Record the namespace even after an error or a signal: it may exist, and the lab must delete it.
                    self.made.push(mesh.namespace());
                    made?;
                }
            }
            match self.foreground.wait(Stage::set_up(access, mesh, plot)) {
                Err(error) if may_be_left_out(mesh, self.options.cluster.mesh.is_some(), &error) => {
                    self.leave_out(&mut experiment, mesh, &error)?;
                }
                stage => {
                    let stage = stage?;
                    placements.push(Placement { target: mesh.target(), pods: stage.placements.clone() });
                    stages.insert(mesh.target(), stage);
                }
            }
            bar.inc(1);
        }
        let measured: Vec<Mesh> = kinds.into_iter().filter(|mesh| stages.contains_key(&mesh.target())).collect();
        ensure_measurable(settings.scenario, &measured, &experiment.skipped)?;
        if let Some(cluster) = &mut experiment.cluster {
            cluster.placements = placements;
        }
        self.output.describe(&experiment)?;
        let kubelets = Kubelets::new(access.client.clone(), nodes);
        let all: Vec<_> = stages.values().flat_map(|stage| stage.containers.all()).collect();
        let bar = self.foreground.begin("measuring the proxies without a load, about half a minute", 1);
        let idle = self.foreground.wait(idle_cpus(&kubelets, &all))?;
        bar.finish_and_clear();
        self.run_all(&mut experiment, plot, &mut stages, &kubelets, &idle)
    }

    /// Leaves out a mesh that does not work, and deletes its namespace to free the resources of its Pods.
    fn leave_out(&mut self, experiment: &mut Experiment, mesh: Mesh, error: &Error) -> Result<()> {
        let why = left_out(error);
        self.foreground.say(&format!("{} is left out: {why}", mesh.target()))?;
        experiment.leave_out(mesh.target(), why);
        self.output.describe(experiment)?;
        let (id, namespace) = (self.id, [mesh.namespace()]);
        let deleting = delete_namespaces(&self.access.client, &namespace, |it| id.has_made(it));
        match self.foreground.wait(deleting) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Ignore other errors: the end of the run deletes the namespace again, and reports a failure.
            _ => Ok(()),
        }
    }

    fn run_all(
        &mut self,
        experiment: &mut Experiment,
        plot: Plot<'_>,
        stages: &mut HashMap<TargetKind, Stage>,
        kubelets: &Kubelets,
        idle: &IdleCpus,
    ) -> Result<()> {
        let (settings, access) = (self.settings, self.access);
        // The answers of a user's workload carry no server names, so all its servers count as one server.
        let servers = if plot.workload.is_some() { 1 } else { settings.backends };
        let turns = schedule::turns(settings, &experiment.targets, servers);
        let progress = Progress::new(turns.len(), settings.warm_up + settings.measured + AROUND_A_RUN);
        for turn in turns {
            let is_given_up = experiment.is_given_up(turn.target);
            let Some(stage) = stages.get_mut(&turn.target).filter(|_| !is_given_up) else {
                progress.pass();
                continue;
            };
            progress.begin(&turn);
            let run = async {
                if settings.scenario.has_fresh_proxies() {
                    stage.renew(plot).await?;
                } else {
                    stage.ready(plot).await?;
                }
                stage.find_containers(access, plot).await?;
                Measurement { settings, stage, kubelets, idle, load_pods: plot.loads }.measure(&turn).await
            };
            match self.foreground.wait(run) {
                Ok(run) => {
                    self.output.append(&run)?;
                    fortio::save(&settings.out, experiment, &run)?;
                    progress.end(&run)?;
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let why = experiment.give_up(turn.target, turn.repeat, &error);
                    progress.give_up(turn.target, &why)?;
                    self.output.describe(experiment)?;
                }
            }
        }
        progress.finish();
        let Written { summary, page } = report::write(&settings.out)?;
        progress.say(&format!("report: {} and {}", page.display(), summary.display()))
    }
}

/// Returns whether the experiment continues without a mesh whose set-up failed.
///
/// The experiment ends if the user named the mesh. It also ends if the set-up without a mesh ([`Mesh::None`]) failed:
/// then the lab's own objects do not work, and no mesh would work with them.
fn may_be_left_out(mesh: Mesh, is_requested: bool, error: &Error) -> bool {
    mesh != Mesh::None && !is_requested && matches!(error, Error::Cluster { .. })
}

/// Returns an error if the scenario has nothing to measure with these meshes.
fn ensure_measurable(scenario: Scenario, meshes: &[Mesh], left_out: &[Skipped]) -> Result<()> {
    if scenario != Scenario::Footprint || meshes.iter().any(|mesh| *mesh != Mesh::None) {
        return Ok(());
    }
    let why = match left_out {
        [Skipped { target, why }, ..] => format!("{target}: {why}"),
        [] => "the cluster has no mesh, or --mesh names none".to_owned(),
    };
    Err(Error::Cluster { what: "footprint measures the memory of proxies".to_owned(), why })
}

/// Returns the number of load Pods: as many as the case with the most load Pods uses, but at most `at_most`.
fn load_pods(cases: &[Case], at_most: u32) -> u32 {
    cases.iter().map(|case| case.load_pods(at_most as usize) as u32).max().unwrap_or(at_most)
}

/// Measures the CPUs that containers use without a load.
async fn idle_cpus(kubelets: &Kubelets, containers: &[ContainerName]) -> Result<IdleCpus> {
    // Wait for new measurements before the first reading too. The current measurements may be as old as the start of
    // the containers, and starting costs CPU time.
    let first = kubelets.read_again(containers).await?;
    let second = kubelets.read_again(containers).await?;
    Ok(first.zip(second).map(|(first, second)| second.idle_since(&first)).unwrap_or_default())
}

/// The image `leno` of the same registry and version as the cluster's leno-control.
fn image(meshes: &[(Mesh, Version)]) -> String {
    let control = meshes.iter().find(|(mesh, _)| *mesh == Mesh::Leno);
    let found = control.and_then(|(_, Version { version, .. })| {
        let (registry, tag) = version.rsplit_once("leno-control")?;
        // Drop the digest: it belongs to the image of leno-control only.
        let tag = tag.split('@').next().filter(|tag| tag.starts_with(':'))?;
        Some(format!("{registry}leno{tag}"))
    });
    found.unwrap_or_else(|| USUAL_IMAGE.to_owned())
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
