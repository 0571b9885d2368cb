//! Chooses the proxies that the dashboard shows. If the user names no proxies, the dashboard tries these sources in
//! order, and shows the proxies of the first one that has any:
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

/// Returns the options with which other `leno` commands read the same proxies as [`proxies`] found, each after a space;
/// `None` if the proxies belong to `leno run`.
pub(super) fn options(source: &Source, proxies: &Proxies) -> Option<String> {
    match source.is_explicit() || proxies.are_of_cluster() {
        true => Some(source.options()),
        false => proxies.iter().next()?.options(),
    }
}

/// Finds the proxies to show. Prints a line if these are proxies on this machine that the user did not name: the
/// proxies of `leno run`, or the proxy at the default admin address.
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
