//! Errors of `leno run`, each with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use leno_identity::directory::DirectoryError;

use super::options::Subnet;
use crate::intercept;
use crate::program::ProgramError;

/// The reason why `leno run` ends before its program does. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Only root may create network namespaces.
    #[error("only root may create network namespaces; run: sudo leno run ..")]
    NotRoot,
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        source: io::Error,
    },
    /// A helper program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Redirecting the namespace's connections to the proxy failed.
    #[error(transparent)]
    Intercept(#[from] intercept::Error),
    #[error(transparent)]
    Authority(#[from] DirectoryError),
    #[error("all addresses of {subnet} are taken; end some runs, or give {option} a larger network")]
    SubnetFull {
        subnet: Subnet,
        /// The option that sets the subnet.
        option: &'static str,
    },
    #[error(
        "the bridge {bridge} belongs to the runs with --state {theirs}; give the runs with --state {} another one with \
         --bridge, or end those runs and remove what is left of them with: leno run --clean --state {theirs} --bridge \
         {bridge}",
        ours.display()
    )]
    BridgeOfOthers {
        bridge: String,
        /// The directory of the mesh to which the bridge belongs.
        theirs: String,
        /// The directory of this run's mesh.
        ours: PathBuf,
    },
    /// A network device with the bridge's name exists, but `leno run` did not make it.
    #[error(
        "the network device {bridge} exists, but leno run did not make it; choose another name with --bridge, or, if an \
         older leno made it, remove it with: ip link delete dev {bridge}"
    )]
    BridgeForeign { bridge: String },
    #[error(
        "the network namespace {name} exists, but no run with --state {} made it; choose another name with --bridge, or \
         remove the namespace with: ip netns delete {name}",
        state.display()
    )]
    NamespaceTaken {
        name: String,
        /// The directory of this run's mesh.
        state: PathBuf,
    },
    /// The user's own manifests define the Service without a clusterIP.
    #[error(
        "{file}: the Service {service} has no clusterIP; give it an address of {subnet} that is free, or remove it"
    )]
    NoClusterIp {
        /// The manifest's file.
        file: String,
        service: String,
        /// The subnet of the addresses of Services.
        subnet: Subnet,
    },
    /// The proxy ended during its start.
    #[error("the proxy ended at once ({status}): {last_line}")]
    ProxyEnded { status: String, last_line: String },
    #[error(
        "the proxy was not ready after {waited_s} s; its log ends with: {log_end}; {}",
        whole_log(kept_log.as_deref())
    )]
    ProxyNotReady {
        waited_s: u64,
        log_end: String,
        /// The file of the proxy's log, if it remains after the run.
        kept_log: Option<PathBuf>,
    },
}

impl Error {
    /// Returns whether the reason is a bridge that does not belong to this mesh.
    pub(super) fn is_foreign_bridge(&self) -> bool {
        matches!(self, Self::BridgeOfOthers { .. } | Self::BridgeForeign { .. })
    }
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// Returns a clause for an error message: where the user finds the whole log of the proxy, or how to keep it.
fn whole_log(kept: Option<&Path>) -> String {
    match kept {
        Some(log) => format!("the whole log is {}", log.display()),
        None => "to keep the whole log, repeat the command with --proxy-log FILE".to_owned(),
    }
}

/// Returns a function that converts an I/O error to [`Error::Io`]; `what` is the action that failed.
pub(super) fn io<'a>(what: impl Into<String> + 'a) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what: what.into(), source }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
