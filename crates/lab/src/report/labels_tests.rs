use super::super::example;
use super::*;

fn closed(connections: u32) -> Load {
    Load { rate_per_s: None, connections, concurrency: 200, is_searched: false }
}

fn paced(rate: u32) -> Load {
    Load { rate_per_s: Some(rate), ..closed(1) }
}

#[test]
fn loads_are_said_at_once_where_only_their_connections_differ() {
    assert_eq!(loads(&[closed(1), closed(8)]), "1, 8 connections, 200 calls in flight, closed loop");
    let mixed = "1 connection, 200 calls in flight, closed loop; 10,000 calls/s, open loop, 1 connection";
    assert_eq!(loads(&[closed(1), paced(10_000)]), mixed);
    assert_eq!(loads(&[]), "no load");
}

#[test]
fn in_a_cluster_no_mesh_is_the_clusters_services_whatever_implements_them() {
    let mut experiment = example::experiment(Scenario::SlowPod);
    assert_eq!(target_is(TargetKind::Vanilla, &experiment), "no mesh: netfilter");
    experiment.cluster = Some(example::cluster());
    for target in TargetKind::ALL {
        let is = target_is(target, &experiment);
        let may_name_it = matches!(target, TargetKind::L4 | TargetKind::CiliumL4);
        assert!(may_name_it || !is.contains("netfilter"), "{target}: {is}");
    }
    assert_eq!(target_is(TargetKind::Vanilla, &experiment), "no mesh: the cluster's Services");
}

#[test]
fn ambient_names_ztunnel_only_if_it_was_measured() {
    let mut experiment = example::experiment(Scenario::SlowPod);
    let mut is_with = |version: &str| {
        experiment.versions = vec![Version { target: TargetKind::Ambient, version: version.to_owned() }];
        target_is(TargetKind::Ambient, &experiment)
    };
    assert_eq!(is_with("Envoy 1.40.0 with ztunnel 1.28.0"), "ztunnel around one Envoy, LEAST_REQUEST");
    // Both versions identify a bare tunnel. The second comes from records of earlier lab versions, which could not run
    // ztunnel.
    for version in [
        "Envoy 1.40.0 with a bare TLS tunnel in place of ztunnel, because it is no file with ztunnel in it",
        "Envoy 1.40.0",
    ] {
        assert_eq!(is_with(version), "TLS tunnels around one Envoy, LEAST_REQUEST");
    }
}

#[test]
fn the_pods_of_the_load_are_a_maximum() {
    let place = |load_pods| {
        let mut experiment = example::experiment(Scenario::Connections);
        experiment.cluster = Some(Cluster { load_pods, ..example::cluster() });
        places(&experiment).into_iter().find(|(name, _)| *name == "load").expect("the load").1
    };
    assert_eq!(place(1), "1 Pod");
    assert_eq!(place(2), "2 Pods; a load with fewer connections uses fewer of them");
}

#[test]
fn a_load_without_calls_is_named_by_its_connections() {
    assert_eq!(load(Load { concurrency: 0, ..closed(16) }), "16 connections");
}

#[test]
fn a_load_among_others_is_named_by_what_is_its_own() {
    assert_eq!(load_among(closed(8), &[closed(1), closed(8)]), "8");
    assert_eq!(load_among(closed(1), &[closed(1), paced(2000)]), "closed loop");
    assert_eq!(load_among(paced(2000), &[closed(1), paced(2000)]), "2,000 calls/s, open loop, 1 connection");
}

#[test]
fn marks_say_how_many_of_the_runs_are_doubtful() {
    let found = marks(Marks { runs: 10, at_ceiling: 10, late: 3, disturbed: 2, dead: 1, errors: 1 });
    assert_eq!(found, "no answer 1/10, 1 error, ceiling 10/10, late 3/10, disturbed 2/10");
    assert_eq!(marks(Marks { runs: 10, ..Marks::default() }), "");
}
