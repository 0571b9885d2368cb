//! Scenario with equal endpoints. Each should receive nearly the same number of calls: over 100,000 calls, the largest
//! number is at most 1.1 times the smallest.

use super::Scenario;
use super::trial::{self, Setting, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::load::{Load, LoadSpec};
use crate::simulate::row::Row;
use crate::simulate::tally::max_over_min;

const CALLS: f64 = 100_000.0;
const LOADS: [LoadSpec; 4] = [
    LoadSpec::Closed { callers: 200 },
    LoadSpec::Share { percent: 30.0 },
    LoadSpec::Share { percent: 90.0 },
    LoadSpec::Rate { calls_per_s: 100.0 },
];

struct Case {
    setting: Setting,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for setting in Setting::all(options, &LOADS, 0) {
        for balancer in options.balancers() {
            cases.push(Case { setting: setting.clone(), balancer });
        }
    }
    let trials = trial::run(options, &cases, measure);
    cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect()
}

/// Runs one simulation. It counts from the first call on, because with equal endpoints the balancers have nothing to
/// learn.
fn measure(case: &Case, seed: u64) -> Trial {
    let setup = case.setting.setup(case.balancer, seed);
    let calls_per_s = match setup.load {
        Load::Open { calls_per_s } => calls_per_s,
        Load::Closed { callers } => callers as f64 / case.setting.method.service.mean_ms() * 1e3,
    };
    let mut simulation = Simulation::new(&setup);
    simulation.run_for(CALLS / calls_per_s);
    let ratio = max_over_min(&simulation.tally.shares());
    Trial::of(&simulation.tally).worst("max/min share", ratio)
}

fn row(case: &Case, trial: &Trial) -> Row {
    let row = Row::new(Scenario::Equal, case.setting.describe(Scenario::Equal), "all well".to_owned(), case.balancer)
        .figure("p50 ms", trial.tally.quantile_ms(0.5))
        .figure("p99 ms", trial.p99_ms())
        .figure("p99.9 ms", trial.tally.quantile_ms(0.999));
    trial.add_worst(row).goal("shares", trial.value("max/min share").is_some_and(|ratio| ratio <= 1.1))
}
