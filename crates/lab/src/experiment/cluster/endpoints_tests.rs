use serde_json::json;

use super::*;

fn slices() -> Vec<EndpointSlice> {
    let slice = |family: &str, ports, endpoints| json!({"addressType": family, "ports": ports, "endpoints": endpoints});
    let endpoint = |address: &str, pod: &str, ready: Option<bool>| json!({"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}});
    let ports = json!([{"name": "grpc", "port": 9000}, {"name": "http", "port": 8080}]);
    let slices = json!([
        slice(
            "IPv4",
            ports.clone(),
            json!([
                endpoint("10.0.0.1", "a", Some(true)),
                endpoint("10.0.0.2", "b", Some(false)),
                endpoint("10.0.0.3", "c", None),
            ])
        ),
        slice("IPv6", ports, json!([endpoint("fd00::1", "a", Some(true))])),
        // A named target port may have another number in other Pods.
        slice("IPv4", json!([{"name": "grpc", "port": 9001}]), json!([endpoint("10.0.0.4", "d", Some(true))])),
    ]);
    serde_json::from_value(slices).expect("EndpointSlices")
}

#[test]
fn ready_pods_have_the_number_of_their_port() {
    let ready = ReadyEndpoints::of(&slices(), "grpc");
    let pods: Vec<(&str, u16)> = ready.pods.iter().map(|(pod, port)| (pod.as_str(), *port)).collect();
    assert_eq!(pods, [("a", 9000), ("c", 9000), ("d", 9001)]);
    assert_eq!((ready.count(), ready.addresses.len()), (3, 4));
    assert_eq!(ReadyEndpoints::of(&slices(), "http").count(), 2);
}

#[test]
fn another_port_has_no_endpoints() {
    assert_eq!(ReadyEndpoints::of(&slices(), "metrics"), ReadyEndpoints::default());
    assert_eq!(ReadyEndpoints::of(&[], "grpc").count(), 0);
}

#[test]
fn endpoints_without_pods_count_by_their_addresses() {
    let slices = json!([{
        "addressType": "IPv4", "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"], "targetRef": {"kind": "Node", "name": "n"}}],
    }]);
    let slices: Vec<EndpointSlice> = serde_json::from_value(slices).expect("EndpointSlices");
    let ready = ReadyEndpoints::of(&slices, "");
    assert_eq!((ready.count(), ready.pods.len()), (2, 0));
}
