//! Scenario with fast and slow methods of one service. By chance, each endpoint receives a different mixture of
//! methods. A balancer must not mistake an endpoint with many slow methods for a slow endpoint, but it must detect an
//! endpoint that is really slow.

use super::Scenario;
use super::trial::{self, SETTLE_S, Trial};
use crate::simulate::Options;
use crate::simulate::balancers::Kind;
use crate::simulate::engine::{Setup, Simulation};
use crate::simulate::load::{Load, Method};
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::service_time::ServiceTime;
use crate::simulate::tally::max_over_min;

const ENDPOINTS: usize = 5;
const SLOW_ONE: usize = 2;
const WORKERS: usize = 64;
/// The fast method (here) and the slow method (below): the median service time in ms, and the weight.
const FAST: (f64, f64) = (1.0, 90.0);
const SLOW: (f64, f64) = (200.0, 10.0);
/// Number of calls to measure. With so many calls, chance alone does not make one endpoint's share 1.1 times as large
/// as another's.
const CALLS: f64 = 50_000.0;
/// Interval in seconds at which the scenario reads the balancers' states.
const LOOK_S: f64 = 0.1;
/// The loads. The highest rate, 2,000 calls/s, is less than a fifth of the capacity of four endpoints.
const LOADS: [(&str, Load); 3] = [
    ("closed:200", Load::Closed { callers: 200 }),
    ("open:2000/s", Load::Open { calls_per_s: 2000.0 }),
    ("open:100/s", Load::Open { calls_per_s: 100.0 }),
];

struct Case {
    load: Load,
    load_name: &'static str,
    skew_ms: f64,
    balancer: Kind,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let mut cases = Vec::new();
    for (load_name, load) in LOADS {
        for skew_ms in [0.0, 20.0, 100.0] {
            for balancer in options.balancers() {
                cases.push(Case { load, load_name, skew_ms, balancer });
            }
        }
    }
    let trials = trial::run(options, &cases, |case, seed| measure(options, case, seed));
    cases.iter().zip(&trials).map(|(case, trial)| row(case, trial)).collect()
}

fn measure(options: &Options, case: &Case, seed: u64) -> Trial {
    let method = |(median_ms, weight)| Method { weight, ..Method::only(ServiceTime::lognormal(median_ms)) };
    let mut servers = vec![Behaviour::healthy(WORKERS); ENDPOINTS];
    servers[SLOW_ONE].added_ms = case.skew_ms;
    let methods = vec![method(FAST), method(SLOW)];
    let (load, balancer) = (case.load, case.balancer);
    let mut simulation = Simulation::new(&Setup { servers, methods, load, balancer, clients: 1, seed });
    simulation.run_for(SETTLE_S);
    simulation.tally.clear();

    let look = |simulation: &Simulation| (0..ENDPOINTS).map(|server| simulation.state(server)).collect::<Vec<_>>();
    let mut states = look(&simulation);
    let mut changes = 0;
    let seconds = match case.load {
        Load::Closed { .. } => 4.0 * options.seconds,
        Load::Open { calls_per_s } => CALLS / calls_per_s,
    };
    for _ in 0..(seconds / LOOK_S) as u32 {
        simulation.run_for(LOOK_S);
        let seen = look(&simulation);
        changes += seen.iter().zip(&states).filter(|(seen, before)| seen != before).count();
        states = seen;
    }
    Trial::of(&simulation.tally).worst("state changes", changes as f64)
}

fn row(case: &Case, trial: &Trial) -> Row {
    let shares = trial.tally.shares();
    let others = (0..ENDPOINTS).filter(|server| *server != SLOW_ONE || case.skew_ms == 0.0);
    let ratio = max_over_min(&others.map(|server| shares[server]).collect::<Vec<_>>());
    let setting = format!(
        "methods: {ENDPOINTS} endpoints of {WORKERS} workers, {}% of calls {} ms, the others {} ms, {}",
        FAST.1, FAST.0, SLOW.0, case.load_name
    );
    let name = if case.skew_ms == 0.0 { "all well".to_owned() } else { format!("one +{} ms", case.skew_ms) };
    let row = Row::new(Scenario::Methods, setting, name, case.balancer)
        .figure("fast p50 ms", trial.tally.method_quantile_ms(0, 0.5))
        .figure("fast p99 ms", trial.tally.method_quantile_ms(0, 0.99))
        .figure("slow p99 ms", trial.tally.method_quantile_ms(1, 0.99))
        .figure("max/min share", ratio)
        .figure("3rd's share %", shares[SLOW_ONE] * 100.0);
    let row = trial.add_worst(row);
    if case.skew_ms > 0.0 {
        return row.goal("share", shares[SLOW_ONE] <= 0.005);
    }
    let calm = trial.value("state changes").is_some_and(|changes| changes == 0.0);
    row.goal("shares", ratio <= 1.1).goal("calm", calm)
}
