//! Commands that use a cluster. `connect` reaches the cluster's API server; `forward` reaches the admin ports of Pods
//! through the API server. Each command reads all the data that it needs, draws conclusions in pure functions, and
//! shows them in a `table`.

pub(crate) mod authz;
mod certificate;
pub(crate) mod check;
mod clock;
pub(crate) mod connect;
pub(crate) mod dashboard;
pub(crate) mod diagnose;
pub(crate) mod explain;
mod forbidden;
mod forward;
mod handshake;
pub(crate) mod identity;
mod installer;
mod metrics;
mod pods;
mod policies;
mod printable;
pub(crate) mod problems;
mod progress;
mod prometheus;
mod reader;
mod readings;
pub(crate) mod running;
mod scrape;
mod select;
mod service_port;
mod source;
pub(crate) mod stat;
mod table;
pub(crate) mod tap;
pub(crate) mod traffic;
pub(crate) mod uninstall;
pub(crate) mod upgrade;
pub(crate) mod version;

use std::io;

/// Runs a future, such as a command's requests to the cluster, on a new tokio runtime.
pub(crate) fn block_on<T>(conversation: impl Future<Output = T>) -> io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(conversation))
}
