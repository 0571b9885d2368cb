//! Runs other programs, such as nft, iptables and ip.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use leno_lab::child::find_program;

/// The reason why a program failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("{name} is not installed; install it with: apt-get install {package}")]
    Missing {
        name: String,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    #[error("cannot run {name}: {source}")]
    Run { name: String, source: io::Error },
    /// The program ran, and reported a failure.
    #[error("{command}: {said}")]
    Failed {
        /// The name and the arguments.
        command: String,
        /// The fault that the program wrote to standard error, as [`first_line`] returns it; the exit status if it
        /// wrote none.
        said: String,
    },
}

/// Runs a program with `input` on its standard input, and returns its standard output. Searches PATH, /usr/sbin and
/// /usr/local/sbin for the program.
///
/// # Errors
/// If the program is not installed, cannot be run, or fails.
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
    Err(ProgramError::Failed { command: format!("{name} {}", words.join(" ")).trim_end().to_owned(), said })
}

fn feed(command: &mut Command, input: &str) -> io::Result<Output> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore an error: if the program ended before it has read its input, its own message explains why.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// Returns the line of standard error that names the fault. If the first line ends with a colon, it has only the
/// program's name, so appends the second line. Omits further lines, which quote the program's input and give advice.
fn first_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let rest = if first.ends_with(':') { lines.next() } else { None };
    Some([Some(first), rest].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// The Debian and Ubuntu package of a program.
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
