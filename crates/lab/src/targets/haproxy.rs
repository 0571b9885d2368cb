//! HAProxy.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The line that installs it on Debian and Ubuntu.
pub(super) const INSTALL: &str = "apt-get install haproxy";

/// Starts it in the foreground, without a master process.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let program = program()?;
    let address = free_address()?;
    let path = setting.dir.join("haproxy.cfg");
    fs::write(&path, config(address, setting.backends)).map_err(io("writing haproxy's configuration"))?;
    let args = ["-db".into(), "-f".into(), path.into_os_string()];
    let launch = Launch::new("haproxy", program, args).on_cpus(setting.cpus);
    let mut child = Child::start(&launch, setting.dir)?;
    child.wait_for_listener(address)?;
    Ok(Target::proxy(TargetKind::Haproxy, address, child))
}

/// What it says of itself, without its advertisement.
pub(super) fn version() -> Result<String> {
    let line = version_line("haproxy", &program()?, &["-v"])?;
    Ok(line.split(" - ").next().unwrap_or(&line).to_owned())
}

fn program() -> Result<PathBuf> {
    find_program("haproxy").ok_or(Error::MissingProgram { program: "haproxy", install: INSTALL })
}

/// One thread, HTTP/2 both ways, nothing logged, connections to the backends shared as far as they
/// go: HAProxy at its fastest.
fn config(frontend: SocketAddr, backends: &[SocketAddr]) -> String {
    let mut config = format!(
        "\
global
    nbthread 1
    # Twice the connections, as HAProxy reckons, would be more files than a process may open.
    no strict-limits
    maxconn 19500
    tune.h2.max-concurrent-streams 1000
defaults
    mode http
    timeout connect 5s
    timeout client 5m
    timeout server 60s
frontend calls
    bind {frontend} proto h2
    default_backend backends
backend backends
    balance leastconn
    http-reuse always
"
    );
    for (number, address) in backends.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(config, "    server s{number} {address} proto h2");
    }
    config
}

#[cfg(test)]
#[path = "haproxy_tests.rs"]
mod tests;
