//! The process: what is started, in which order, and what ends it.

use std::convert::Infallible;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use leno_admin::logging;
use leno_identity::issuer::LocalIssuer;
use leno_identity::upkeep::{Upkeep, UpkeepError};
use leno_model::spiffe::Workload;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::options::Options;
use crate::pages::Pages;
use crate::publish::Publisher;
use crate::source::DirectorySource;

/// The trust domain of workloads where no issuer names another.
const TRUST_DOMAIN: &str = "cluster.local";

/// Why the control plane ended other than well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("--config {}: {source}; name a directory of Kubernetes manifests", path.display())]
    Config { path: PathBuf, source: io::Error },
    #[error("--{flag} {address}: {source}; choose an address of this machine that is free")]
    Listen { flag: &'static str, address: SocketAddr, source: io::Error },
    #[error("--xds {0}: without an identity xDS is served in clear, to this machine only; choose a loopback address")]
    InClear(SocketAddr),
    #[error("--issuer {}: {source}", path.display())]
    Identity { path: PathBuf, source: Box<UpkeepError> },
    #[error("the xDS server ended: {0}")]
    Serve(#[from] tonic::transport::Error),
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
    let log = logging::start(options.log, options.log_format)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let unreadable = |source| RunError::Config { path: options.config.clone(), source };
    let directory = DirectorySource::open(&options.config).map_err(unreadable)?;
    let identity = match (options.issuer, options.identity) {
        (Some(path), Some(workload)) => Some(start_identity(path, workload).await?),
        _ if options.xds.ip().is_loopback() => None,
        _ => return Err(RunError::InClear(options.xds)),
    };
    let xds = listen("xds", options.xds).await?;
    let admin = listen("admin", options.admin).await?;
    tracing::info!(xds = %xds.local_addr()?, admin = %admin.local_addr()?, "serving");

    let identities = identity.as_ref().map(Upkeep::identity);
    let trust_domain = match &identities {
        Some(identities) => identities.borrow().id.trust_domain.clone(),
        None => TRUST_DOMAIN.parse().expect("it is one"),
    };
    let mesh = directory.mesh();
    let publisher = Publisher::new(mesh.borrow().clone(), trust_domain);
    let pages = Pages { publisher: publisher.clone(), log };
    tokio::select! {
        error = directory.run() => Err(unreadable(error)),
        () = publisher.follow(mesh) => Ok(()),
        served = publisher.serve(xds, identities) => Ok(served?),
        never = leno_admin::serve(admin, async move |request| pages.answer(request).await) => match never {},
        never = keep(identity) => match never {},
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn start_identity(path: PathBuf, workload: Workload) -> Result<Upkeep, RunError> {
    let failed = |source| RunError::Identity { path: path.clone(), source: Box::new(source) };
    let issuer = LocalIssuer::open(&path).map_err(|error| failed(error.into()))?;
    // The keys of a hash map are random in each process.
    let seed = RandomState::new().hash_one(());
    Upkeep::start(Box::new(issuer), workload, seed).await.map_err(failed)
}

/// Keeps the identity good, if there is one; never ends.
async fn keep(identity: Option<Upkeep>) -> Infallible {
    match identity {
        Some(identity) => identity.run().await,
        None => pending().await,
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|source| RunError::Listen { flag, address, source })
}
