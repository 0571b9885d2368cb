use super::*;
use crate::experiment::record::{Scenario, Workload};
use crate::report::example;

/// An experiment in a cluster of two nodes.
fn in_cluster() -> Experiment {
    let node = |cpus: &str, memory: &str| ClusterNode {
        cpus: cpus.to_owned(),
        memory: memory.to_owned(),
        kernel: "6.1.0".to_owned(),
    };
    let nodes = vec![node("4", "16393208Ki"), node("16", "64Gi")];
    Experiment {
        cluster: Some(Cluster { nodes, ..example::cluster() }),
        backends: 3,
        ..example::experiment(Scenario::Ladder)
    }
}

#[test]
fn an_experiment_in_a_cluster_has_the_clusters_nodes_instead_of_the_machine() {
    let environment = environment(&in_cluster());
    let nodes = json!([{"cores": 4, "mem_mb": 16_786}, {"cores": 16, "mem_mb": 68_719}]);
    assert_eq!(environment["nodes"], nodes);
    assert_eq!(environment["kubernetes_version"], "v1.34.4");
    // The label has the kernel of the nodes, not of the machine that the lab ran on.
    assert_eq!(environment["labels"]["kernel"], "6.1.0");
    assert_eq!(environment["individual_workloads"], json!([{"name": "leno echo", "count": 3}]));
}

#[test]
fn the_workload_of_a_user_has_its_own_name() {
    let workload = Workload { service: "shop/cart:8080".to_owned(), call: "GET /".to_owned() };
    let environment = environment(&Experiment { workload: Some(workload), ..in_cluster() });
    assert_eq!(environment["individual_workloads"][0]["name"], "shop/cart:8080");
}

#[test]
fn each_service_of_a_graph_is_a_server() {
    let graph = Some(GraphShape { depth: 3, fan_out: 2 });
    let environment = environment(&Experiment { graph, ..example::experiment(Scenario::Graph) });
    assert_eq!(environment["individual_workloads"], json!([{"name": "leno echo", "count": 7}]));
    assert_eq!(environment["nodes"][0]["cores"], 2);
}

#[test]
fn a_capacity_that_cannot_be_read_is_unknown() {
    for (memory, wanted) in [("8000000000", Some(8_000_000_000)), ("16x", None), ("", None), ("99999999999999Gi", None)]
    {
        assert_eq!(bytes(memory), wanted, "{memory}");
    }
    let unknown = ClusterNode { cpus: String::new(), memory: String::new(), kernel: String::new() };
    assert_eq!(node(&unknown), json!({"cores": 0, "mem_mb": 0}));
}
