//! TrafficPolicies of a Service without routes: time limits, retries, and parts in audit mode.

use std::time::{Duration, Instant};

use leno_http2::frame::kind;

use crate::peer::{Frame, Peer, Server, Servers, call, call_with, data, grpc, headers, open_call};
use crate::proxy::{Proxy, eventually, mesh_of, service};

/// A TrafficPolicy of the Service `echo`. `spec` has the YAML of its parts, for example of `timeouts` or `retry`.
pub(crate) fn traffic_policy(spec: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: echo}}\n\
         spec:\n  targetRefs: [{{kind: Service, name: echo}}]\n  {spec}\n"
    )
}

/// A proxy for calls to `echo`, whose Service has a policy and two servers.
pub(crate) struct Policed {
    pub(crate) proxy: Proxy,
    pub(crate) client: Peer,
    pub(crate) servers: Servers,
}

impl Policed {
    /// Starts a proxy whose Service has a TrafficPolicy with this `spec`; see [`traffic_policy`].
    pub(crate) fn start(spec: &str) -> Self {
        let servers = [Server::start(), Server::start()];
        let addresses = servers.each_ref().map(Server::address);
        let proxy = Proxy::start_in(mesh_of(&(service("echo", &addresses, "") + &traffic_policy(spec))), &[]);
        let client = proxy.connect();
        Self { proxy, client, servers: Servers::of(servers) }
    }

    /// Returns the status and the error of the proxy's own answer on this stream.
    fn own_answer(&mut self, stream: u32) -> (String, String) {
        let frames = self.client.rest_of(stream);
        let last = frames.last().expect("an answer");
        (last.field("grpc-status").to_owned(), last.field("leno-proxy-error").to_owned())
    }
}

/// The `grpc-timeout` of a request: the time that its server has for the answer.
fn timeout(request: &Frame) -> Duration {
    leno_relay::grpc::parse_timeout(request.field("grpc-timeout").as_bytes()).expect("a timeout")
}

#[test]
fn a_grpc_call_has_the_time_that_the_policy_allows_and_its_server_is_told() {
    let mut policed = Policed::start("timeouts: {request: 2s}");
    policed.client.send(&call(1));
    let (_, request) = policed.servers.next_request();
    assert!(timeout(&request) <= Duration::from_secs(2));
    assert_eq!(policed.own_answer(1), ("4".to_owned(), "request-timeout".to_owned()));
    policed.client.send(&call_with(3, "grpc-timeout", "100m"));
    let (_, request) = policed.servers.next_request();
    assert!(timeout(&request) <= Duration::from_millis(100), "the client's own is shorter");
    assert_eq!(policed.own_answer(3), ("4".to_owned(), "deadline-exceeded".to_owned()));
}

#[test]
fn an_attempt_that_takes_too_long_is_retried_within_the_time_of_the_whole_call() {
    let mut policed = Policed::start("timeouts: {backendRequest: 2s}\n  retry: {attempts: 1, backoff: 0s}");
    policed.client.send(&call(1));
    let (first, _) = policed.servers.next_request();
    let (second, request) = policed.servers.next_request();
    assert_eq!(second, 1 - first);
    policed.servers.send(second, &headers(request.stream, &grpc("0"), true));
    assert_eq!(policed.client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn a_call_is_retried_after_the_grpc_codes_of_the_policy() {
    let mut policed = Policed::start("retry: {grpcCodes: [ABORTED], attempts: 1, backoff: 0s}");
    policed.client.send(&call(1));
    for status in ["10", "0"] {
        let (place, request) = policed.servers.next_request();
        policed.servers.send(place, &headers(request.stream, &grpc(status), true));
    }
    assert_eq!(policed.client.rest_of(1)[0].field("grpc-status"), "0");
    policed.client.send(&call(3));
    let (place, request) = policed.servers.next_request();
    policed.servers.send(place, &headers(request.stream, &grpc("14"), true));
    assert_eq!(policed.client.rest_of(3)[0].field("grpc-status"), "14");
}

#[test]
fn a_stream_on_which_neither_side_sends_ends_and_one_with_traffic_goes_on() {
    let mut policed = Policed::start("timeouts: {streamIdle: 2s}");
    policed.client.send(&open_call(1));
    let (place, request) = policed.servers.next_request();
    policed.servers.send(place, &headers(request.stream, &grpc("0")[..2], false));
    let began = Instant::now();
    // A frame from either side keeps the stream open: for 2.5 s only the client sends, then only the server.
    for turn in 0..20 {
        std::thread::sleep(Duration::from_millis(250));
        match turn < 10 {
            true => policed.client.send(&data(1, b"ping", false)),
            false => policed.servers.send(place, &data(request.stream, b"pong", false)),
        }
    }
    assert_eq!(policed.own_answer(1), ("4".to_owned(), "stream-idle".to_owned()));
    let elapsed = began.elapsed();
    assert!(elapsed > Duration::from_millis(6_500), "{elapsed:?}");
}

#[test]
fn a_call_without_any_answer_is_idle_too() {
    let mut policed = Policed::start("timeouts: {streamIdle: 200ms}");
    policed.client.send(&call(1));
    assert_eq!(policed.own_answer(1), ("4".to_owned(), "stream-idle".to_owned()));
}

#[test]
fn audited_parts_count_and_do_nothing() {
    let spec = "timeouts: {request: 150ms, backendRequest: 100ms, streamIdle: 100ms, mode: Audit}\n  \
                retry: {grpcCodes: [UNAVAILABLE], attempts: 3, backoff: 0s, mode: Audit}";
    let mut policed = Policed::start(spec);
    policed.client.send(&call(1));
    let (place, request) = policed.servers.next_request();
    assert_eq!(request.field("grpc-timeout"), "");
    let metrics = policed.proxy.metrics.clone();
    for would in ["request-timeout", "backend-timeout", "stream-idle"] {
        eventually(would, || metrics.audited_count(would) == 1);
    }
    policed.servers.send(place, &headers(request.stream, &grpc("14"), true));
    let frames = policed.client.rest_of(1);
    assert_eq!((frames[0].field("grpc-status"), frames[0].field("leno-not-retried")), ("14", ""));
    assert_eq!(metrics.audited_count("retry"), 1);
}

#[test]
fn an_audited_budget_lets_retries_go_on() {
    let spec = "retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 0s}\n  \
                budget: {percent: 0, minPerSecond: 0, mode: Audit}";
    let mut policed = Policed::start(spec);
    policed.client.send(&call(1));
    for status in ["14", "0"] {
        let (place, request) = policed.servers.next_request();
        policed.servers.send(place, &headers(request.stream, &grpc(status), true));
    }
    assert_eq!(policed.client.rest_of(1)[0].field("grpc-status"), "0");
    assert_eq!(policed.proxy.metrics.audited_count("retry-budget-spent"), 1);
}

#[test]
fn a_budget_of_the_policy_ends_retries() {
    let spec = "retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 0s}\n  budget: {percent: 0, minPerSecond: 0}";
    let mut policed = Policed::start(spec);
    policed.client.send(&call(1));
    let (place, request) = policed.servers.next_request();
    policed.servers.send(place, &headers(request.stream, &grpc("14"), true));
    let answer = &policed.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("14", "retry-budget-spent"));
}

#[test]
fn a_request_without_a_path_goes_on() {
    let mut policed = Policed::start("retry: {attempts: 1}");
    let options = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), (":authority", "echo.default:80")];
    policed.client.send(&headers(1, &options, true));
    let (place, request) = policed.servers.next_request();
    policed.servers.send(place, &headers(request.stream, &[(":status", "204")], true));
    assert_eq!(policed.client.rest_of(1)[0].field(":status"), "204");
}

#[test]
fn a_change_of_the_policy_is_in_force_for_new_calls() {
    let server = Server::start();
    let manifests = |spec: &str| mesh_of(&(service("echo", &[server.address()], "") + &traffic_policy(spec)));
    let proxy = Proxy::start_in(manifests("timeouts: {request: 1h}"), &[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let mut peer = server.accept();
    assert!(timeout(&peer.expect(kind::HEADERS)) > Duration::from_secs(3_500));
    proxy.set_mesh(manifests("timeouts: {request: 300ms}"));
    let mut stream = 1;
    eventually("the new limit is in force", || {
        stream += 2;
        client.send(&call(stream));
        timeout(&peer.expect(kind::HEADERS)) <= Duration::from_millis(300)
    });
}
