//! Scenario in which an endpoint that was slow for a long time recovers. It should receive its share of the calls
//! again, but without a sudden flood of calls.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, Setting, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::load::LoadSpec;
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;

/// Time for which the endpoint is slow, in s. It exceeds the longest pause between probes.
const SLOW_S: f64 = 20.0;
/// Observed time after the recovery, in s.
const AFTER_S: f64 = 12.0;
/// Time before the endpoint becomes slow, in s; the plot begins with it.
const BEFORE_S: f64 = 5.0;
/// A closed loop, and two fixed rates. At a lower rate, probes of the slow endpoint are a larger fraction of the calls.
const LOADS: [LoadSpec; 3] =
    [LoadSpec::Closed { callers: 50 }, LoadSpec::Rate { calls_per_s: 2000.0 }, LoadSpec::Rate { calls_per_s: 100.0 }];

struct Case {
    setting: Setting,
    skew_ms: f64,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for setting in Setting::all(options, &LOADS, 1) {
        for skew_ms in options.few_skews() {
            for balancer in options.balancers() {
                cases.push(Case { setting: setting.clone(), skew_ms, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect()
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let slow_one = case.setting.endpoints / 2;
    let fair_share = case.setting.fair_share();
    let mut simulation = Simulation::new(&case.setting.setup(case.balancer, seed));
    simulation.run_for(BEFORE_S);
    options.slow_by.slow_down(simulation.behaviour(slow_one), case.skew_ms);
    simulation.run_for(SLOW_S);
    *simulation.behaviour(slow_one) = Behaviour::healthy(case.setting.workers);
    let from_s = simulation.elapsed_s();
    let waited_s = trial::until_fair(&mut simulation, slow_one, fair_share);
    let rest_s = from_s + AFTER_S - simulation.elapsed_s();
    simulation.measure_for(rest_s);
    let peak = simulation.timeline.peak(slow_one, from_s) / fair_share;
    let mut trial = Trial::of(&simulation.tally).worst("fair again s", waited_s).worst("peak x fair", peak);
    if Some(&case.skew_ms) == options.few_skews().get(1) {
        trial.share_by_100ms = simulation.timeline.shares(slow_one);
    }
    trial
}

fn row(case: &Case, trial: &Trial) -> Row {
    let share = trial.tally.shares()[case.setting.endpoints / 2];
    let recovered = trial.value("fair again s").is_some_and(|waited_s| waited_s <= RECOVERY_GOAL_S);
    let flooded = trial.value("peak x fair").is_some_and(|peak| peak > 1.6);
    let row = Row::new(
        Scenario::Recover,
        case.setting.describe(Scenario::Recover),
        format!("was +{} ms", case.skew_ms),
        case.balancer,
    )
    .figure("share after %", share * 100.0)
    .figure("p99 after ms", trial.p99_ms());
    trial.add_worst(row).goal("recovery", recovered).goal("flood", !flooded)
}
