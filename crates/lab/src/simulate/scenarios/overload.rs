//! Scenario in which the healthy endpoints are at capacity, and one endpoint is slow. A call should go to the slow
//! endpoint only if it would otherwise wait longer for a healthy endpoint than the slow endpoint takes.

use super::Scenario;
use super::trial::{self, SETTLE_S, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::{Setup, Simulation};
use crate::simulate::load::{Load, Method};
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::service_time::ServiceTime;

const ENDPOINTS: usize = 5;
const SLOW_ONE: usize = 2;
const WORKERS: usize = 16;
const MEDIAN_MS: f64 = 5.0;

/// A load above the capacity of the four healthy endpoints, and the skew (additional latency) of the fifth endpoint.
#[derive(Clone, Copy)]
struct Pressure {
    load: Load,
    name: &'static str,
    skew_ms: f64,
}

struct Case {
    pressure: Pressure,
    /// Whether only the four healthy endpoints exist. False: the fifth endpoint exists and is slow.
    absent: bool,
    balancer: Kind,
}

fn pressures() -> Vec<Pressure> {
    let capacity_per_s = ((ENDPOINTS - 1) * WORKERS) as f64 / ServiceTime::lognormal(MEDIAN_MS).mean_ms() * 1e3;
    let open = |part: f64| Load::Open { calls_per_s: part * capacity_per_s };
    let mut pressures = Vec::new();
    for skew_ms in [20.0, 200.0] {
        // The four healthy endpoints have 64 workers in total. Without the fifth endpoint, 16 of 80 calls would wait
        // for a worker, and 256 of 320 calls: four for each worker.
        pressures.push(Pressure { load: Load::Closed { callers: 80 }, name: "closed:80", skew_ms });
        pressures.push(Pressure { load: Load::Closed { callers: 320 }, name: "closed:320", skew_ms });
        pressures.push(Pressure { load: open(1.1), name: "open:110%", skew_ms });
    }
    pressures
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for pressure in pressures() {
        for balancer in options.balancers() {
            cases.extend([false, true].map(|absent| Case { pressure, absent, balancer }));
        }
    }
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    let pairs = cases.chunks(2).zip(trials.chunks(2));
    pairs.map(|(cases, trials)| row(options, &cases[0], &trials[0], &trials[1])).collect()
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let mut servers = vec![Behaviour::healthy(WORKERS); ENDPOINTS];
    if case.absent {
        servers.pop();
    } else {
        servers[SLOW_ONE].added_ms = case.pressure.skew_ms;
    }
    let mut simulation = Simulation::new(&Setup {
        servers,
        methods: vec![Method::only(ServiceTime::lognormal(MEDIAN_MS))],
        load: case.pressure.load,
        balancer: case.balancer,
        clients: 1,
        seed,
    });
    simulation.run_for(SETTLE_S);
    simulation.measure_for(options.seconds);
    Trial::of(&simulation.tally)
}

fn row(options: &Options, case: &Case, trial: &Trial, without: &Trial) -> Row {
    let Pressure { load, name, skew_ms } = case.pressure;
    let per_s = |trial: &Trial| trial.tally.answers() as f64 / options.seconds / options.seeds as f64;
    let mean_ms = trial.tally.mean_ms();
    let setting = format!("overload: {ENDPOINTS} endpoints of {WORKERS} workers, median {MEDIAN_MS} ms, one slower");
    let row = Row::new(Scenario::Overload, setting, format!("{name}, +{skew_ms} ms"), case.balancer)
        .figure("calls/s", per_s(trial))
        .figure("x without it", per_s(trial) / per_s(without))
        .figure("mean ms", mean_ms)
        .figure("without it ms", without.tally.mean_ms())
        .figure("p99 ms", trial.p99_ms())
        .figure("its share %", trial.tally.shares()[SLOW_ONE] * 100.0);
    match load {
        // A call should not wait longer for a healthy endpoint than the slow endpoint takes, so the p99 should be at
        // most about the slow endpoint's p99. 3.2 times the median is the p99 of a healthy endpoint.
        Load::Open { calls_per_s } => row
            .goal("calls/s", per_s(trial) >= 0.98 * calls_per_s)
            .goal("p99", trial.p99_ms() <= 1.25 * (3.2 * MEDIAN_MS + skew_ms)),
        _ => row
            .goal("calls/s", per_s(trial) >= 0.95 * per_s(without))
            .goal("mean", mean_ms <= 1.05 * without.tally.mean_ms()),
    }
}
