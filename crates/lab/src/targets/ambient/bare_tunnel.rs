//! Ambient mode with the lab's own tunnel in place of ztunnel. One tunnel runs beside the client, and one beside each
//! backend. The tunnel uses only TLS (rustls), without the HTTP/2 CONNECT of HBONE.

use std::net::SocketAddr;

use super::super::envoy::istio;
use super::super::hop::{Hop, Side, Started};
use super::super::mesh::{credentials, server_name};
use super::super::{Setting, Target, tunnel};
use crate::child::{Child, free_address};
use crate::error::Result;
use crate::experiment::record::TargetKind;
use crate::tls::{CLIENT, SERVER, ensure_mutual_tls, spiffe_id};

/// Starts all tunnels and the waypoint. Before any call, checks that the waypoint rejects clients without a certificate
/// of the authority.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let (client, server) = credentials(setting)?;
    let far_ends = setting.backends.iter().enumerate();
    let far_ends = far_ends.map(|(index, &backend)| {
        tunnel::start_end(setting, &format!("server-{}", index + 1), tunnel::SERVER_SIDE, &server, Some(backend))
    });
    // Start all tunnels before waiting for any of them, so that they start concurrently.
    let far_ends: Vec<Started> = far_ends.collect::<Result<_>>()?;
    let upstreams: Vec<SocketAddr> = far_ends.iter().map(|end| end.listener).collect();
    let mut behind: Vec<Child> = far_ends.into_iter().map(Started::wait).collect::<Result<_>>()?;
    let (waypoint, wire) = (free_address()?, setting.protocol.wire());
    let (client_id, server_id) = (spiffe_id(CLIENT), spiffe_id(SERVER));
    let hop = Hop {
        downstream: Side::secure(wire, &server, &client_id),
        upstream: Side::secure(wire, &client, &server_id),
        upstreams: &upstreams,
        ..Hop::alone("waypoint", waypoint, setting)
    };
    behind.insert(0, istio::start_waypoint(&hop)?.wait()?);
    ensure_mutual_tls(waypoint, &server_name(waypoint), &client, wire.alpn())?;
    let near_end = tunnel::start_end(setting, "client", tunnel::CLIENT_SIDE, &client, Some(waypoint))?;
    let address = near_end.listener;
    Ok(Target::mesh(TargetKind::Ambient, address, near_end.wait()?, behind))
}
