//! One endpoint is slower than the others, and then well again.
//!
//! Two references stand beside each figure: the same run with all endpoints healthy, and the same run
//! without the slow endpoint, which no balancer that keeps away from it can beat.

use crate::simulate::balancers::Kind;
use crate::simulate::engine::{Setup, Simulation};
use crate::simulate::load::{LoadSpec, Method};
use crate::simulate::row::Row;
use crate::simulate::server::Behaviour;
use crate::simulate::tally::Tally;
use crate::simulate::{Options, SlowBy, parallel};

/// Time for the balancers to learn before anything is counted.
const SETTLE_S: f64 = 5.0;
/// How long a recovery is waited for.
const RECOVERY_MAX_S: f64 = 15.0;
/// The part of a fair share that counts as one.
const FAIR: f64 = 0.8;

/// One run.
struct Run {
    case: Case,
    seed: u64,
}

#[derive(Clone, PartialEq)]
struct Case {
    endpoints: usize,
    method: Method,
    load: LoadSpec,
    balancer: Kind,
    slow: Slow,
}

#[derive(Clone, Copy, PartialEq)]
enum Slow {
    /// All are well.
    None,
    /// There is one endpoint less.
    Absent,
    By { ms: f64 },
}

struct Measured {
    tally: Tally,
    recovered_s: Option<f64>,
}

pub(super) fn run(options: &Options) -> Vec<Row> {
    let cases = cases(options);
    let seeds = options.seeds();
    let run = |case: &Case| seeds.clone().map(|seed| Run { case: case.clone(), seed }).collect::<Vec<_>>();
    let runs: Vec<Run> = cases.iter().flat_map(run).collect();
    let measured = parallel::map(&runs, |run| measure(options, run));
    let results: Vec<(Case, Measured)> =
        cases.into_iter().zip(measured.chunks(seeds.count()).map(merge)).collect();
    results.iter().filter(|(case, _)| case.slow != Slow::Absent).map(|(case, it)| row(options, case, it, &results)).collect()
}

fn cases(options: &Options) -> Vec<Case> {
    let slow = [Slow::None, Slow::Absent].into_iter().chain(options.skew_ms.iter().map(|ms| Slow::By { ms: *ms }));
    let slow: Vec<Slow> = slow.collect();
    let mut cases = Vec::new();
    for endpoints in options.endpoints() {
        for method in options.methods() {
            for load in options.loads(&[LoadSpec::Closed { callers: 200 }, LoadSpec::Share { percent: 60.0 }]) {
                for slow in &slow {
                    for balancer in options.balancers() {
                        cases.push(Case { endpoints, method: method.clone(), load, balancer, slow: *slow });
                    }
                }
            }
        }
    }
    cases
}

fn measure(options: &Options, run: &Run) -> Measured {
    let Case { endpoints, ref method, load, balancer, slow } = run.case;
    let workers = options.workers(load, endpoints - 1);
    let capacity_per_s = ((endpoints - 1) * workers) as f64 / method.service.mean_ms() * 1e3;
    let mut servers = vec![Behaviour::healthy(workers); endpoints];
    let slow_one = endpoints / 2;
    match slow {
        Slow::None => {}
        Slow::Absent => drop(servers.pop()),
        Slow::By { ms } => match options.slow_by {
            SlowBy::Added => servers[slow_one].added_ms = ms,
            SlowBy::Occupying => servers[slow_one].occupying_ms = ms,
        },
    }
    let mut simulation = Simulation::new(&Setup {
        servers,
        methods: vec![method.clone()],
        load: load.load(capacity_per_s),
        balancer,
        clients: 1,
        seed: run.seed,
    });
    simulation.run_for(SETTLE_S);
    simulation.measure_for(options.seconds);
    let tally = simulation.tally.clone();
    let recovered_s = match slow {
        Slow::By { .. } => recovery(&mut simulation, slow_one, 1.0 / endpoints as f64, workers),
        Slow::None | Slow::Absent => None,
    };
    Measured { tally, recovered_s }
}

/// Makes the slow one well and waits until it has its share.
fn recovery(simulation: &mut Simulation, slow_one: usize, fair_share: f64, workers: usize) -> Option<f64> {
    let from_s = simulation.elapsed_s();
    *simulation.behaviour(slow_one) = Behaviour::healthy(workers);
    while simulation.elapsed_s() < from_s + RECOVERY_MAX_S {
        simulation.run_for(0.5);
        let waited_s = simulation.timeline.reaches(slow_one, from_s, FAIR * fair_share);
        if waited_s.is_some() {
            return waited_s;
        }
    }
    None
}

/// All seeds together; of the recoveries, the slowest.
fn merge(seeds: &[Measured]) -> Measured {
    let mut tally = seeds[0].tally.clone();
    for seed in &seeds[1..] {
        tally.merge(&seed.tally);
    }
    let recovered_s = seeds.iter().map(|seed| seed.recovered_s).collect::<Option<Vec<f64>>>();
    Measured { tally, recovered_s: recovered_s.map(|all| all.into_iter().fold(0.0, f64::max)) }
}

fn row(options: &Options, case: &Case, measured: &Measured, results: &[(Case, Measured)]) -> Row {
    let p99_of = |wanted: Case| {
        let found = results.iter().find(|(case, _)| *case == wanted);
        found.map(|(_, measured)| measured.tally.quantile_ms(0.99))
    };
    let p99_ms = measured.tally.quantile_ms(0.99);
    let over = |p99: Option<f64>| p99.map(|p99| p99_ms / p99);
    let healthy = p99_of(Case { slow: Slow::None, ..case.clone() });
    let absent = p99_of(Case { slow: Slow::Absent, ..case.clone() });
    let ours = p99_of(Case { slow: Slow::None, balancer: Kind::ALL[0], ..case.clone() });
    let slow_one = measured.tally.shares()[case.endpoints / 2];
    let is_slow = matches!(case.slow, Slow::By { .. });
    let name = match case.slow {
        Slow::None | Slow::Absent => "healthy".to_owned(),
        Slow::By { ms } => format!("+{ms} ms"),
    };
    let workers = options.workers(case.load, case.endpoints - 1);
    let setting = format!(
        "slow-pod: {} endpoints of {workers} workers, median {} ms, {}, slow by {}",
        case.endpoints,
        case.method.service.median_ms(),
        case.load,
        options.slow_by.name(),
    );
    let row = Row::new("slow-pod", setting, name, case.balancer)
        .figure("p50 ms", measured.tally.quantile_ms(0.5))
        .figure("p99 ms", p99_ms)
        .figure("p99.9 ms", measured.tally.quantile_ms(0.999))
        .figure("x own healthy", over(healthy))
        .figure("x without it", over(absent))
        .figure("x leno healthy", over(ours))
        .figure("its share %", slow_one * 100.0)
        .figure("fair again s", measured.recovered_s);
    if !is_slow {
        return row;
    }
    let reference = healthy.unwrap_or(0.0).max(absent.unwrap_or(0.0));
    row.goal("p99", p99_ms <= 1.10 * reference)
        .goal("share", slow_one <= 0.005)
        .goal("recovery", measured.recovered_s.is_some_and(|waited_s| waited_s <= 5.0))
}
