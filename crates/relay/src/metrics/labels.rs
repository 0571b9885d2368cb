//! Labels of series about traffic, under the names that Linkerd's dashboards query.
//!
//! Names in labels come from the configuration or from a verified certificate. A text that a peer chose (authority,
//! SNI) is never a label.

use leno_model::mesh::{ClusterKey, Controller, ControllerKind};
use leno_model::spiffe::SpiffeId;

/// Label names with their values, in the order in which they are written.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The direction of traffic, as seen from this proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Traffic from other workloads to our own application.
    Inbound,
    /// Traffic from our own application to other workloads.
    Outbound,
}

/// The proxy's peer on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerLabel {
    /// The downstream peer, which opened the connection.
    Source,
    /// The upstream peer. The proxy opened the connection.
    Destination,
}

/// The destination of traffic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetLabel {
    /// A port of a Service.
    Service(ClusterKey),
    /// A port of our own application.
    Port(u16),
    /// A destination that the mesh does not know.
    Unknown,
    /// Any target without a series of its own, because the limit on series is reached.
    Other,
}

/// The value of the label `tls`: the authentication of a peer. The peer of a call is the other workload. The peer of a
/// connection may also be our own application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsLabel {
    /// Mutual TLS authenticates the peer as this workload.
    Mutual(SpiffeId),
    /// Mutual TLS authenticates the peer. The label does not name the workload, because the limit on series is reached.
    MutualOther,
    /// The client has sent no certificate. The connection is encrypted.
    NoCertificate,
    /// The proxy does not authenticate the peer: the applications use their own TLS.
    Opaque,
    /// The peer is not authenticated: the connection is plaintext.
    None(NoTlsReason),
    /// The peer is not authenticated: this proxy has no identity.
    Disabled,
    /// The call was never sent, so it had no peer that could be authenticated.
    Unknown,
}

/// Reason why a connection is plaintext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoTlsReason {
    /// The peer is our own application.
    Loopback,
    /// The client began without TLS.
    NoTlsFromRemote,
    /// The destination has no proxy of the mesh.
    NotInMesh,
    /// The client is a kubelet that probes the application: it has no identity, and its requests do not count as calls.
    Probe,
}

/// The labels of a series about calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficLabels {
    /// The direction of the calls, as seen from this proxy.
    pub direction: Direction,
    /// The destination of the calls.
    pub target: TargetLabel,
    /// The controller of the server's Pod, if known; only for outbound calls.
    pub server: Option<Controller>,
    /// The authentication of the client (inbound) or of the server (outbound).
    pub tls: TlsLabel,
}

/// The labels of a series about connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionLabels {
    /// The proxy's peer on the connection.
    pub peer: PeerLabel,
    /// The labels of the traffic on the connection. The field `tls` describes the peer of this connection, also if this
    /// peer is our own application.
    pub traffic: TrafficLabels,
}

/// The labels of a series about policy decisions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthorizationLabels {
    /// The client and its destination; the direction is inbound.
    pub traffic: TrafficLabels,
    /// The policy that decides about these calls; `None` only in tests.
    pub policy: Option<DecidedBy>,
}

/// The policy that decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecidedBy {
    /// The default inbound policy, by its name.
    Default(&'static str),
    /// An `AuthorizationPolicy`, by `namespace/name`.
    AuthorizationPolicy(Box<str>),
    /// Any policy without a series of its own, because the limit on series is reached.
    Other,
}

impl Direction {
    /// Returns the value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }
}

impl NoTlsReason {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::NoTlsFromRemote => "no_tls_from_remote",
            Self::NotInMesh => "not_provided_by_service_discovery",
            Self::Probe => "probe",
        }
    }
}

impl TlsLabel {
    /// Returns the value of the label `tls`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Mutual(_) | Self::MutualOther | Self::NoCertificate => "true",
            Self::Opaque => "opaque",
            Self::None(_) => "no_identity",
            Self::Disabled => "disabled",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the same label without the workload's name.
    pub(crate) fn without_name(&self) -> Self {
        match self {
            Self::Mutual(_) => Self::MutualOther,
            other => other.clone(),
        }
    }

    fn push(&self, direction: Direction, labels: &mut Labels) {
        let id_label = match direction {
            Direction::Inbound => "client_id",
            Direction::Outbound => "server_id",
        };
        labels.push(("tls", self.label().to_owned()));
        match self {
            Self::Mutual(id) => labels.push((id_label, id.to_string())),
            Self::MutualOther => labels.push((id_label, "other".to_owned())),
            Self::NoCertificate => labels.push((id_label, String::new())),
            Self::None(reason) => labels.push(("no_tls_reason", reason.label().to_owned())),
            Self::Opaque | Self::Disabled | Self::Unknown => {}
        }
    }
}

impl TargetLabel {
    fn push(&self, direction: Direction, labels: &mut Labels) {
        if let Self::Service(ClusterKey { namespace, service, port }) = self {
            labels.push(("authority", format!("{service}.{namespace}.svc.cluster.local:{port}")));
        }
        self.push_names(direction, labels);
    }

    /// Pushes all labels except `authority`, which only repeats what the other labels say.
    pub(super) fn push_names(&self, direction: Direction, labels: &mut Labels) {
        match (self, direction) {
            (Self::Service(ClusterKey { namespace, service, port }), _) => {
                labels.push(("dst_namespace", namespace.to_string()));
                labels.push(("dst_service", service.to_string()));
                labels.push(("dst_port", port.to_string()));
            }
            (Self::Port(port), _) => {
                labels.push(("target_port", port.to_string()));
                labels.push(("srv_port", port.to_string()));
            }
            (Self::Other, Direction::Inbound) => labels.push(("target_port", "other".to_owned())),
            (Self::Other, Direction::Outbound) => labels.push(("dst_service", "other".to_owned())),
            (Self::Unknown, _) => {}
        }
    }
}

/// Returns the name of the label whose value is the server's controller. A Job's label has the name `k8s_job`, as in
/// Linkerd, because `job` is a label of Prometheus itself.
fn server_label(kind: ControllerKind) -> &'static str {
    match kind {
        ControllerKind::CronJob => "dst_cronjob",
        ControllerKind::DaemonSet => "dst_daemonset",
        ControllerKind::Deployment => "dst_deployment",
        ControllerKind::Job => "dst_k8s_job",
        ControllerKind::ReplicaSet => "dst_replicaset",
        ControllerKind::ReplicationController => "dst_replicationcontroller",
        ControllerKind::StatefulSet => "dst_statefulset",
    }
}

impl TrafficLabels {
    /// Returns the labels of the series that counts all traffic beyond the limit on series. These labels have the kind
    /// of authentication, but no names.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { direction: self.direction, target: TargetLabel::Other, server: None, tls: self.tls.without_name() }
    }

    /// Returns the labels of calls.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = vec![("direction", self.direction.label().to_owned())];
        self.push_target_and_tls(&mut labels);
        labels
    }

    fn push_target_and_tls(&self, labels: &mut Labels) {
        self.target.push(self.direction, labels);
        if let Some(Controller { kind, name }) = &self.server {
            labels.push((server_label(*kind), name.to_string()));
        }
        self.tls.push(self.direction, labels);
    }
}

impl ConnectionLabels {
    /// Returns the labels of the series that counts all connections beyond the limit on series.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { peer: self.peer, traffic: self.traffic.beyond_limit() }
    }

    /// Returns the labels of connections.
    pub(super) fn labels(&self) -> Labels {
        let peer = match self.peer {
            PeerLabel::Source => "src",
            PeerLabel::Destination => "dst",
        };
        let mut labels = vec![("direction", self.traffic.direction.label().to_owned()), ("peer", peer.to_owned())];
        self.traffic.push_target_and_tls(&mut labels);
        labels
    }
}

impl AuthorizationLabels {
    /// Returns the labels of the series that counts all decisions beyond the limit on series.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { traffic: self.traffic.beyond_limit(), policy: self.policy.as_ref().map(|_| DecidedBy::Other) }
    }

    /// Returns the labels of decisions. As in Linkerd, they have no direction.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = Labels::new();
        self.traffic.push_target_and_tls(&mut labels);
        if let Some(policy) = &self.policy {
            let (kind, name) = match policy {
                DecidedBy::Default(name) => ("default", *name),
                DecidedBy::AuthorizationPolicy(name) => ("authorizationpolicy", &**name),
                DecidedBy::Other => ("other", "other"),
            };
            labels.push(("authz_kind", kind.to_owned()));
            labels.push(("authz_name", name.to_owned()));
        }
        labels
    }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
