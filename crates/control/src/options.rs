//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use leno_admin::logging::{LogFilter, LogFormat};
use leno_model::spiffe::{TrustDomain, Workload};

/// Leno's control plane: tells proxies, Envoy and gRPC clients where Services are, over xDS, and certifies who they are.
///
/// It watches the Kubernetes cluster that it runs in, or that KUBECONFIG names; with --config, a directory.
#[derive(Debug, Parser)]
#[command(name = "leno-control", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Instead of a cluster: directory of Kubernetes manifests in *.yaml, *.yml and *.json; watched for changes
    #[arg(long, env = "LENO_CONFIG", value_name = "DIR")]
    pub(crate) config: Option<PathBuf>,

    /// Where xDS is served: over mutual TLS, but with --config and no --identity in clear, on this machine only
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15010")]
    pub(crate) xds: SocketAddr,

    /// Where workloads of the cluster get their certificates
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15012")]
    pub(crate) certify: SocketAddr,

    /// The namespace of the control plane in the cluster: that of its Secret and its Lease
    #[arg(long, env = "LENO_NAMESPACE", value_name = "NAMESPACE", default_value = "leno")]
    pub(crate) namespace: String,

    /// The trust domain of the mesh's workloads; with --issuer, that of the issuer
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub(crate) trust_domain: TrustDomain,

    /// With --config: who this control plane is: ns/NAMESPACE/sa/SERVICE-ACCOUNT
    #[arg(long, value_name = "WORKLOAD", requires_all = ["issuer", "config"])]
    pub(crate) identity: Option<Workload>,

    /// With --config: who issues the certificate that proves it: a directory made by `leno ca init`
    #[arg(long, value_name = "DIR", requires_all = ["identity", "config"])]
    pub(crate) issuer: Option<PathBuf>,

    /// Where /ready, /metrics, /clients and the like are served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4191")]
    pub(crate) admin: SocketAddr,

    /// off, error, warn, info, debug or trace, for everything or by target: info,leno_control=debug
    #[arg(long, env = "LENO_LOG", value_name = "LEVELS", default_value = "info,kube_client=off")]
    pub(crate) log: LogFilter,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Plain)]
    pub(crate) log_format: LogFormat,
}
