//! Lists the runs on this machine, for commands that read the proxies of all runs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use leno_model::proxy::ADMIN_PORT;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::network::{enter, namespace};
use super::state::State;

/// The default of `leno run --state`.
pub(crate) const STATE: &str = "/run/leno";
/// Maximum time to connect to a proxy; short, because the proxy is on this machine.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// A live run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) namespace: String,
    pub(crate) service: String,
    /// The file that represents the run's network namespace, as `ip netns` creates it.
    pub(crate) network: PathBuf,
}

/// Lists the live runs that share the directory `state`, without changing it. Returns no runs if the directory does not
/// exist. Also returns none if the user may not write to it, because such a user cannot reach the proxies either.
pub(crate) fn list(state: &Path) -> Vec<Running> {
    let Some(state) = State::existing(state) else { return Vec::new() };
    let mut numbers = state.numbers().unwrap_or_default();
    numbers.sort_unstable();
    let living = numbers.into_iter().filter(|number| state.is_alive(*number));
    living.filter_map(|number| Running::parse(&state.about(number)?)).collect()
}

impl Running {
    /// Formats the line that a run records about itself.
    pub(super) fn line(network: &str, namespace: &str, service: &str) -> String {
        format!("{network} {namespace} {service}\n")
    }

    /// Parses the line that a run has recorded about itself.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (network, namespace_name, service) = (words.next()?, words.next()?, words.next()?);
        Some(Self { namespace: namespace_name.to_owned(), service: service.to_owned(), network: namespace(network) })
    }

    /// Returns the name of the network namespace in the line that a run has recorded about itself.
    pub(super) fn network_name(line: &str) -> Option<&str> {
        line.split_whitespace().next()
    }
}

/// Connects to the admin port in a network namespace. Only a short-lived thread enters the namespace: a socket that it
/// opens stays connected there, even if other threads use it.
///
/// # Errors
/// If the namespace does not exist, the user is not root, or no proxy listens.
pub(crate) async fn connect(network: PathBuf) -> io::Result<TcpStream> {
    let (sender, connected) = oneshot::channel();
    thread::Builder::new().spawn(move || {
        let connect = || -> io::Result<std::net::TcpStream> {
            enter(&network)?;
            let stream = std::net::TcpStream::connect_timeout(&address(), CONNECT_MAX)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        // Ignore an error: the receiver may have stopped waiting.
        let _ = sender.send(connect());
    })?;
    TcpStream::from_std(connected.await.map_err(io::Error::other)??)
}

fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, ADMIN_PORT).into()
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
