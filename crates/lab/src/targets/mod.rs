//! The targets that the lab measures: proxies, or netfilter rules, in front of the backends. Each is configured as its
//! users would run it.
//!
//! Every proxy has one worker thread. A single proxy uses the backends' protocol on both sides, without TLS. In a mesh,
//! calls pass two proxies, with mutual TLS between them.
//!
//! The lab replaces a proxy's default setting only if this default would slow the proxy down in the lab, but not in
//! production. A target that represents a system of a published comparison keeps that system's defaults; the target's
//! page (`pages/`) names their sources.

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

/// The parameters with which a target starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// The addresses of the servers to which the target sends the calls.
    pub(crate) backends: &'a [SocketAddr],
    /// The backends' protocol.
    pub(crate) protocol: Protocol,
    /// Whether the proxy beside the client retries or hedges calls.
    pub(crate) policy: CallPolicy,
    /// Directory for the target's configuration and log.
    pub(crate) dir: &'a Path,
    /// The CPUs that the target may use; empty for all.
    pub(crate) cpus: &'a [usize],
    /// The binaries that the user named.
    pub(crate) programs: &'a Programs,
}

/// A running target. Dropping this value ends its processes, and removes its netfilter rules.
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    /// The addresses to which clients connect. If there are several, each connection chooses one of them.
    addresses: Vec<SocketAddr>,
    /// The processes of the proxies. Clients connect to the first proxy.
    processes: Vec<Child>,
    /// The services of a graph or of a chain: servers that the proxies call in addition to the experiment's backends.
    services: Vec<Child>,
    rules: Vec<l4::Rules>,
    /// The control planes of the proxies.
    control_planes: Vec<Box<dyn ControlPlane>>,
}

/// The control plane of proxies that may send calls without TLS. Dropping this value ends the control plane.
trait ControlPlane {
    /// Checks that every proxy has sent its calls over mutual TLS.
    ///
    /// # Errors
    /// If a proxy has not, or if a proxy's metrics cannot be read.
    fn ensure_encrypted(&self) -> Result<()>;
}

impl Target {
    /// Starts a target in front of the backends, and waits until it accepts connections.
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

    /// Starts only the part of a target that runs in front of `backend`: a mesh's inbound proxy, or the server's end of
    /// a tunnel.
    ///
    /// # Errors
    /// If the target `kind` terminates no TLS.
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

    /// Creates a target that has no addresses, processes and rules yet.
    fn of(kind: TargetKind) -> Self {
        let (addresses, processes, services) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, addresses, processes, services, rules: Vec::new(), control_planes: Vec::new() }
    }

    /// A target with one proxy, which listens on `address`.
    fn proxy(kind: TargetKind, address: SocketAddr, process: Child) -> Self {
        Self { addresses: vec![address], processes: vec![process], ..Self::of(kind) }
    }

    /// A target with several proxies. The client-side proxy listens on `address`; the server-side proxies run in front
    /// of the backends.
    fn mesh(kind: TargetKind, address: SocketAddr, client_side: Child, server_sides: Vec<Child>) -> Self {
        let processes = std::iter::once(client_side).chain(server_sides).collect();
        Self { addresses: vec![address], processes, ..Self::of(kind) }
    }

    /// Adds netfilter rules, which are removed when the target is dropped.
    fn with_rules(mut self, rules: l4::Rules) -> Self {
        self.rules.push(rules);
        self
    }

    /// Adds the control plane of the proxies, which ends when the target is dropped.
    fn with_control_plane(mut self, running: impl ControlPlane + 'static) -> Self {
        self.control_planes.push(Box::new(running));
        self
    }

    /// Adds the proxies of another target to this target. Clients still connect only to this target's addresses.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.processes.extend(other.processes);
        self.rules.extend(other.rules);
        self.control_planes.extend(other.control_planes);
        self
    }

    /// Adds servers, which end when the target is dropped.
    pub(crate) fn with_services(self, services: Vec<Child>) -> Self {
        Self { services, ..self }
    }

    /// CPU time of the servers that [`Target::with_services`] added.
    pub(crate) fn services_cpu_time(&self) -> Result<Duration> {
        Ok(sum_of_cpu_times(&self.services)?.unwrap_or_default())
    }

    /// The first address; a target with proxies has only one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Creates clients, one for each connection. If the target has several addresses, `random` chooses one for each
    /// client.
    pub(crate) fn clients(&self, connections: u32, random: &mut fastrand::Rng) -> Vec<Client> {
        (0..connections).map(|_| client(self.addresses[random.usize(..self.addresses.len())])).collect()
    }

    /// Creates a client that connects to the target's first address.
    pub(crate) fn client(&self) -> Client {
        client(self.address())
    }

    /// The process id of the proxy to which clients connect.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.processes.first().map(Child::pid)
    }

    /// Fails if a proxy or a server of the target has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.processes.iter_mut().chain(&mut self.services).try_for_each(Child::ensure_running)
    }

    /// Fails if a proxy has sent calls without mutual TLS. Only proxies with a control plane are checked, because they
    /// may decide against TLS. All other proxies of meshes always use TLS.
    pub(crate) fn ensure_encrypted(&self) -> Result<()> {
        self.control_planes.iter().try_for_each(|running| running.ensure_encrypted())
    }

    /// CPU time of all threads of all proxies; `None` if the target has no proxy.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        sum_of_cpu_times(&self.processes)
    }

    /// CPU time of the proxies in front of the backends, which [`Target::cpu_time`] includes. `None` if the target has
    /// no such proxies.
    pub(crate) fn server_cpu_time(&self) -> Result<Option<Duration>> {
        self.processes.split_first().map_or(Ok(None), |(_, servers)| sum_of_cpu_times(servers))
    }

    /// Resets the peak of every proxy's memory, so that it begins again at the present value.
    pub(crate) fn forget_peaks(&self) {
        self.processes.iter().for_each(|process| procfs::forget_peak(process.pid()));
    }

    /// The memory of the proxy to which clients connect.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.pid().map(procfs::memory).transpose()
    }

    /// The number of proxies, and the sum of their resident memory in bytes; `None` if the target has no proxy.
    pub(crate) fn total_memory(&self) -> Result<Option<(u32, u64)>> {
        let memories = self.processes.iter().map(|process| procfs::memory(process.pid()));
        let bytes = memories.map(|memory| memory.map(|memory| memory.resident_bytes())).sum::<Result<u64>>()?;
        let proxies = self.processes.len() as u32;
        Ok((proxies > 0).then_some((proxies, bytes)))
    }

    /// The memory of one proxy in front of a backend: the proxy with the highest peak.
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

/// A client whose `:authority` is the address to which it connects.
fn client(address: SocketAddr) -> Client {
    Client { address, authority: address.to_string() }
}

/// Whether a target needs a network namespace of its own, because it uses netfilter rules that must not affect the
/// machine.
pub(crate) fn needs_namespace(kind: TargetKind, protocol: Protocol, programs: &Programs) -> bool {
    match kind {
        TargetKind::Linkerd => true,
        TargetKind::LenoMesh => protocol == Protocol::Tcp,
        TargetKind::Ambient => ambient::needs_namespace(programs),
        kind => kind.is_netfilter(),
    }
}

/// The version of the target's program, in one line.
///
/// # Errors
/// If the target cannot run on this machine; the error names the remedy.
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

/// Runs a program that prints its version, and returns the first line that is not empty.
fn version_line(name: &'static str, program: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().map_err(io(format!("running {name}")))?;
    // nginx prints its version to standard error.
    let said = if output.stdout.is_empty() && output.status.success() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| Error::Unreadable {
        program: name,
        wanted: "version",
        last_line: last_line(&output.stderr),
    })
}
