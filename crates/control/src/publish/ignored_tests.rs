use super::super::fixtures::{mesh, service};
use super::*;

/// The Services `echo` and `other`. Only `echo` has a policy.
fn with_policy() -> Arc<Mesh> {
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: cart}\nspec:\n  \
                  targetRefs: [{kind: Service, name: echo}]\n  timeouts: {streamIdle: 5m}\n  retry: {httpCodes: [503]}\n  \
                  hedge: {mode: Audit, delay: p95, methods: [GET]}\n  budget: {}\n";
    mesh(&(service("echo", &[]) + &service("other", &[]) + policy))
}

/// The ignored parts of a resource, without the object that sets them.
fn parts(program: XdsClient, kind: Kind, name: &str) -> Vec<String> {
    let ignored = of_resource(program, (kind, name), "default", &with_policy());
    assert!(ignored.keys().all(|object| &**object == "TrafficPolicy default/cart"), "{ignored:?}");
    ignored.into_values().flatten().collect()
}

#[test]
fn the_parts_that_a_client_ignores_are_those_of_the_resources_that_it_holds() {
    let hedge = "hedge in mode Audit";
    for name in ["echo.default:80", "mesh"] {
        assert_eq!(
            parts(XdsClient::Grpc, Kind::Route, name),
            [hedge, "retry.httpCodes", "timeouts.streamIdle"],
            "{name}"
        );
        assert_eq!(parts(XdsClient::Envoy, Kind::Route, name), [hedge], "{name}");
    }
    for (program, expected) in [
        (XdsClient::Grpc, ["budget"].as_slice()),
        (XdsClient::Envoy, ["budget.interval", "budget.minPerSecond"].as_slice()),
    ] {
        assert_eq!(parts(program, Kind::Cluster, "echo.default:80"), expected);
        for kind in [Kind::Cluster, Kind::Route] {
            assert_eq!(parts(program, kind, "other.default:80"), [""; 0]);
        }
        for kind in [Kind::Endpoints, Kind::Listener] {
            assert_eq!(parts(program, kind, "echo.default:80"), [""; 0]);
        }
    }
}

#[test]
fn a_proxy_of_the_mesh_ignores_nothing_and_grpc_go_less_than_other_grpc_clients() {
    assert_eq!(program("leno-proxy"), None);
    assert_eq!(program("gRPC Go"), Some(XdsClient::GrpcGo));
    assert_eq!(program("gRPC Java"), Some(XdsClient::Grpc));
    assert_eq!(program("envoy"), Some(XdsClient::Envoy));
}
