//! Retries of a route: which calls are sent again, when, and the number of attempts.

use std::time::{Duration, Instant};

use leno_http2::frame::kind;
use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};
use leno_relay::metrics::RouteLabels;

use crate::peer::{CALL, Frame, Peer, Server, Servers, call, call_with, data, grpc, headers, open_call, rst_stream};
use crate::proxy::{Proxy, mesh_of, service};
use crate::routes::{get, http_route, meshed};

/// A proxy for calls to `echo`, whose route has retries and sends all calls to two servers.
struct Retried {
    proxy: Proxy,
    client: Peer,
    servers: Servers,
}

impl Retried {
    /// `fields` are further fields of the rule.
    fn start(retry: &str, fields: &str) -> Self {
        Self::start_with(retry, fields, &[])
    }

    fn start_with(retry: &str, fields: &str, limits: &[(&str, &str)]) -> Self {
        let (one, other) = (Server::start(), Server::start());
        let rule = format!("- backendRefs: [{{name: v1, port: 80}}]\n  retry: {retry}\n{fields}");
        let proxy = Proxy::start_in(meshed(&[&one, &other], &[], &http_route(&rule)), limits);
        let client = proxy.connect();
        Self { proxy, client, servers: Servers::of([one, other]) }
    }

    /// Answers the next request at any server with these fields. Returns the server's index and the request.
    fn answer_next(&mut self, fields: &[(&str, &str)]) -> (usize, Frame) {
        let (place, request) = self.servers.next_request();
        self.servers.send(place, &headers(request.stream, fields, true));
        (place, request)
    }

    /// The counts of retries: made, successful, not made because the request had used all its retries, and not made
    /// because the budget was spent.
    fn counts(&self) -> [u64; 4] {
        self.proxy.metrics.route(&labels()).retry_counts()
    }
}

fn labels() -> RouteLabels {
    let key = |service: &str| ClusterKey { namespace: "default".into(), service: service.into(), port: 80 };
    let route = RouteName { kind: RouteKind::Http, namespace: "default".into(), name: "split".into() };
    RouteLabels { parent: key("echo"), route, backend: Some(key("v1")) }
}

const TWICE: &str = "{codes: [503], attempts: 2, backoff: 1ms}";

#[test]
fn a_failed_grpc_call_goes_to_another_endpoint_which_learns_that_it_is_a_retry() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&call(1));
    let (first, request) = retried.answer_next(&grpc("14"));
    assert_eq!(request.field("grpc-previous-rpc-attempts"), "");
    let (second, request) = retried.answer_next(&grpc("0"));
    assert_eq!((second, request.field("grpc-previous-rpc-attempts")), (1 - first, "1"));
    let answer = &retried.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-not-retried")), ("0", ""));
    assert_eq!(retried.counts(), [1, 1, 0, 0]);
}

#[test]
fn a_failed_http_request_goes_to_another_endpoint_and_the_rest_of_its_answer_is_not_read() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&get(1, "/"));
    let (first, request) = retried.servers.next_request();
    let failed = headers(request.stream, &[(":status", "503"), ("content-length", "1000000")], false);
    retried.servers.send(first, &[failed, data(request.stream, b"sorry", false)].concat());
    let (second, request) = retried.servers.next_request();
    assert_eq!(second, 1 - first);
    retried.servers.send(second, &headers(request.stream, &[(":status", "204")], true));
    assert_eq!(retried.client.rest_of(1)[0].field(":status"), "204");
    assert_eq!(retried.servers.next_frame(kind::RST_STREAM).0, first, "the failed answer is cancelled");
}

#[test]
fn an_answer_that_is_no_failure_of_the_rule_is_forwarded() {
    let mut retried = Retried::start(TWICE, "");
    for (stream, status) in [(1, "13"), (3, "7"), (5, "0")] {
        retried.client.send(&call(stream));
        retried.answer_next(&grpc(status));
        assert_eq!(retried.client.rest_of(stream)[0].field("grpc-status"), status);
    }
    retried.client.send(&get(7, "/"));
    retried.answer_next(&[(":status", "500")]);
    assert_eq!(retried.client.rest_of(7)[0].field(":status"), "500");
    assert_eq!(retried.counts(), [0; 4]);
}

#[test]
fn a_call_that_has_used_its_retries_gets_the_endpoints_own_answer_which_stops_other_retries() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&call(1));
    let attempts = [(); 3].map(|()| retried.answer_next(&grpc("14")).1);
    assert_eq!(attempts.each_ref().map(|request| request.field("grpc-previous-rpc-attempts")), ["", "1", "2"]);
    let answer = &retried.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("14", ""));
    assert_eq!((answer.field("leno-not-retried"), answer.field("grpc-retry-pushback-ms")), ("attempts", "-1"));
    assert_eq!(retried.counts(), [2, 0, 1, 0]);
}

#[test]
fn a_proxy_before_another_does_not_retry_what_that_one_has_retried() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&get(1, "/"));
    retried.answer_next(&[(":status", "503"), ("leno-not-retried", "attempts")]);
    assert_eq!(retried.client.rest_of(1)[0].field(":status"), "503");
    retried.client.send(&call(3));
    let pushback = [grpc("14").as_slice(), &[("grpc-retry-pushback-ms", "-1")]].concat();
    retried.answer_next(&pushback);
    assert_eq!(retried.client.rest_of(3)[0].field("grpc-status"), "14");
    assert_eq!(retried.counts(), [0; 4]);
}

#[test]
fn a_call_that_its_client_retries_is_not_retried_here() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&call_with(1, "grpc-previous-rpc-attempts", "1"));
    let (_, request) = retried.answer_next(&grpc("14"));
    assert_eq!(request.field("grpc-previous-rpc-attempts"), "1");
    assert_eq!(retried.client.rest_of(1)[0].field("grpc-status"), "14");
}

#[test]
fn a_server_says_when_to_retry() {
    let mut retried = Retried::start("{codes: [503], backoff: 10s}", "");
    retried.client.send(&call(1));
    let began = Instant::now();
    retried.answer_next(&[grpc("14").as_slice(), &[("grpc-retry-pushback-ms", "300")]].concat());
    retried.answer_next(&grpc("0"));
    assert!(began.elapsed() >= Duration::from_millis(300));
    let mut retried = Retried::start("{codes: [503], backoff: 100ms}", "");
    for (stream, asked, least_ms) in [(1, "1", 1_000), (3, "0", 100)] {
        retried.client.send(&get(stream, "/"));
        let began = Instant::now();
        retried.answer_next(&[(":status", "503"), ("retry-after", asked)]);
        retried.answer_next(&[(":status", "200")]);
        assert!(began.elapsed() >= Duration::from_millis(least_ms), "{asked}");
    }
}

#[test]
fn a_call_whose_endpoint_does_not_listen_yet_waits_for_it_within_its_retries() {
    let closed = Server::start();
    let address = closed.address();
    drop(closed);
    let rule = "- backendRefs: [{name: v1, port: 80}]\n  retry: {attempts: 10, backoff: 100ms}";
    let services = [service("echo", &[], ""), service("v1", &[address], "")].concat();
    let proxy = Proxy::start_in(mesh_of(&(services + &http_route(rule))), &[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    std::thread::sleep(Duration::from_millis(300));
    let server = Server::start_on(address);
    let mut peer = server.accept();
    let request = peer.expect(kind::HEADERS);
    peer.send(&headers(request.stream, &grpc("0"), true));
    assert_eq!(client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn a_reset_after_all_retries_is_answered_so_that_proxies_before_this_one_do_not_retry() {
    let mut retried = Retried::start("{attempts: 1, backoff: 0s}", "");
    retried.client.send(&call(1));
    for _ in 0..2 {
        let (place, request) = retried.servers.next_request();
        retried.servers.send(place, &rst_stream(request.stream, 2));
    }
    let answer = &retried.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("14", "reset"));
    assert_eq!(answer.field("leno-not-retried"), "attempts");
}

#[test]
fn failed_answers_that_are_cancelled_do_not_count_as_the_clients_cancellations() {
    let limits = [("max_shared_cancels_per_account", "3"), ("max_cancelled_calls_per_client", "3")];
    let mut retried = Retried::start_with("{codes: [503], attempts: 1, backoff: 0s}", "", &limits);
    for stream in (1..41).step_by(2) {
        retried.client.send(&get(stream, "/"));
        let (place, request) = retried.servers.next_request();
        let failed = headers(request.stream, &[(":status", "503")], false);
        retried.servers.send(place, &[failed, data(request.stream, b"sorry", false)].concat());
        let (place, request) = retried.servers.next_request();
        retried.servers.send(place, &headers(request.stream, &[(":status", "204")], true));
        assert_eq!(retried.client.rest_of(stream)[0].field(":status"), "204");
    }
}

#[test]
fn a_lost_connection_a_reset_and_an_attempt_out_of_time_are_retried() {
    let mut retried = Retried::start("{attempts: 1, backoff: 0s}", "  timeouts: {backendRequest: 3s}");
    retried.client.send(&call(1));
    let (place, _) = retried.servers.next_request();
    retried.servers.close(place);
    retried.answer_next(&grpc("0"));
    assert_eq!(retried.client.rest_of(1)[0].field("grpc-status"), "0");

    retried.client.send(&call(3));
    let (place, request) = retried.servers.next_request();
    retried.servers.send(place, &rst_stream(request.stream, 2));
    retried.answer_next(&grpc("0"));
    assert_eq!(retried.client.rest_of(3)[0].field("grpc-status"), "0");

    retried.client.send(&call(5));
    let (late, _) = retried.servers.next_request();
    let (place, _) = retried.answer_next(&grpc("0"));
    assert_ne!(place, late);
    assert_eq!(retried.client.rest_of(5)[0].field("grpc-status"), "0");
    assert_eq!(retried.counts(), [3, 3, 0, 0]);
}

#[test]
fn a_retry_that_the_deadline_leaves_no_time_for_does_not_begin() {
    let mut retried = Retried::start("{codes: [503], backoff: 5s}", "  timeouts: {request: 4s}");
    retried.client.send(&call(1));
    let began = Instant::now();
    retried.answer_next(&grpc("14"));
    let answer = &retried.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-proxy-error")), ("14", ""));
    assert!(began.elapsed() < Duration::from_secs(3), "the answer does not wait");
}

#[test]
fn a_response_that_has_begun_is_not_asked_for_again() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&call(1));
    let (place, request) = retried.servers.next_request();
    let begun = headers(request.stream, &[(":status", "200"), ("content-type", "application/grpc")], false);
    let failed = headers(request.stream, &[("grpc-status", "14")], true);
    retried.servers.send(place, &[begun, failed].concat());
    let frames = retried.client.rest_of(1);
    assert_eq!(frames.last().map(|frame| frame.field("grpc-status")), Some("14"));
    assert_eq!(retried.counts(), [0; 4]);
}

/// The proxy must not forward the code REFUSED_STREAM: to the client, it means that no server has processed the call,
/// but here a server may have processed it.
#[test]
fn a_response_that_ends_with_refused_stream_is_not_passed_on_as_refused() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&get(1, "/"));
    retried.answer_next(&[(":status", "503")]);
    let (place, request) = retried.servers.next_request();
    let begun = headers(request.stream, &[(":status", "200")], false);
    retried.servers.send(place, &[begun, rst_stream(request.stream, 7)].concat());
    let frames = retried.client.rest_of(1);
    let last = frames.last().expect("the stream ends");
    assert_eq!((last.kind, &last.payload[..]), (kind::RST_STREAM, &2u32.to_be_bytes()[..]), "INTERNAL_ERROR");
}

#[test]
fn content_that_is_kept_goes_with_the_retry_and_a_call_with_more_is_not_sent_again() {
    let mut retried = Retried::start(TWICE, "");
    retried.client.send(&[open_call(1), data(1, b"question", true)].concat());
    let (first, request) = retried.servers.next_request();
    assert_eq!(retried.servers.next_frame(kind::DATA).1.payload, b"question");
    retried.servers.send(first, &headers(request.stream, &grpc("14"), true));
    let (second, content) = retried.servers.next_frame(kind::DATA);
    assert_eq!((second, &content.payload[..]), (1 - first, &b"question"[..]));

    let mut retried = Retried::start_with(TWICE, "", &[("max_replay_bytes_per_call", "1000")]);
    retried.client.send(&[open_call(1), data(1, &[b'x'; 2_000], false)].concat());
    let (place, request) = retried.servers.next_request();
    let mut taken = 0;
    while taken < 2_000 {
        taken += retried.servers.next_frame(kind::DATA).1.payload.len();
    }
    retried.servers.send(place, &headers(request.stream, &grpc("14"), true));
    let answer = &retried.client.rest_of(1)[0];
    assert_eq!((answer.field("grpc-status"), answer.field("leno-not-retried")), ("14", ""));
}

#[test]
fn a_cancelled_call_is_not_sent_again() {
    let mut retried = Retried::start("{codes: [503], backoff: 300ms}", "");
    retried.client.send(&call(1));
    retried.answer_next(&grpc("14"));
    retried.client.send(&rst_stream(1, 8));
    // If the proxy sent the cancelled call again, that call would arrive before the next call.
    std::thread::sleep(Duration::from_millis(600));
    retried.client.send(&headers(3, &[CALL.as_slice(), &[("x", "second")]].concat(), true));
    assert_eq!(retried.servers.next_request().1.field("x"), "second");
}

#[test]
fn retries_beyond_the_budget_fail_with_the_endpoints_own_answer() {
    let mut retried = Retried::start("{codes: [503], attempts: 1, backoff: 0s}", "");
    let (mut retries, mut refused) = (0, 0);
    let began = Instant::now();
    for stream in (1..300).step_by(2) {
        retried.client.send(&call(stream));
        retried.answer_next(&grpc("14"));
        if retries < 100 {
            // The first 100 failures are retried: the budget has ten retries a second, for an interval of ten seconds.
            retried.answer_next(&grpc("14"));
            retries += 1;
        } else {
            refused += 1;
        }
        let answer = &retried.client.rest_of(stream)[0];
        let expected = if refused == 0 { ("attempts", "") } else { ("budget", "retry-budget-spent") };
        assert_eq!((answer.field("leno-not-retried"), answer.field("leno-proxy-error")), expected, "call {stream}");
        assert_eq!(answer.field("grpc-status"), "14");
    }
    assert!(began.elapsed() < Duration::from_secs(9), "the interval was not over, or the test proves nothing");
    assert_eq!(retried.counts(), [100, 0, 100, 50]);
}
