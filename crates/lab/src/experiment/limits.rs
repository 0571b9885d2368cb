//! The limit of open files: every connection is an open file, in the load and in the proxy.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::options::Settings;
use crate::error::{Error, Result, io};

/// Number of open files that the lab or a proxy needs in addition to its connections.
const OTHER_FILES: u64 = 200;

/// Raises the limit of open files as far as possible; every program of the experiment inherits it.
///
/// # Errors
/// If the limit is too low for the requested connections.
pub(super) fn ensure_open_files(settings: &Settings) -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|error| io("raising the limit of open files")(error.into()))?;
    let connections = settings.cases.iter().map(|case| case.connections).max().unwrap_or_default();
    match maximum {
        Some(maximum) => enough(connections, maximum),
        None => Ok(()),
    }
}

fn enough(connections: u32, open_files: u64) -> Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    if needed <= open_files {
        return Ok(());
    }
    let most = open_files.saturating_sub(OTHER_FILES);
    Err(Error::Usage(format!(
        "--connections {connections} needs {needed} open files, and {open_files} are allowed; use --connections {most} \
         or raise the limit with ulimit -Hn {needed}"
    )))
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
