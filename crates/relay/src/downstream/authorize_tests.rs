use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{call, mesh_of, relay, service};
use crate::link::LinkId;

/// A policy that denies all calls to the application except health checks, which every client may make.
const POLICY: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec: {allow: [], healthChecks: [/healthz]}
";

/// A health check with content is denied: if the content never arrived, the request would occupy the application
/// forever.
#[test]
fn a_health_check_is_let_in_only_if_its_request_is_complete_without_content() {
    let application = "10.0.0.9:8080".parse().expect("an address");
    let peer = "10.0.1.1:40000".parse().expect("an address");
    let origin = Origin { door: Door::Inbound, peer, local: application, original_destination: Some(application) };
    let mut relay = relay(1, mesh_of(POLICY.to_owned() + &service("cart", &["10.0.0.9"])), false);
    for (number, request, is_let_in) in [
        (0, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", true),
        (1, "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n", false),
        (2, "GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", false),
        (3, "GET /other HTTP/1.1\r\nhost: a\r\n\r\n", false),
    ] {
        let calls = relay.calls.iter().count();
        let client = call(&mut relay, number, origin, None, request.into());
        let has_call = relay.calls.iter().count() > calls;
        let link = relay.link(LinkId::Client(client)).expect("it is open");
        let answer = String::from_utf8_lossy(link.codec.output()).into_owned();
        assert_eq!(
            (has_call, answer.contains("leno-proxy-error: denied")),
            (is_let_in, !is_let_in),
            "{request}{answer}"
        );
    }
}
