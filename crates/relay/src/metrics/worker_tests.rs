use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MAX_INBOUND_SERIES, WorkerMetrics};
use crate::metrics::fixtures::{inbound, outbound};
use crate::metrics::{AuthorizationLabels, ConnectionLabels, DecidedBy, Direction, PeerLabel, TargetLabel};

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
    let taken = metrics.take_traffic(Instant::now());
    assert_eq!(taken.len(), MAX_INBOUND_SERIES + 1);
    assert_eq!(taken.iter().filter(|(labels, _)| labels.target == TargetLabel::Other).count(), 1);
    assert!(Arc::ptr_eq(&held[MAX_INBOUND_SERIES], &metrics.traffic(&inbound(1, "web").beyond_limit())));

    let cluster = metrics.traffic(&outbound(80));
    assert!(
        !metrics
            .take_traffic(Instant::now())
            .iter()
            .any(|(labels, series)| { labels.target == TargetLabel::Other && Arc::ptr_eq(series, &cluster) })
    );
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
    assert_eq!(metrics.take_connections(Instant::now()).len(), MAX_INBOUND_SERIES + 1);
    assert_eq!(metrics.take_authorizations(Instant::now()).len(), MAX_INBOUND_SERIES + 1);
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
