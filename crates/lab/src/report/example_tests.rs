//! Simulated experiments for tests, made from a seed.

use crate::experiment::record::{
    Ceiling, Cluster, Condition, CurvePoint, Experiment, Machine, Protocol, Run, Scenario, Skipped, TargetKind, Version,
};
use crate::load::Traffic;

use super::read::Recorded;

/// One run with round figures, from which the tests derive other runs.
pub(crate) fn run(target: TargetKind, skew_ms: u32, repeat: u32) -> Run {
    Run {
        scenario: Scenario::SlowPod,
        target,
        skew_ms,
        condition: Condition::default(),
        connections: 1,
        concurrency: 200,
        rate_per_s: None,
        repeat,
        calls: 100_000,
        errors: 0,
        server_calls: None,
        first_error: None,
        error_classes: std::collections::BTreeMap::new(),
        rps: 10_000.0,
        min_ms: Some(5.0),
        mean_ms: Some(11.0),
        std_dev_ms: Some(3.0),
        p50_ms: 10.0,
        p90_ms: 15.0,
        p99_ms: 20.0,
        p999_ms: 30.0,
        max_ms: 40.0,
        curve: vec![CurvePoint { quantile: 0.5, ms: 10.0 }, CurvePoint { quantile: 0.99, ms: 20.0 }],
        slow_share: if skew_ms == 0 { 0.2 } else { 0.001 },
        proxy_cpu_us_per_call: Some(4.0),
        server_proxy_cpu_us_per_call: None,
        proxy_rss_peak_bytes: Some(5_000_000),
        server_proxy_rss_peak_bytes: None,
        proxy_rss_after_bytes: Some(4_000_000),
        foreign_cpu: 0.0,
        at_ceiling: false,
        late: 0,
        held_up_ms: 0.0,
        recovered_after_s: None,
        throughput: None,
        proxy_rss_before_bytes: None,
        steady_after_s: None,
        footprint: None,
        capacity: None,
        rollout: None,
        messages_per_s: Vec::new(),
        slow_method: None,
        control_plane: None,
    }
}

/// Two runs of Leno for each pair of p99 values in ms: the first value at a skew of 0 ms, the second at 50 ms.
pub(super) fn pairs(p99: &[(f64, f64)]) -> Vec<Run> {
    let pair = |(index, &(healthy, skewed)): (usize, &(f64, f64))| {
        let of = |skew_ms, p99_ms| Run { p99_ms, ..run(TargetKind::Leno, skew_ms, index as u32 + 1) };
        [of(0, healthy), of(50, skewed)]
    };
    p99.iter().enumerate().flat_map(pair).collect()
}

pub(crate) fn recorded(runs: Vec<Run>) -> Recorded {
    let scenario = runs.first().map_or(Scenario::SlowPod, |run| run.scenario);
    Recorded { experiment: experiment(scenario), runs, notes: Vec::new() }
}

pub(crate) fn experiment(scenario: Scenario) -> Experiment {
    use TargetKind::{Direct, Envoy, Haproxy, L4, Leno};
    let version = |target, version: &str| Version { target, version: version.to_owned() };
    Experiment {
        scenario,
        protocol: Protocol::Grpc,
        traffic: Traffic::default(),
        graph: None,
        command:
            "leno lab run slow-pod --targets direct,l4,leno,haproxy,envoy --skew-ms 0,50,200 --repeat 10 --out out/"
                .to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        duration_s: 10,
        warm_up_s: 2,
        repeats: 0,
        backends: 5,
        machine: Machine {
            cpus: 2,
            cpu_model: "Intel(R) Xeon(R) Processor @ 2.00GHz".to_owned(),
            memory_bytes: 23_400_000_000,
            kernel: "6.18.5".to_owned(),
        },
        cluster: None,
        workload: None,
        targets: vec![Direct, L4, Leno, Haproxy, Envoy],
        versions: vec![version(Leno, "leno 0.1.0"), version(Envoy, "envoy 1.40.0")],
        skipped: Vec::new(),
        ceiling: Ceiling { load_rps: 91_234.0, backends_rps: 64_321.0 },
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        kubernetes: "v1.34.4".to_owned(),
        nodes: Vec::new(),
        image: "leno:0.1.0".to_owned(),
        load_pods: 2,
        placements: Vec::new(),
    }
}

/// A complete experiment of ten repeats, with noise as on a shared machine: every target at 0, 50 and 200 ms of skew.
/// HAProxy is skipped if `skip` is true.
pub(crate) fn slow_pod(seed: u64, skip: bool) -> Recorded {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut experiment = experiment(Scenario::SlowPod);
    if skip {
        experiment.targets.retain(|&target| target != TargetKind::Haproxy);
        let why = "haproxy is not installed; install it with: apt install haproxy".to_owned();
        experiment.skipped.push(Skipped { target: TargetKind::Haproxy, why });
    }
    let mut runs = Vec::new();
    for repeat in 1..=10 {
        // The machine is slower in some minutes, by up to 15 %, for all targets alike.
        let minute = 1.0 + 0.15 * random.f64();
        for &target in &experiment.targets {
            for skew_ms in [0, 50, 200] {
                runs.push(noisy(target, skew_ms, repeat, minute * (1.0 + 0.04 * random.f64()), &mut random));
            }
        }
    }
    Recorded { experiment, runs, notes: Vec::new() }
}

/// A run with plausible figures of a target. All latencies are `noise` times as long as usual.
fn noisy(target: TargetKind, skew_ms: u32, repeat: u32, noise: f64, random: &mut fastrand::Rng) -> Run {
    let (healthy_p50, cpu, memory, share) = match target {
        TargetKind::Direct => (5.1, None, None, f64::from(u8::from(random.f64() < 0.2))),
        TargetKind::L4 => (5.2, None, None, f64::from(u8::from(random.f64() < 0.2))),
        TargetKind::Leno => (3.3, Some(4.7), Some(5.4), 0.0012),
        TargetKind::Haproxy => (5.2, Some(17.9), Some(23.1), 0.021),
        _ => (8.9, Some(41.0), Some(48.2), 0.034),
    };
    let share = if skew_ms == 0 && cpu.is_some() { 0.2 } else { share * (0.9 + 0.2 * random.f64()) };
    let share = share.min(1.0);
    let skew = f64::from(skew_ms);
    let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
    let ms_at = |quantile: f64| {
        let fast = healthy_p50 * noise * (1.0 + 0.45 * (-(1.0 - quantile).log10() - 0.3));
        if 1.0 - quantile < share { fast + skew } else { fast }
    };
    let curve: Vec<CurvePoint> = quantiles.map(|quantile| CurvePoint { quantile, ms: ms_at(quantile) }).to_vec();
    let rps = 200_000.0 / (healthy_p50 * noise + share * skew);
    let mut run = Run {
        rps,
        calls: (rps * 10.0) as u64,
        p50_ms: ms_at(0.5),
        p90_ms: ms_at(0.9),
        p99_ms: ms_at(0.99),
        p999_ms: ms_at(0.999),
        max_ms: ms_at(0.99999) * 1.5,
        curve,
        slow_share: share,
        proxy_cpu_us_per_call: cpu.map(|cpu: f64| cpu * noise),
        proxy_rss_peak_bytes: memory.map(|mb: f64| (mb * 1e6 * (1.0 + 0.02 * random.f64())) as u64),
        proxy_rss_after_bytes: memory.map(|mb: f64| (mb * 0.9e6) as u64),
        foreign_cpu: if repeat == 4 { 0.31 } else { 0.03 },
        at_ceiling: target == TargetKind::Leno,
        ..run(target, skew_ms, repeat)
    };
    if target == TargetKind::Envoy && repeat == 7 {
        run.errors = 12;
        run.first_error = Some("UNAVAILABLE: upstream reset".to_owned());
    }
    run
}
