//! The command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use leno_admin::logging::{LogFilter, LogFormat};
use leno_install::names::{CERTIFICATES_PORT, CONTROL_ADMIN_PORT, XDS_PORT};
use leno_model::proxy;
use leno_model::spiffe::{TrustDomain, Workload};

/// Leno's control plane: sends Services and endpoints over xDS to proxies, Envoy and gRPC clients, and issues
/// certificates
///
/// It watches a Kubernetes cluster or, on one machine, a directory.
#[derive(Debug, Parser)]
#[command(name = "leno-control", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Watch the cluster in which this process runs, or the one that KUBECONFIG names
    #[arg(long, required_unless_present = "config", conflicts_with = "config")]
    pub(crate) kubernetes: bool,

    /// Watch a directory of Kubernetes manifests in *.yaml, *.yml and *.json
    #[arg(long, env = "LENO_CONFIG", value_name = "DIR")]
    pub(crate) config: Option<PathBuf>,

    /// Address for xDS: over mutual TLS; unencrypted, and loopback only, with --config and without --identity
    #[arg(long, value_name = "ADDR", default_value_t = local(XDS_PORT))]
    pub(crate) xds: SocketAddr,

    /// Address where workloads of the cluster request their certificates
    #[arg(long, value_name = "ADDR", default_value_t = local(CERTIFICATES_PORT))]
    pub(crate) identity_service: SocketAddr,

    /// Address for the webhooks, which the API server calls before it stores a Pod or a mesh object; without it, no
    /// webhooks
    #[arg(long, value_name = "ADDR", requires = "inject_config", conflicts_with = "config")]
    pub(crate) webhooks: Option<SocketAddr>,

    /// The webhooks' options for new proxies: the Pod's annotation control.leno.dev/inject.yaml, as a file
    #[arg(long, value_name = "FILE", requires = "webhooks", conflicts_with = "config")]
    pub(crate) inject_config: Option<PathBuf>,

    /// The cluster's DNS domain, for the names of Services in xDS and in the control plane's own certificates
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", conflicts_with = "config")]
    pub(crate) cluster_domain: String,

    /// The control plane's own namespace, with its Secret and its Lease
    #[arg(long, env = "LENO_NAMESPACE", value_name = "NAMESPACE", default_value = "leno")]
    pub(crate) namespace: String,

    /// The trust domain of the mesh's workloads; with --issuer, that of the issuer
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub(crate) trust_domain: TrustDomain,

    /// Another program, such as cert-manager, writes the Secret leno-identity-issuer; wait for it, and never write it
    #[arg(long, conflicts_with = "config")]
    pub(crate) external_authority: bool,

    /// With --config: the identity of this control plane: ns/NAMESPACE/sa/SERVICE-ACCOUNT
    #[arg(long, value_name = "WORKLOAD", requires_all = ["issuer", "config"])]
    pub(crate) identity: Option<Workload>,

    /// With --config: the issuer of its certificate: a directory made by `leno ca init`
    #[arg(long, value_name = "DIR", requires_all = ["identity", "config"])]
    pub(crate) issuer: Option<PathBuf>,

    /// With --identity: a DNS name in its certificate, for gRPC programs, which compare it with the name that they
    /// dial; may be repeated
    #[arg(long, value_name = "NAME", requires = "identity")]
    pub(crate) dns_name: Vec<String>,

    /// Address of the admin endpoint: /ready, /metrics, /clients and more
    #[arg(long, value_name = "ADDR", default_value_t = local(CONTROL_ADMIN_PORT))]
    pub(crate) admin: SocketAddr,

    /// Address for /live and /ready only: for kubelets, if a proxy protects the admin endpoint
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) probes: Option<SocketAddr>,

    /// Where to write the trust bundle, for a proxy in the same Pod
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) trust_bundle: Option<PathBuf>,

    /// How long to serve on after SIGTERM, while clients move to another replica; a second signal ends at once
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_grace, conflicts_with = "config")]
    pub(crate) grace: Duration,

    /// Log levels: off, error, warn, info, debug or trace, for everything or by target: info,leno_control=debug
    #[arg(long, env = "LENO_LOG", value_name = "LEVELS", default_value = "info,kube_client=off")]
    pub(crate) log: LogFilter,

    /// The format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Plain)]
    pub(crate) log_format: LogFormat,
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    proxy::parse_grace(text)
        .ok_or_else(|| "write a whole number and a unit, for example 500ms, 30s or 2m, at most 60m".to_owned())
}

/// An address of this machine that no other machine can reach.
fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
