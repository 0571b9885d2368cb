use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MAX_INBOUND_SERIES, WorkerMetrics};
use crate::metrics::fixtures::{inbound, outbound};
use crate::metrics::series::{Part, take_sums};
use crate::metrics::{
    AuthorizationLabels, ConnectionLabels, DecidedBy, Direction, PeerLabel, TargetLabel, TrafficLabels, TrafficMetrics,
};

#[test]
fn calls_of_either_side_to_the_same_target_are_told_apart() {
    let metrics = WorkerMetrics::new();
    let (calls_in, calls_out) = (metrics.traffic(&inbound(80, "web")), metrics.traffic(&outbound(80)));
    assert!(Arc::ptr_eq(&calls_in, &metrics.traffic(&inbound(80, "web"))));
    assert!(!Arc::ptr_eq(&calls_in, &calls_out));
    assert!(!Arc::ptr_eq(&calls_in, &metrics.traffic(&inbound(80, "cart"))));
}

#[test]
fn clients_that_dial_every_port_share_a_series_and_leave_room_to_the_outbound_side() {
    let metrics = WorkerMetrics::new();
    let held: Vec<_> = (0..2 * MAX_INBOUND_SERIES as u16).map(|port| metrics.traffic(&inbound(port, "web"))).collect();
    let taken = || take_sums(metrics.traffic.both().into_iter(), Clone::clone, Instant::now()).0;
    assert_eq!(taken().len(), MAX_INBOUND_SERIES + 1);
    assert_eq!(taken().iter().filter(|part| part.labels.target == TargetLabel::Other).count(), 1);
    assert!(Arc::ptr_eq(&held[MAX_INBOUND_SERIES], &metrics.traffic(&inbound(1, "web").beyond_limit())));

    let cluster = metrics.traffic(&outbound(80));
    let is_shared = |part: &Part<TrafficLabels, TrafficMetrics>| part.labels.target == TargetLabel::Other;
    assert!(!taken().iter().any(|part| is_shared(part) && Arc::ptr_eq(&part.metrics, &cluster)));
}

#[test]
fn connections_and_decisions_are_bounded_too() {
    let metrics = WorkerMetrics::new();
    let mut held = Vec::new();
    for port in 0..2 * MAX_INBOUND_SERIES as u16 {
        let traffic = inbound(port, "web");
        let policy = Some(DecidedBy::Default("all-authenticated"));
        let connection = ConnectionLabels { peer: PeerLabel::Source, traffic: traffic.clone() };
        held.push((metrics.connections(&connection), metrics.authorizations(&AuthorizationLabels { traffic, policy })));
    }
    let now = Instant::now();
    let connections = take_sums(metrics.connections.both().into_iter(), Clone::clone, now).0;
    let decisions = take_sums([&metrics.authorizations].into_iter(), Clone::clone, now).0;
    assert_eq!((connections.len(), decisions.len()), (MAX_INBOUND_SERIES + 1, MAX_INBOUND_SERIES + 1));
}

#[test]
fn connections_are_summed_over_all_peers_of_one_side() {
    let metrics = WorkerMetrics::new();
    for (client, peer) in [("web", PeerLabel::Source), ("cart", PeerLabel::Source), ("cart", PeerLabel::Destination)] {
        metrics.connections(&ConnectionLabels { peer, traffic: inbound(80, client) }).opened();
    }
    metrics
        .connections(&ConnectionLabels { peer: PeerLabel::Source, traffic: inbound(80, "web") })
        .closed(Duration::ZERO, None);
    assert_eq!(metrics.open_connections(Direction::Inbound, PeerLabel::Source), 1);
    assert_eq!(metrics.opened_connections(Direction::Inbound, PeerLabel::Source), 2);
    assert_eq!(metrics.open_connections(Direction::Outbound, PeerLabel::Source), 0);
}
