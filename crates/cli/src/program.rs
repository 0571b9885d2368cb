//! Other programs that the tool runs: nft, iptables, ip and their like.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use leno_lab::child::find_program;

/// Why a program did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It is not installed.
    #[error("{name} is not installed; install it with: apt-get install {package}")]
    Missing {
        /// Its name.
        name: String,
        /// The Debian package that it comes in.
        package: &'static str,
    },
    /// The system refused to run it.
    #[error("{name} does not run: {source}")]
    Run {
        /// Its name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ran and failed.
    #[error("{command}: {said}")]
    Failed {
        /// Its name and its arguments.
        command: String,
        /// The first line that it wrote.
        said: String,
    },
}

/// Runs a program that must succeed, with `input` on its standard input; returns its standard output. It is found as
/// root's PATH would find it.
///
/// # Errors
/// When it is not installed, cannot be run or fails.
pub(crate) fn run<A: AsRef<OsStr>>(name: &str, args: &[A], input: &str) -> Result<String, ProgramError> {
    let missing = || ProgramError::Missing { name: name.to_owned(), package: package(name) };
    let mut command = Command::new(find_program(name).ok_or_else(missing)?);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = feed(&mut command, input).map_err(|source| ProgramError::Run { name: name.to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    let said = first_line(&output.stderr).unwrap_or_else(|| output.status.to_string());
    Err(ProgramError::Failed { command: format!("{name} {}", words.join(" ")), said })
}

fn feed(command: &mut Command, input: &str) -> io::Result<Output> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// What went wrong comes first, sometimes on the line after a name; after it come the source line and advice.
fn first_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let rest = if first.ends_with(':') { lines.next() } else { None };
    Some([Some(first), rest].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Where Debian and Ubuntu have a program.
fn package(name: &str) -> &'static str {
    match name {
        "nft" => "nftables",
        "ip" => "iproute2",
        "id" => "coreutils",
        name if name.starts_with("iptables") || name.starts_with("ip6tables") => "iptables",
        _ => "util-linux",
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
