//! The program ztunnel: where it is, and whether it is new enough.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::l4;
use crate::child::{find_program, last_line};
use crate::error::{Error, Result, io as io_error};

/// The remedy for an unsuitable program.
const REMEDY: &str = "name another one, which you build as \"Build ztunnel\" in docs/lab.md says";
/// The first release of Istio whose ztunnel supports [`VARIABLE`], from November 2024.
const OLDEST: &str = "1.24";
/// An environment variable with which the lab configures ztunnel.
const VARIABLE: &str = "PROXY_WORKLOAD_INFO";

/// Returns the program `given`; if none is given, the ztunnel in PATH. `None` without either of them.
///
/// # Errors
/// If `given` is no file.
pub(super) fn find(given: Option<&Path>) -> Result<Option<PathBuf>> {
    match given {
        // Make the path absolute: the system would search PATH for a name that has no slash.
        Some(path) if path.is_file() => {
            std::path::absolute(path).map(Some).map_err(io_error(path.display().to_string()))
        }
        Some(path) => Err(Error::Usage(format!("--ztunnel {}: there is no such file; {REMEDY}", path.display()))),
        None => Ok(find_program("ztunnel")),
    }
}

/// Returns the version of the program that [`find`] found.
///
/// # Errors
/// If the program cannot be executed, or is older than [`OLDEST`], or if the lab cannot create a network namespace.
pub(super) fn version(path: &Path) -> Result<String> {
    let version = judge(path, &said(path, &["version"], &[])?)?;
    // ztunnel ends at once, because both variables are invalid. Older versions name only the second.
    let invalid = [("PROXY_MODE", "dedicated"), (VARIABLE, ""), ("ZTUNNEL_WORKER_THREADS", "invalid")];
    if !said(path, &[], &invalid)?.contains(VARIABLE) {
        let path = path.display();
        let what =
            format!("ztunnel {path} ({version}) is too old: the lab needs that of Istio {OLDEST} or later; {REMEDY}");
        return Err(Error::Usage(what));
    }
    l4::version()?;
    Ok(version)
}

/// Returns the text that the program writes with these arguments and variables.
fn said(path: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<String> {
    let mut command = Command::new(path);
    command.args(args).envs(env.iter().copied()).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        let path = path.display();
        Error::Usage(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("ztunnel {path} is not executable; make it so with: chmod +x {path}")
            }
            _ => format!("ztunnel {path} does not start: {error}; {REMEDY}"),
        })
    })?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
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
