use std::collections::HashSet;

use super::*;

#[test]
fn every_address_of_a_mesh_is_different() {
    let network = Network { number: 5 };
    let backends = [16_001, 16_002].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let pods = network.pods(&backends);
    assert_eq!(pods.iter().map(SocketAddr::port).collect::<Vec<_>>(), [16_001, 16_002]);
    let own = Node::BOTH.into_iter().flat_map(|node| [network.experiment(node), network.node(node)]);
    let others = [network.waypoint().ip(), network.service().ip()].into_iter().chain(pods.iter().map(SocketAddr::ip));
    let all: Vec<IpAddr> = own.chain(others).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    let is_of_mesh = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if ip.octets()[..2] == [10, 133]);
    assert!(all.iter().all(is_of_mesh), "{all:?}");
}

#[test]
fn two_meshes_share_no_address_and_no_link() {
    let (one, other) = (Network { number: 0 }, Network { number: MESHES - 1 });
    assert_ne!(one.service().ip(), other.service().ip());
    assert_ne!(one.link(Node::Client), other.link(Node::Client));
    // Linux allows 15 characters.
    assert!(other.link(Node::Servers).len() <= 15);
}
