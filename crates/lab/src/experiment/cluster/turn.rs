//! One run: one load on the servers of one mesh for some seconds.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::load::LoadPods;
use super::servers::Servers;
use super::stage::{Containers, Stage};
use super::usage::{ContainerName, IdleCpus, Kubelets, Usage};
use crate::backends::{Stop, Trouble};
use crate::error::{Error, Result};
use crate::experiment::cases::{Case, SLOW_FOR};
use crate::experiment::footprint::{LOAD_CONNECTIONS, with_second_phase};
use crate::experiment::measure::{Costs, per_call_us, run_of, since, trouble};
use crate::experiment::options::Settings;
use crate::experiment::record::{ControlPlane, Footprint, Run, Scenario};
use crate::experiment::rollout::rollout_of;
use crate::experiment::schedule::Turn;
use crate::load::{Plan, Snapshot};

/// Interval between two readings of memory under the load. The kubelets measure less often than this.
const WATCH: Duration = Duration::from_secs(3);

/// The mesh to measure, and the settings of the measurement.
pub(super) struct Measurement<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stage: &'a Stage,
    pub(super) kubelets: &'a Kubelets,
    pub(super) idle: &'a IdleCpus,
    pub(super) load_pods: usize,
}

/// The results of one load.
struct Loaded {
    numbers: Snapshot,
    /// Calls that reached each server in the measured time.
    reached: Vec<u64>,
    messages_per_s: Vec<f64>,
    /// Number of server restarts in each half of the measured time.
    restarts: [u32; 2],
    before: Usage,
    /// Usage after the load. The memory of each container is its largest reading since the load began.
    after: Usage,
    /// Whether the kubelets have measured all containers after the load.
    is_fresh: bool,
}

impl Measurement<'_> {
    /// Makes the calls of the planned run `turn`, and measures their cost.
    ///
    /// # Errors
    /// If a load fails, or a server or the API server does not answer. Failed calls are counted instead.
    pub(super) async fn measure(&self, turn: &Turn) -> Result<Run> {
        if let Some(servers) = &self.stage.servers {
            servers.set(turn.troubled, trouble(self.settings.scenario, turn.case)).await?;
        }
        if self.settings.scenario == Scenario::Footprint {
            return self.measure_footprint(turn).await;
        }
        let loaded = self.load(turn).await?;
        Ok(self.run(turn, &self.containers(&[turn]), loaded))
    }

    /// Returns the containers that the loads of these turns use.
    fn containers(&self, turns: &[&Turn]) -> Containers {
        let loads = turns.iter().map(|turn| turn.case.load_pods(self.load_pods)).max().unwrap_or_default();
        self.stage.containers.of_loads(loads)
    }

    /// Scenario `footprint`: measures a load over a few connections, and then a load over all connections of `turn`.
    async fn measure_footprint(&self, turn: &Turn) -> Result<Run> {
        let few = Turn { case: Case { connections: LOAD_CONNECTIONS, ..turn.case }, ..*turn };
        // Count the same proxies in both loads. Then the difference in memory is the cost of the further connections.
        let containers = self.containers(&[turn, &few]);
        let run = self.run(&few, &containers, self.load(&few).await?);
        let proxies = containers.proxies();
        let Loaded { numbers, after, .. } = self.load(turn).await?;
        let connected_bytes = Some(after.memory_bytes(&proxies));
        let after_burst_bytes = self.kubelets.read_again(&proxies).await?.map(|usage| usage.memory_bytes(&proxies));
        let footprint = run.footprint.map(|loaded| {
            let unloaded_bytes = Some(loaded.loaded_bytes);
            Footprint { unloaded_bytes, connected_bytes, after_burst_bytes, ..loaded }
        });
        let run = Run { connections: turn.case.connections, footprint, ..run };
        Ok(with_second_phase(run, numbers.errors(), numbers.first_failure))
    }

    async fn load(&self, turn: &Turn) -> Result<Loaded> {
        let plan = self.plan(turn);
        // Wait for a new measurement in two cases. New proxies have no older measurement. The proxies of a user's
        // servers also relay calls of the other meshes' runs. An older measurement would add the cost of those calls to
        // this run.
        let needs_new = self.stage.servers.is_none() || self.settings.scenario.has_fresh_proxies();
        let before = if needs_new { self.measured_again().await?.0 } else { self.kubelets.read().await? };
        let mut load = LoadPods::start(&self.stage.pods, plan.shares(self.load_pods));
        load.measuring().await?;
        let start = Instant::now();
        let (calls, messages) = self.counts().await?;
        let mut peaks = before.clone();
        let restarts = tokio::select! {
            restarts = self.intervene(turn, start) => restarts?,
            never = self.watch(&mut peaks) => match never {},
            error = load.failed() => return Err(error),
        };
        let seconds = start.elapsed().as_secs_f64();
        let (calls_after, messages_after) = self.counts().await?;
        let numbers = Snapshot::merged(&load.finish().await?, plan.servers.len())?;
        let (mut after, is_fresh) = self.measured_again().await?;
        let restarted = after.restarted(&before, &self.stage.containers.backends);
        if let Some(server) = restarted.filter(|_| self.settings.scenario != Scenario::Rollout) {
            let what = format!("the server {} restarted during the run", server.pod);
            let why = format!("see kubectl describe pod -n {} {}", server.namespace, server.pod);
            return Err(Error::Cluster { what, why });
        }
        after.keep_peaks(&peaks);
        let messages = since(&messages_after, &messages).into_iter();
        Ok(Loaded {
            numbers,
            reached: since(&calls_after, &calls),
            messages_per_s: messages.map(|count| count as f64 / seconds).collect(),
            restarts,
            before,
            after,
            is_fresh,
        })
    }

    /// Waits until the kubelets have measured all containers again. Returns their latest measurements, and whether all
    /// of them are new.
    async fn measured_again(&self) -> Result<(Usage, bool)> {
        match self.kubelets.read_again(&self.stage.containers.all()).await? {
            Some(fresh) => Ok((fresh, true)),
            None => Ok((self.kubelets.read().await?, false)),
        }
    }

    /// The calls and the messages that each of the lab's servers has counted; empty for a user's workload, whose
    /// servers count no calls.
    async fn counts(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        match &self.stage.servers {
            Some(servers) => servers.counts().await,
            None => Ok((Vec::new(), Vec::new())),
        }
    }

    fn plan(&self, turn: &Turn) -> Plan {
        Plan {
            clients: vec![self.stage.client.clone(); turn.case.connections as usize],
            servers: self.stage.server_names(),
            exchange: self.stage.exchange.clone(),
            traffic: self.settings.traffic,
            pattern: turn.case.pattern(),
            warm_up: self.settings.warm_up,
            measured: self.settings.measured,
            cpus: Vec::new(),
            seed: turn.seed,
        }
    }

    /// Reads the memory of all containers repeatedly, and keeps each container's largest value in `peaks`. Ignores a
    /// reading that fails.
    async fn watch(&self, peaks: &mut Usage) -> Infallible {
        loop {
            sleep(WATCH).await;
            if let Ok(mut now) = self.kubelets.read().await {
                now.keep_peaks(peaks);
                *peaks = now;
            }
        }
    }

    /// Changes the servers during the measured time, which began at `start`, and waits for the end of this time.
    /// Returns the number of restarts in each half of the measured time.
    async fn intervene(&self, turn: &Turn, start: Instant) -> Result<[u32; 2]> {
        let restarts = match (self.settings.scenario, &self.stage.servers) {
            (Scenario::Recover, Some(servers)) => {
                sleep_until(start + SLOW_FOR).await;
                servers.set(turn.troubled, Trouble::NONE).await?;
                [0; 2]
            }
            (Scenario::Rollout, Some(servers)) => {
                let half = self.settings.measured / 2;
                let graceful = self.restart_until(servers, Stop::Graceful, start + half).await?;
                [graceful, self.restart_until(servers, Stop::Abrupt, start + half * 2).await?]
            }
            _ => [0; 2],
        };
        sleep_until(start + self.settings.measured).await;
        Ok(restarts)
    }

    /// Restarts all servers once, one after the other, and waits until `end`. Skips restarts that might end after
    /// `end`. Returns the number of restarts.
    async fn restart_until(&self, servers: &Servers, stop: Stop, end: Instant) -> Result<u32> {
        let (mut restarts, mut longest) = (0, Duration::ZERO);
        for index in 0..self.settings.backends {
            let start = Instant::now();
            if start + longest * 2 > end {
                break;
            }
            servers.restart(index, stop).await?;
            longest = longest.max(start.elapsed());
            restarts += u32::from(Instant::now() <= end);
        }
        sleep_until(end).await;
        Ok(restarts)
    }

    /// Combines the measurements of these containers into the record of the run.
    fn run(&self, turn: &Turn, containers: &Containers, loaded: Loaded) -> Run {
        let Loaded { numbers, reached, messages_per_s, restarts, before, after, is_fresh } = loaded;
        let Containers { clients, servers, control_plane, .. } = containers;
        let proxies = containers.proxies();
        let scenario = self.settings.scenario;
        // The load time includes the warm-up, so the calls of the warm-up count too. Calls that were not sent cost no
        // CPU time.
        let (calls, load_time) = (numbers.sent_since_start(), self.settings.warm_up + self.settings.measured);
        let cpu = |names: &[ContainerName]| {
            let cpu = after.cpu_of_load(&before, names, load_time, self.idle).filter(|_| is_fresh && !names.is_empty());
            cpu.map(|cpu| per_call_us(cpu, calls))
        };
        let costs = Costs {
            cpu_us_per_call: cpu(&proxies),
            server_cpu_us_per_call: cpu(servers),
            peak_bytes: after.largest_bytes(clients),
            server_peak_bytes: after.largest_bytes(servers),
            ..Costs::default()
        };
        let footprint = (!proxies.is_empty()).then(|| Footprint {
            proxies: proxies.len() as u32,
            idle_bytes: before.memory_bytes(&proxies),
            loaded_bytes: after.memory_bytes(&proxies),
            idle_cpus: self.idle.of(&proxies),
            ..Footprint::default()
        });
        let control_plane = (!control_plane.is_empty()).then(|| ControlPlane {
            containers: control_plane.len() as u32,
            memory_bytes: after.memory_bytes(control_plane),
            cpus: after.cpus_since(&before, control_plane),
        });
        let rollout = scenario == Scenario::Rollout;
        let rollout = rollout.then(|| rollout_of(self.settings.measured, &numbers.timeline, restarts));
        let messages_per_s = if scenario == Scenario::Streams { messages_per_s } else { Vec::new() };
        let run = run_of(self.settings, turn, numbers, &reached, costs);
        // The lab gives a user's servers no fault, and their answers carry no server names. So there is no slow server
        // whose fraction could be measured.
        let slow_share = if self.stage.servers.is_some() { run.slow_share } else { 0.0 };
        Run { footprint, control_plane, rollout, messages_per_s, slow_share, ..run }
    }
}
