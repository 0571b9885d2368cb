use leno_install::yaml;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::*;
use crate::experiment::record::{Cluster, ClusterNode, Footprint, Scenario, TargetKind};
use crate::report::example;

/// SMP's schema. `schema/README.md` has its source.
fn schema() -> DescriptorPool {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/formats/smp/schema");
    let files = protox::compile(["protos/service_mesh_performance.proto"], [root]).expect("the schema compiles");
    DescriptorPool::from_file_descriptor_set(files).expect("the schema is complete")
}

/// Reads a document as the message of this name. Unknown fields and wrong types are errors.
fn accepted(schema: &DescriptorPool, message: &str, document: &Value) -> Result<DynamicMessage, String> {
    let descriptor = schema.get_message_by_name(&format!("smp.{message}")).expect("the schema has it");
    let read = yaml::read(&yaml::write(document)).expect("our own YAML");
    DynamicMessage::deserialize(descriptor, read).map_err(|error| error.to_string())
}

#[test]
fn the_schema_accepts_every_document_of_every_run() {
    let schema = schema();
    for protocol in [Protocol::Grpc, Protocol::Http1] {
        let experiment = Experiment { protocol, ..example::experiment(Scenario::SlowPod) };
        for run in example::slow_pod(2, false).runs {
            assert_accepted(&schema, &experiment, &run);
        }
    }
    let node = ClusterNode { cpus: "4".to_owned(), memory: "16393208Ki".to_owned(), kernel: "6.1.0".to_owned() };
    let cluster = Some(Cluster { nodes: vec![node], ..example::cluster() });
    let experiment = Experiment { cluster, ..example::experiment(Scenario::SlowPod) };
    assert_accepted(&schema, &experiment, &example::run(TargetKind::LenoMesh, 0, 1));
}

fn assert_accepted(schema: &DescriptorPool, experiment: &Experiment, run: &Run) {
    for (kind, message, document) in of(experiment, run) {
        accepted(schema, message, &document).unwrap_or_else(|error| panic!("{kind}: {error}\n{document}"));
    }
}

#[test]
fn figures_have_the_schemas_units() {
    let run =
        Run { rps: 500.0, calls: 5_000, proxy_cpu_us_per_call: Some(40.0), ..example::run(TargetKind::LenoMesh, 0, 1) };
    let [test, result, mesh, environment] =
        of(&example::experiment(Scenario::SlowPod), &run).map(|(_, _, value)| value);
    assert_eq!(
        result["latencies_ms"],
        json!({"min": 5.0, "average": 11.0, "p50": 10.0, "p90": 15.0, "p99": 20.0, "max": 40.0})
    );
    assert_eq!(result["actual_qps"], 500.0);
    // 40 us * 500 calls/s are 20 ms of CPU in each second.
    assert_eq!(mesh["sidecar"], json!({"count": 6, "cpu_mcores": 20, "mem_mb": 5, "rps": 500}));
    assert_eq!((&mesh["mtls_enabled"], &environment["nodes"][0]["mem_mb"]), (&json!(true), &json!(23_400)));
    assert_eq!(
        (&result["test_id"], &result["mesh_config_id"], &result["env_id"]),
        (&test["id"], &mesh["id"], &environment["id"])
    );
}

#[test]
fn the_proxies_of_a_graph_or_of_a_cluster_are_counted_where_the_lab_counted_them() {
    let experiment = example::experiment(Scenario::Graph);
    let footprint = Footprint { proxies: 14, ..Footprint::default() };
    let run = Run { footprint: Some(footprint), ..example::run(TargetKind::LenoMesh, 0, 1) };
    assert_eq!(mesh(&experiment, &run)["sidecar"]["count"], 14);
    assert_eq!(mesh(&experiment, &Run { footprint: None, ..run })["sidecar"]["count"], 6);
}

#[test]
fn a_target_without_a_proxy_has_no_sidecar_and_huge_figures_fit_their_fields() {
    let schema = schema();
    let experiment = example::experiment(Scenario::SlowPod);
    let direct = mesh(&experiment, &example::run(TargetKind::Direct, 0, 1));
    assert!(direct.get("sidecar").is_none(), "{direct}");
    let huge = Run { rps: 1e300, proxy_cpu_us_per_call: Some(1e300), ..example::run(TargetKind::Leno, 0, 1) };
    let document = mesh(&experiment, &huge);
    assert_eq!(document["sidecar"]["cpu_mcores"], i32::MAX);
    accepted(&schema, "ServiceMeshConfig", &document).expect("it fits");
}

#[test]
fn the_schema_would_refuse_a_wrong_document() {
    let schema = schema();
    for wrong in [json!({"latency_ms": {}}), json!({"actual_qps": "fast"}), json!({"start_time": "yesterday"})] {
        assert!(accepted(&schema, "PerformanceTestResult", &wrong).is_err(), "{wrong}");
    }
}
