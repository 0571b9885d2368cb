use std::collections::HashMap;

use super::*;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn every_variable_has_linkerds_prefix_and_is_set_once() {
    let sidecar = Sidecar {
        pod: "server-proxy-1",
        identity: "server.lab",
        end_entity: Path::new("/identity"),
        token: Path::new("/identity/token"),
        trust_anchors: "PEM",
        control: address(1),
        ports: &[50051, 50052],
        inbound: address(2),
        outbound: address(3),
        admin: address(4),
    };
    let variables = sidecar.environment();
    let map: HashMap<&str, &str> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(map.len(), variables.len());
    assert!(map.keys().all(|name| name.starts_with("LINKERD2_PROXY_")));
    let of = |name: &str| map.get(format!("LINKERD2_PROXY_{name}").as_str()).copied();
    for service in ["DESTINATION_SVC_ADDR", "POLICY_SVC_ADDR", "IDENTITY_SVC_ADDR"] {
        assert_eq!(of(service), Some("127.0.0.1:1"));
    }
    assert_eq!((of("INBOUND_PORTS"), of("CORES")), (Some("50051,50052"), Some("1")));
    assert_eq!(of("POLICY_WORKLOAD"), Some(r#"{"ns":"lab","pod":"server-proxy-1"}"#));
    assert_eq!(of("INBOUND_DEFAULT_POLICY"), Some("all-authenticated"));
}
