//! Routes of the Service `echo`: how they select a call's backend and change its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leno_http2::frame::kind;
use leno_model::mesh::Mesh;
use leno_model::route::{RouteKind, RouteName};
use leno_relay::metrics::RouteLabels;

use crate::peer::{
    CALL, Frame, Peer, Server, Servers, answer, call, call_with, headers, open_call, rst_stream, settings,
};
use crate::proxy::{Proxy, incomplete_mesh_of, mesh_of, service};

/// An HTTP request to `echo` that is not a gRPC call.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "echo.default:80")];
    headers(stream, &fields, true)
}

/// An HTTPRoute of `echo`. `rules` are the YAML lines below `rules:`.
pub(crate) fn http_route(rules: &str) -> String {
    let rules: String = rules.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: split}}\n\
         spec:\n  parentRefs: [{{group: \"\", kind: Service, name: echo, port: 80}}]\n  rules:\n{rules}"
    )
}

/// A mesh of the Services `echo`, `v1` and `v2`, and a route.
pub(crate) fn meshed(v1: &[&Server], v2: &[&Server], route: &str) -> Arc<Mesh> {
    let endpoints = |servers: &[&Server]| servers.iter().map(|server| server.address()).collect::<Vec<_>>();
    let services =
        [service("echo", &[], ""), service("v1", &endpoints(v1), ""), service("v2", &endpoints(v2), "")].concat();
    mesh_of(&(services + route))
}

/// A proxy for calls to `echo`, with a route to `v1` and `v2`, which have one server each.
struct Split {
    proxy: Proxy,
    client: Peer,
    v1: Server,
    v2: Server,
}

impl Split {
    fn start(rules: &str) -> Self {
        let (v1, v2) = (Server::start(), Server::start());
        let proxy = Proxy::start_in(meshed(&[&v1], &[&v2], &http_route(rules)), &[]);
        let client = proxy.connect();
        Self { proxy, client, v1, v2 }
    }

    /// Number of calls that the route sent to no backend.
    fn unsent(&self) -> u64 {
        let parent = leno_model::mesh::ClusterKey { namespace: "default".into(), service: "echo".into(), port: 80 };
        let route = RouteName { kind: RouteKind::Http, namespace: "default".into(), name: "split".into() };
        self.proxy.metrics.route(&RouteLabels { parent, route, backend: None }).requests.get()
    }

    /// Sends a call on stream 1 and returns the proxy's own answer.
    fn own_answer(&mut self, call: &[u8]) -> Frame {
        self.client.send(call);
        self.client.expect(kind::HEADERS)
    }
}

const TO_V1: &str = "- backendRefs: [{name: v1, port: 80}]";

#[test]
fn the_first_rule_that_matches_names_the_backend() {
    let mut split = Split::start(
        "- matches: [{headers: [{name: X-Canary, value: always}]}]\n  backendRefs: [{name: v2, port: 80}]\n\
         - backendRefs: [{name: v1, port: 80}]",
    );
    split.client.send(&call(1));
    let mut v1 = split.v1.accept();
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    assert_eq!(split.client.rest_of(1)[0].field("from"), "v1");

    split.client.send(&call_with(3, "x-canary", "always"));
    let mut v2 = split.v2.accept();
    let request = v2.expect(kind::HEADERS);
    assert_eq!(request.field(":authority"), "echo.default:80", "the client's word stays");
    v2.send(&answer(request.stream, "v2"));
    assert_eq!(split.client.rest_of(3)[0].field("from"), "v2");
}

#[test]
fn a_request_that_no_rule_matches_is_answered_with_404_or_unimplemented() {
    let mut split = Split::start("- matches: [{path: {value: /shop}}]\n  backendRefs: [{name: v1, port: 80}]");
    let http = split.own_answer(&get(1, "/shopping"));
    assert_eq!((http.field(":status"), http.field("leno-proxy-error")), ("404", "no-matching-rule"));
    split.client.rest_of(1);
    let grpc = split.own_answer(&call(3));
    assert_eq!((grpc.field("grpc-status"), grpc.field("leno-proxy-error")), ("12", "no-matching-rule"));
    assert!(grpc.field("grpc-message").contains("echo.default:80"), "{grpc:?}");
}

#[test]
fn a_rule_without_a_backend_that_can_be_called_is_answered_with_500_or_unavailable() {
    let refused = |proxy: &Proxy, why: &str| {
        let mut client = proxy.connect();
        client.send(&get(1, "/"));
        let http = client.expect(kind::HEADERS);
        assert_eq!((http.field(":status"), http.field("leno-proxy-error")), ("500", why));
        client.rest_of(1);
        client.send(&call(3));
        let grpc = client.expect(kind::HEADERS);
        assert_eq!((grpc.field("grpc-status"), grpc.field("leno-proxy-error")), ("14", why));
        assert!(grpc.field("grpc-message").contains("HTTPRoute default/split"), "{grpc:?}");
    };
    let weightless = Split::start("- backendRefs: [{name: v1, port: 80, weight: 0}]");
    refused(&weightless.proxy, "no-backend");
    assert_eq!(weightless.unsent(), 2);
    let services = [service("echo", &[], ""), service("v1", &[], "")].concat();
    for missing in ["{name: v1, port: 81}", "{name: nobody, port: 80}"] {
        let route = http_route(&format!("- backendRefs: [{missing}]"));
        let proxy = Proxy::start_in(incomplete_mesh_of(&(services.clone() + &route)), &[]);
        refused(&proxy, "invalid-backend");
    }
}

#[test]
fn a_redirect_is_answered_and_goes_nowhere() {
    let mut split = Split::start(
        "- matches: [{path: {value: /old}}]\n  filters:\n  - type: RequestRedirect\n    \
         requestRedirect: {hostname: new.example, statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}\n  \
         - type: ResponseHeaderModifier\n    responseHeaderModifier: {set: [{name: cache-control, value: no-store}]}",
    );
    let redirect = split.own_answer(&get(1, "/old/a?b=c"));
    assert_eq!(redirect.field(":status"), "301");
    assert_eq!(redirect.field("location"), "http://new.example/new/a?b=c");
    assert_eq!(redirect.field("cache-control"), "no-store");
    assert_eq!(redirect.field("leno-proxy-error"), "", "it is no error");
    assert!(redirect.ends_stream(), "{redirect:?}");
    assert!(split.v1.accept_now().is_none() && split.v2.accept_now().is_none());
    assert_eq!(split.unsent(), 1, "it counts as a call of the route");
}

#[test]
fn header_fields_and_path_are_changed_as_rule_and_backend_say() {
    let mut split = Split::start(
        "- matches: [{path: {value: /a.B}}]\n  filters:\n  \
         - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-By, value: rule}], remove: [x-secret]}}\n  \
         - {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-By, value: rule}], remove: [from]}}\n  \
         - {type: URLRewrite, urlRewrite: {hostname: carts.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /z.Z}}}\n  \
         backendRefs:\n  - name: v1\n    port: 80\n    filters:\n    \
         - {type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: X-By, value: backend}]}}\n    \
         - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-By, value: backend}]}}",
    );
    split.client.send(&call_with(1, "x-secret", "1"));
    let mut v1 = split.v1.accept();
    let request = v1.expect(kind::HEADERS);
    assert_eq!((request.field(":path"), request.field(":authority")), ("/z.Z/C", "carts.example"));
    let by: Vec<_> = request.fields.iter().filter(|(name, _)| name == "x-by").map(|(_, value)| value).collect();
    assert_eq!(by, ["rule", "backend"]);
    assert_eq!(request.field("x-secret"), "");

    v1.send(&answer(request.stream, "v1"));
    let response = &split.client.rest_of(1)[0];
    let by: Vec<_> = response.fields.iter().filter(|(name, _)| name == "x-by").map(|(_, value)| value).collect();
    assert_eq!(by, ["backend", "rule"]);
    assert_eq!((response.field("from"), response.field("grpc-status")), ("", "0"));
}

#[test]
fn a_rewritten_path_with_characters_that_uris_may_not_contain_is_not_sent_to_a_server_of_http2() {
    let mut split = Split::start(
        "- matches: [{path: {value: /whole}}]\n  filters:\n  \
         - {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /new}}}\n  \
         backendRefs: [{name: v1, port: 80}]\n\
         - matches: [{path: {value: /prefix}}]\n  filters:\n  \
         - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}\n  \
         backendRefs: [{name: v1, port: 80}]\n\
         - filters: [{type: URLRewrite, urlRewrite: {hostname: carts.example}}]\n  \
         backendRefs: [{name: v1, port: 80}]",
    );
    split.client.send(&get(1, "/whole/<?q=1"));
    let mut v1 = split.v1.accept();
    assert_eq!(v1.expect(kind::HEADERS).field(":path"), "/new?q=1", "the rule has replaced the character");
    for (stream, path) in [(3, "/whole?q=<"), (5, "/prefix/a?q=\""), (7, "/prefix/<"), (9, "/a?q=<")] {
        split.client.send(&get(stream, path));
        let error = &split.client.rest_of(stream)[0];
        assert_eq!((error.field(":status"), error.field("leno-proxy-error")), ("400", "unusual-path"), "{path}");
    }
    split.client.send(&get(11, "/prefix/a?q=%22"));
    assert_eq!(v1.expect(kind::HEADERS).field(":path"), "/new/a?q=%22", "the connection goes on");
}

#[test]
fn a_response_that_a_rule_makes_larger_than_its_client_accepts_is_not_sent() {
    const MAX_HEADER_LIST_SIZE: u16 = 6;
    let long = "x".repeat(1_000);
    let mut split = Split::start(&format!(
        "- filters:\n  \
         - {{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: x-long, value: {long}}}]}}}}\n  \
         backendRefs: [{{name: v1, port: 80}}]"
    ));
    split.client.send(&[settings(&[(MAX_HEADER_LIST_SIZE, 1_000)]), call(1)].concat());
    let mut v1 = split.v1.accept();
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    let error = &split.client.rest_of(1)[0];
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("8", "response-header-list-too-large"));
}

#[test]
fn a_call_that_takes_longer_than_its_rule_allows_is_answered_at_once() {
    let mut split = Split::start(&format!("{TO_V1}\n  timeouts: {{request: 100ms}}"));
    split.client.send(&call(1));
    let mut v1 = split.v1.accept();
    let request = v1.expect(kind::HEADERS);
    assert!(!request.field("grpc-timeout").is_empty(), "its server knows: {request:?}");
    let answer = split.client.expect(kind::HEADERS);
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("4", "request-timeout"));

    let answer = split.own_answer(&get(3, "/"));
    assert_eq!((answer.field(":status"), answer.field("leno-proxy-error")), ("504", "request-timeout"));
    let request = v1.expect(kind::HEADERS);
    assert_eq!(request.field("grpc-timeout"), "", "it is not gRPC");
}

#[test]
fn the_callers_deadline_counts_where_it_is_shorter_than_the_rules() {
    let mut split = Split::start(&format!("{TO_V1}\n  timeouts: {{request: 10s}}"));
    split.client.send(&call_with(1, "grpc-timeout", "100m"));
    let answer = split.client.expect(kind::HEADERS);
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("4", "deadline-exceeded"));
}

#[test]
fn an_attempt_that_takes_longer_than_its_rule_allows_is_answered_at_once() {
    let mut split = Split::start(&format!("{TO_V1}\n  timeouts: {{request: 10s, backendRequest: 100ms}}"));
    split.client.send(&call(1));
    let mut v1 = split.v1.accept();
    v1.expect(kind::HEADERS);
    let late = split.client.expect(kind::HEADERS);
    assert_eq!((late.field("grpc-status"), late.field("leno-proxy-error")), ("4", "backend-timeout"));
    assert!(late.field("grpc-message").contains(&split.v1.address().to_string()), "{late:?}");

    // The timeout does not end a call that is answered in time.
    split.client.send(&call(3));
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    assert_eq!(split.client.rest_of(3)[0].field("from"), "v1");
}

#[test]
fn a_call_that_is_sent_again_keeps_its_backend() {
    let (one, other, v2) = (Server::start(), Server::start(), Server::start());
    let rules = "- backendRefs: [{name: v1, port: 80}, {name: v2, port: 80}]";
    // With round robin, the refusals do not make the proxy avoid an endpoint.
    let services = [
        service("echo", &[], ""),
        service("v1", &[one.address(), other.address()], "leno.dev/balancer: round-robin"),
        service("v2", &[v2.address()], ""),
    ];
    let proxy = Proxy::start_in(mesh_of(&(services.concat() + &http_route(rules))), &[]);
    let mut client = proxy.connect();
    let mut servers = Servers::of([one, other, v2]);
    let mut to_v1 = 0;
    for stream in (1..40).step_by(2) {
        client.send(&call(stream));
        let (first, request) = servers.next_request();
        if first == 2 {
            servers.send(first, &answer(request.stream, "v2"));
        } else {
            to_v1 += 1;
            servers.send(first, &rst_stream(request.stream, 7));
            let (second, request) = servers.next_request();
            assert_eq!(second, 1 - first, "a call of v1 that was refused goes to the other endpoint of v1");
            servers.send(second, &answer(request.stream, "v1"));
        }
        client.rest_of(stream);
    }
    assert!((1..20).contains(&to_v1), "{to_v1} of 20 calls went to v1");
}

/// Answers all calls at a server, until the test sets `over`.
fn keep_answering(server: Server, name: &'static str, over: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            let Some(mut endpoint) = server.accept_now() else { continue };
            std::thread::spawn(move || {
                endpoint.send(&settings(&[]));
                while let Some(frame) = endpoint.frame() {
                    if frame.kind == kind::HEADERS {
                        endpoint.send(&answer(frame.stream, name));
                    }
                }
            });
        }
    });
}

#[test]
fn a_call_that_comes_as_routes_change_is_answered_as_before_or_as_after() {
    let (v1, direct, over) = (Server::start(), Server::start(), Arc::new(AtomicBool::new(false)));
    let before = mesh_of(&service("echo", &[direct.address()], ""));
    let after = meshed(&[&v1], &[], &http_route(TO_V1));
    keep_answering(v1, "v1", over.clone());
    keep_answering(direct, "direct", over.clone());
    let proxy = Proxy::start_in(before.clone(), &[]);
    let mut client = proxy.connect();
    for stream in (1..400).step_by(4) {
        // This call makes sure that a connection exists before the next call, during which the route changes.
        client.send(&call(stream));
        assert_eq!(client.rest_of(stream)[0].field("from"), "direct");
        client.send(&call(stream + 2));
        proxy.set_mesh(after.clone());
        let answer = &client.rest_of(stream + 2)[0];
        assert!(["direct", "v1"].contains(&answer.field("from")), "{answer:?}");
        proxy.set_mesh(before.clone());
    }
    over.store(true, Ordering::Relaxed);
}

#[test]
fn a_call_in_flight_is_not_touched_when_its_route_changes() {
    let rules = "- filters:\n  - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-rule, value: old}]}}\n  \
                 backendRefs: [{name: v1, port: 80}]";
    let mut split = Split::start(rules);
    split.client.send(&open_call(1));
    let mut v1 = split.v1.accept();
    let before = v1.expect(kind::HEADERS);
    split.proxy.set_mesh(meshed(&[&split.v1], &[&split.v2], &http_route("- backendRefs: [{name: v2, port: 80}]")));

    split.client.send(&call(3));
    let mut v2 = split.v2.accept();
    let after = v2.expect(kind::HEADERS);
    v2.send(&answer(after.stream, "v2"));
    let later = &split.client.rest_of(3)[0];
    assert_eq!((later.field("from"), later.field("x-rule")), ("v2", ""));

    v1.send(&answer(before.stream, "v1"));
    let first = &split.client.rest_of(1)[0];
    assert_eq!((first.field("from"), first.field("x-rule")), ("v1", "old"));
}

#[test]
fn a_service_whose_routes_are_taken_away_is_called_itself() {
    let (echo, v1) = (Server::start(), Server::start());
    let services = [service("echo", &[echo.address()], ""), service("v1", &[v1.address()], "")].concat();
    let proxy = Proxy::start_in(mesh_of(&(services.clone() + &http_route(TO_V1))), &[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let mut peer = v1.accept();
    let request = peer.expect(kind::HEADERS);
    peer.send(&answer(request.stream, "v1"));
    assert_eq!(client.rest_of(1)[0].field("from"), "v1");

    proxy.set_mesh(mesh_of(&services));
    client.send(&call(3));
    let mut peer = echo.accept();
    let request = peer.expect(kind::HEADERS);
    peer.send(&answer(request.stream, "echo"));
    assert_eq!(client.rest_of(3)[0].field("from"), "echo");
}

#[test]
fn a_grpc_route_is_followed_by_method_and_counted() {
    let v1 = Server::start();
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: methods}\n\
                 spec:\n  parentRefs: [{group: \"\", kind: Service, name: echo}]\n  rules:\n  \
                 - matches: [{method: {service: a.B, method: C}}]\n    backendRefs: [{name: v1, port: 80}]\n";
    let proxy = Proxy::start_in(meshed(&[&v1], &[], route), &[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let mut peer = v1.accept();
    let request = peer.expect(kind::HEADERS);
    peer.send(&answer(request.stream, "v1"));
    assert_eq!(client.rest_of(1)[0].field("from"), "v1");

    let other_method: Vec<_> = CALL.iter().map(|&(n, v)| if n == ":path" { (n, "/a.B/D") } else { (n, v) }).collect();
    client.send(&headers(3, &other_method, true));
    assert_eq!(client.expect(kind::HEADERS).field("grpc-status"), "12");

    let key =
        |service: &str| leno_model::mesh::ClusterKey { namespace: "default".into(), service: service.into(), port: 80 };
    let labels = RouteLabels {
        parent: key("echo"),
        route: RouteName { kind: RouteKind::Grpc, namespace: "default".into(), name: "methods".into() },
        backend: Some(key("v1")),
    };
    assert_eq!(proxy.metrics.route(&labels).requests.get(), 1);
}
