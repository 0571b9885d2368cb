//! Errors that end a run of the lab, with the remedy where one is known.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why a run ended early. Each error message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        source: io::Error,
    },
    /// A required program is not installed.
    #[error("{program} is not installed; install it with: {install}")]
    MissingProgram {
        program: &'static str,
        /// The command that installs the program.
        install: &'static str,
    },
    /// A child process ended while it was needed.
    #[error("{name} ended early ({status}): {last_line}")]
    ChildEnded {
        /// The process's name in the run.
        name: String,
        status: String,
        last_line: String,
    },
    /// A child process runs but does not serve.
    #[error("{name} did not answer on {address} within {waited_ms} ms: {last_line}")]
    NotReady {
        /// The process's name in the run.
        name: String,
        /// The address on which the process should answer.
        address: SocketAddr,
        waited_ms: u128,
        last_line: String,
    },
    /// The lab cannot parse a program's output.
    #[error("{program} wrote no {wanted}; it ended with: {last_line}")]
    Unreadable {
        program: &'static str,
        /// The item that is missing in the output.
        wanted: &'static str,
        last_line: String,
    },
    /// Calls failed, which makes the numbers useless.
    #[error("{target}: {failed} of {calls} calls failed: {why}")]
    CallsFailed {
        /// The target of the calls.
        target: String,
        failed: u64,
        calls: u64,
        why: String,
    },
    /// The address refuses connections, or does not speak gRPC.
    #[error("cannot call {target} at {address}: {why}")]
    Connect { target: String, address: SocketAddr, why: String },
    /// A binary was not built.
    #[error("{} does not exist; build it with: {build}", path.display())]
    NotBuilt {
        path: PathBuf,
        /// The command that builds the binary.
        build: &'static str,
    },
    /// A certificate or a TLS connection is unsuitable.
    #[error("{what}: {why}")]
    Tls {
        /// The action that failed.
        what: String,
        why: String,
    },
    /// A Kubernetes cluster, or a client of its control plane, failed.
    #[error("{what}: {why}")]
    Cluster {
        /// The action that failed.
        what: String,
        why: String,
    },
    /// A message between the lab and its load in another process is invalid.
    #[error("{what}: {why}")]
    Message {
        /// The invalid message, or the action that failed.
        what: String,
        why: String,
    },
    /// Ctrl-C, SIGTERM or SIGHUP.
    #[error("interrupted")]
    Interrupted,
    /// An option has an invalid value.
    #[error("{0}")]
    Usage(String),
}

pub type Result<T> = std::result::Result<T, Error>;

/// Turns an error of the operating system into ours, with the action that failed.
pub(crate) fn io<'a>(what: impl Into<String> + 'a) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what: what.into(), source }
}
