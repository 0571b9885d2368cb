//! The configuration of a linkerd2-proxy: environment variables, as Linkerd's injector writes them with the default
//! values of its Helm chart.
//!
//! Source, at commit b24cd40 of linkerd/linkerd2: `charts/partials/templates/_proxy.tpl`, and `proxy:` in
//! `charts/linkerd-control-plane/values.yaml`.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;

use super::names::NAMESPACE;

/// The inbound policy of a port for which no other policy exists. It rejects clients without a certificate; Linkerd's
/// own default, `all-unauthenticated`, accepts them.
pub(super) const DEFAULT_POLICY: &str = "all-authenticated";
/// The address ranges of Pods and Services. A proxy asks the control plane only about addresses within these ranges.
const CLUSTER_NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";

/// Environment variables that have the same value for all proxies.
const SHARED: [(&str, &str); 22] = [
    ("LOG", "warn,linkerd=info,hickory=error,[{headers}]=off,[{request}]=off"),
    ("LOG_FORMAT", "plain"),
    ("CORES", "1"),
    ("CORES_MIN", "1"),
    ("SHUTDOWN_ENDPOINT_ENABLED", "false"),
    ("DESTINATION_PROFILE_NETWORKS", CLUSTER_NETWORKS),
    ("DESTINATION_PROFILE_SUFFIXES", "svc.cluster.local."),
    ("POLICY_CLUSTER_NETWORKS", CLUSTER_NETWORKS),
    ("INBOUND_DEFAULT_POLICY", DEFAULT_POLICY),
    ("INBOUND_CONNECT_TIMEOUT", "100ms"),
    ("OUTBOUND_CONNECT_TIMEOUT", "1000ms"),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", "90s"),
    ("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "5s"),
    ("INBOUND_ACCEPT_KEEPALIVE", "10000ms"),
    ("OUTBOUND_CONNECT_KEEPALIVE", "10000ms"),
    ("INBOUND_ACCEPT_USER_TIMEOUT", "30s"),
    ("OUTBOUND_CONNECT_USER_TIMEOUT", "30s"),
    ("OUTBOUND_METRICS_HOSTNAME_LABELS", "false"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
];

/// The parameters of the proxy of one Pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sidecar<'a> {
    /// Name of the Pod.
    pub(super) pod: &'a str,
    /// Identity of the Pod's service account, which the proxy's certificate contains.
    pub(super) identity: &'a str,
    /// Directory with the key and the certificate signing request.
    pub(super) end_entity: &'a Path,
    /// File with the token for the identity service.
    pub(super) token: &'a Path,
    /// Certificate of the authority, in PEM.
    pub(super) trust_anchors: &'a str,
    /// Address of all services of the control plane. It is a loopback address, so the proxy connects to it without TLS.
    pub(super) control: SocketAddr,
    /// Ports of the application.
    pub(super) ports: &'a [u16],
    /// Address on which the proxy accepts inbound connections. Its IP address is the Pod's.
    pub(super) inbound: SocketAddr,
    pub(super) outbound: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Sidecar<'_> {
    /// The environment variables of the proxy.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let control = self.control.to_string();
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let own = [
            ("DESTINATION_SVC_ADDR", control.clone()),
            ("POLICY_SVC_ADDR", control.clone()),
            ("IDENTITY_SVC_ADDR", control),
            ("POLICY_WORKLOAD", json!({"ns": NAMESPACE, "pod": self.pod}).to_string()),
            ("DESTINATION_CONTEXT", json!({"ns": NAMESPACE, "nodeName": "lab", "pod": self.pod}).to_string()),
            ("INBOUND_LISTEN_ADDR", self.inbound.to_string()),
            ("OUTBOUND_LISTEN_ADDRS", self.outbound.to_string()),
            ("ADMIN_LISTEN_ADDR", self.admin.to_string()),
            ("INBOUND_IPS", self.inbound.ip().to_string()),
            ("INBOUND_PORTS", ports.join(",")),
            ("IDENTITY_DIR", self.end_entity.display().to_string()),
            ("IDENTITY_TOKEN_FILE", self.token.display().to_string()),
            ("IDENTITY_TRUST_ANCHORS", self.trust_anchors.to_owned()),
            ("IDENTITY_LOCAL_NAME", self.identity.to_owned()),
        ];
        let shared = SHARED.into_iter().map(|(name, value)| (name, value.to_owned()));
        shared.chain(own).map(|(name, value)| (format!("LINKERD2_PROXY_{name}"), value)).collect()
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
