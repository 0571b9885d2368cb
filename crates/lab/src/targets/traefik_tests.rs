use super::super::hop::Side;
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn routes_for(wire: Wire) -> Result<Value> {
    let (side, upstreams) = (Side::in_clear(wire), [address(11), address(12)]);
    routes_of(&Hop {
        name: "traefik",
        listener: address(1),
        protocol: Protocol::Grpc,
        downstream: side,
        upstream: side,
        policy: CallPolicy::Once,
        upstreams: &upstreams,
        dir: Path::new("/"),
        cpus: &[],
    })
}

#[test]
fn every_backend_is_a_server_of_the_only_route() {
    for (wire, first) in [(Wire::Http2, "h2c://127.0.0.1:11"), (Wire::Http1, "http://127.0.0.1:11")] {
        let routes = routes_for(wire).expect("calls");
        let servers = routes["http"]["services"]["backends"]["loadBalancer"]["servers"].as_array().expect("a list");
        assert_eq!((servers.len(), servers[0]["url"].as_str()), (2, Some(first)));
        assert_eq!(routes["http"]["routers"][ROUTER]["service"], "backends");
    }
}

#[test]
fn connections_stay_open_and_nothing_is_reported_to_the_vendor() {
    let config = config(address(1), address(2), Path::new("/routes.yaml"));
    assert_eq!(config["entryPoints"]["calls"]["transport"]["respondingTimeouts"]["readTimeout"], 0);
    assert_eq!(config["global"]["sendAnonymousUsage"], false);
    assert_eq!(config["global"]["checkNewVersion"], false);
}

#[test]
fn opaque_bytes_and_a_missing_binary_end_in_one_line_that_says_what_to_do() {
    let error = routes_for(Wire::Opaque).expect_err("bytes are no calls").to_string();
    assert!(error.contains("--targets traefik") && error.contains("leave traefik out"), "{error}");
    let error = program(Some(Path::new("/nowhere/traefik"))).expect_err("no such file").to_string();
    assert!(error.contains("--traefik /nowhere/traefik") && error.contains(INSTALL), "{error}");
}
