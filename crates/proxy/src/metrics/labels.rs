//! What tells series about traffic apart, under the label names that Linkerd's dashboards query.
//!
//! Peers' own words (authorities, SNI) are no labels: only what configuration names or a certificate proves.

use leno_model::mesh::ClusterKey;
use leno_model::spiffe::SpiffeId;

/// Label names with their values, in the order in which they are written.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Which side of the mesh the proxy is to this traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From others to the own application.
    Inbound,
    /// From the own application to others.
    Outbound,
}

/// Which of its two neighbours the proxy has a connection with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// Downstream: it opened the connection.
    Source,
    /// Upstream: the proxy opened the connection.
    Destination,
}

/// What traffic is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A cluster of the mesh.
    Service(ClusterKey),
    /// A port of the own application.
    Port(u16),
    /// Nothing that the mesh knows.
    Unknown,
    /// A target beyond the limit of series.
    Other,
}

/// How the peer that is not the own application is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tls {
    /// By mutual TLS, as this workload.
    Mutual(SpiffeId),
    /// By mutual TLS, as a workload beyond the limit of series.
    MutualOther,
    /// Not at all, but encrypted: a client that showed no certificate.
    NoCertificate,
    /// Not by the proxy: the TLS is the applications' own.
    Opaque,
    /// Not at all: plaintext.
    None(NoTlsReason),
    /// Not at all: this proxy has no identity.
    Disabled,
}

/// Why a connection is plaintext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoTlsReason {
    /// The peer is the own application.
    Loopback,
    /// The client began without TLS.
    NoTlsFromRemote,
    /// The destination has no proxy of the mesh.
    NotInMesh,
    /// The client is a kubelet that probes the application: it has no identity, and its requests are no calls.
    Probe,
}

/// What tells series about calls apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficLabels {
    /// Which side this proxy is.
    pub direction: Direction,
    /// What the calls are for.
    pub target: Target,
    /// How the client (inbound) or the server (outbound) is authenticated.
    pub tls: Tls,
}

/// What tells series about connections apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionLabels {
    /// Which of the two connections it is.
    pub peer: Peer,
    /// What it carries; its `tls` is this connection's.
    pub traffic: TrafficLabels,
}

/// What tells series about policy's decisions apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthorizationLabels {
    /// Who asked for what; the direction is inbound.
    pub traffic: TrafficLabels,
    /// What decided; none where that is not told, as of what is allowed.
    pub policy: Option<DecidedBy>,
}

/// The policy that decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecidedBy {
    /// The default inbound policy, by its name.
    Default(&'static str),
    /// An `AuthorizationPolicy`, by `namespace/name`.
    AuthorizationPolicy(Box<str>),
    /// A policy beyond the limit of series.
    Other,
}

impl Direction {
    /// Its label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }
}

impl NoTlsReason {
    fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::NoTlsFromRemote => "no_tls_from_remote",
            Self::NotInMesh => "not_provided_by_service_discovery",
            Self::Probe => "probe",
        }
    }
}

impl Tls {
    /// The label `tls`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Mutual(_) | Self::MutualOther | Self::NoCertificate => "true",
            Self::Opaque => "opaque",
            Self::None(_) => "no_identity",
            Self::Disabled => "disabled",
        }
    }

    /// The same without a name.
    fn without_name(&self) -> Self {
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
            Self::Opaque | Self::Disabled => {}
        }
    }
}

impl Target {
    fn push(&self, direction: Direction, labels: &mut Labels) {
        match (self, direction) {
            (Self::Service(ClusterKey { namespace, service, port }), _) => {
                labels.push(("authority", format!("{service}.{namespace}.svc.cluster.local:{port}")));
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

impl TrafficLabels {
    /// The labels of the series that is shared by what exceeds a limit: no names, but still whether it was secure.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { direction: self.direction, target: Target::Other, tls: self.tls.without_name() }
    }

    /// The labels of calls.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = vec![("direction", self.direction.label().to_owned())];
        self.push_target_and_tls(&mut labels);
        labels
    }

    fn push_target_and_tls(&self, labels: &mut Labels) {
        self.target.push(self.direction, labels);
        self.tls.push(self.direction, labels);
    }
}

impl ConnectionLabels {
    /// The labels of the series that is shared by what exceeds a limit.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { peer: self.peer, traffic: self.traffic.beyond_limit() }
    }

    /// The labels of connections.
    pub(super) fn labels(&self) -> Labels {
        let peer = match self.peer {
            Peer::Source => "src",
            Peer::Destination => "dst",
        };
        let mut labels = vec![("direction", self.traffic.direction.label().to_owned()), ("peer", peer.to_owned())];
        self.traffic.push_target_and_tls(&mut labels);
        labels
    }
}

impl AuthorizationLabels {
    /// The labels of the series that is shared by what exceeds a limit.
    pub(super) fn beyond_limit(&self) -> Self {
        Self { traffic: self.traffic.beyond_limit(), policy: self.policy.as_ref().map(|_| DecidedBy::Other) }
    }

    /// The labels of decisions. They have no direction, as Linkerd's have none.
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
