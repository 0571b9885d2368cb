use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;

use crate::fixtures::{begin_to_connect, call, inbound, mesh_of, relay, service};
use crate::link::LinkId;

/// A policy that denies all calls to the application except health checks.
const POLICY: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec: {allow: [], healthChecks: [/healthz]}
";

const HOOK: &str = "kube-lifecycle/1.36";

/// Returns what a caller with this `user-agent` gets from the proxy of an application that does not listen, or that a
/// policy protects, and whether the proxy then closes the connection.
fn answered(mesh: Mesh, agent: &str, identity: Option<SpiffeId>) -> (String, bool) {
    let mut relay = relay(1, mesh, false);
    let request = format!("GET /wait-for-drain HTTP/1.1\r\nhost: 10.0.0.9:8080\r\nuser-agent: {agent}\r\n\r\n");
    let client = call(&mut relay, 0, inbound(), identity, request.into_bytes());
    if relay.calls.len() > 0 {
        let upstream = begin_to_connect(&mut relay);
        relay.close_upstream(upstream, "Connection refused");
        relay.dispatch();
    }
    assert_eq!(relay.calls.len(), 0, "the call has ended");
    let link = relay.link(LinkId::Client(client)).expect("it is open");
    (String::from_utf8_lossy(link.codec.output()).into_owned(), link.codec.must_close())
}

fn protected() -> Mesh {
    mesh_of(POLICY.to_owned() + &service("cart", &["10.0.0.9"]))
}

/// With any response, the kubelet would take the hook for successful.
#[test]
fn a_lifecycle_hook_that_the_application_does_not_get_has_no_response() {
    assert_eq!(answered(protected(), HOOK, None), (String::new(), true), "denied");
    let open = mesh_of(service("cart", &["10.0.0.9"]));
    assert_eq!(answered(open.clone(), HOOK, None), (String::new(), true), "no connection to the application");
    let (answer, _) = answered(open, "kube-probe/1.36", None);
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[test]
fn every_other_caller_gets_the_proxys_error() {
    let identity: SpiffeId = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    for (agent, identity) in [("kube-probe/1.36", None), ("a kube-lifecycle/1.36", None), (HOOK, Some(identity))] {
        let (answer, _) = answered(protected(), agent, identity);
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("leno-proxy-error: denied"),
            "{agent}: {answer}"
        );
    }
}
