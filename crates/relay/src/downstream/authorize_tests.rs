use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;

use crate::Relay;
use crate::downstream::client::ClientId;
use crate::fixtures::{call, inbound, mesh_of, relay, service};
use crate::link::LinkId;

/// A policy that denies all calls to the application except health checks, which every client may make.
const POLICY: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec: {allow: [], healthChecks: [/healthz]}
";

fn mesh_with_policy() -> Mesh {
    mesh_of(POLICY.to_owned() + &service("cart", &["10.0.0.9"]))
}

/// Returns what the relay has answered to a client.
fn answer(relay: &mut Relay, client: ClientId) -> String {
    let link = relay.link(LinkId::Client(client)).expect("it is open");
    String::from_utf8_lossy(link.codec.output()).into_owned()
}

/// A health check with content is denied: if the content never arrived, the request would occupy the application
/// forever.
#[test]
fn a_health_check_is_let_in_only_if_its_request_is_complete_without_content() {
    let mut relay = relay(1, mesh_with_policy(), false);
    for (number, request, is_let_in) in [
        (0, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", true),
        (1, "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n", false),
        (2, "GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", false),
        (3, "GET /other HTTP/1.1\r\nhost: a\r\n\r\n", false),
    ] {
        let calls = relay.calls.len();
        let client = call(&mut relay, number, inbound(), None, request.into());
        let has_call = relay.calls.len() > calls;
        let answer = answer(&mut relay, client);
        assert_eq!(
            (has_call, answer.contains("leno-proxy-error: denied")),
            (is_let_in, !is_let_in),
            "{request}{answer}"
        );
    }
}

/// An application that does not read the content of a GET would parse this content as the next request.
#[test]
fn a_health_check_whose_content_arrives_before_the_policies_is_denied() {
    for (fields, content, is_let_in) in [
        ("", "", true),
        ("content-length: 34\r\n", "GET /admin HTTP/1.1\r\nhost: abc\r\n\r\n", false),
        ("transfer-encoding: chunked\r\n", "0\r\n\r\n", false),
    ] {
        let mut relay = relay(1, mesh_with_policy().answering([]), true);
        let head = format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        let client = call(&mut relay, 0, inbound(), None, head.into_bytes());
        relay.receive(LinkId::Client(client), content.as_bytes());
        let ended: Vec<_> = relay.calls.iter().map(|(_, call)| call.request_ended).collect();
        assert_eq!(ended, [true], "the whole request waits for the policies: {fields}");
        relay.set_mesh(&Arc::new(mesh_with_policy().answering([Subject::Inbound])));
        let has_call = relay.calls.len() > 0;
        let answer = answer(&mut relay, client);
        assert_eq!(
            (has_call, answer.contains("leno-proxy-error: denied")),
            (is_let_in, !is_let_in),
            "{fields}{answer}"
        );
    }
}

#[test]
fn an_accepted_call_with_content_is_no_health_check_under_later_policies() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let request = "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
    let client = call(&mut relay, 0, inbound(), None, request.into());
    let ended: Vec<_> = relay.calls.iter().map(|(_, call)| call.request_ended).collect();
    assert_eq!(ended, [true], "without a policy, every client may call");
    relay.set_mesh(&Arc::new(mesh_with_policy()));
    let answer = answer(&mut relay, client);
    assert!(relay.calls.len() == 0 && answer.contains("leno-proxy-error: denied"), "{answer}");
}

/// Some frameworks would handle such a request as a request for another path, although its path is a health check's.
#[test]
fn an_accepted_call_with_fields_that_replace_its_path_is_no_health_check_under_later_policies() {
    for (fields, stays) in [("x-other: 1\r\n", true), ("X_Original-URL: /admin\r\n", false)] {
        let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
        let request = format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        let client = call(&mut relay, 0, inbound(), None, request.into_bytes());
        assert_eq!(relay.calls.len(), 1, "without a policy, every client may call");
        relay.set_mesh(&Arc::new(mesh_with_policy()));
        let has_call = relay.calls.len() > 0;
        let answer = answer(&mut relay, client);
        assert_eq!((has_call, answer.contains("leno-proxy-error: denied")), (stays, !stays), "{fields}{answer}");
    }
}

/// Some frameworks would handle such a health check as a request for another path or with another method.
#[test]
fn a_health_check_loses_the_fields_that_replace_its_path_or_its_method() {
    let overrides = ["X-Original-URL", "x_rewrite_url", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];
    let lines: String = overrides.iter().map(|name| format!("{name}: /admin\r\n")).collect();
    for (mesh, kept) in [(mesh_with_policy(), 0), (mesh_of(service("cart", &["10.0.0.9"])), overrides.len())] {
        let mut relay = relay(1, mesh, false);
        let request = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx-other: 1\r\n{lines}\r\n");
        call(&mut relay, 0, inbound(), None, request.into_bytes());
        let (_, call) = relay.calls.iter().next().expect("it is let in");
        let values: Vec<_> = call.request.iter().map(|line| line.value).collect();
        assert_eq!(values.iter().filter(|value| **value == b"/admin").count(), kept);
        assert!(values.contains(&&b"1"[..]), "other fields stay");
    }
}
