use super::*;

#[test]
fn the_cluster_has_every_backend_and_balances_by_requests_in_flight() {
    let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
    let backends = [address("127.0.0.1:11"), address("127.0.0.1:12")];
    let config = config(address("127.0.0.1:1"), address("127.0.0.1:2"), &backends);
    let cluster = &config["static_resources"]["clusters"][0];
    assert_eq!(cluster["lb_policy"], "LEAST_REQUEST");
    let endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array().expect("a list");
    let ports: Vec<_> =
        endpoints.iter().map(|e| e["endpoint"]["address"]["socket_address"]["port_value"].as_u64()).collect();
    assert_eq!(ports, [Some(11), Some(12)]);
}

#[test]
fn calls_are_neither_timed_out_nor_retried() {
    let any: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let config = config(any, any, &[any]);
    let filter = &config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    let route = &filter["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!(route["timeout"], "0s");
    assert_eq!(route["retry_policy"], Value::Null);
}
