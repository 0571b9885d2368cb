//! Runs the control plane for the mesh of a directory of manifests: starts its servers in order.

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};

use leno_admin::logging::LogLevels;
use leno_identity::issuer::LocalIssuer;
use leno_identity::upkeep::Upkeep;
use leno_model::spiffe::Workload;
use rustls::pki_types::DnsName;

use crate::options::Options;
use crate::pages::Pages;
use crate::publish::Publisher;
use crate::run::{RunError, listen};
use crate::source::DirectorySource;

/// Serves the mesh of a directory until `ended` completes. Reads files before it listens, so that errors show as early
/// as possible.
pub(crate) async fn serve(
    path: &Path,
    options: Options,
    log: LogLevels,
    ended: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let unreadable = |source| RunError::Config { path: path.to_owned(), source };
    let directory = DirectorySource::open(path).map_err(unreadable)?;
    let identity = match (options.issuer, options.identity) {
        (Some(path), Some(workload)) => Some(start_identity(path, workload, dns_names(options.dns_name)?).await?),
        _ if options.xds.ip().is_loopback() => None,
        _ => return Err(RunError::InClear(options.xds)),
    };
    let xds = listen("xds", options.xds)?;
    let admin = listen("admin", options.admin)?;
    tracing::info!(xds = %xds.local_addr()?, admin = %admin.local_addr()?, "serving");

    let identities = identity.as_ref().map(Upkeep::identity);
    let trust_domain = match &identities {
        Some(identities) => identities.borrow().id.trust_domain.clone(),
        None => options.trust_domain,
    };
    let mesh = directory.mesh();
    let publisher = Publisher::new(mesh.borrow().clone(), trust_domain);
    let pages = Pages { publisher: publisher.clone(), log, cluster: None };
    tokio::select! {
        error = directory.run() => Err(unreadable(error)),
        () = publisher.follow(mesh) => Ok(()),
        served = publisher.serve(xds, identities) => Ok(served?),
        never = leno_admin::serve(admin, async move |request| pages.answer(request).await) => match never {},
        never = keep(identity) => match never {},
        () = ended => Ok(()),
    }
}

async fn start_identity(
    path: PathBuf,
    workload: Workload,
    dns_names: Vec<DnsName<'static>>,
) -> Result<Upkeep, RunError> {
    let failed = |source| RunError::Issuer { path: path.clone(), source: Box::new(source) };
    let issuer = LocalIssuer::open(&path).map_err(|error| failed(error.into()))?.with_dns_names(dns_names);
    Upkeep::start(Box::new(issuer), workload, fastrand::u64(..)).await.map_err(failed)
}

fn dns_names(names: Vec<String>) -> Result<Vec<DnsName<'static>>, RunError> {
    let read = |name: String| DnsName::try_from(name.clone()).map_err(|_| RunError::DnsName(name));
    names.into_iter().map(read).collect()
}

/// Renews the identity if there is one; never returns.
async fn keep(identity: Option<Upkeep>) -> Infallible {
    match identity {
        Some(identity) => identity.run().await,
        None => pending().await,
    }
}
