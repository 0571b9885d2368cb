//! The field `leno-attempts`: describes the attempts of a call to a client that requests this field.

use leno_http2::frame::kind;

use crate::peer::{CALL, Frame, Peer, Server, Servers, answer, call, call_with, data, grpc, headers, rst_stream};
use crate::policies::Policed;
use crate::proxy::{CallInFlight, Proxy, mesh};
use crate::routes::{get, http_route, meshed};

const REFUSED_STREAM: u32 = 7;

/// Returns the frames of a gRPC call that requests the field `leno-attempts`.
fn asking(stream: u32) -> Vec<u8> {
    call_with(stream, "leno-attempts", "?1")
}

/// Returns the frame of an HTTP request that requests the field `leno-attempts`.
fn asking_get(stream: u32, path: &str) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "echo.default:80")];
    headers(stream, &[&fields[..], &[("leno-attempts", "?1")]].concat(), true)
}

/// Answers the next request with these fields. Returns the request.
fn answer_next(servers: &mut Servers, fields: &[(&str, &str)]) -> Frame {
    let (place, request) = servers.next_request();
    servers.send(place, &headers(request.stream, fields, true));
    request
}

/// Returns the field `leno-attempts` of the response on a stream.
fn attempts(client: &mut Peer, stream: u32) -> String {
    client.rest_of(stream)[0].field("leno-attempts").to_owned()
}

/// A proxy without a policy, its client and two servers.
fn unpoliced() -> (Proxy, Peer, Servers) {
    let servers = [Server::start(), Server::start()];
    let proxy = Proxy::start(&servers.each_ref().map(Server::address));
    let client = proxy.connect();
    (proxy, client, Servers::of(servers))
}

#[test]
fn a_client_that_asks_learns_the_number_of_attempts_and_of_retries() {
    let mut policed = Policed::start("retry: {grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 0s}");
    for (stream, failures, expected) in
        [(1, 0, "1"), (3, 1, "2;retries=1"), (5, 2, "3;retries=2"), (7, 3, "3;retries=2")]
    {
        policed.client.send(&asking(stream));
        for _ in 0..failures {
            assert_eq!(answer_next(&mut policed.servers, &grpc("14")).field("leno-attempts"), "", "it is removed");
        }
        if failures < 3 {
            answer_next(&mut policed.servers, &grpc("0"));
        }
        assert_eq!(attempts(&mut policed.client, stream), expected);
    }
}

#[test]
fn a_client_that_does_not_ask_gets_no_field() {
    let mut policed = Policed::start("retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 0s}");
    for (stream, request) in
        [(1, call(1)), (3, call_with(3, "leno-attempts", "?0")), (5, call_with(5, "leno-attempts", "1"))]
    {
        policed.client.send(&request);
        for status in ["14", "0"] {
            assert_eq!(answer_next(&mut policed.servers, &grpc(status)).field("leno-attempts"), "", "it is removed");
        }
        assert_eq!(attempts(&mut policed.client, stream), "");
    }
}

#[test]
fn hedges_and_retries_are_told_apart() {
    let spec = "retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 0s}\n  hedge: {delay: 50ms, methods: [a.B/C]}";
    let mut policed = Policed::start(spec);
    policed.client.send(&asking(1));
    let [(first, request), (second, hedge)] = [(); 2].map(|()| policed.servers.next_request());
    assert_eq!(hedge.field("leno-attempts"), "");
    policed.servers.send(second, &headers(hedge.stream, &grpc("0"), true));
    assert_eq!(attempts(&mut policed.client, 1), "2;hedges=1");
    let cancelled = policed.servers.next_frame(kind::RST_STREAM);
    assert_eq!((cancelled.0, cancelled.1.stream), (first, request.stream));

    // The proxy hedges at no endpoint that it found slow, as the first server above.
    let mut policed = Policed::start(spec);
    policed.client.send(&asking(1));
    for (place, request) in [(); 2].map(|()| policed.servers.next_request()) {
        policed.servers.send(place, &headers(request.stream, &grpc("14"), true));
    }
    answer_next(&mut policed.servers, &grpc("0"));
    assert_eq!(attempts(&mut policed.client, 1), "3;retries=1;hedges=1");
}

#[test]
fn without_a_policy_attempts_that_no_server_has_processed_count() {
    let (_proxy, mut client, mut servers) = unpoliced();
    for (stream, request) in [(1, asking(1)), (3, asking_get(3, "/"))] {
        client.send(&request);
        let (first, request) = servers.next_request();
        servers.send(first, &rst_stream(request.stream, REFUSED_STREAM));
        assert_eq!(answer_next(&mut servers, &grpc("0")).field("leno-attempts"), "");
        assert_eq!(attempts(&mut client, stream), "2");
    }
}

#[test]
fn the_proxys_own_answers_have_the_field() {
    let mut policed = Policed::start("retry: {attempts: 1, backoff: 0s}");
    policed.client.send(&asking(1));
    for _ in 0..2 {
        let (place, request) = policed.servers.next_request();
        policed.servers.send(place, &rst_stream(request.stream, 2));
    }
    let error = &policed.client.rest_of(1)[0];
    assert_eq!((error.field("leno-proxy-error"), error.field("leno-attempts")), ("reset", "2;retries=1"));

    let redirect = "- matches: [{path: {value: /old}}]\n  filters:\n  - type: RequestRedirect\n    \
                    requestRedirect: {hostname: new.example, statusCode: 301}\n\
                    - backendRefs: [{name: v1, port: 80}]";
    let proxy = Proxy::start_in(meshed(&[], &[], &http_route(redirect)), &[]);
    let mut client = proxy.connect();
    for (request, status, error, expected) in [
        (asking(1), "200", "no-endpoint", "0"),
        (asking_get(3, "/"), "503", "no-endpoint", "0"),
        (asking_get(5, "/old"), "301", "", "0"),
        (get(7, "/"), "503", "no-endpoint", ""),
    ] {
        client.send(&request);
        let answer = client.expect(kind::HEADERS);
        let found = [":status", "leno-proxy-error", "leno-attempts"].map(|name| answer.field(name));
        assert_eq!(found, [status, error, expected], "stream {}", answer.stream);
    }
}

#[test]
fn an_endpoints_own_field_does_not_pass_for_the_proxys() {
    let own = [("leno-attempts", "7"), ("leno-attempts", "8")];
    let mut call = CallInFlight::start(&asking(1));
    let begun = headers(call.stream, &[&grpc("0")[..2], &own].concat(), false);
    let trailers = headers(call.stream, &[&[("grpc-status", "0")], &own[..]].concat(), true);
    call.endpoint.send(&[begun, data(call.stream, b"reply", false), trailers].concat());
    let frames = call.client.rest_of(1);
    let fields = frames.iter().flat_map(|frame| &frame.fields).filter(|(name, _)| name == "leno-attempts");
    assert_eq!(fields.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["1"]);

    call.client.send(&headers(3, &CALL, true));
    let stream = call.endpoint.expect(kind::HEADERS).stream;
    call.endpoint.send(&headers(stream, &[&grpc("0"), &own[..1]].concat(), true));
    assert_eq!(attempts(&mut call.client, 3), "7", "the field is the application's if the client does not ask");
}

#[test]
fn interim_responses_have_no_field() {
    let mut call = CallInFlight::start(&asking(1));
    call.endpoint.send(&headers(call.stream, &[(":status", "103")], false));
    call.endpoint.send(&answer(call.stream, "me"));
    let frames = call.client.rest_of(1);
    let found: Vec<_> = frames.iter().map(|frame| (frame.field(":status"), frame.field("leno-attempts"))).collect();
    assert_eq!(found, [("103", ""), ("200", "1")]);
}

#[test]
fn the_proxy_of_the_called_workload_does_not_answer() {
    let server = Server::start();
    let (_proxy, _, inbound) = Proxy::start_between(mesh("echo", &[server.address()], ""), &[]);
    let mut client = Peer::connect(inbound);
    client.send(&asking(1));
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.field("leno-proxy-error"), error.field("leno-attempts")), ("no-route", ""));
}
