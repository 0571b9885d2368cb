//! Measured publications for tests.

use super::cost::Prices;
use super::figures::Measured;
use super::name::Name;
use super::options::Scale;
use super::record::{Description, State, StepRecord};
use crate::experiment::record::{Machine, Run, Skipped, TargetKind, Version};
use crate::report::Recorded;
use crate::report::example::{experiment, run};

pub(super) const LINKERD_WHY: &str = "--targets linkerd cannot run: name a <linkerd2-proxy> binary";

/// The description of a publication for which Linkerd was not measured.
pub(super) fn description(name: Name) -> Description {
    let step = |step: &super::definition::Step| StepRecord {
        name: step.name.to_owned(),
        command: format!("leno lab run {}", step.quick),
        state: State::Done,
    };
    Description {
        publication: name,
        scale: Scale::Quick,
        command: format!("leno lab publish {name}"),
        started: "2026-01-02T03:04:05Z".to_owned(),
        ended: Some("2026-01-02T03:14:05Z".to_owned()),
        machine: Machine {
            cpus: 2,
            cpu_model: "CPU".to_owned(),
            memory_bytes: 8_000_000_000,
            kernel: "6.1".to_owned(),
        },
        versions: vec![Version { target: TargetKind::LenoMesh, version: "leno-proxy 0.1.0".to_owned() }],
        skipped: vec![Skipped { target: TargetKind::Linkerd, why: LINKERD_WHY.to_owned() }],
        is_debug_build: false,
        changes: Vec::new(),
        prices: Prices::default(),
        steps: name.publication().steps.iter().map(step).collect(),
        is_interrupted: false,
    }
}

/// A publication whose first experiment has these runs.
pub(super) fn measured(name: Name, runs: Vec<Run>) -> Measured {
    let description = description(name);
    let scenario = runs.first().map_or(crate::experiment::record::Scenario::SlowPod, |run| run.scenario);
    let recorded = Recorded { experiment: experiment(scenario), runs, notes: Vec::new() };
    let first = name.publication().steps[0].name.to_owned();
    Measured { steps: vec![(first, recorded)], description }
}

/// A run of `slow-pod-2026` with this p99, in ms.
pub(super) fn with_p99(target: TargetKind, skew_ms: u32, repeat: u32, p99_ms: f64) -> Run {
    Run { p99_ms, ..run(target, skew_ms, repeat) }
}

/// `slow-pod-2026` with three repeats: Leno's p99 stays at 10 ms, and Istio's p99 rises with the skew. In one repeat,
/// all calls of Kubernetes alone go to the slow pod, by bad luck.
pub(super) fn slow_pod() -> Measured {
    let mut runs = Vec::new();
    for repeat in 1..=3 {
        let noise = f64::from(repeat) * 0.1;
        for skew_ms in [0, 50, 200] {
            let skew = f64::from(skew_ms);
            runs.push(with_p99(TargetKind::LenoMesh, skew_ms, repeat, 10.0 + noise));
            runs.push(with_p99(TargetKind::Istio, skew_ms, repeat, 20.0 + skew + noise));
            let (unlucky, share) = if repeat == 2 { (skew, 1.0) } else { (0.0, 0.0) };
            let alone = with_p99(TargetKind::Vanilla, skew_ms, repeat, 5.0 + unlucky + noise);
            runs.push(Run { slow_share: share, proxy_cpu_us_per_call: None, ..alone });
        }
    }
    measured(Name::SlowPod2026, runs)
}
