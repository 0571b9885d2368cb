//! Finds the program linkerd2-proxy, and checks whether it is new enough.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::programs::{cannot_start, named};
use crate::child::{find_program, last_line};
use crate::error::{Error, Result};

/// How to install the program. The Linkerd project publishes it in container images only, so a user must build it.
pub(in super::super) const INSTALL: &str =
    "cargo, as \"Build linkerd2-proxy\" in docs/lab.md says, and name it with --linkerd2-proxy PATH";
/// The remedy in errors about an unsuitable linkerd2-proxy.
const REMEDY: &str = "name another one, which you build as \"Build linkerd2-proxy\" in docs/lab.md says";
/// The oldest supported release, from April 2024: the first that reads the environment variable [`VARIABLE`].
const OLDEST: &str = "2.228.0";
/// An environment variable that the lab needs to configure the proxy. Versions before [`OLDEST`] do not read it.
const VARIABLE: &str = "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS";

/// Returns the program `given`. If the user gave none, returns the linkerd2-proxy in PATH.
///
/// # Errors
/// If the program does not exist.
pub(super) fn find(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => named("--linkerd2-proxy", path, REMEDY),
        None => {
            find_program("linkerd2-proxy").ok_or(Error::MissingProgram { program: "linkerd2-proxy", install: INSTALL })
        }
    }
}

/// Returns the program's version.
///
/// # Errors
/// If the program is missing, cannot be executed, or is older than [`OLDEST`], or if the lab cannot create a network
/// namespace.
pub(in super::super) fn version(given: Option<&Path>) -> Result<String> {
    let path = find(given)?;
    let version = judge(&path, &start_without_configuration(&path)?)?;
    super::l4::version()?;
    Ok(version)
}

/// Starts the program with an invalid value of [`VARIABLE`], so that it ends at once. Returns its output.
fn start_without_configuration(path: &Path) -> Result<String> {
    let mut command = Command::new(path);
    let variables = [("LINKERD2_PROXY_LOG", "info"), ("LINKERD2_PROXY_LOG_FORMAT", "plain"), (VARIABLE, "invalid")];
    command.envs(variables).stdin(Stdio::null());
    let output = command.output().map_err(|error| cannot_start("linkerd2-proxy", path, &error, REMEDY))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns the version that a program wrote at its start, from the line
/// `[     0.000096s]  INFO ThreadId(01) linkerd2_proxy: release 2.366.0 (29637b6) by linkerd on 2026-08-21T15:03:02Z`.
fn judge(path: &Path, said: &str) -> Result<String> {
    let line = said.lines().find_map(|line| line.split_once(" linkerd2_proxy: ")).map(|(_, words)| words.trim());
    let mut words = line.unwrap_or_default().split_whitespace();
    let (Some(profile), Some(version), Some(commit)) = (words.next(), words.next(), words.next()) else {
        let (path, last) = (path.display(), last_line(said.as_bytes()));
        let what = format!("{path} is no linkerd2-proxy: it wrote no version, but: {last}; {REMEDY}");
        return Err(Error::Usage(what));
    };
    if !said.contains(VARIABLE) {
        let path = path.display();
        let what = format!("linkerd2-proxy {path} ({version}) is too old: the lab needs {OLDEST} or later; {REMEDY}");
        return Err(Error::Usage(what));
    }
    // The program was built outside of a Git repository if the commit is `()`.
    let commit = if commit == "()" { String::new() } else { format!(" {commit}") };
    Ok(format!("linkerd2-proxy {version}{commit}, {profile} build"))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
