//! The program ztunnel: where it is, and whether it can run here.

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

/// The remedy for an unsuitable program.
const REMEDY: &str = "name another one, which you build as \"Build ztunnel\" in docs/lab.md says";
/// The first release of Istio whose ztunnel supports [`VARIABLE`], from November 2024.
const OLDEST: &str = "1.24";
/// An environment variable with which the lab configures ztunnel.
const VARIABLE: &str = "PROXY_WORKLOAD_INFO";
/// A variable that older versions read too.
const OLDER_VARIABLE: &str = "ZTUNNEL_WORKER_THREADS";
/// Longest time for ztunnel to write its version, or to reject its configuration.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// The tunnel on both sides of the waypoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// The program ztunnel at this path.
    Ztunnel(PathBuf),
    /// The lab's own tunnel, and why it replaces ztunnel.
    Bare(String),
}

impl Tunnel {
    /// Chooses the named ztunnel; if none is named, the ztunnel in PATH, if it can run here.
    ///
    /// # Errors
    /// If the named ztunnel is no file.
    pub(super) fn choose(programs: &Programs) -> Result<Self> {
        // A trial of the program takes a while, and every run of an experiment chooses.
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

/// Returns the version of a ztunnel.
///
/// # Errors
/// If the program cannot be executed, or is older than [`OLDEST`], or if the lab cannot create a network namespace.
pub(super) fn version(path: &Path) -> Result<String> {
    let version = judge(path, &said(path, &["version"], &[], PATIENCE)?)?;
    // ztunnel ends at once, because both variables are invalid. Older versions name only the second.
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

/// Returns the text that the program writes with these arguments and variables.
///
/// # Errors
/// If the program does not start, or has not ended after `patience`.
fn said(path: &Path, args: &[&str], env: &[(&str, &str)], patience: Duration) -> Result<String> {
    // A file, because a pipe would end only when every process that the program started has ended.
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
    // Fails only if the program has ended already.
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

/// Returns the version that a program wrote, in the form
/// `version.BuildInfo{Version:"1.28.0", GitRevision:"62d8265", .., BuildProfile:"release", .., CryptoProvider:"tls-ring"}`.
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
    // A build from a checkout has the whole commit as its version.
    let is_commit = version.len() > 20 && version.bytes().take(20).all(|byte| byte.is_ascii_hexdigit());
    let version = if is_commit { version.get(..7).unwrap_or(version) } else { version };
    let parts = [field("BuildProfile").map(|it| format!("{it} build")), field("CryptoProvider").map(ToOwned::to_owned)];
    let parts: String = parts.into_iter().flatten().map(|part| format!(", {part}")).collect();
    Ok(format!("ztunnel {version}{parts}"))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
