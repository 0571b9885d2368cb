//! Scenario in which one endpoint is slower than the others, and then recovers.
//!
//! Each figure has two references: the same run with all endpoints healthy, and the same run without the slow endpoint.
//! No balancer that avoids the slow endpoint can be better than the second reference.

use super::Scenario;
use super::trial::{self, RECOVERY_GOAL_S, SETTLE_S, Setting, Trial, USUAL_LOADS};
use crate::simulate::balancers::Kind;
use crate::simulate::engine::Simulation;
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::{Options, SlowBy};

#[derive(Clone, PartialEq)]
struct Case {
    setting: Setting,
    slow: Slow,
    balancer: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Slow {
    /// All endpoints are healthy.
    None,
    /// The slow endpoint does not exist; all other endpoints are healthy.
    Absent,
    By {
        ms: f64,
    },
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let cases = cases(options);
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    let results: Vec<(Case, Trial)> = cases.into_iter().zip(trials).collect();
    let shown = results.iter().filter(|(case, _)| case.slow != Slow::Absent);
    shown.map(|(case, trial)| row(options, case, trial, &results)).collect()
}

fn cases(options: &Options) -> Vec<Case> {
    let skews = options.skew_ms.iter().map(|ms| Slow::By { ms: *ms });
    let slow: Vec<Slow> = [Slow::None, Slow::Absent].into_iter().chain(skews).collect();
    let mut cases = Vec::new();
    for setting in Setting::all(options, &USUAL_LOADS, 1) {
        for slow in &slow {
            for balancer in options.balancers() {
                cases.push(Case { setting: setting.clone(), slow: *slow, balancer });
            }
        }
    }
    cases
}

fn slow_one(setting: &Setting) -> usize {
    setting.endpoints / 2
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let slow_one = slow_one(&case.setting);
    let mut setup = case.setting.setup(case.balancer, seed);
    match case.slow {
        Slow::None => {}
        Slow::Absent => drop(setup.servers.pop()),
        Slow::By { ms } => options.slow_by.slow_down(&mut setup.servers[slow_one], ms),
    }
    let mut simulation = Simulation::new(&setup);
    simulation.run_for(SETTLE_S);
    simulation.measure_for(options.seconds);
    let trial = Trial::of(&simulation.tally);
    let Slow::By { .. } = case.slow else {
        return trial.worst("fair again s", None);
    };
    *simulation.behaviour(slow_one) = Behaviour::healthy(case.setting.workers);
    let waited_s = trial::until_fair(&mut simulation, slow_one, case.setting.fair_share());
    trial.worst("fair again s", waited_s)
}

fn row(options: &Options, case: &Case, trial: &Trial, results: &[(Case, Trial)]) -> Row {
    let p99_of = |slow, balancer| {
        let wanted = Case { setting: case.setting.clone(), slow, balancer };
        results.iter().find(|(case, _)| *case == wanted).map(|(_, trial)| trial.p99_ms())
    };
    let healthy = p99_of(Slow::None, case.balancer);
    let absent = p99_of(Slow::Absent, case.balancer);
    let p99_ms = trial.p99_ms();
    let over = |p99: Option<f64>| p99.map(|p99| p99_ms / p99);
    let share = trial.tally.shares()[slow_one(&case.setting)];

    let setting = match options.slow_by {
        SlowBy::Added => case.setting.describe(Scenario::SlowPod),
        SlowBy::Occupying => format!("{}, the slow one's workers occupied", case.setting.describe(Scenario::SlowPod)),
    };
    let (name, skew_ms) = match case.slow {
        Slow::None | Slow::Absent => ("healthy".to_owned(), 0.0),
        Slow::By { ms } => (format!("+{ms} ms"), ms),
    };
    let row = Row::new(Scenario::SlowPod, setting, name, case.balancer)
        .at(skew_ms)
        .figure("p50 ms", trial.tally.quantile_ms(0.5))
        .figure("p99 ms", p99_ms)
        .figure("p99.9 ms", trial.tally.quantile_ms(0.999))
        .figure("x own healthy", over(healthy))
        .figure("x without it", over(absent))
        .figure("x leno healthy", over(p99_of(Slow::None, Kind::OURS)))
        .figure("its share %", share * 100.0);
    let row = trial.add_worst(row);
    if case.slow == Slow::None {
        return row;
    }
    let reference_ms = healthy.into_iter().chain(absent).fold(0.0, f64::max);
    let recovered = trial.value("fair again s").is_some_and(|waited_s| waited_s <= RECOVERY_GOAL_S);
    row.goal("p99", p99_ms <= 1.10 * reference_ms).goal("share", share <= 0.005).goal("recovery", recovered)
}
