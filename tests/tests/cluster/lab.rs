//! `leno lab run --cluster`: the lab measures the cluster with and without the mesh, and then deletes everything that
//! it created.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::program;
use leno_tests::proxy::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::user::{PATIENCE, image, leno, state};

/// Calls per second of the lab's load. A debug build on a busy machine keeps this rate.
const RATE: &str = "100";

/// Returns the arguments of a run that measures the cluster twice, without a mesh and with Leno, in two namespaces.
/// There are only two servers, because the servers of a debug build start slowly.
fn arguments(out: &Path) -> Vec<String> {
    let image = image("leno");
    let words = [
        "lab",
        "run",
        "slow-pod",
        "--cluster",
        "--mesh",
        "none,leno",
        "--image",
        &image,
        "--backends",
        "2",
        "--skew-ms",
        "0,50",
        "--rate",
        RATE,
        "--connections",
        "2",
        "--warm-up-s",
        "1",
        "--duration-s",
        "5",
        "--repeat",
        "1",
        "--out",
    ];
    words.into_iter().map(str::to_owned).chain([out.to_str().expect("text").to_owned()]).collect()
}

fn namespaces(cluster: &Cluster) -> String {
    cluster.kubectl(&["get", "namespaces", "-l", "app.kubernetes.io/managed-by=leno-lab-cluster", "-o", "name"])
}

/// Measures the cluster with the mesh and without it. Then interrupts a second run, and kills a third run.
pub(super) fn the_lab_measures_the_mesh_and_leaves_nothing(cluster: &Cluster) {
    let out = tempfile::tempdir().expect("a directory");
    let dir = out.path().join("measured");
    let arguments_of_run = arguments(&dir);
    leno(cluster, &arguments_of_run.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(namespaces(cluster), "", "the lab deletes its namespaces");
    let runs = std::fs::read_to_string(dir.join("runs.jsonl")).expect("the runs");
    let runs: Vec<Value> = runs.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(runs.len(), 4, "{runs:#?}");
    for run in &runs {
        assert_eq!(run["errors"], 0, "{run:#}");
        assert!(run["calls"].as_u64().is_some_and(|calls| calls > 400), "{run:#}");
        let is_meshed = run["target"] == "leno-mesh";
        let cpu = run["proxy_cpu_us_per_call"].as_f64();
        assert_eq!(cpu.is_some_and(|us| us > 0.0), is_meshed, "only a mesh has proxies: {run:#}");
        let control_plane = run["control_plane"]["memory_bytes"].as_u64();
        assert_eq!(control_plane.is_some_and(|bytes| bytes > 1 << 20), is_meshed, "{run:#}");
        // There are two servers and two load Pods.
        assert_eq!(run["footprint"]["proxies"].as_u64(), is_meshed.then_some(4), "{run:#}");
    }
    same_nodes(&dir);
    let slow = |target: &str| {
        let run = runs.iter().find(|run| run["target"] == target && run["skew_ms"] == 50);
        run.and_then(|run| run["slow_share"].as_f64()).expect("a share")
    };
    assert!(slow("leno-mesh") < 0.25, "the mesh avoids the slow server: {}", slow("leno-mesh"));
    let summary = std::fs::read_to_string(dir.join("summary.md")).expect("a summary");
    assert!(summary.contains("leno-mesh at 0 ms skew, beside no mesh: p50 "), "{summary}");

    interrupted(cluster, &out.path().join("interrupted"), Signal::INT);
    assert_eq!(namespaces(cluster), "", "an interrupted lab deletes its namespaces");
    interrupted(cluster, &out.path().join("killed"), Signal::KILL);
    assert_ne!(namespaces(cluster), "", "a killed lab cannot delete its namespaces");
    let told = leno(cluster, &["lab", "clean"]);
    // The run was killed as soon as its first namespace existed.
    assert!(told.contains("leno-lab-none"), "{told}");
    assert_eq!(namespaces(cluster), "", "leno lab clean deletes them");
}

/// Checks that each Pod of the lab runs on the same node with the mesh and without it.
fn same_nodes(dir: &Path) {
    let lab = std::fs::read_to_string(dir.join("lab.json")).expect("a description");
    let lab: Value = serde_json::from_str(&lab).expect("JSON");
    let placements = lab["cluster"]["placements"].as_array().expect("placements");
    let pods = |index: usize| {
        let pods = placements[index]["pods"].as_array().expect("Pods").iter();
        pods.map(|pod| pod.as_str().expect("text").to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(placements.len(), 2, "{lab:#}");
    // There are two servers and two load Pods.
    assert_eq!(pods(0).len(), 4, "{lab:#}");
    assert_eq!(pods(0), pods(1), "{lab:#}");
}

/// Starts a run, and ends it with a signal as soon as its first namespace exists.
fn interrupted(cluster: &Cluster, out: &Path, signal: Signal) {
    let mut lab = Command::new(program("leno"))
        .args(arguments(out))
        .env("KUBECONFIG", cluster.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("leno runs");
    wait_for("the lab has made a namespace", PATIENCE, || (!namespaces(cluster).is_empty()).then_some(()));
    let pid = Pid::from_child(&lab);
    kill_process(pid, signal).expect("the signal arrives");
    let ended = lab.wait().expect("the lab ends");
    assert!(!ended.success(), "{ended}\n{}", state(cluster));
}
