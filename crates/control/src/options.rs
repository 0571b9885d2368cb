//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use leno_admin::logging::{LogFilter, LogFormat};
use leno_model::spiffe::TrustDomain;

/// Leno's control plane: tells proxies, Envoy and gRPC clients where Services are, over xDS, and certifies who they are.
///
/// It watches the Kubernetes cluster that it runs in, or that KUBECONFIG names; with --config, a directory.
#[derive(Debug, Parser)]
#[command(name = "leno-control", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Instead of a cluster: directory of Kubernetes manifests in *.yaml, *.yml and *.json; watched for changes
    #[arg(long, env = "LENO_CONFIG", value_name = "DIR")]
    pub(crate) config: Option<PathBuf>,

    /// Where xDS is served: over mutual TLS, but with --config in clear, on an address of this machine's loopback
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15010")]
    pub(crate) xds: SocketAddr,

    /// Where workloads of the cluster get their certificates
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15012", conflicts_with = "config")]
    pub(crate) identity: SocketAddr,

    /// The trust domain of the mesh's workloads
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub(crate) trust_domain: TrustDomain,

    /// The namespace of the control plane in the cluster: that of its Secret and its Lease
    #[arg(long, env = "LENO_NAMESPACE", value_name = "NAMESPACE", default_value = "leno", conflicts_with = "config")]
    pub(crate) namespace: String,

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
