//! Scenario with endpoints that fail calls at once, so that they have the fewest calls in flight and the shortest
//! latencies.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, SETTLE_S, Setting, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::load::LoadSpec;
use crate::simulate::row::Row;
use crate::simulate::server::{UNAVAILABLE, UNKNOWN};

/// Time during which calls are counted, in s. It begins when the endpoints begin to fail, so that it includes the
/// detection.
const COUNTED_S: f64 = 10.0;

/// The failing endpoints.
#[derive(Clone, Copy)]
struct Failing {
    endpoints: usize,
    /// Fraction of the calls to these endpoints that fail, 0 to 1.
    part: f64,
    /// The gRPC status of the failed calls.
    error: u8,
    pushback_ms: Option<f64>,
}

/// The closed loop has only 50 callers. A failing call ends at once and triggers the next call, so more callers would
/// cause very many calls.
const LOADS: [LoadSpec; 2] = [LoadSpec::Closed { callers: 50 }, LoadSpec::Share { percent: 60.0 }];

const FAILING: [Failing; 5] = [
    Failing { endpoints: 1, part: 1.0, error: UNAVAILABLE, pushback_ms: None },
    Failing { endpoints: 1, part: 1.0, error: UNKNOWN, pushback_ms: None },
    Failing { endpoints: 1, part: 0.3, error: UNAVAILABLE, pushback_ms: None },
    Failing { endpoints: 1, part: 1.0, error: UNAVAILABLE, pushback_ms: Some(3000.0) },
    Failing { endpoints: 3, part: 1.0, error: UNAVAILABLE, pushback_ms: None },
];

struct Case {
    setting: Setting,
    failing: Failing,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for failing in FAILING {
        let settings = Setting::all(options, &LOADS, failing.endpoints);
        for setting in settings.into_iter().filter(|setting| setting.endpoints > failing.endpoints) {
            for balancer in options.balancers() {
                cases.push(Case { setting: setting.clone(), failing, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, measure);
    let mut rows: Vec<Row> = cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect();
    rows.sort_by(|one, other| one.setting.cmp(&other.setting));
    rows
}

fn measure(case: &Case, seed: u64) -> Trial {
    let Case { ref setting, failing, balancer } = *case;
    let mut simulation = Simulation::new(&setting.setup(balancer, seed));
    simulation.run_for(SETTLE_S);
    for server in 0..failing.endpoints {
        let behaviour = simulation.behaviour(server);
        behaviour.failing = failing.part;
        behaviour.error = failing.error;
        behaviour.pushback_ms = failing.pushback_ms;
    }
    simulation.measure_for(COUNTED_S);
    let trial = Trial::of(&simulation.tally);
    for server in 0..failing.endpoints {
        simulation.behaviour(server).failing = 0.0;
    }
    let waited_s = trial::until_fair(&mut simulation, 0, setting.fair_share());
    trial.worst("fair again s", waited_s)
}

fn row(case: &Case, trial: &Trial) -> Row {
    let Failing { endpoints, part, error, pushback_ms } = case.failing;
    let calls = if part < 1.0 { format!(" with {}% of calls", part * 100.0) } else { String::new() };
    let status = if error == UNKNOWN { " with UNKNOWN" } else { "" };
    let pushback = pushback_ms.map_or(String::new(), |ms| format!(", pushback {} s", ms / 1e3));
    let name = format!("{endpoints} fail{status}{calls}{pushback}");
    let failed = trial.tally.failed_part();
    let share: f64 = trial.tally.shares()[..endpoints].iter().sum();
    let row = Row::new(Scenario::FastFail, case.setting.describe(Scenario::FastFail), name, case.balancer)
        .figure("failed %", failed * 100.0)
        .figure("their share %", share * 100.0)
        .figure("p50 ms", trial.tally.quantile_ms(0.5))
        .figure("p99 ms", trial.p99_ms());
    let recovered = trial.value("fair again s").is_some_and(|waited_s| waited_s <= RECOVERY_GOAL_S);
    trial.add_worst(row).goal("failed", failed <= 0.005).goal("recovery", recovered)
}
