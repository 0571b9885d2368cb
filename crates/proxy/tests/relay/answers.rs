//! The proxy's own answers, and the endpoints' answers that it forwards.

use std::time::Duration;

use leno_http2::frame::{flag, kind};

use crate::peer::{answer, call_with, data, headers, open_call, rst_stream, settings};
use crate::proxy::{CallInFlight, Proxy, eventually};

#[test]
fn an_error_in_answer_to_head_has_no_content() {
    let proxy = Proxy::start(&[]);
    let mut client = proxy.connect();
    let unknown = [(":method", "HEAD"), (":scheme", "http"), (":path", "/"), (":authority", "nobody")];
    client.send(&headers(1, &unknown, true));
    let answer = client.rest_of(1);
    assert_eq!(answer[0].field(":status"), "404");
    assert!(answer[0].ends_stream(), "{answer:?}");
}

#[test]
fn trailers_of_a_request_that_are_too_large_fail_the_call() {
    let mut call = CallInFlight::start(&open_call(1));
    let long = "x".repeat(20_000);
    call.client.send(&headers(1, &[("kept", "1"), ("long", &long), ("lost", "1")], true));
    let end = call.endpoint.rest_of(call.stream);
    assert_eq!(end[0].kind, kind::RST_STREAM, "{end:?}");
    let error = call.client.expect(kind::HEADERS);
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("8", "header-list-too-large"));
}

#[test]
fn a_whole_answer_reaches_a_client_that_is_still_sending_and_then_it_is_stopped() {
    let mut call = CallInFlight::start(&open_call(1));
    call.endpoint.send(&answer(call.stream, "me"));
    call.endpoint.send(&rst_stream(call.stream, 0));
    let frames = call.client.rest_of(1);
    assert_eq!(frames[0].field("from"), "me");
    let stopped = call.client.expect(kind::RST_STREAM);
    assert_eq!((stopped.stream, stopped.payload), (1, vec![0; 4]));
    assert_eq!(call.proxy.explain().calls, 0);
}

#[test]
fn an_endpoint_that_has_answered_gets_the_rest_of_the_request() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut call = CallInFlight::start(&open_call(1));
    call.endpoint.send(&settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    while call.endpoint.expect(kind::SETTINGS).flags & flag::ACK == 0 {}
    call.endpoint.send(&answer(call.stream, "me"));
    assert_eq!(call.client.rest_of(1)[0].field("from"), "me");

    call.client.send(&data(1, b"the rest", true));
    eventually("the call is over", || call.proxy.explain().calls == 0);
    // Wait long enough for a RST_STREAM, which the proxy would send if it had cancelled the stream.
    std::thread::sleep(Duration::from_millis(100));
    call.endpoint.send(&settings(&[(INITIAL_WINDOW_SIZE, 1_000)]));
    let rest = call.endpoint.rest_of(call.stream);
    assert_eq!((rest[0].kind, &*rest[0].payload), (kind::DATA, b"the rest".as_slice()), "{rest:?}");
}

#[test]
fn a_response_that_its_client_does_not_accept_costs_that_call_alone() {
    const MAX_HEADER_LIST_SIZE: u16 = 6;
    let mut call = CallInFlight::start(&[settings(&[(MAX_HEADER_LIST_SIZE, 1_000)]), open_call(1)].concat());
    let long = "x".repeat(2_000);
    call.endpoint.send(&headers(call.stream, &[(":status", "200"), ("long", &long)], false));
    let error = call.client.expect(kind::HEADERS);
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("8", "response-header-list-too-large"));
    assert!(error.field("grpc-message").contains("1000"), "{error:?}");

    call.client.send(&call_with(3, "a", "b"));
    let second = call.endpoint.expect(kind::HEADERS).stream;
    call.endpoint.send(&answer(second, "me"));
    assert_eq!(call.client.rest_of(3)[0].field("from"), "me", "the connection goes on");
}
