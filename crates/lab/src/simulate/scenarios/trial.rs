//! Runs a balancer in a case with every seed, and combines the results.

use super::Scenario;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::{Setup, Simulation};
use crate::simulate::load::{LoadSpec, Method};
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::tally::Tally;
use crate::simulate::{Options, parallel};

/// Time in which the balancers learn before counting begins, in s.
pub(super) const SETTLE_S: f64 = 5.0;
/// Maximum time to wait for a recovery, in s.
const RECOVERY_MAX_S: f64 = 10.0;
/// Seconds within which a recovered endpoint should receive its fair share again.
pub(super) const RECOVERY_GOAL_S: f64 = 5.0;
/// An endpoint's share is fair if it is at least this fraction of an equal share.
const FAIR: f64 = 0.8;

/// The servers and the load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) endpoints: usize,
    /// Number of endpoints that are healthy all the time. A load in percent is relative to their capacity.
    pub(super) healthy: usize,
    pub(super) workers: usize,
    pub(super) method: Method,
    pub(super) load: LoadSpec,
}

impl Setting {
    /// Returns a setting for each requested combination of a number of endpoints, a method and a load. `unhealthy` is
    /// the number of endpoints that the scenario makes slow, failing or absent.
    pub(super) fn all(options: &Options, usual: &[LoadSpec], unhealthy: usize) -> Vec<Self> {
        let mut settings = Vec::new();
        for endpoints in options.endpoints() {
            for method in options.methods() {
                for load in options.loads(usual) {
                    let healthy = endpoints.saturating_sub(unhealthy).max(1);
                    let workers = options.workers(load, healthy);
                    settings.push(Self { endpoints, healthy, workers, method: method.clone(), load });
                }
            }
        }
        settings
    }

    /// Returns a setup in which all endpoints are healthy.
    pub(super) fn setup(&self, balancer: Kind, seed: u64) -> Setup {
        let capacity_per_s = (self.healthy * self.workers) as f64 / self.method.service.mean_ms() * 1e3;
        Setup {
            servers: vec![Behaviour::healthy(self.workers); self.endpoints],
            methods: vec![self.method.clone()],
            load: self.load.load(capacity_per_s),
            balancer,
            clients: 1,
            seed,
        }
    }

    pub(super) fn fair_share(&self) -> f64 {
        1.0 / self.endpoints as f64
    }

    pub(super) fn describe(&self, scenario: Scenario) -> String {
        let Self { endpoints, workers, method, load, .. } = self;
        let median_ms = method.service.median_ms();
        format!("{}: {endpoints} endpoints of {workers} workers, median {median_ms} ms, {load}", scenario.name())
    }
}

/// The result of one balancer in one case, with one seed or combined over all seeds.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) tally: Tally,
    /// For each of these figures, the largest value over all seeds; `None` if a seed has no value.
    pub(super) worst: Vec<(&'static str, Option<f64>)>,
    /// The observed endpoint's share of the calls in each tenth of a second. Only of the first seed.
    pub(super) share_by_100ms: Vec<f64>,
}

impl Trial {
    pub(super) fn of(tally: &Tally) -> Self {
        Self { tally: tally.clone(), worst: Vec::new(), share_by_100ms: Vec::new() }
    }

    pub(super) fn worst(mut self, name: &'static str, value: impl Into<Option<f64>>) -> Self {
        self.worst.push((name, value.into()));
        self
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.worst.iter().find(|(its, _)| *its == name).and_then(|(_, value)| *value)
    }

    pub(super) fn p99_ms(&self) -> f64 {
        self.tally.quantile_ms(0.99)
    }

    /// Adds the figures in `worst` to a row, and sets the row's `share_by_100ms`.
    pub(super) fn add_worst(&self, mut row: Row) -> Row {
        row.share_by_100ms.clone_from(&self.share_by_100ms);
        self.worst.iter().fold(row, |row, (name, value)| row.figure(name, *value))
    }

    fn merge(mut self, other: &Self) -> Self {
        self.tally.merge(&other.tally);
        for ((_, worst), (_, value)) in self.worst.iter_mut().zip(&other.worst) {
            *worst = worst.zip(*value).map(|(one, other)| one.max(other));
        }
        self
    }
}

/// Runs every case with every seed on all cores. Returns one result for each case, combined over the seeds.
pub(super) fn run<C: Sync>(options: &Options, cases: &[C], trial: impl Fn(&C, u64) -> Trial + Sync) -> Vec<Trial> {
    let runs: Vec<(&C, u64)> =
        cases.iter().flat_map(|case| (1..=options.seeds).map(move |seed| (case, seed))).collect();
    let trials = parallel::map(&runs, |(case, seed)| trial(case, *seed));
    let seeds = trials.chunks(options.seeds as usize);
    seeds.map(|seeds| seeds[1..].iter().fold(seeds[0].clone(), Trial::merge)).collect()
}

/// Runs the simulation until `server` has had a fair share for a whole second. Returns the time in seconds from the
/// call until that second began. `None` if there was no such second within [`RECOVERY_MAX_S`].
pub(super) fn until_fair(simulation: &mut Simulation, server: usize, fair_share: f64) -> Option<f64> {
    let from_s = simulation.elapsed_s();
    while simulation.elapsed_s() < from_s + RECOVERY_MAX_S {
        simulation.run_for(0.5);
        let waited_s = simulation.timeline.reaches(server, from_s, FAIR * fair_share);
        if waited_s.is_some() {
            return waited_s;
        }
    }
    None
}

/// Default loads, a closed loop and an open loop. Used if the options name no load.
pub(super) const USUAL_LOADS: [LoadSpec; 2] = [LoadSpec::Closed { callers: 200 }, LoadSpec::Share { percent: 60.0 }];
