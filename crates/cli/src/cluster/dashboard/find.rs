//! Chooses the proxies that the dashboard shows. If the user names no proxies, the dashboard shows the proxies of the
//! first source in this list that it finds:
//!
//! 1. the proxies of `leno run`
//! 2. the proxies of the cluster
//! 3. the proxy at the default admin address

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use leno_model::proxy::ADMIN_PORT;

use crate::cluster::connect::ClusterError;
use crate::cluster::source::{Proxies, ProxyAt, Source};
use crate::run::running;

/// Returns the options with which other commands read the proxies that [`proxies`] found, each after a space; `None` for
/// the programs of `leno run`.
pub(super) fn options(source: &Source, proxies: &Proxies) -> Option<String> {
    match source.is_explicit() || proxies.are_of_cluster() {
        true => Some(source.options()),
        false => proxies.iter().next()?.options(),
    }
}

/// Finds the proxies to show. If the user named no proxies, and the choice falls on the proxies of `leno run` or on the
/// proxy at the default admin address, prints this choice.
///
/// # Errors
/// If the named cluster does not answer, or no proxy was found.
pub(super) async fn proxies(source: &Source) -> Result<Proxies, ClusterError> {
    if source.is_explicit() {
        return source.proxies().await;
    }
    let runs = running::list(Path::new(running::STATE));
    if !runs.is_empty() {
        eprintln!("leno: showing the {} programs of leno run; --admin or -n NAMESPACE shows others", runs.len());
        return Ok(Proxies::on_this_machine(runs.into_iter().map(ProxyAt::of_run).collect()));
    }
    let no_cluster = match source.proxies().await {
        Ok(proxies) => return Ok(proxies),
        Err(error) => error,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
    let proxies = Proxies::on_this_machine(vec![ProxyAt::address(address)]);
    let (pages, _) = proxies.ask("/live").await;
    if pages.is_empty() {
        return Err(ClusterError::new(
            format!("no proxy was found: {}, no program of leno run, and no proxy at {address}", no_cluster.what),
            "name admin addresses with --admin, or a cluster with --context; leno run needs root to be seen",
        ));
    }
    eprintln!("leno: showing the proxy at {address}");
    Ok(proxies)
}
