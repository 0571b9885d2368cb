//! The messages of a run, with the fields of SMP's schema (`service_mesh_performance.proto`).

use serde_json::{Map, Value, json};

use super::super::measured::percent;
use super::super::{name, own};
use super::environment::environment;
use crate::experiment::record::{Experiment, Protocol, Run};
use crate::report;
use crate::units::mb;

/// The kind of a result document, which is a part of its file's name: `RUN.result.yaml`.
pub(super) const RESULT: &str = "result";

/// Version of the schema. The schema has only this release line.
const SMP_VERSION: &str = "v0.0.1";

/// Returns the four documents of a run with latencies. Each has a kind, the name of its message, and its content.
pub(super) fn of(experiment: &Experiment, run: &Run) -> [(&'static str, &'static str, Value); 4] {
    let id = name::file_stem(run);
    let documents = [
        ("test", "PerformanceTestConfig", test(experiment, run)),
        (RESULT, "PerformanceTestResult", result(experiment, run)),
        ("mesh", "ServiceMeshConfig", mesh(experiment, run)),
        ("environment", "EnvironmentConfig", environment(experiment)),
    ];
    documents.map(|(kind, message, fields)| {
        let mut document = Map::from_iter([
            ("smp_version".to_owned(), json!(SMP_VERSION)),
            ("id".to_owned(), json!(format!("{id}.{kind}"))),
        ]);
        if let Value::Object(fields) = fields {
            document.extend(fields);
        }
        (kind, message, Value::Object(document))
    })
}

fn test(experiment: &Experiment, run: &Run) -> Value {
    json!({
        "name": name::label(run),
        "labels": {"scenario": run.scenario.to_string(), "skew_ms": run.skew_ms.to_string(), "load": report::load(run)},
        "clients": [{
            "internal": false,
            "load_generator": "leno lab",
            "protocol": match experiment.protocol {
                Protocol::Grpc => "PROTOCOL_GRPC",
                Protocol::Http1 | Protocol::Http2 => "PROTOCOL_HTTP",
                Protocol::Tcp => "PROTOCOL_TCP",
            },
            "connections": run.connections,
            // 0 for a closed loop, which has no fixed rate.
            "rps": run.rate_per_s.unwrap_or_default(),
        }],
        "duration": format!("{}s", experiment.duration_s),
    })
}

fn result(experiment: &Experiment, run: &Run) -> Value {
    let (id, seconds) = (name::file_stem(run), own::seconds(experiment, run));
    let calls = run.calls + run.errors;
    let mut latencies = json!({"p50": run.p50_ms, "p90": run.p90_ms, "p99": run.p99_ms, "max": run.max_ms});
    for (field, ms) in [("min", run.min_ms), ("average", run.mean_ms)] {
        if let Some(ms) = ms {
            latencies[field] = json!(ms);
        }
    }
    json!({
        // Labels carry the figures for which the schema has no fields.
        "labels": {
            "target": run.target.to_string(),
            "repeat": run.repeat.to_string(),
            "calls": calls.to_string(),
            "errors_percent": percent(run.errors, calls).unwrap_or_default().to_string(),
            "p99.9_ms": run.p999_ms.to_string(),
        },
        // The lab records the start of the experiment, not of each run.
        "start_time": experiment.started,
        "latencies_ms": latencies,
        "actual_qps": calls as f64 / seconds,
        "test_id": format!("{id}.test"),
        "mesh_config_id": format!("{id}.mesh"),
        "env_id": format!("{id}.environment"),
    })
}

/// The proxies, with their CPU time and memory in this run.
fn mesh(experiment: &Experiment, run: &Run) -> Value {
    let version = experiment.versions.iter().find(|version| version.target == run.target);
    let version = version.map_or("", |version| version.version.as_str());
    let mut mesh = json!({
        "labels": {"target": run.target.to_string(), "about": run.target.what(), "mem_mb": "peak of the largest proxy"},
        "mtls_enabled": run.target.has_tls(),
        "proxy_build": version,
    });
    if run.target.is_proxy() {
        let memory = run.proxy_rss_peak_bytes.max(run.server_proxy_rss_peak_bytes);
        mesh["proxy_concurrency"] = json!(1);
        mesh["sidecar"] = json!({
            "count": proxies(experiment, run),
            "cpu_mcores": whole(report::figures::millicores(run)),
            "mem_mb": whole(memory.map(mb)),
            "rps": whole(Some(run.rps)),
        });
    }
    mesh
}

/// The number of proxies, as the lab counted them. If a result has no count, the number follows from the target: a mesh
/// has a proxy beside the client, and a proxy in front of each backend.
fn proxies(experiment: &Experiment, run: &Run) -> u32 {
    let usual = if run.target.is_mesh() { experiment.backends.saturating_add(1) } else { 1 };
    run.footprint.map_or(usual, |footprint| footprint.proxies)
}

/// Rounds a figure for a field of the type int32. An unknown figure is 0, the default of protobuf.
fn whole(value: Option<f64>) -> i32 {
    value.unwrap_or_default().round() as i32
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
