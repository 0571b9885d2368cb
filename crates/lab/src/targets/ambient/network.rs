//! The addresses of a mesh with ztunnels.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

pub(super) use super::super::envoy::hbone::PORT as HBONE_PORT;

/// The port on which a ztunnel accepts redirected outbound connections.
pub(super) const OUTBOUND_PORT: u16 = 15_001;
const STATS_PORT: u16 = 15_020;
const READINESS_PORT: u16 = 15_021;
/// The port of the Service.
const SERVICE_PORT: u16 = 50_051;
/// Number of different address ranges. The lab never runs more meshes than this at the same time.
const MESHES: u8 = 64;
/// The second byte of the first mesh's addresses. Each further mesh uses the next number.
const FIRST_MESH: u8 = 128;
/// Length, in bits, of the common prefix of a link's addresses.
pub(super) const LINK_PREFIX: u8 = 17;

/// One node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// The node of the client's Pod.
    Client,
    /// The node of all servers' Pods.
    Servers,
}

/// The addresses of one mesh: a range 10.N.0.0/16. Its lower half belongs to the link to the client's node, its upper
/// half to the link to the servers' node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    number: u8,
}

impl Network {
    /// Addresses that no other running mesh uses. An experiment with a graph of services has one mesh for each service.
    pub(super) fn unused() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed) % MESHES }
    }

    /// The address of the experiment's namespace on the link to a node.
    pub(super) fn experiment(self, node: Node) -> IpAddr {
        self.host(node, 1)
    }

    /// The node's own address.
    pub(super) fn node(self, node: Node) -> IpAddr {
        self.host(node, 2)
    }

    /// The address on which the waypoint accepts HBONE.
    pub(super) fn waypoint(self) -> SocketAddr {
        SocketAddr::new(self.host(Node::Client, 3), HBONE_PORT)
    }

    /// The address of the Service. No interface has this address: netfilter rules redirect its connections.
    pub(super) fn service(self) -> SocketAddr {
        SocketAddr::new(self.host(Node::Client, 4), SERVICE_PORT)
    }

    /// The addresses of the applications in their Pods, one for each backend.
    pub(super) fn pods(self, backends: &[SocketAddr]) -> Vec<SocketAddr> {
        let pods = backends.iter().zip(3..);
        pods.map(|(backend, number)| SocketAddr::new(self.host(Node::Servers, number), backend.port())).collect()
    }

    /// The address on which a node's ztunnel serves its metrics.
    pub(super) fn stats(self, node: Node) -> SocketAddr {
        SocketAddr::new(self.node(node), STATS_PORT)
    }

    /// The address on which a node's ztunnel reports whether it is ready.
    pub(super) fn readiness(self, node: Node) -> SocketAddr {
        SocketAddr::new(self.node(node), READINESS_PORT)
    }

    /// The name of the link to a node, as the experiment's namespace has it.
    pub(super) fn link(self, node: Node) -> String {
        format!("leno-{}{}", node.name(), self.number)
    }

    /// The name of the netfilter table in the experiment's namespace.
    pub(super) fn table(self) -> String {
        format!("leno-ambient-{}", self.number)
    }

    fn host(self, node: Node, number: u32) -> IpAddr {
        let half = match node {
            Node::Client => 0,
            Node::Servers => 1 << 15,
        };
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, FIRST_MESH + self.number, 0, 0)) + half + number).into()
    }
}

impl Node {
    pub(super) const BOTH: [Self; 2] = [Self::Client, Self::Servers];

    /// The node's name in the names of links and logs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Servers => "servers",
        }
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
