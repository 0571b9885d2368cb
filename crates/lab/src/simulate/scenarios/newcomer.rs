//! Scenario in which an endpoint joins busy endpoints. Its share of the calls should grow, and soon be fair.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, SETTLE_S, Setting, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::load::LoadSpec;
use crate::simulate::row::Row;

/// Observed time after the endpoint has joined, in seconds.
const AFTER_S: f64 = 10.0;
/// Time after joining during which a cold endpoint is slow by `COLD_MS`. Its caches are empty, and its code is not
/// compiled yet.
const COLD_S: f64 = 1.0;
const COLD_MS: f64 = 50.0;
const LOADS: [LoadSpec; 3] =
    [LoadSpec::Closed { callers: 200 }, LoadSpec::Share { percent: 90.0 }, LoadSpec::Rate { calls_per_s: 100.0 }];

struct Case {
    setting: Setting,
    cold: bool,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for setting in Setting::all(options, &LOADS, 1) {
        for cold in [false, true] {
            for balancer in options.balancers() {
                cases.push(Case { setting: setting.clone(), cold, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, measure);
    cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect()
}

fn measure(case: &Case, seed: u64) -> Trial {
    let setting = &case.setting;
    let newcomer = setting.endpoints - 1;
    let all: Vec<usize> = (0..setting.endpoints).collect();
    let mut simulation = Simulation::new(&setting.setup(case.balancer, seed));
    simulation.set_endpoints(&all[..newcomer]);
    simulation.measure_for(SETTLE_S);
    let before_ms = simulation.tally.quantile_ms(0.99);

    if case.cold {
        simulation.behaviour(newcomer).occupying_ms = COLD_MS;
    }
    simulation.set_endpoints(&all);
    let from_s = simulation.elapsed_s();
    simulation.measure_for(COLD_S);
    simulation.behaviour(newcomer).occupying_ms = 0.0;
    let first_second = simulation.tally.shares()[newcomer] / setting.fair_share();
    simulation.run_for(AFTER_S - COLD_S);

    let waited_s = simulation.timeline.reaches(newcomer, from_s, 0.8 * setting.fair_share());
    let peak = simulation.timeline.peak(newcomer, from_s) / setting.fair_share();
    let mut trial = Trial::of(&simulation.tally)
        .worst("p99 x before", simulation.tally.quantile_ms(0.99) / before_ms)
        .worst("1st second x fair", first_second)
        .worst("fair after s", waited_s)
        .worst("peak x fair", peak);
    if case.cold {
        trial.share_by_100ms = simulation.timeline.shares(newcomer);
    }
    trial
}

fn row(case: &Case, trial: &Trial) -> Row {
    let name = if case.cold { "cold" } else { "warm" };
    let at_most = |name: &str, most: f64| trial.value(name).is_some_and(|value| value <= most);
    let row = Row::new(Scenario::Newcomer, case.setting.describe(Scenario::Newcomer), name.to_owned(), case.balancer)
        .figure("p99 ms", trial.p99_ms())
        .figure("p99.9 ms", trial.tally.quantile_ms(0.999));
    trial
        .add_worst(row)
        .goal("p99", at_most("p99 x before", 1.10))
        .goal("ramp", at_most("1st second x fair", 0.8))
        .goal("share", at_most("fair after s", RECOVERY_GOAL_S))
        .goal("flood", at_most("peak x fair", 1.6))
}
