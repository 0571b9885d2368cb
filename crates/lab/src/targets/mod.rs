//! What calls go through: proxies and netfilter rules in front of the backends, each as its users run it.
//!
//! Every proxy has one worker thread. One alone speaks the backends' protocol without TLS on both sides; in a mesh
//! calls go through two, with mutual TLS between them. Where a default would hold a proxy back here, and not where
//! it is used, its configuration lifts it.

mod direct;
mod envoy;
mod haproxy;
mod hop;
mod kind;
pub(crate) mod l4;
pub(crate) mod leno;
mod leno_mesh;
mod mesh;
mod tunnel;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child::{Child, last_line};
use crate::error::{Error, Result, io};
use crate::experiment::record::{Protocol, TargetKind};
use crate::load::Client;
use crate::procfs::{self, Memory};
pub(crate) use mesh::ServerSide;

/// What a target is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// Where the calls are to end up.
    pub(crate) backends: &'a [SocketAddr],
    /// What is spoken to them.
    pub(crate) protocol: Protocol,
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
    /// The proxies; the first is the one that clients connect to.
    processes: Vec<Child>,
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
            TargetKind::Tunnel => tunnel::start(setting),
            TargetKind::LenoMesh => leno_mesh::start(setting),
            TargetKind::HaproxyMesh => mesh::start(kind, setting, haproxy::start_hop),
            TargetKind::EnvoyMesh => mesh::start(kind, setting, envoy::start_hop),
        }
    }

    /// Starts only the proxy of a mesh, or the end of a tunnel, that is in front of `backend`.
    ///
    /// # Errors
    /// When `kind` has none.
    pub(crate) fn start_server_side(
        kind: TargetKind,
        setting: &Setting<'_>,
        backend: SocketAddr,
    ) -> Result<ServerSide> {
        match kind {
            TargetKind::Tunnel => tunnel::start_server_side(setting),
            TargetKind::LenoMesh => leno_mesh::start_server_side(setting, backend),
            TargetKind::HaproxyMesh => mesh::start_server_side(kind, setting, backend, haproxy::start_hop),
            TargetKind::EnvoyMesh => mesh::start_server_side(kind, setting, backend, envoy::start_hop),
            kind => Err(Error::Usage(format!("--targets {kind} terminates no TLS; leave it out"))),
        }
    }

    /// A proxy that listens on `address`.
    fn proxy(kind: TargetKind, address: SocketAddr, process: Child) -> Self {
        Self { kind, addresses: vec![address], processes: vec![process], _rules: None }
    }

    /// A proxy that listens on `address`, and those in front of the backends.
    fn mesh(kind: TargetKind, address: SocketAddr, client_side: Child, server_sides: Vec<Child>) -> Self {
        let processes = std::iter::once(client_side).chain(server_sides).collect();
        Self { kind, addresses: vec![address], processes, _rules: None }
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

    /// The process id of the proxy that clients connect to.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.processes.first().map(Child::pid)
    }

    /// Fails when a proxy has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Child::ensure_running)
    }

    /// The CPU time that all threads of all proxies have used so far; none without a proxy.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        sum_of_cpu_times(&self.processes)
    }

    /// The part of [`Target::cpu_time`] of the proxies in front of the backends; none without a mesh.
    pub(crate) fn server_cpu_time(&self) -> Result<Option<Duration>> {
        self.processes.split_first().map_or(Ok(None), |(_, servers)| sum_of_cpu_times(servers))
    }

    /// Lets the peak of every proxy's memory be counted from now on.
    pub(crate) fn forget_peaks(&self) {
        self.processes.iter().for_each(|process| procfs::forget_peak(process.pid()));
    }

    /// The memory of the proxy that clients connect to.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.pid().map(procfs::memory).transpose()
    }

    /// The memory of the largest of a mesh's proxies in front of the backends.
    pub(crate) fn server_memory(&self) -> Result<Option<Memory>> {
        let servers = self.processes.iter().skip(1).map(|process| procfs::memory(process.pid()));
        Ok(servers.collect::<Result<Vec<_>>>()?.into_iter().max_by_key(|memory| memory.peak_kib))
    }
}

/// None of none.
fn sum_of_cpu_times(processes: &[Child]) -> Result<Option<Duration>> {
    let times: Vec<Duration> = processes.iter().map(|it| procfs::cpu_time(it.pid())).collect::<Result<_>>()?;
    Ok((!times.is_empty()).then(|| times.iter().sum()))
}

/// A client that names the address which it connects to.
fn client(address: SocketAddr) -> Client {
    Client { address, authority: address.to_string() }
}

/// Whether a target works by netfilter rules, which must not touch the machine's own.
pub(crate) fn needs_namespace(kind: TargetKind, protocol: Protocol) -> bool {
    kind == TargetKind::L4 || (kind == TargetKind::LenoMesh && protocol == Protocol::Tcp)
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
        TargetKind::Tunnel => Ok(tunnel::VERSION.to_owned()),
        TargetKind::LenoMesh => leno_mesh::version(leno_proxy),
        TargetKind::Haproxy | TargetKind::HaproxyMesh => haproxy::version(),
        TargetKind::Envoy | TargetKind::EnvoyMesh => envoy::version(),
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
