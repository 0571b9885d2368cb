//! What the calls go through: nothing, Leno's proxy, or HAProxy.

use std::fmt::{self, Write as _};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Stage;
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::manifest::Service;
use crate::procfs;

/// The kinds of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// One backend, without a proxy.
    Direct,
    /// Leno's proxy with one worker.
    Leno,
    /// HAProxy with one thread.
    Haproxy,
}

impl TargetKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Leno, Self::Haproxy];
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::Leno => "leno",
            Self::Haproxy => "haproxy",
        })
    }
}

/// A target that serves.
pub(super) struct Target {
    /// Its kind.
    pub(super) kind: TargetKind,
    /// Where calls go.
    pub(super) address: SocketAddr,
    process: Option<Child>,
}

impl Target {
    /// Starts a target in front of the backends.
    pub(super) fn start(kind: TargetKind, leno_proxy: Option<&Path>, stage: &Stage) -> Result<Self> {
        let (address, process) = match kind {
            TargetKind::Direct => (stage.backends.addresses[0], None),
            TargetKind::Leno => start_leno(leno_proxy, stage)?,
            TargetKind::Haproxy => start_haproxy(stage)?,
        };
        Ok(Self { kind, address, process })
    }

    /// The proxy's process id.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::pid)
    }

    /// The proxy's CPU time so far.
    pub(super) fn cpu_time(&mut self) -> Result<Option<Duration>> {
        let Some(process) = &mut self.process else {
            return Ok(None);
        };
        process.ensure_running()?;
        procfs::cpu_time(process.pid()).map(Some)
    }
}

fn start_leno(binary: Option<&Path>, stage: &Stage) -> Result<(SocketAddr, Option<Child>)> {
    let binary = leno_proxy_binary(binary)?;
    let (outbound, admin) = (free_address()?, free_address()?);
    let config = stage.dir.path().join("leno-config");
    // h2load's :authority is the address that it connects to.
    let service = Service {
        name: "backend",
        cluster_ip: Some(outbound.ip()),
        port: outbound.port(),
        balancer: "latency",
        endpoints: &stage.backends.addresses,
    };
    fs::create_dir_all(&config)
        .and_then(|()| fs::write(config.join("backend.yaml"), service.to_yaml()))
        .map_err(io("writing leno-proxy's configuration"))?;
    let args = [
        format!("--config={}", config.display()),
        format!("--outbound={outbound}"),
        format!("--admin={admin}"),
        "--workers=1".to_owned(),
    ];
    let launch = Launch::new("leno-proxy", binary, args).on_cpus(&stage.cpus.proxy);
    let mut child = Child::start(&launch, stage.dir.path())?;
    child.wait_for_http_ok(admin, "/ready")?;
    Ok((outbound, Some(child)))
}

fn leno_proxy_binary(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().map_err(io("finding leno's own executable"))?.with_file_name("leno-proxy"),
    };
    if !path.is_file() {
        let build = "cargo build --release -p leno-proxy";
        return Err(Error::NotBuilt { path, build });
    }
    Ok(path)
}

fn start_haproxy(stage: &Stage) -> Result<(SocketAddr, Option<Child>)> {
    let program = find_program("haproxy")
        .ok_or(Error::MissingProgram { program: "haproxy", install: "apt-get install haproxy" })?;
    let address = free_address()?;
    let config = stage.dir.path().join("haproxy.cfg");
    fs::write(&config, haproxy_config(address, &stage.backends.addresses))
        .map_err(io("writing haproxy's configuration"))?;
    let args = ["-db".into(), "-f".into(), config.into_os_string()];
    let launch = Launch::new("haproxy", program, args).on_cpus(&stage.cpus.proxy);
    let mut child = Child::start(&launch, stage.dir.path())?;
    child.wait_for_listener(address)?;
    Ok((address, Some(child)))
}

/// One thread, HTTP/2 both ways, nothing logged, connections to the backends shared as far as they
/// go: HAProxy at its fastest.
fn haproxy_config(frontend: SocketAddr, backends: &[SocketAddr]) -> String {
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
