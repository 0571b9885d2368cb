use std::sync::Arc;

use leno_model::mesh::ClusterKey;

use super::{MAX_CLUSTERS, WorkerMetrics};

fn key(port: u16) -> ClusterKey {
    ClusterKey { namespace: "default".into(), service: "echo".into(), port }
}

#[test]
fn a_cluster_is_created_once() {
    let metrics = WorkerMetrics::new();
    let first = metrics.cluster(&key(80));
    assert!(Arc::ptr_eq(&first, &metrics.cluster(&key(80))));
    assert!(!Arc::ptr_eq(&first, &metrics.cluster(&key(81))));
}

#[test]
fn a_cluster_that_nobody_holds_is_exported_once_more_and_forgotten() {
    let metrics = WorkerMetrics::new();
    let held = metrics.cluster(&key(80));
    metrics.cluster(&key(81)).request();

    assert_eq!(metrics.take_clusters().len(), 2);
    let left = metrics.take_clusters();
    assert_eq!(left.len(), 1);
    assert!(Arc::ptr_eq(&left[0].1, &held));
}

#[test]
fn clusters_beyond_the_limit_count_as_unknown_until_others_go() {
    let metrics = WorkerMetrics::new();
    let mut held: Vec<_> = (0..MAX_CLUSTERS as u16).map(|port| metrics.cluster(&key(port))).collect();
    let beyond = key(MAX_CLUSTERS as u16);
    assert!(Arc::ptr_eq(&metrics.cluster(&beyond), &metrics.unknown()));

    held.pop();
    assert!(!Arc::ptr_eq(&metrics.cluster(&beyond), &metrics.unknown()));
}

#[test]
fn open_connections_follow_opens_and_closes() {
    let metrics = WorkerMetrics::new();
    metrics.downstream.opened();
    metrics.downstream.opened();
    metrics.downstream.closed();
    assert_eq!(metrics.downstream.open_connections.get(), 1);
    assert_eq!(metrics.downstream.open_total.get(), 2);
    assert_eq!(metrics.downstream.close_total.get(), 1);
}
