use super::*;

const BACKENDS: [SocketAddr; 2] = [backend(16_001), backend(16_002)];

const fn backend(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
}

#[test]
fn the_clients_node_redirects_only_the_service() {
    let network = Network::unused();
    let rules = node_rules(network, Node::Client, &BACKENDS);
    let service = format!("ip daddr {} tcp dport 50051 redirect to :15001", network.service().ip());
    assert!(rules.contains(&service) && rules.contains("hook prerouting priority -100"), "{rules}");
    assert_eq!(rules.matches("ip daddr").count(), 1, "{rules}");
}

#[test]
fn connections_to_a_pod_reach_its_backend_over_the_link() {
    let network = Network::unused();
    let pods = network.pods(&BACKENDS);
    let rules = node_rules(network, Node::Servers, &BACKENDS);
    let experiment = network.experiment(Node::Servers);
    let to_link = format!("ip daddr {} tcp dport 16002 dnat to {experiment}", pods[1].ip());
    assert!(rules.contains(&to_link) && rules.contains("hook output"), "{rules}");
    let rules = experiment_rules(network, &BACKENDS);
    assert!(rules.contains(&format!("ip daddr {experiment} tcp dport 16002 dnat to 127.0.0.1:16002")), "{rules}");
}

#[test]
fn a_node_sets_up_its_link_before_it_becomes_the_program() {
    let network = Network::unused();
    let script = script(network, Node::Servers, &BACKENDS, 4321);
    let peer = format!("peer name {} netns 4321", network.link(Node::Servers));
    assert!(script.contains(&peer), "{script}");
    assert_eq!(script.matches("address add").count(), 1 + BACKENDS.len());
    assert!(script.ends_with("exec \"$3\"\n"));
}

#[test]
fn a_link_is_found_by_its_whole_name() {
    assert!(has_link("lo") && !has_link("l"));
}
