//! The targets of calls: proxies and netfilter rules in front of the backends, each configured as its users run it.
//!
//! Every proxy has one worker thread. A single proxy uses the backends' protocol on both sides, without TLS. In a mesh,
//! calls pass two proxies, with mutual TLS between them. Where a default would slow a proxy down only in this lab, its
//! configuration changes the default. A target that stands for a system of a published comparison keeps that system's
//! defaults; its page (`pages/`) says where they come from.

pub(crate) mod ambient;
mod direct;
mod envoy;
mod haproxy;
mod hop;
pub(crate) mod kind;
pub(crate) mod l4;
pub(crate) mod leno;
mod leno_mesh;
mod leno_sidecars;
mod linkerd;
mod mesh;
mod metrics;
mod nginx;
mod page;
mod programs;
mod service_thread;
mod traefik;
mod traffic_policy;
mod tunnel;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child::{Child, last_line};
use crate::error::{Error, Result, io};
use crate::experiment::record::{CallPolicy, Protocol, TargetKind};
use crate::load::Client;
use crate::procfs::{self, Memory};
use kind::Program;
pub(crate) use leno_sidecars::LenoSidecars;
pub(crate) use mesh::ServerSide;
pub(crate) use programs::Programs;

/// The parameters of a target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// The final destinations of the calls.
    pub(crate) backends: &'a [SocketAddr],
    /// The backends' protocol.
    pub(crate) protocol: Protocol,
    /// Whether the proxies beside the client may retry or hedge a call.
    pub(crate) policy: CallPolicy,
    /// Directory for the target's configuration and log.
    pub(crate) dir: &'a Path,
    /// The CPUs that the target may use; empty for all.
    pub(crate) cpus: &'a [usize],
    /// The binaries that the user named.
    pub(crate) programs: &'a Programs,
}

/// A running target. Dropping this value ends its processes and removes all traces.
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    /// Addresses for calls. A connection may choose any of them.
    addresses: Vec<SocketAddr>,
    /// The proxies; clients connect to the first.
    processes: Vec<Child>,
    /// Servers behind the proxies that are no backends of the experiment: the services of a graph or of a chain.
    services: Vec<Child>,
    rules: Vec<l4::Rules>,
    /// The control planes of the proxies.
    control_planes: Vec<Box<dyn ControlPlane>>,
}

/// The control plane of proxies that can decide against TLS. Dropping it ends the control plane.
trait ControlPlane {
    /// Fails if a proxy has sent calls without mutual TLS.
    ///
    /// # Errors
    /// Also if the metrics of a proxy cannot be read.
    fn ensure_encrypted(&self) -> Result<()>;
}

impl Target {
    /// Starts a target in front of the backends, and waits until it serves.
    pub(crate) fn start(kind: TargetKind, setting: &Setting<'_>) -> Result<Self> {
        match kind {
            TargetKind::Direct => Ok(direct::start(setting)),
            TargetKind::L4 | TargetKind::Vanilla | TargetKind::CiliumL4 => l4::start(kind, setting),
            TargetKind::Leno => leno::start(setting),
            TargetKind::Haproxy => haproxy::start(setting),
            TargetKind::Envoy => envoy::start(kind, setting, envoy::plain::start_hop),
            TargetKind::CiliumL7 => envoy::start(kind, setting, envoy::cilium::start_hop),
            TargetKind::Tunnel => tunnel::start(setting),
            TargetKind::LenoMesh => leno_mesh::start(setting),
            TargetKind::HaproxyMesh => mesh::start(kind, setting, haproxy::start_hop),
            TargetKind::EnvoyMesh => mesh::start(kind, setting, envoy::plain::start_hop),
            TargetKind::Istio => mesh::start(kind, setting, envoy::istio::start_sidecar),
            TargetKind::Consul => mesh::start(kind, setting, envoy::consul::start_hop),
            TargetKind::Kuma => mesh::start(kind, setting, envoy::kuma::start_hop),
            TargetKind::Ambient => ambient::start(setting),
            TargetKind::Nginx => nginx::start(setting),
            TargetKind::Traefik => traefik::start(setting),
            TargetKind::Linkerd => linkerd::start(setting),
        }
    }

    /// Starts only the proxy of a mesh, or the end of a tunnel, in front of `backend`.
    ///
    /// # Errors
    /// If `kind` has no such proxy or end.
    pub(crate) fn start_server_side(
        kind: TargetKind,
        setting: &Setting<'_>,
        backend: SocketAddr,
    ) -> Result<ServerSide> {
        let start_hop = match kind {
            TargetKind::Tunnel => return tunnel::start_server_side(setting),
            TargetKind::LenoMesh => return leno_mesh::start_server_side(setting, backend),
            TargetKind::Ambient => return ambient::start_server_side(setting, backend),
            TargetKind::Linkerd => return linkerd::start_server_side(setting, backend),
            TargetKind::HaproxyMesh => haproxy::start_hop,
            TargetKind::EnvoyMesh => envoy::plain::start_hop,
            TargetKind::Istio => envoy::istio::start_sidecar,
            TargetKind::Consul => envoy::consul::start_hop,
            TargetKind::Kuma => envoy::kuma::start_hop,
            kind => return Err(Error::Usage(format!("--targets {kind} terminates no TLS; leave it out"))),
        };
        mesh::start_server_side(kind, setting, backend, start_hop)
    }

    /// A target without addresses and processes.
    fn of(kind: TargetKind) -> Self {
        let (addresses, processes, services) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, addresses, processes, services, rules: Vec::new(), control_planes: Vec::new() }
    }

    /// A proxy that listens on `address`.
    fn proxy(kind: TargetKind, address: SocketAddr, process: Child) -> Self {
        Self { addresses: vec![address], processes: vec![process], ..Self::of(kind) }
    }

    /// A proxy that listens on `address`, and the proxies in front of the backends.
    fn mesh(kind: TargetKind, address: SocketAddr, client_side: Child, server_sides: Vec<Child>) -> Self {
        let processes = std::iter::once(client_side).chain(server_sides).collect();
        Self { addresses: vec![address], processes, ..Self::of(kind) }
    }

    /// Adds rules that end with the target.
    fn with_rules(mut self, rules: l4::Rules) -> Self {
        self.rules.push(rules);
        self
    }

    /// Adds the control plane of the proxies, which ends with the target.
    fn with_control_plane(mut self, running: impl ControlPlane + 'static) -> Self {
        self.control_planes.push(Box::new(running));
        self
    }

    /// Adds the proxies of another target, to which no client connects.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.processes.extend(other.processes);
        self.rules.extend(other.rules);
        self.control_planes.extend(other.control_planes);
        self
    }

    /// Adds servers that end with the target.
    pub(crate) fn with_services(self, services: Vec<Child>) -> Self {
        Self { services, ..self }
    }

    /// CPU time of the servers of [`Target::with_services`].
    pub(crate) fn services_cpu_time(&self) -> Result<Duration> {
        Ok(sum_of_cpu_times(&self.services)?.unwrap_or_default())
    }

    /// The first address, for targets that have only one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Client connections. If the target has several addresses, `random` chooses one for each connection.
    pub(crate) fn clients(&self, connections: u32, random: &mut fastrand::Rng) -> Vec<Client> {
        (0..connections).map(|_| client(self.addresses[random.usize(..self.addresses.len())])).collect()
    }

    /// One client connection of a proxy.
    pub(crate) fn client(&self) -> Client {
        client(self.address())
    }

    /// The process id of the proxy to which clients connect.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.processes.first().map(Child::pid)
    }

    /// Fails if a proxy has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.processes.iter_mut().chain(&mut self.services).try_for_each(Child::ensure_running)
    }

    /// Fails if a proxy whose endpoints are in the mesh has sent calls without mutual TLS. Checks only the proxies that
    /// can decide against TLS; the others always use TLS.
    pub(crate) fn ensure_encrypted(&self) -> Result<()> {
        self.control_planes.iter().try_for_each(|running| running.ensure_encrypted())
    }

    /// CPU time of all threads of all proxies; `None` without a proxy.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        sum_of_cpu_times(&self.processes)
    }

    /// The part of [`Target::cpu_time`] that the proxies in front of the backends used; `None` without a mesh.
    pub(crate) fn server_cpu_time(&self) -> Result<Option<Duration>> {
        self.processes.split_first().map_or(Ok(None), |(_, servers)| sum_of_cpu_times(servers))
    }

    /// Resets the memory peak of every proxy.
    pub(crate) fn forget_peaks(&self) {
        self.processes.iter().for_each(|process| procfs::forget_peak(process.pid()));
    }

    /// The memory of the proxy to which clients connect.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.pid().map(procfs::memory).transpose()
    }

    /// The number of proxies, and their resident memory together, in bytes; `None` without a proxy.
    pub(crate) fn total_memory(&self) -> Result<Option<(u32, u64)>> {
        let memories = self.processes.iter().map(|process| procfs::memory(process.pid()));
        let kib = memories.map(|memory| memory.map(|memory| memory.resident_kib)).sum::<Result<u64>>()?;
        let proxies = self.processes.len() as u32;
        Ok((proxies > 0).then_some((proxies, kib * 1024)))
    }

    /// The memory of the largest of a mesh's proxies in front of the backends.
    pub(crate) fn server_memory(&self) -> Result<Option<Memory>> {
        let servers = self.processes.iter().skip(1).map(|process| procfs::memory(process.pid()));
        Ok(servers.collect::<Result<Vec<_>>>()?.into_iter().max_by_key(|memory| memory.peak_kib))
    }
}

/// Adds the CPU times of processes; `None` without processes.
fn sum_of_cpu_times(processes: &[Child]) -> Result<Option<Duration>> {
    let times: Vec<Duration> = processes.iter().map(|it| procfs::cpu_time(it.pid())).collect::<Result<_>>()?;
    Ok((!times.is_empty()).then(|| times.iter().sum()))
}

/// A client whose authority is the address to which it connects.
fn client(address: SocketAddr) -> Client {
    Client { address, authority: address.to_string() }
}

/// Whether a target uses netfilter rules, which must not touch the machine's own rules.
pub(crate) fn needs_namespace(kind: TargetKind, protocol: Protocol, programs: &Programs) -> bool {
    match kind {
        TargetKind::Linkerd => true,
        TargetKind::LenoMesh => protocol == Protocol::Tcp,
        TargetKind::Ambient => ambient::needs_namespace(programs),
        kind => kind.is_netfilter(),
    }
}

/// The version line of the target's program.
///
/// # Errors
/// If the target cannot run here; the error names the remedy.
pub(crate) fn version(kind: TargetKind, programs: &Programs) -> Result<String> {
    let leno_proxy = programs.leno_proxy.as_deref();
    match kind.program() {
        Program::None if kind == TargetKind::Tunnel => Ok(tunnel::VERSION.to_owned()),
        Program::None => Ok(direct::VERSION.to_owned()),
        Program::Netfilter => l4::version(),
        Program::Leno if kind.is_mesh() => leno_mesh::version(leno_proxy),
        Program::Leno => leno::version(leno_proxy),
        Program::Haproxy => haproxy::version(),
        Program::Envoy => envoy::version(),
        Program::Nginx => nginx::version(),
        Program::Linkerd => linkerd::version(programs.linkerd2_proxy.as_deref()),
        Program::Ambient => ambient::version(programs),
        Program::Traefik => traefik::version(programs.traefik.as_deref()),
    }
}

/// The first line that a program prints when asked for its version.
fn version_line(name: &'static str, program: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().map_err(io(format!("running {name}")))?;
    // nginx writes its version to the standard error.
    let said = if output.stdout.is_empty() && output.status.success() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| Error::Unreadable {
        program: name,
        wanted: "version",
        last_line: last_line(&output.stderr),
    })
}
