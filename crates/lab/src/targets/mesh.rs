//! A mesh of HAProxy or Envoy: one proxy beside the client, which balances, and one in front of each backend, with
//! mutual TLS between them.
//!
//! All proxies of the mesh share the CPUs that a single proxy would have, and their costs are added.

use std::net::SocketAddr;

use super::hop::{Hop, Side, Started, Wire};
use super::{Setting, Target};
use crate::child::{Child, free_address};
use crate::error::Result;
use crate::experiment::record::{CallPolicy, TargetKind};
use crate::tls::{Authority, CLIENT, Credentials, SERVER, ensure_mutual_tls, spiffe_id};

/// Starts one proxy of the mesh.
type StartHop = fn(&Hop<'_>) -> Result<Started>;

/// A single proxy in front of a backend, and the data with which a client of the mesh connects to it.
pub(crate) struct ServerSide {
    /// The proxy.
    pub(crate) target: Target,
    /// The server name (SNI) for clients.
    pub(crate) server_name: String,
    /// The credentials of a client.
    pub(crate) client: Credentials,
    /// The ALPN protocol for clients.
    pub(crate) alpn: Option<&'static str>,
}

/// Starts all proxies. Before any call, checks that every server-side proxy requires a certificate of the authority.
pub(super) fn start(kind: TargetKind, setting: &Setting<'_>, start_hop: StartHop) -> Result<Target> {
    let (client, server) = credentials(setting)?;
    let backends = setting.backends.iter().enumerate();
    let wire = setting.protocol.mesh_wire(kind);
    let started = backends.map(|(index, backend)| start_server((index, backend), wire, setting, &server, start_hop));
    // Start all proxies before waiting for the first, so that they start concurrently.
    let started: Vec<Started> = started.collect::<Result<_>>()?;
    let upstreams: Vec<SocketAddr> = started.iter().map(|started| started.listener).collect();
    let servers: Vec<Child> = started.into_iter().map(Started::wait).collect::<Result<_>>()?;
    let address = free_address()?;
    let peer = spiffe_id(SERVER);
    let hop = Hop {
        upstream: Side::secure(wire, &client, &peer),
        upstreams: &upstreams,
        ..Hop::alone("client-proxy", address, setting)
    };
    let client_side = start_hop(&hop)?.wait()?;
    for (&upstream, &backend) in upstreams.iter().zip(setting.backends) {
        ensure_mutual_tls(upstream, &server_name(backend), &client, wire.alpn())?;
    }
    Ok(Target::mesh(kind, address, client_side, servers))
}

/// Starts only the proxy in front of `backend`.
pub(super) fn start_server_side(
    kind: TargetKind,
    setting: &Setting<'_>,
    backend: SocketAddr,
    start_hop: StartHop,
) -> Result<ServerSide> {
    let (client, server) = credentials(setting)?;
    let wire = setting.protocol.mesh_wire(kind);
    let started = start_server((0, &backend), wire, setting, &server, start_hop)?;
    let address = started.listener;
    let target = Target::proxy(kind, address, started.wait()?);
    let (server_name, alpn) = (server_name(backend), wire.alpn());
    ensure_mutual_tls(address, &server_name, &client, alpn)?;
    Ok(ServerSide { target, server_name, client, alpn })
}

/// Creates credentials of the calling and of the serving side, from a new authority for the run.
pub(super) fn credentials(setting: &Setting<'_>) -> Result<(Credentials, Credentials)> {
    let authority = Authority::create(&setting.dir.join("certificates"))?;
    Ok((authority.issue(CLIENT)?, authority.issue(SERVER)?))
}

fn start_server(
    (index, backend): (usize, &SocketAddr),
    wire: Wire,
    setting: &Setting<'_>,
    credentials: &Credentials,
    start_hop: StartHop,
) -> Result<Started> {
    let (name, peer) = (server_proxy(index), spiffe_id(CLIENT));
    start_hop(&Hop {
        downstream: Side::secure(wire, credentials, &peer),
        // Only the caller's proxy retries or hedges calls.
        policy: CallPolicy::Once,
        upstreams: std::slice::from_ref(backend),
        ..Hop::alone(&name, free_address()?, setting)
    })
}

/// The name of the proxy in front of a backend.
pub(super) fn server_proxy(backend: usize) -> String {
    format!("server-proxy-{}", backend + 1)
}

/// The server name that a client of the mesh sends for a backend's port.
pub(super) fn server_name(backend: SocketAddr) -> String {
    format!("{}.leno.internal", backend.port())
}
