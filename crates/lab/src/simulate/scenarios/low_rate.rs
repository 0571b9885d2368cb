//! Scenario with few calls and one slow endpoint. It compares the cost of probing the slow endpoint with the
//! theoretical minimum.
//!
//! A balancer that promises to notice a recovery within T seconds must send the slow endpoint a call every T seconds,
//! unless it sends calls twice. At R calls/s, these calls are the fraction f = 1/(R T) of all calls. No balancer that
//! keeps the promise can have a p99 below the latency x for which (1 - f) F(x) + f F(x - skew) = 0.99. F is the
//! distribution of a healthy endpoint's latencies, and the skew is the additional latency of the slow endpoint.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, SETTLE_S, Setting, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::load::LoadSpec;
use crate::simulate::row::Row;
use crate::simulate::tally::Tally;

/// Minimum number of calls in a measurement. With so many calls, the p99 has a random error of only a few percent.
const CALLS: f64 = 10_000.0;
const LOADS: [LoadSpec; 4] = [
    LoadSpec::Rate { calls_per_s: 10_000.0 },
    LoadSpec::Rate { calls_per_s: 2000.0 },
    LoadSpec::Rate { calls_per_s: 100.0 },
    LoadSpec::Rate { calls_per_s: 10.0 },
];

#[derive(Clone, PartialEq)]
struct Case {
    setting: Setting,
    calls_per_s: f64,
    skew_ms: f64,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for mut setting in Setting::all(options, &LOADS, 1) {
        let LoadSpec::Rate { calls_per_s } = setting.load else { continue };
        // Use so many workers that no call waits in a queue.
        setting.workers = 64;
        for skew_ms in [0.0].into_iter().chain(options.few_skews()) {
            for balancer in options.balancers() {
                cases.push(Case { setting: setting.clone(), calls_per_s, skew_ms, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    let results: Vec<(Case, Trial)> = cases.into_iter().zip(trials).collect();
    let slow = results.iter().filter(|(case, _)| case.skew_ms > 0.0);
    slow.map(|(case, trial)| row(case, trial, &results)).collect()
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let slow_one = case.setting.endpoints / 2;
    let mut setup = case.setting.setup(case.balancer, seed);
    if case.skew_ms > 0.0 {
        options.slow_by.slow_down(&mut setup.servers[slow_one], case.skew_ms);
    }
    let mut simulation = Simulation::new(&setup);
    simulation.run_for(SETTLE_S.max(500.0 / case.calls_per_s));
    simulation.measure_for(options.seconds.max(CALLS / case.calls_per_s));
    Trial::of(&simulation.tally)
}

fn row(case: &Case, trial: &Trial, results: &[(Case, Trial)]) -> Row {
    let healthy_case = Case { skew_ms: 0.0, ..case.clone() };
    let healthy = results.iter().find(|(case, _)| *case == healthy_case).map_or(&trial.tally, |(_, it)| &it.tally);
    let healthy_ms = healthy.quantile_ms(0.99);
    let probed = 1.0 / (case.calls_per_s * RECOVERY_GOAL_S);
    let floor_ms = floor_ms(healthy, probed.min(1.0), case.skew_ms);
    let share = trial.tally.shares()[case.setting.endpoints / 2];
    Row::new(
        Scenario::LowRate,
        case.setting.describe(Scenario::LowRate),
        format!("+{} ms", case.skew_ms),
        case.balancer,
    )
    .at(case.calls_per_s)
    .figure("p50 ms", trial.tally.quantile_ms(0.5))
    .figure("p99 ms", trial.p99_ms())
    .figure("x healthy", trial.p99_ms() / healthy_ms)
    .figure("floor p99 ms", floor_ms)
    .figure("p99.9 ms", trial.tally.quantile_ms(0.999))
    .figure("its share %", share * 100.0)
    .figure("floor share %", probed * 100.0)
    .goal("p99", trial.p99_ms() <= 1.10 * healthy_ms.max(floor_ms))
    .goal("share", share <= (4.0 * probed).max(0.005))
}

/// The p99, in ms, if the fraction `probed` of the calls goes to an endpoint that is slower by `skew_ms`, and the other
/// calls go to healthy endpoints.
fn floor_ms(healthy: &Tally, probed: f64, skew_ms: f64) -> f64 {
    let (mut low, mut high) = (0.0, healthy.quantile_ms(1.0) + skew_ms);
    while high - low > 0.01 {
        let middle = f64::midpoint(low, high);
        let part = (1.0 - probed) * healthy.part_below(middle) + probed * healthy.part_below(middle - skew_ms);
        if part < 0.99 { low = middle } else { high = middle }
    }
    high
}
