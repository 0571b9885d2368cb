//! The process: what is started, in which order, and what ends it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use leno_admin::logging::{self, LogLevels};
use leno_identity::issuer::IssueError;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::cluster;
use crate::options::Options;
use crate::pages::Pages;
use crate::publish::Publisher;
use crate::source::DirectorySource;

/// Why the control plane ended other than well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("--config {}: {source}; name a directory of Kubernetes manifests", path.display())]
    Config { path: PathBuf, source: io::Error },
    #[error("--{flag} {address}: {source}; choose an address of this machine that is free")]
    Listen { flag: &'static str, address: SocketAddr, source: io::Error },
    #[error("--xds {0}: without an identity xDS is served in clear, to this machine only; choose a loopback address")]
    InClear(SocketAddr),
    #[error("a server ended: {0}")]
    Serve(#[from] tonic::transport::Error),
    #[error("there is no cluster to watch: {0}; set KUBECONFIG, run in a Pod, or name a directory with --config")]
    NoCluster(Box<dyn std::error::Error + Send + Sync>),
    #[error("the control plane has no identity: {0}")]
    Identity(#[from] IssueError),
    #[error("the log could not start: {0}")]
    Log(#[from] logging::StartError),
    #[error("the control plane could not start: {0}")]
    Start(#[from] io::Error),
}

/// Runs the control plane until a signal ends it.
pub(crate) fn run(options: Options) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    LocalSet::new().block_on(&runtime, start(options))
}

/// Starts in the order in which a mistake is found soonest: files, addresses.
async fn start(options: Options) -> Result<(), RunError> {
    let log = logging::start(options.log.clone(), options.log_format)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ended = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    match &options.config {
        Some(path) => serve_directory(path, &options, log, ended).await,
        None => cluster::serve(&options, log, ended).await,
    }
}

/// Serves the mesh of a directory until `ended`.
async fn serve_directory(
    path: &Path,
    options: &Options,
    log: LogLevels,
    ended: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let unreadable = |source| RunError::Config { path: path.to_owned(), source };
    let directory = DirectorySource::open(path).map_err(unreadable)?;
    if !options.xds.ip().is_loopback() {
        return Err(RunError::InClear(options.xds));
    }
    let xds = listen("xds", options.xds).await?;
    let admin = listen("admin", options.admin).await?;
    tracing::info!(xds = %xds.local_addr()?, admin = %admin.local_addr()?, "serving");

    let mesh = directory.mesh();
    let publisher = Publisher::new(mesh.borrow().clone(), options.trust_domain.clone());
    let pages = Pages { publisher: publisher.clone(), log, cluster: None };
    tokio::select! {
        error = directory.run() => Err(unreadable(error)),
        () = publisher.follow(mesh) => Ok(()),
        served = publisher.serve(xds, None) => Ok(served?),
        never = leno_admin::serve(admin, async move |request| pages.answer(request).await) => match never {},
        () = ended => Ok(()),
    }
}

pub(crate) async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|source| RunError::Listen { flag, address, source })
}
