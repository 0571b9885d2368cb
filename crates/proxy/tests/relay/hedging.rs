//! Hedging: which calls get a further attempt before the first attempt is answered, and which answer the client gets.

use std::time::Duration;

use leno_http2::frame::kind;
use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};
use leno_relay::metrics::RouteLabels;

use crate::peer::{Frame, Peer, Server, call, call_with, data, grpc, headers, open_call, rst_stream, settings};
use crate::policies::{Policed, traffic_policy};
use crate::proxy::{Proxy, eventually, mesh_of, service};
use crate::routes::get;

/// The number of this setting in a SETTINGS frame (RFC 9113 section 6.5.2).
const SETTINGS_MAX_HEADER_LIST_SIZE: u16 = 6;

impl Policed {
    /// Sends a call, and waits until both servers have it. Returns each server's index and its request; the first
    /// server comes first.
    fn call_twice(&mut self, request: &[u8]) -> [(usize, Frame); 2] {
        self.client.send(request);
        [(); 2].map(|()| self.servers.next_request())
    }

    /// Sends a call that must reach only one server. The server answers after 300 ms, long after the hedge delay of
    /// [`SOON`].
    fn call_once(&mut self, request: &[u8]) {
        self.client.send(request);
        let (place, request) = self.servers.next_request();
        std::thread::sleep(Duration::from_millis(300));
        self.servers.send(place, &headers(request.stream, &grpc("0"), true));
        assert_eq!(self.client.rest_of(1)[0].field("grpc-status"), "0");
    }

    /// The counts of hedges: made, successful, not made because the budget was spent, and not made because the Service
    /// was loaded.
    fn counts(&self) -> [u64; 4] {
        let key = || ClusterKey { namespace: "default".into(), service: "echo".into(), port: 80 };
        let route = RouteName { kind: RouteKind::Service, namespace: "default".into(), name: "echo".into() };
        let labels = RouteLabels { parent: key(), route, backend: Some(key()) };
        self.proxy.metrics.route(&labels).hedge_counts()
    }
}

const SOON: &str = "hedge: {delay: 50ms, methods: [a.B/C, GET]}";
/// A delay that never ends during a test, even if the machine stalls.
const NEVER: &str = "hedge: {delay: 1h, methods: [a.B/C]}";

#[test]
fn a_call_that_is_not_answered_in_time_goes_to_another_endpoint_and_the_faster_answer_counts() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    assert_eq!(second, 1 - first);
    assert_eq!(request.field("grpc-previous-rpc-attempts"), "");
    assert_eq!(further.field("grpc-previous-rpc-attempts"), "1");
    hedged.servers.send(second, &headers(further.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
    assert_eq!(hedged.servers.next_frame(kind::RST_STREAM).0, first, "the slower attempt is cancelled");
    assert_eq!(hedged.counts(), [1, 1, 0, 0]);
}

#[test]
fn the_first_endpoint_may_still_answer_first() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, _)] = hedged.call_twice(&get(1, "/"));
    hedged.servers.send(first, &headers(request.stream, &[(":status", "204")], true));
    assert_eq!(hedged.client.rest_of(1)[0].field(":status"), "204");
    assert_eq!(hedged.servers.next_frame(kind::RST_STREAM).0, second);
    assert_eq!(hedged.counts(), [1, 0, 0, 0]);
}

#[test]
fn an_answer_that_is_a_failure_does_not_count_while_another_may_come() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    hedged.servers.send(second, &headers(further.stream, &grpc("14"), true));
    // Wait until the proxy has received the failure, before the other server answers.
    std::thread::sleep(Duration::from_millis(100));
    hedged.servers.send(first, &headers(request.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn if_all_attempts_fail_the_last_failure_is_the_answer() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    hedged.servers.send(second, &rst_stream(further.stream, 2));
    std::thread::sleep(Duration::from_millis(100));
    hedged.servers.send(first, &headers(request.stream, &grpc("14"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "14");
}

#[test]
fn content_goes_with_each_attempt_and_an_incomplete_request_gets_one_only() {
    let mut hedged = Policed::start(SOON);
    hedged.client.send(&[open_call(1), data(1, b"question", true)].concat());
    let [(first, _), (second, content)] = [(); 2].map(|()| hedged.servers.next_frame(kind::DATA));
    assert_eq!((second, &content.payload[..]), (1 - first, &b"question"[..]));

    let mut hedged = Policed::start(SOON);
    hedged.call_once(&[open_call(1), data(1, b"question", false)].concat());
    assert_eq!(hedged.counts()[0], 0);
}

#[test]
fn a_call_whose_answer_has_begun_in_time_is_not_slow_however_long_its_content_takes() {
    const DELAY: Duration = Duration::from_millis(300);
    let mut hedged = Policed::start("hedge: {delay: 300ms, methods: [a.B/C]}");
    // Send more than 20 calls. With fewer than 20, the proxy would ignore the share of slow calls, and the test would
    // pass even if the proxy counted these calls as slow.
    let streams = (0..30).map(|n| 1 + 2 * n);
    let begun: Vec<_> = streams
        .map(|stream| {
            hedged.client.send(&call(stream));
            let (place, request) = hedged.servers.next_request();
            let head = [(":status", "200"), ("content-type", "application/grpc")];
            hedged.servers.send(place, &headers(request.stream, &head, false));
            (place, request.stream)
        })
        .collect();
    std::thread::sleep(2 * DELAY);
    for (place, stream) in begun {
        hedged.servers.send(place, &headers(stream, &[("grpc-status", "0")], true));
    }
    let [(first, request), _] = hedged.call_twice(&call(61));
    hedged.servers.send(first, &headers(request.stream, &grpc("0"), true));
    eventually("the call is hedged", || hedged.counts() == [1, 0, 0, 0]);
}

#[test]
fn a_method_that_the_policy_does_not_name_is_sent_once() {
    let mut hedged = Policed::start("hedge: {delay: 50ms, methods: [a.B/Other]}");
    hedged.call_once(&call(1));
    assert_eq!(hedged.counts(), [0; 4]);
}

#[test]
fn a_call_that_its_client_hedges_is_sent_once() {
    let mut hedged = Policed::start(SOON);
    hedged.call_once(&call_with(1, "grpc-previous-rpc-attempts", "1"));
    assert_eq!(hedged.counts()[0], 0);
}

#[test]
fn a_fast_answer_leaves_nothing_behind() {
    let mut hedged = Policed::start(NEVER);
    for stream in (1..100).step_by(2) {
        hedged.client.send(&call(stream));
        let (place, request) = hedged.servers.next_request();
        hedged.servers.send(place, &headers(request.stream, &grpc("0"), true));
        assert_eq!(hedged.client.rest_of(stream)[0].field("grpc-status"), "0");
    }
    assert_eq!(hedged.counts(), [0; 4]);
}

#[test]
fn a_cancelled_call_is_cancelled_at_each_endpoint() {
    let mut hedged = Policed::start(SOON);
    hedged.call_twice(&call(1));
    hedged.client.send(&rst_stream(1, 8));
    let mut cancelled = [(); 2].map(|()| hedged.servers.next_frame(kind::RST_STREAM).0);
    cancelled.sort_unstable();
    assert_eq!(cancelled, [0, 1]);
    eventually("both picks are finished", || {
        hedged.proxy.explain().endpoints.iter().all(|endpoint| endpoint.balancer.in_flight == 0)
    });
}

#[test]
fn an_endpoint_that_pushes_back_stops_further_attempts() {
    // The second server's answer must arrive within the delay of the third attempt.
    let mut hedged = Policed::start("hedge: {delay: 2s, attempts: 3, methods: [a.B/C]}");
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    let pushback = [grpc("14").as_slice(), &[("grpc-retry-pushback-ms", "-1")]].concat();
    hedged.servers.send(second, &headers(further.stream, &pushback, true));
    std::thread::sleep(Duration::from_secs(3));
    hedged.servers.send(first, &headers(request.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
    assert_eq!(hedged.counts(), [1, 0, 0, 0]);
}

#[test]
fn the_budget_bounds_further_attempts() {
    let mut hedged = Policed::start("hedge: {delay: 1ms, methods: [a.B/C]}\n  budget: {percent: 0, minPerSecond: 0}");
    hedged.client.send(&call(1));
    let (place, request) = hedged.servers.next_request();
    eventually("the attempt is counted as beyond the budget", || hedged.counts() == [0, 0, 1, 0]);
    hedged.servers.send(place, &headers(request.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn calls_to_a_loaded_service_are_not_hedged() {
    let mut hedged =
        Policed::start("hedge: {delay: 50ms, methods: [a.B/C]}\n  budget: {percent: 100, minPerSecond: 1000}");
    let streams: Vec<u32> = (1..100).step_by(2).collect();
    hedged.client.send(&streams.iter().flat_map(|stream| call(*stream)).collect::<Vec<_>>());
    // All calls are slow. The proxy hedges the first few. When more than a tenth of the calls are slow, it counts each
    // further call as not hedged under load.
    eventually("all delays are over", || hedged.counts()[0] + hedged.counts()[3] == streams.len() as u64);
    let [made, _, _, loaded] = hedged.counts();
    assert!(made <= 10 && loaded >= 40, "{made} were made, {loaded} were not");
}

#[test]
fn audited_hedging_sends_each_call_once_and_counts() {
    let mut hedged = Policed::start("hedge: {delay: 50ms, methods: [a.B/C], mode: Audit}");
    hedged.client.send(&call(1));
    let (place, request) = hedged.servers.next_request();
    eventually("it is counted", || hedged.proxy.metrics.audited_count("hedge") == 1);
    hedged.servers.send(place, &headers(request.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
    assert_eq!(hedged.counts(), [0; 4]);
}

#[test]
fn a_percentile_hedges_once_enough_calls_have_shown_it() {
    let mut hedged = Policed::start("hedge: {delay: p95, methods: [a.B/C]}");
    // The percentile is computed from the answers to the policy's methods. 100 answers are enough.
    for stream in (1..241).step_by(2) {
        let number = stream.to_string();
        hedged.client.send(&call_with(stream, "x-number", &number));
        // On a busy machine, the proxy may have hedged an earlier call. Skip the further attempt of that call, which
        // arrives first.
        loop {
            let (place, request) = hedged.servers.next_request();
            std::thread::sleep(Duration::from_millis(2));
            hedged.servers.send(place, &headers(request.stream, &grpc("0"), true));
            if request.field("x-number") == number {
                break;
            }
        }
        assert_eq!(hedged.client.rest_of(stream)[0].field("grpc-status"), "0");
    }
    // Wait: the proxy computes a percentile again only after a tenth of a second.
    std::thread::sleep(Duration::from_millis(200));
    let before = hedged.counts()[0];
    hedged.client.send(&call(241));
    eventually("a call without an answer is hedged", || hedged.counts()[0] > before);
}

/// The time until a reset does not show how long the method takes.
#[test]
fn calls_that_are_reset_show_no_percentile() {
    let mut hedged = Policed::start("hedge: {delay: p95, methods: [a.B/C]}");
    for stream in (1..241).step_by(2) {
        hedged.client.send(&call(stream));
        let (place, request) = hedged.servers.next_request();
        hedged.servers.send(place, &rst_stream(request.stream, 2));
        assert_eq!(hedged.client.expect(kind::RST_STREAM).stream, stream);
    }
    // Wait: the proxy computes a percentile again only after a tenth of a second.
    std::thread::sleep(Duration::from_millis(200));
    hedged.client.send(&call(241));
    hedged.servers.next_request();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(hedged.counts(), [0; 4]);
}

#[test]
fn a_further_attempt_that_cannot_be_sent_does_not_cost_the_call() {
    // The header section of the call is larger than the second server accepts.
    let servers = [Server::start(), Server::start()];
    let (_proxy, mut client) = hedge_between(&servers);
    client.send(&call(1));
    let (place, mut first) = accept_any(&servers);
    first.send(&settings(&[]));
    let request = first.expect(kind::HEADERS);
    let mut second = servers[1 - place].accept_silently();
    second.send(&settings(&[(SETTINGS_MAX_HEADER_LIST_SIZE, 40)]));
    std::thread::sleep(Duration::from_millis(300));
    first.send(&headers(request.stream, &grpc("0"), true));
    assert_eq!(client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn a_call_whose_endpoint_never_finishes_its_connection_is_hedged() {
    let servers = [Server::start(), Server::start()];
    let (_proxy, mut client) = hedge_between(&servers);
    client.send(&call(1));
    // The server accepts the connection, and sends no SETTINGS.
    let (place, _hung) = accept_any(&servers);
    let mut good = servers[1 - place].accept();
    let request = good.expect(kind::HEADERS);
    good.send(&headers(request.stream, &grpc("0"), true));
    assert_eq!(client.rest_of(1)[0].field("grpc-status"), "0");
}

#[test]
fn calls_with_one_endpoint_take_nothing_from_the_budget() {
    let server = Server::start();
    let spec = "hedge: {delay: 10ms, methods: [a.B/C]}\n  budget: {percent: 0, minPerSecond: 1, interval: 10s}";
    let manifests = service("echo", &[server.address()], "") + &traffic_policy(spec);
    let proxy = Proxy::start_in(mesh_of(&manifests), &[]);
    let mut client = proxy.connect();
    let mut peer = None;
    for stream in (1..40).step_by(2) {
        client.send(&call(stream));
        let peer: &mut Peer = peer.get_or_insert_with(|| server.accept());
        let request = peer.expect(kind::HEADERS);
        std::thread::sleep(Duration::from_millis(30));
        peer.send(&headers(request.stream, &grpc("0"), true));
        assert_eq!(client.rest_of(stream)[0].field("grpc-status"), "0");
    }
    let budget = serde_json::to_value(proxy.explain().retry_budget).expect("JSON");
    assert_eq!(budget["left"], 10, "{budget}");
}

#[test]
fn an_answer_that_forbids_retries_forbids_them_although_another_attempt_fails_later() {
    let spec = "hedge: {delay: 50ms, methods: [a.B/C]}\n  retry: {grpcCodes: [UNAVAILABLE], attempts: 3, backoff: 0s}";
    let mut hedged = Policed::start(spec);
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    let pushback = [grpc("14").as_slice(), &[("grpc-retry-pushback-ms", "-1")]].concat();
    hedged.servers.send(second, &headers(further.stream, &pushback, true));
    std::thread::sleep(Duration::from_millis(200));
    hedged.servers.send(first, &headers(request.stream, &grpc("14"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "14", "and no third attempt");
}

#[test]
fn interim_responses_of_several_attempts_do_not_reach_the_client() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, further)] = hedged.call_twice(&get(1, "/"));
    let hint = |stream| headers(stream, &[(":status", "103"), ("link", "</a>")], false);
    hedged.servers.send(first, &hint(request.stream));
    hedged.servers.send(second, &hint(further.stream));
    std::thread::sleep(Duration::from_millis(100));
    hedged.servers.send(second, &headers(further.stream, &[(":status", "204")], true));
    let statuses: Vec<_> = hedged.client.rest_of(1).iter().map(|frame| frame.field(":status").to_owned()).collect();
    assert_eq!(statuses, ["204"]);
}

#[test]
fn a_further_attempt_that_saves_a_failing_call_counts_as_a_success() {
    let mut hedged = Policed::start(SOON);
    let [(first, request), (second, further)] = hedged.call_twice(&call(1));
    hedged.servers.send(first, &headers(request.stream, &grpc("14"), true));
    std::thread::sleep(Duration::from_millis(100));
    hedged.servers.send(second, &headers(further.stream, &grpc("0"), true));
    assert_eq!(hedged.client.rest_of(1)[0].field("grpc-status"), "0");
    assert_eq!(hedged.counts(), [1, 1, 0, 0]);
}

/// A proxy that hedges calls to these servers, and its client. The servers accept the connections themselves.
fn hedge_between(servers: &[Server; 2]) -> (Proxy, Peer) {
    let manifests = service("echo", &servers.each_ref().map(Server::address), "") + &traffic_policy(SOON);
    let proxy = Proxy::start_in(mesh_of(&manifests), &[]);
    let client = proxy.connect();
    (proxy, client)
}

/// Waits until the proxy connects to one of the servers. Returns the server's index, and the connection, on which the
/// server has sent nothing yet.
fn accept_any(servers: &[Server; 2]) -> (usize, Peer) {
    let mut accepted = None;
    eventually("the proxy connects", || {
        accepted = (0..2).find_map(|place| Some((place, servers[place].accept_now()?)));
        accepted.is_some()
    });
    accepted.expect("a connection")
}
