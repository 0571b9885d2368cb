//! Scenario with streams that stay open for a long time. A new stream should go to an endpoint with fewer open streams,
//! even when an endpoint joins or recovers.

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
const MEDIAN_MS: f64 = 5.0;
/// Mean lifetime of a stream, in s.
const OPEN_S: f64 = 20.0;
/// Number of new streams per second. Times the mean lifetime, this makes about 2,000 open streams.
const STREAMS_PER_S: f64 = 100.0;
/// Warm-up time, in s. It is so long that most of the first streams end within it.
const FILL_S: f64 = 60.0;
/// Observed time after the change, in s. If a new endpoint received every new stream, it would have its fair share of
/// all open streams in less than half of this time.
const AFTER_S: f64 = 10.0;

#[derive(Clone, Copy, PartialEq)]
enum Happening {
    Nothing,
    /// The fifth endpoint joins; it has no streams yet.
    Joins,
    /// The fifth endpoint was slow and recovers.
    Recovers,
}

struct Case {
    happening: Happening,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for happening in [Happening::Nothing, Happening::Joins, Happening::Recovers] {
        for balancer in options.balancers() {
            cases.push(Case { happening, balancer });
        }
    }
    let trials = trial::run(options, &cases, measure);
    cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect()
}

fn measure(case: &Case, seed: u64) -> Trial {
    let method = Method { open_s: Some(OPEN_S), ..Method::only(ServiceTime::lognormal(MEDIAN_MS)) };
    let mut simulation = Simulation::new(&Setup {
        servers: vec![Behaviour::healthy(64); ENDPOINTS],
        methods: vec![method],
        load: Load::Open { calls_per_s: STREAMS_PER_S },
        balancer: case.balancer,
        clients: 1,
        seed,
    });
    let last = ENDPOINTS - 1;
    let all: Vec<usize> = (0..ENDPOINTS).collect();
    match case.happening {
        Happening::Nothing => {}
        Happening::Joins => simulation.set_endpoints(&all[..last]),
        Happening::Recovers => {
            simulation.run_for(SETTLE_S);
            simulation.behaviour(last).added_ms = 500.0;
        }
    }
    simulation.run_for(FILL_S);
    simulation.set_endpoints(&all);
    simulation.behaviour(last).added_ms = 0.0;
    let from_s = simulation.elapsed_s();
    simulation.measure_for(AFTER_S);
    let open: Vec<u32> = simulation.open().collect();
    let most = f64::from(open.iter().copied().max().unwrap_or_default());
    let least = f64::from(open.iter().copied().min().unwrap_or_default());
    let fair_share = 1.0 / ENDPOINTS as f64;
    Trial::of(&simulation.tally)
        .worst("open, max/min", most / least)
        .worst("fair after s", simulation.timeline.reaches(last, from_s, 0.8 * fair_share))
        .worst("peak x fair", simulation.timeline.peak(last, from_s) / fair_share)
}

fn row(case: &Case, trial: &Trial) -> Row {
    let name = match case.happening {
        Happening::Nothing => "all well",
        Happening::Joins => "one joins",
        Happening::Recovers => "one recovers",
    };
    let setting = format!("streams: {ENDPOINTS} endpoints, {STREAMS_PER_S} streams/s that last {OPEN_S} s");
    let row = Row::new(Scenario::Streams, setting, name.to_owned(), case.balancer)
        .figure("new ones to the 5th %", trial.tally.shares()[ENDPOINTS - 1] * 100.0);
    let row = trial.add_worst(row);
    let at_most = |name: &str, most: f64| trial.value(name).is_some_and(|value| value <= most);
    match case.happening {
        Happening::Nothing => row.goal("open", at_most("open, max/min", 1.1)),
        Happening::Joins | Happening::Recovers => row.goal("share", at_most("fair after s", 5.0)),
    }
}
