//! Everything that can end a run of the lab, each with what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a run ended early. Its text is one line for the person at the terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program that the run cannot do without is not installed.
    #[error("{program} is not installed; install it with: {install}")]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// The line that installs it.
        install: &'static str,
    },
    /// A child process ended while it was needed.
    #[error("{name} ended early ({status}): {last_line}")]
    ChildEnded {
        /// What the run calls it.
        name: String,
        /// How it ended.
        status: String,
        /// The last line that it wrote.
        last_line: String,
    },
    /// A child process runs but does not serve.
    #[error("{name} did not answer on {address} within {waited_ms} ms: {last_line}")]
    NotReady {
        /// What the run calls it.
        name: String,
        /// Where it should answer.
        address: SocketAddr,
        /// How long it was given.
        waited_ms: u128,
        /// The last line that it wrote.
        last_line: String,
    },
    /// A program wrote something that the lab cannot read.
    #[error("{program} wrote no {wanted}; it ended with: {last_line}")]
    Unreadable {
        /// Its name.
        program: &'static str,
        /// What was looked for.
        wanted: &'static str,
        /// The last line that it wrote.
        last_line: String,
    },
    /// Calls failed, so that the numbers would be worth nothing.
    #[error("{target}: {failed} of {calls} calls failed: {why}")]
    CallsFailed {
        /// Through what they were made.
        target: String,
        /// How many failed.
        failed: u64,
        /// How many were made.
        calls: u64,
        /// One of the reasons.
        why: String,
    },
    /// Nothing listens, or it does not speak gRPC.
    #[error("cannot call {target} at {address}: {why}")]
    Connect {
        /// What was called.
        target: String,
        /// Where.
        address: SocketAddr,
        /// What went wrong.
        why: String,
    },
    /// A binary was not built.
    #[error("{} does not exist; build it with: {build}", path.display())]
    NotBuilt {
        /// Where it was looked for.
        path: PathBuf,
        /// The line that builds it.
        build: &'static str,
    },
    /// A certificate or a TLS connection is not what it must be.
    #[error("{what}: {why}")]
    Tls {
        /// What was being done.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// A Kubernetes cluster, or who talks to its control plane, did not do what was asked.
    #[error("{what}: {why}")]
    Cluster {
        /// What was being done.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// Somebody pressed Ctrl-C, or sent SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// An option has a value that makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// The lab's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Names what was being done when the operating system refused it.
pub(crate) fn io<'a>(what: impl Into<String> + 'a) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what: what.into(), source }
}
