//! Commands that talk to a cluster: `connect` finds its API server, `forward` reaches its Pods' admin ports through it, and
//! each command reads what it needs, concludes purely, and shows a `table`.

pub(crate) mod authz;
mod certificate;
pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod diagnose;
mod forward;
mod handshake;
pub(crate) mod identity;
mod metrics;
mod peer;
mod plain;
mod pods;
mod policies;
mod progress;
pub(crate) mod running;
mod scrape;
mod select;
pub(crate) mod stat;
mod table;
pub(crate) mod uninstall;
pub(crate) mod upgrade;
pub(crate) mod version;

use std::io;

/// Runs a command's conversation with the cluster.
pub(crate) fn block_on<T>(conversation: impl Future<Output = T>) -> io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(conversation))
}
