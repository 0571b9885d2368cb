//! Finds the program ztunnel, and checks whether it can run here.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::super::programs::{cannot_start, named};
use super::super::{Programs, l4};
use super::ztunnel::INHERITED;
use crate::child::{find_program, inherit_only, last_line};
use crate::error::{Error, Result, io as io_error};

/// The remedy in errors about an unsuitable ztunnel.
const REMEDY: &str = "name another one, which you build as \"Build ztunnel\" in docs/lab.md says";
/// The oldest supported release of Istio (November 2024): the first whose ztunnel reads the environment variable
/// [`VARIABLE`].
const OLDEST: &str = "1.24";
/// An environment variable that the lab needs to configure ztunnel. Versions before [`OLDEST`] do not read it.
const VARIABLE: &str = "PROXY_WORKLOAD_INFO";
/// An environment variable that all versions of ztunnel read, including those before [`OLDEST`].
const OLDER_VARIABLE: &str = "ZTUNNEL_WORKER_THREADS";
/// Maximum time for ztunnel to print its version, or to reject its configuration.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// The program that runs as the tunnel on both sides of the waypoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// The program ztunnel at this path.
    Ztunnel(PathBuf),
    /// The lab's own tunnel; the text is the reason why it replaces ztunnel.
    Bare(String),
}

impl Tunnel {
    /// Chooses the ztunnel that the user names with `--ztunnel`. Without `--ztunnel`, chooses the ztunnel in PATH if it
    /// can run on this machine, otherwise the bare tunnel.
    ///
    /// # Errors
    /// If `--ztunnel` names no file.
    pub(super) fn choose(programs: &Programs) -> Result<Self> {
        // Cache the result: checking the program takes a while, and each run of an experiment calls this function.
        static IN_PATH: OnceLock<Tunnel> = OnceLock::new();
        match programs.ztunnel.as_deref() {
            _ if programs.without_ztunnel => Ok(Self::Bare("which this command does not run".to_owned())),
            Some(path) => named("--ztunnel", path, REMEDY).map(Self::Ztunnel),
            None => Ok(IN_PATH.get_or_init(|| Self::found(find_program("ztunnel"))).clone()),
        }
    }

    fn found(in_path: Option<PathBuf>) -> Self {
        let Some(path) = in_path else {
            return Self::Bare("which is not in PATH (--ztunnel PATH names it)".to_owned());
        };
        match version(&path) {
            Ok(_) => Self::Ztunnel(path),
            Err(error) => Self::Bare(format!("because {error}")),
        }
    }
}

/// Returns the version of the ztunnel at `path`.
///
/// # Errors
/// If the program cannot be executed, or is older than [`OLDEST`], or if the lab cannot create a network namespace.
pub(super) fn version(path: &Path) -> Result<String> {
    let version = judge(path, &said(path, &["version"], &[], PATIENCE)?)?;
    // Give all variables invalid values, so that ztunnel ends at once with an error. A version from [`OLDEST`] on names
    // [`VARIABLE`] in its error; an older version names [`OLDER_VARIABLE`].
    let invalid = [("PROXY_MODE", "dedicated"), (VARIABLE, ""), (OLDER_VARIABLE, "invalid")];
    let said = said(path, &[], &invalid, PATIENCE)?;
    if !said.contains(VARIABLE) {
        let (path, last) = (path.display(), last_line(said.as_bytes()));
        let why = if said.contains(OLDER_VARIABLE) {
            format!("is too old: the lab needs the ztunnel of Istio {OLDEST} or later")
        } else {
            format!("does not start: {last}")
        };
        return Err(Error::Usage(format!("ztunnel {path} ({version}) {why}; {REMEDY}")));
    }
    l4::version()?;
    Ok(version)
}

/// Runs the program with these arguments and environment variables, and returns its output.
///
/// # Errors
/// If the program does not start, or does not end within `patience`.
fn said(path: &Path, args: &[&str], env: &[(&str, &str)], patience: Duration) -> Result<String> {
    // Write the output to a file. A pipe would stay open until the program and all of its child processes have ended.
    let what = "running ztunnel";
    let mut output = tempfile::tempfile().map_err(io_error(what))?;
    let share = |file: &File| file.try_clone().map_err(io_error(what));
    let mut command = Command::new(path);
    inherit_only(&mut command, &INHERITED);
    command.args(args).envs(env.iter().copied()).stdin(Stdio::null());
    command.stdout(share(&output)?).stderr(share(&output)?);
    let mut process = command.spawn().map_err(|error| cannot_start("ztunnel", path, &error, REMEDY))?;
    let start = Instant::now();
    let mut has_ended = false;
    while !has_ended && start.elapsed() < patience {
        has_ended = process.try_wait().map_err(io_error(what))?.is_some();
        thread::sleep(if has_ended { Duration::ZERO } else { POLL });
    }
    // Ignore an error: it means that the program has already ended.
    let _ = process.kill();
    let _ = process.wait();
    let mut bytes = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut bytes)).map_err(io_error(what))?;
    if has_ended {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let (path, seconds, last) = (path.display(), patience.as_secs(), last_line(&bytes));
    Err(Error::Usage(format!("ztunnel {path} did not end within {seconds} s: {last}; {REMEDY}")))
}

/// Parses the version of ztunnel from its output, which has the form
/// `version.BuildInfo{Version:"1.28.0", .., BuildProfile:"release", .., CryptoProvider:"tls-ring"}`.
fn judge(path: &Path, said: &str) -> Result<String> {
    let field = |name: &str| {
        let (_, rest) = said.split_once("version.BuildInfo{")?;
        let (_, value) = rest.split_once(&format!("{name}:\""))?;
        value.split('"').next().filter(|value| !value.is_empty())
    };
    let Some(version) = field("Version") else {
        let (path, last) = (path.display(), last_line(said.as_bytes()));
        let what = format!("{path} is no ztunnel: it wrote no version, but: {last}; {REMEDY}");
        return Err(Error::Usage(what));
    };
    // The version of a build from a Git checkout is a whole commit hash; shorten it.
    let is_commit = version.len() > 20 && version.bytes().take(20).all(|byte| byte.is_ascii_hexdigit());
    let version = if is_commit { version.get(..7).unwrap_or(version) } else { version };
    let parts = [field("BuildProfile").map(|it| format!("{it} build")), field("CryptoProvider").map(ToOwned::to_owned)];
    let parts: String = parts.into_iter().flatten().map(|part| format!(", {part}")).collect();
    Ok(format!("ztunnel {version}{parts}"))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
