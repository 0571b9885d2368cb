//! Scenario in which a hundred proxies call the same hundred endpoints, and no proxy knows the calls of the others.
//! They must not all choose the same endpoint at the same time. The scenario covers healthy endpoints, one slow
//! endpoint, and the recovery of that endpoint.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, SETTLE_S, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::{Setup, Simulation};
use crate::simulate::load::{Load, Method};
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::service_time::ServiceTime;

const ENDPOINTS: usize = 100;
const PROXIES: usize = 100;
const SLOW_ONE: usize = 50;
const SKEW_MS: f64 = 200.0;
/// Load as a fraction of the capacity of all endpoints.
const LOAD: f64 = 0.6;

/// The capacity of an endpoint. The load is a fraction of all endpoints' capacity, so a larger capacity means more
/// calls per proxy.
#[derive(Clone, Copy, PartialEq)]
struct Size {
    workers: usize,
    median_ms: f64,
}

/// Two sizes of endpoints. The first results in 424 calls/s per proxy, the second in 11 calls/s.
const SIZES: [Size; 2] = [Size { workers: 4, median_ms: 5.0 }, Size { workers: 2, median_ms: 100.0 }];

#[derive(Clone, Copy, PartialEq)]
struct Case {
    size: Size,
    proxies: usize,
    slow: bool,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for size in SIZES {
        for (proxies, slow) in [(1, false), (PROXIES, false), (PROXIES, true)] {
            for balancer in options.balancers() {
                cases.push(Case { size, proxies, slow, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    let results: Vec<(Case, Trial)> = cases.into_iter().zip(trials).collect();
    results.iter().map(|(case, trial)| row(case, trial, &results)).collect()
}

fn calls_per_s(size: Size) -> f64 {
    LOAD * (ENDPOINTS * size.workers) as f64 / ServiceTime::lognormal(size.median_ms).mean_ms() * 1e3
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let size = case.size;
    let mut servers = vec![Behaviour::healthy(size.workers); ENDPOINTS];
    if case.slow {
        servers[SLOW_ONE].added_ms = SKEW_MS;
    }
    let mut simulation = Simulation::new(&Setup {
        servers,
        methods: vec![Method::only(ServiceTime::lognormal(size.median_ms))],
        load: Load::Open { calls_per_s: calls_per_s(size) },
        balancer: case.balancer,
        clients: case.proxies,
        seed,
    });
    simulation.run_for(SETTLE_S);
    simulation.tally.clear();
    let mut fullest = 0;
    for _ in 0..(options.seconds * 10.0) as u32 {
        simulation.run_for(0.1);
        fullest = fullest.max(simulation.open().max().unwrap_or_default());
    }
    let trial = Trial::of(&simulation.tally).worst("fullest x workers", f64::from(fullest) / size.workers as f64);
    if !case.slow {
        return trial.worst("after it, peak x fair", None);
    }
    simulation.behaviour(SLOW_ONE).added_ms = 0.0;
    let from_s = simulation.elapsed_s();
    simulation.run_for(10.0);
    let peak = simulation.timeline.peak(SLOW_ONE, from_s) * ENDPOINTS as f64;
    trial.worst("after it, peak x fair", peak)
}

fn row(case: &Case, trial: &Trial, results: &[(Case, Trial)]) -> Row {
    let p99_of = |wanted: Case| results.iter().find(|(case, _)| *case == wanted).map(|(_, trial)| trial.p99_ms());
    let Size { workers, median_ms } = case.size;
    let setting = format!(
        "herd: {ENDPOINTS} endpoints of {workers} workers, median {median_ms} ms, {:.0} calls/s in all",
        calls_per_s(case.size)
    );
    let name = match (case.proxies, case.slow) {
        (1, _) => "one proxy".to_owned(),
        (proxies, false) => format!("{proxies} proxies"),
        (proxies, true) => format!("{proxies} proxies, one +{SKEW_MS} ms"),
    };
    let share = trial.tally.shares()[SLOW_ONE];
    let row = Row::new(Scenario::Herd, setting, name, case.balancer)
        .figure("p50 ms", trial.tally.quantile_ms(0.5))
        .figure("p99 ms", trial.p99_ms())
        .figure("51st's share %", share * 100.0);
    let row = trial.add_worst(row);
    if case.proxies == 1 {
        return row;
    }
    if case.slow {
        let peak = trial.value("after it, peak x fair").unwrap_or(f64::INFINITY);
        // To notice a recovery in time, each proxy must send the slow endpoint a call every `RECOVERY_GOAL_S` seconds:
        // the fraction `probed` of all calls. If `probed` exceeds a fair share, a fair share is enough: even a balancer
        // that avoids the endpoint then sends it no fewer calls. So the goal allows 1.1 times the smaller of the two,
        // and always at least 0.5 % of the calls.
        let probed = PROXIES as f64 / (calls_per_s(case.size) * RECOVERY_GOAL_S);
        let fair_share = 1.0 / ENDPOINTS as f64;
        let most = (1.1 * probed.min(fair_share)).max(0.005);
        return row.goal("share", share <= most).goal("flood", peak <= 2.0);
    }
    // Compare the p99 with that of power of two choices on calls in flight, a balancer whose proxies do not all choose
    // the same endpoint.
    let calm = p99_of(Case { balancer: Kind::TwoLeastRequest, ..*case });
    match calm {
        Some(calm_ms) => row.goal("p99", trial.p99_ms() <= 1.10 * calm_ms),
        None => row,
    }
}
