use super::super::example::{cluster, recorded, run};
use super::*;
use crate::experiment::record::{ControlPlane, Footprint};

/// The findings from six repeats. Each repeat has a run without a mesh, and a run with Leno. Leno's p99 is higher by
/// one value of `added_ms`.
fn findings_of(added_ms: [f64; 6]) -> Vec<String> {
    let repeats = added_ms.iter().zip(1..);
    let runs = repeats.flat_map(|(added, repeat)| {
        let bare = Run { p99_ms: 5.0, p50_ms: 2.0, ..run(TargetKind::Vanilla, 0, repeat) };
        let footprint = Footprint { proxies: 7, idle_bytes: 1, loaded_bytes: 35_000_000, ..Footprint::default() };
        let meshed = Run {
            p99_ms: 5.0 + added,
            p50_ms: 2.5,
            proxy_cpu_us_per_call: Some(20.0),
            footprint: Some(footprint),
            control_plane: Some(ControlPlane { containers: 1, memory_bytes: 14_000_000, cpus: None }),
            ..run(TargetKind::LenoMesh, 0, repeat)
        };
        [bare, meshed]
    });
    let mut recorded = recorded(runs.collect());
    recorded.experiment.cluster = Some(cluster());
    findings(&Results::new(&recorded), Scenario::SlowPod)
}

#[test]
fn a_mesh_is_beside_no_mesh() {
    let [finding] = &findings_of([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])[..] else { panic!("one finding") };
    assert!(
        finding.starts_with("leno-mesh, beside no mesh: p50 +0.500 ms [0.500 – 0.500], p99 +1.25 ms ["),
        "{finding}"
    );
    assert!(finding.contains("20.0 µs of CPU for each call in the proxies, 35.0 MB in all proxies"), "{finding}");
    assert!(finding.ends_with("14.0 MB in the control plane."), "{finding}");
}

#[test]
fn a_difference_within_the_noise_is_marked() {
    let [finding] = &findings_of([-0.3, 0.2, -0.1, 0.3, 0.1, -0.2])[..] else { panic!("one finding") };
    assert!(finding.contains("p99 ≈ "), "{finding}");
}

#[test]
fn outside_of_a_cluster_there_are_no_such_findings() {
    let recorded = recorded(vec![run(TargetKind::Vanilla, 0, 1), run(TargetKind::LenoMesh, 0, 1)]);
    assert_eq!(findings(&Results::new(&recorded), Scenario::SlowPod), Vec::<String>::new());
}
