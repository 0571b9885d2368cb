//! Labels: the labels of connections and calls in metrics.

use std::sync::Arc;

use leno_model::spiffe::SpiffeId;

use crate::Relay;
use crate::downstream::client::Client;
use crate::downstream::origin::Door;
use crate::link::codec::Codec;
use crate::metrics::{
    ConnectionLabels, Direction, NoTlsReason, PeerLabel, TargetLabel, TcpMetrics, TlsLabel, TrafficLabels,
};
use crate::pool::hop::Hop;
use crate::pool::upstream::Upstream;
use crate::target::cluster::{ClusterState, TargetKey};

impl Door {
    /// Returns the direction of connections at this door.
    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::Outbound => Direction::Outbound,
            Self::Inbound | Self::Tunnel => Direction::Inbound,
        }
    }
}

impl TargetKey {
    pub(crate) fn direction(&self) -> Direction {
        match self {
            Self::Service(_) | Self::Address(_) => Direction::Outbound,
            Self::Local(_) => Direction::Inbound,
        }
    }
}

impl ClusterState {
    pub(crate) fn label(&self) -> TargetLabel {
        match &self.target {
            TargetKey::Service(key) => TargetLabel::Service(key.clone()),
            TargetKey::Address(_) => TargetLabel::Unknown,
            TargetKey::Local(_) if !self.is_named() => TargetLabel::Other,
            TargetKey::Local(address) => TargetLabel::Port(address.port()),
        }
    }

    /// Returns the labels of calls to the cluster. Does not fill in `server`, the controller of the server's Pod.
    pub(crate) fn traffic_labels(&self, tls: TlsLabel) -> TrafficLabels {
        TrafficLabels { direction: self.target.direction(), target: self.label(), server: None, tls }
    }
}

impl Client {
    /// Returns the TLS label: the client's identity, or why there is none.
    pub(crate) fn tls_label(&self) -> TlsLabel {
        match (self.origin.door, &self.peer_id, self.has_tls, &self.link.codec) {
            (_, Some(id), ..) => TlsLabel::Mutual(SpiffeId::clone(id)),
            (_, None, true, _) => TlsLabel::NoCertificate,
            (_, None, false, Codec::Opaque(opaque)) if opaque.carries_tls() => TlsLabel::Opaque,
            (Door::Outbound, ..) => TlsLabel::None(NoTlsReason::Loopback),
            (Door::Inbound | Door::Tunnel, ..) => TlsLabel::None(NoTlsReason::NoTlsFromRemote),
        }
    }
}

impl Relay {
    /// Returns the TLS label of a call to an endpoint: the identity that the endpoint must prove, or why the hop has no
    /// mutual TLS.
    pub(crate) fn endpoint_tls(&self, direction: Direction, hop: Hop, expected: Option<&SpiffeId>) -> TlsLabel {
        match (expected, direction) {
            (Some(id), _) if hop.is_mutual_tls() => TlsLabel::Mutual(id.clone()),
            (_, Direction::Inbound) => TlsLabel::None(NoTlsReason::Loopback),
            (_, Direction::Outbound) if self.targets.own().is_some() => TlsLabel::None(NoTlsReason::NotInMesh),
            (_, Direction::Outbound) => TlsLabel::Disabled,
        }
    }

    /// Returns the metric series that counts a client's connection.
    pub(crate) fn client_series(&self, client: &Client) -> Arc<TcpMetrics> {
        let direction = client.origin.door.direction();
        let target = match (direction, client.target) {
            (Direction::Inbound, Some(target)) if !self.ports.is_named(target.port()) => TargetLabel::Other,
            (Direction::Inbound, Some(target)) => TargetLabel::Port(target.port()),
            (Direction::Outbound, Some(target)) => match self.targets.mesh().cluster_by_address(target) {
                Some(cluster) if client.may_be_balanced(cluster, target) => TargetLabel::Service(cluster.key.clone()),
                _ => TargetLabel::Unknown,
            },
            (_, None) => TargetLabel::Unknown,
        };
        let traffic = TrafficLabels { direction, target, server: None, tls: client.tls_label() };
        self.metrics.connections(&ConnectionLabels { peer: PeerLabel::Source, traffic })
    }

    /// Returns the metric series that counts a connection to an endpoint.
    pub(crate) fn endpoint_series(&self, upstream: &Upstream) -> Option<Arc<TcpMetrics>> {
        let cluster = self.targets.get(upstream.cluster)?;
        let tls = self.endpoint_tls(cluster.target.direction(), upstream.key.hop, upstream.expected.as_deref());
        let traffic = cluster.traffic_labels(tls);
        Some(self.metrics.connections(&ConnectionLabels { peer: PeerLabel::Destination, traffic }))
    }
}
