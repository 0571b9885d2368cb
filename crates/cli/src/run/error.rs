//! Why a program does not run, each with what to do about it.

use std::io;
use std::path::PathBuf;

use leno_identity::directory::DirectoryError;

use super::options::Subnet;
use crate::intercept;
use crate::program::ProgramError;

/// Why `leno run` ends before its program does. Its text is one line for the person at the terminal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Namespaces are root's to make.
    #[error("network namespaces are root's to make; type: sudo leno run ..")]
    NotRoot,
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program that does the work failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The namespace's connections cannot be redirected.
    #[error(transparent)]
    Intercept(#[from] intercept::Error),
    /// The certificate authority cannot be written.
    #[error(transparent)]
    Authority(#[from] DirectoryError),
    /// Every address is taken.
    #[error("all addresses of {subnet} are taken; end some runs, or give {option} a larger network")]
    SubnetFull {
        /// The network.
        subnet: Subnet,
        /// The option that sets it.
        option: &'static str,
    },
    /// The user's own manifests have the Service, without an address.
    #[error(
        "{file}: the Service {service} has no clusterIP; give it an address of {subnet} that is free, or remove it"
    )]
    NoClusterIp {
        /// Where it is defined.
        file: String,
        /// Its name.
        service: String,
        /// Where services' addresses come from.
        subnet: Subnet,
    },
    /// The proxy ended while it was starting.
    #[error("the proxy ended at once ({status}): {last_line}")]
    ProxyEnded {
        /// How it ended.
        status: String,
        /// The last line of its log.
        last_line: String,
    },
    /// The proxy runs but does not become ready.
    #[error("the proxy was not ready after {waited_s} s: {last_line}; its whole log is {}", log.display())]
    ProxyNotReady {
        /// How long it was given.
        waited_s: u64,
        /// The last line of its log.
        last_line: String,
        /// Where its log is.
        log: PathBuf,
    },
}

/// The result of what a run does.
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Names what was being done when the operating system refused it.
pub(super) fn io<'a>(what: impl Into<String> + 'a) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what: what.into(), source }
}
