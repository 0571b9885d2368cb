//! `leno-proxy grpc`: an identity for a gRPC program that speaks xDS itself and has no proxy.
//!
//! The program obtains and renews the workload's certificate like a proxy. It writes the certificate, its key, the
//! trust anchors and a bootstrap to files. gRPC reads these files with its certificate provider `file_watcher`. Calls
//! do not pass through this program.

mod directory;
mod options;

use std::cell::{Cell, OnceCell};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::Exposition;
use leno_admin::answer::{Answer, not_found, text, typed, wrong_method};
use leno_admin::logging;
use leno_identity::TlsIdentity;
use leno_identity::upkeep::{IdentityMetrics, UpkeepError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::control::start_identity;
use crate::{metrics, runtime};
use directory::Directory;
pub(crate) use options::Options;

/// First word of the command line that selects this mode.
pub(crate) const WORD: &str = "grpc";

/// Delay after a failed write of the files.
const RETRY: Duration = Duration::from_secs(10);

/// The page at /.
const CONTENTS: &str = "\
GET /live        200 while the process runs
GET /ready       200 once the files are written
GET /metrics     numbers for Prometheus
";

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GrpcError {
    #[error("--directory {}: {source}; name a directory that this user may write", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("--admin {address}: {source}; choose an address of this machine that is free")]
    Admin { address: SocketAddr, source: io::Error },
    #[error("--issuer {}: {source}", path.display())]
    Identity { path: PathBuf, source: Box<UpkeepError> },
    #[error("the program could not start: {0}")]
    Start(#[from] io::Error),
    #[error("the log could not start: {0}")]
    Log(#[from] logging::StartError),
}

/// Writes the files and keeps them up to date until a signal ends the process.
pub(crate) fn run(options: Options) -> Result<(), GrpcError> {
    runtime::run(start(options))
}

async fn start(options: Options) -> Result<(), GrpcError> {
    logging::start(options.log.clone(), options.log_format)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let address = options.admin;
    let admin = leno_accept::listen(address).map_err(|source| GrpcError::Admin { address, source })?;
    let written: Rc<OnceCell<Rc<Cell<IdentityMetrics>>>> = Rc::default();
    let asked = written.clone();
    tokio::select! {
        ended = serve(&options, &written) => ended.map(|never| match never {}),
        never = leno_admin::serve(admin, async move |request| answer(&request, asked.get())) => match never {},
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// Obtains the identity, writes the files, and keeps them up to date. Sets `written` after the first complete write.
async fn serve(options: &Options, written: &OnceCell<Rc<Cell<IdentityMetrics>>>) -> Result<Infallible, GrpcError> {
    let failed = |source| GrpcError::Directory { path: options.directory.clone(), source };
    // A wrong directory is a mistake in the command line: find it before waiting for a certificate.
    let directory = Directory::open(&options.directory).map_err(failed)?;
    let bootstrap = options.bootstrap(directory.path());
    let (workload, place) = options.place.clone();
    let path = place.path();
    let identity = start_identity(workload, place).await;
    let identity = identity.map_err(|source| GrpcError::Identity { path, source: Box::new(source) })?;
    let (identities, metrics) = (identity.identity(), identity.metrics());
    directory.replace(&files(&identities.borrow(), &bootstrap)).map_err(failed)?;
    tracing::info!(directory = %directory.path().display(), "the files for gRPC are written");
    let _ = written.set(metrics);
    tokio::select! {
        never = follow(&directory, identities, &bootstrap) => match never {},
        never = identity.run() => match never {},
    }
}

/// Writes the files again whenever the certificate or the trust anchors change.
async fn follow(
    directory: &Directory,
    mut identities: watch::Receiver<Arc<TlsIdentity>>,
    bootstrap: &str,
) -> Infallible {
    loop {
        if identities.changed().await.is_err() {
            // Never reached: the sender belongs to `Upkeep`, which runs for ever.
            std::future::pending::<()>().await;
        }
        let mut files = files(&identities.borrow_and_update(), bootstrap);
        while let Err(error) = directory.replace(&files) {
            let (directory, retry_s) = (directory.path().display(), RETRY.as_secs());
            tracing::warn!(%directory, %error, retry_s, "the files for gRPC could not be written; the old ones stay");
            sleep(RETRY).await;
            files = self::files(&identities.borrow_and_update(), bootstrap);
        }
    }
}

/// Returns the names and contents of the files to write.
fn files(identity: &TlsIdentity, bootstrap: &str) -> [(&'static str, String); 4] {
    let pair = identity.svid().key_pair_pem();
    [
        (options::CHAIN, pair.certificate),
        (options::KEY, pair.private_key),
        (options::ANCHORS, identity.bundle.to_pem()),
        (options::BOOTSTRAP, bootstrap.to_owned()),
    ]
}

fn answer(request: &Request<Incoming>, written: Option<&Rc<Cell<IdentityMetrics>>>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return wrong_method("GET, HEAD");
    }
    match (request.uri().path(), written) {
        ("/", _) => text(StatusCode::OK, CONTENTS),
        ("/live", _) => text(StatusCode::OK, "live\n"),
        ("/ready", Some(_)) => text(StatusCode::OK, "ready\n"),
        ("/ready", None) => {
            text(StatusCode::SERVICE_UNAVAILABLE, "waiting for the first certificate; the log says why\n")
        }
        ("/metrics", written) => {
            let metrics = written.map(|metrics| metrics.get()).unwrap_or_default();
            let exposition = Exposition::asked_for(request.headers());
            typed(
                StatusCode::OK,
                exposition.content_type(),
                exposition.of_open_metrics(metrics::identity_text(metrics)),
            )
        }
        _ => not_found(),
    }
}
