//! A mesh of HAProxy or Envoy: one proxy beside the client, which balances, and one in front of each backend, with
//! mutual TLS between them.
//!
//! All proxies share the CPUs that a single one would have: what they cost is the sum.

use std::net::SocketAddr;

use super::hop::{Hop, Side, Started};
use super::{Setting, Target};
use crate::child::{Child, free_address};
use crate::error::Result;
use crate::experiment::record::TargetKind;
use crate::tls::{Authority, CLIENT, Credentials, SERVER, ensure_mutual_tls, spiffe_id};

/// Starts one proxy of the mesh.
type StartHop = fn(&Hop<'_>) -> Result<Started>;

/// Starts them all. Nobody is served before every server-side proxy was seen to want a certificate.
pub(super) fn start(kind: TargetKind, setting: &Setting<'_>, start_hop: StartHop) -> Result<Target> {
    let authority = Authority::create(&setting.dir.join("certificates"))?;
    let (client, server) = (authority.issue(CLIENT)?, authority.issue(SERVER)?);
    let servers = start_servers(setting, &server, start_hop)?;
    let upstreams: Vec<SocketAddr> = servers.iter().map(|(address, _)| *address).collect();
    let address = free_address()?;
    let (wire, peer) = (setting.protocol.mesh_wire(), spiffe_id(SERVER));
    let hop = Hop {
        upstream: Side::secure(wire, &client, &peer),
        upstreams: &upstreams,
        ..Hop::alone("client-proxy", address, setting)
    };
    let client_side = start_hop(&hop)?.wait()?;
    for (&upstream, &backend) in upstreams.iter().zip(setting.backends) {
        ensure_mutual_tls(upstream, &server_name(backend), &client, wire.alpn())?;
    }
    Ok(Target::mesh(kind, address, client_side, servers.into_iter().map(|(_, child)| child).collect()))
}

/// One proxy in front of each backend.
fn start_servers(
    setting: &Setting<'_>,
    credentials: &Credentials,
    start_hop: StartHop,
) -> Result<Vec<(SocketAddr, Child)>> {
    let peer = spiffe_id(CLIENT);
    let mut started = Vec::new();
    for (index, backend) in setting.backends.iter().enumerate() {
        let name = server_proxy(index);
        let hop = Hop {
            downstream: Side::secure(setting.protocol.mesh_wire(), credentials, &peer),
            upstreams: std::slice::from_ref(backend),
            ..Hop::alone(&name, free_address()?, setting)
        };
        started.push(start_hop(&hop)?);
    }
    // They start at the same time.
    started.into_iter().map(|started| Ok((started.listener, started.wait()?))).collect()
}

/// The name of the proxy in front of a backend.
pub(super) fn server_proxy(backend: usize) -> String {
    format!("server-proxy-{}", backend + 1)
}

/// Whom a client of the mesh asks for when it wants a backend's port.
pub(super) fn server_name(backend: SocketAddr) -> String {
    format!("{}.leno.internal", backend.port())
}
