//! A mesh of HAProxy or Envoy. One proxy runs beside the client and balances calls; one runs in front of each backend.
//! They use mutual TLS between them.
//!
//! All proxies of the mesh share the CPUs that a single proxy would have. The lab reports the sum of their costs.

use std::net::SocketAddr;

use super::hop::{Hop, Side, Started, Wire};
use super::{Setting, Target};
use crate::child::{Child, free_address};
use crate::error::Result;
use crate::experiment::record::{CallPolicy, TargetKind};
use crate::tls::{Authority, CLIENT, Credentials, SERVER, ensure_mutual_tls, spiffe_id};

/// A function that starts one proxy of the mesh.
type StartHop = fn(&Hop<'_>) -> Result<Started>;

/// The proxy in front of a backend, without the rest of the mesh, and the parameters with which a client connects to
/// it.
pub(crate) struct ServerSide {
    /// The proxy.
    pub(crate) target: Target,
    /// The server name (SNI) that a client must send.
    pub(crate) server_name: String,
    /// The credentials that a client must use.
    pub(crate) client: Credentials,
    /// The ALPN protocol that a client must offer; `None` for no ALPN.
    pub(crate) alpn: Option<&'static str>,
}

/// Starts all proxies. Before any call, checks that every server-side proxy rejects clients without a certificate of
/// the authority.
pub(super) fn start(kind: TargetKind, setting: &Setting<'_>, start_hop: StartHop) -> Result<Target> {
    let (client, server) = credentials(setting)?;
    let backends = setting.backends.iter().enumerate();
    let wire = setting.protocol.mesh_wire(kind);
    let started = backends.map(|(index, backend)| start_server((index, backend), wire, setting, &server, start_hop));
    // Start all proxies before waiting for any of them, so that they start concurrently.
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

/// Creates credentials of the client and of the servers, from a new authority for the run.
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
        // Do not retry or hedge calls here: the proxy beside the client does.
        policy: CallPolicy::Once,
        upstreams: std::slice::from_ref(backend),
        ..Hop::alone(&name, free_address()?, setting)
    })
}

/// The name of the proxy in front of the backend with this index.
pub(super) fn server_proxy(backend: usize) -> String {
    format!("server-proxy-{}", backend + 1)
}

/// The server name (SNI) that a client of the mesh sends for a backend.
pub(super) fn server_name(backend: SocketAddr) -> String {
    format!("{}.leno.internal", backend.port())
}
