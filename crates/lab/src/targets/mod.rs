//! What calls go through: proxies and netfilter rules in front of the backends, each as its users run it.
//!
//! Every proxy has one worker thread and speaks HTTP/2 without TLS on both sides. Where a default would hold a
//! proxy back here, and not where it is used, its configuration lifts it.

mod direct;
mod envoy;
mod haproxy;
pub(crate) mod l4;
mod leno;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child::{Child, last_line};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;
use crate::load::Client;
use crate::procfs::{self, Memory};

impl TargetKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Direct, Self::L4, Self::Leno, Self::Haproxy, Self::Envoy];

    /// Whether it is a program that relays calls, and so has CPU time and memory of its own.
    pub fn is_proxy(self) -> bool {
        matches!(self, Self::Leno | Self::Haproxy | Self::Envoy)
    }

    /// What it is, in one line.
    pub fn what(self) -> &'static str {
        match self {
            Self::Direct => "no proxy: each connection goes to one backend, at random",
            Self::L4 => "netfilter rules as kube-proxy writes them: the kernel balances connections",
            Self::Leno => "Leno's proxy, one worker, its default balancer",
            Self::Haproxy => "HAProxy, one thread, leastconn",
            Self::Envoy => "Envoy, one worker, LEAST_REQUEST",
        }
    }

    /// The line that installs it.
    pub fn install(self) -> &'static str {
        match self {
            Self::Direct => "nothing to install",
            Self::L4 => l4::INSTALL,
            Self::Leno => leno::BUILD,
            Self::Haproxy => haproxy::INSTALL,
            Self::Envoy => envoy::INSTALL,
        }
    }
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::L4 => "l4",
            Self::Leno => "leno",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
        })
    }
}

/// What a target is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// Where the calls are to end up.
    pub(crate) backends: &'a [SocketAddr],
    /// For its configuration and its log.
    pub(crate) dir: &'a Path,
    /// The CPUs that it may use; empty for all.
    pub(crate) cpus: &'a [usize],
    /// The leno-proxy binary; none for the one beside this program.
    pub(crate) leno_proxy: Option<&'a Path>,
}

/// A target that serves. Dropping it ends it and leaves nothing behind.
pub(crate) struct Target {
    /// Its kind.
    pub(crate) kind: TargetKind,
    /// Where calls go; a connection may choose.
    addresses: Vec<SocketAddr>,
    process: Option<Child>,
    _rules: Option<l4::Rules>,
}

impl Target {
    /// Starts a target in front of the backends, and waits until it serves.
    pub(crate) fn start(kind: TargetKind, setting: &Setting<'_>) -> Result<Self> {
        match kind {
            TargetKind::Direct => Ok(direct::start(setting)),
            TargetKind::L4 => l4::start(setting),
            TargetKind::Leno => leno::start(setting),
            TargetKind::Haproxy => haproxy::start(setting),
            TargetKind::Envoy => envoy::start(setting),
        }
    }

    /// A proxy that listens on `address`.
    fn proxy(kind: TargetKind, address: SocketAddr, process: Child) -> Self {
        Self { kind, addresses: vec![address], process: Some(process), _rules: None }
    }

    /// Where every connection may go.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Client connections. Where connections choose a backend, `random` does.
    pub(crate) fn clients(&self, connections: u32, random: &mut fastrand::Rng) -> Vec<Client> {
        (0..connections).map(|_| client(self.addresses[random.usize(..self.addresses.len())])).collect()
    }

    /// One client connection of a proxy.
    pub(crate) fn client(&self) -> Client {
        client(self.address())
    }

    /// The proxy's process id.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::pid)
    }

    /// Fails when the proxy has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Child::ensure_running)
    }

    /// The CPU time that all the proxy's threads have used so far.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        self.pid().map(procfs::cpu_time).transpose()
    }

    /// The proxy's memory.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.pid().map(procfs::memory).transpose()
    }
}

/// A client that names the address which it connects to.
fn client(address: SocketAddr) -> Client {
    Client { address, authority: address.to_string() }
}

/// What the target's program says of itself, in one line.
///
/// # Errors
/// When the target cannot run here; the error says what to do about it.
pub(crate) fn version(kind: TargetKind, leno_proxy: Option<&Path>) -> Result<String> {
    match kind {
        TargetKind::Direct => Ok(direct::VERSION.to_owned()),
        TargetKind::L4 => l4::version(),
        TargetKind::Leno => leno::version(leno_proxy),
        TargetKind::Haproxy => haproxy::version(),
        TargetKind::Envoy => envoy::version(),
    }
}

/// The first line that a program prints when asked for its version.
fn version_line(name: &'static str, program: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().map_err(io(format!("running {name}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| Error::Unreadable {
        program: name,
        wanted: "version",
        last_line: last_line(&output.stderr),
    })
}
