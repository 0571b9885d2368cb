//! Starts the control plane's process, and ends it in order after a signal.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use leno_admin::logging;
use leno_identity::upkeep::UpkeepError;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::options::Options;
use crate::webhooks::BadConfig;
use crate::{cluster, local};

/// The error with which the control plane ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("--config {}: {source}; name a directory of Kubernetes manifests", path.display())]
    Config { path: PathBuf, source: io::Error },
    #[error("--{flag} {address}: {source}; choose an address of this machine that is free")]
    Listen { flag: &'static str, address: SocketAddr, source: io::Error },
    #[error("--xds {0}: without an identity xDS is served in clear, to this machine only; choose a loopback address")]
    InClear(SocketAddr),
    #[error("--issuer {}: {source}", path.display())]
    Issuer { path: PathBuf, source: Box<UpkeepError> },
    #[error("there is no cluster to watch: {0}; set KUBECONFIG, or run in a Pod")]
    NoCluster(Box<dyn std::error::Error + Send + Sync>),
    #[error("--inject-config {}: {source}", path.display())]
    InjectConfig { path: PathBuf, source: BadConfig },
    #[error(
        "--namespace {namespace} and --cluster-domain {cluster_domain} make no DNS name of the Service leno-control; \
         give each as the cluster has it"
    )]
    NoName { namespace: String, cluster_domain: String },
    #[error("--dns-name {0:?} is no DNS name; give one such as localhost or control.example.org")]
    DnsName(String),
    #[error("a server ended: {0}")]
    Serve(#[from] tonic::transport::Error),
    #[error("the log could not start: {0}")]
    Log(#[from] logging::StartError),
    #[error("the control plane could not start: {0}")]
    Start(#[from] io::Error),
}

/// Runs the control plane until a signal ends it.
pub(crate) fn run(options: Options) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = LocalSet::new().block_on(&runtime, start(options));
    logging::flush();
    ended
}

async fn start(options: Options) -> Result<(), RunError> {
    let log = logging::start(options.log.clone(), options.log_format)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    match options.config.clone() {
        Some(directory) => local::serve(&directory, options, log, signalled()).await,
        None => cluster::serve(&options, log, signalled).await,
    }
}

/// Listens on `address`, which the command-line flag `flag` gave.
pub(crate) fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    leno_accept::listen(address).map_err(|source| RunError::Listen { flag, address, source })
}
