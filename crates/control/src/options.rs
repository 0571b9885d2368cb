//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use leno_model::spiffe::Workload;
use tracing_subscriber::filter::Targets;

/// Leno's control plane: tells proxies, Envoy and proxyless gRPC clients where Services are, over xDS.
#[derive(Debug, Parser)]
#[command(name = "leno-control", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Directory of Kubernetes manifests (Service, EndpointSlice) in *.yaml, *.yml and *.json; watched for changes
    #[arg(long, env = "LENO_CONFIG", value_name = "DIR")]
    pub(crate) config: PathBuf,

    /// Where xDS is served: in clear on this machine only, over mutual TLS with --identity
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:15010")]
    pub(crate) xds: SocketAddr,

    /// Who this control plane is: ns/NAMESPACE/sa/SERVICE-ACCOUNT
    #[arg(long, value_name = "WORKLOAD", requires = "issuer")]
    pub(crate) identity: Option<Workload>,

    /// Who issues the certificate that proves it: a directory made by `leno ca init`
    #[arg(long, value_name = "DIR", requires = "identity")]
    pub(crate) issuer: Option<PathBuf>,

    /// Where /ready, /metrics, /clients and the like are served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4191")]
    pub(crate) admin: SocketAddr,

    /// off, error, warn, info, debug or trace, for everything or by target: info,leno_control=debug
    #[arg(long, env = "LENO_LOG", value_name = "LEVELS", default_value = "info")]
    pub(crate) log: Targets,
}
