//! When the proxy opens and closes connections to endpoints.

use std::time::{Duration, Instant};

use leno_http2::frame::kind;

use crate::peer::{Server, answer, call, goaway, headers, settings};
use crate::proxy::{CallInFlight, Proxy, mesh};

const MAX_CONCURRENT_STREAMS: u16 = 3;

#[test]
fn an_endpoint_that_goes_away_before_every_first_call_is_backed_off() {
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let began = Instant::now();
    let mut kept = Vec::new();
    while began.elapsed() < Duration::from_millis(500) && kept.len() < 100 {
        if let Some(mut endpoint) = server.accept_now() {
            endpoint.send(&[settings(&[]), goaway(0, 0)].concat());
            kept.push(endpoint);
        }
    }
    assert!(kept.len() < 10, "{} connections in half a second", kept.len());
    assert_eq!(client.expect(kind::HEADERS).field("leno-proxy-error"), "connect-failed");
}

/// The pauses double from at most 100 ms, so the first six pauses last at least 3.15 s together. If each connection began
/// the pauses anew, there would be 30 connections or more.
#[test]
fn the_pauses_grow_for_an_endpoint_that_goes_away_before_every_first_call() {
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client = proxy.connect();
    let (began, mut calls, mut kept) = (Instant::now(), 0, Vec::new());
    while began.elapsed() < Duration::from_secs(3) {
        if began.elapsed() >= Duration::from_millis(50) * calls {
            client.send(&call(2 * calls + 1));
            calls += 1;
        }
        if let Some(mut endpoint) = server.accept_now() {
            endpoint.send(&[settings(&[]), goaway(0, 0)].concat());
            kept.push(endpoint);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((2..=8).contains(&kept.len()), "{} connections in 3 seconds", kept.len());
}

#[test]
fn an_endpoint_that_takes_no_streams_is_not_waited_for() {
    let (full, free) = (Server::start(), Server::start());
    let annotation = "leno.dev/balancer: round-robin, leno.dev/connect-timeout: 1s";
    let proxy = Proxy::start_with(&[full.address(), free.address()], annotation, &[]);
    let mut client = proxy.connect();
    client.send(&[call(1), call(3)].concat());
    let mut no_streams = full.accept_silently();
    no_streams.send(&settings(&[(MAX_CONCURRENT_STREAMS, 0)]));
    let mut endpoint = free.accept();
    for _ in 0..2 {
        let request = endpoint.expect(kind::HEADERS);
        endpoint.send(&answer(request.stream, "free"));
        assert_eq!(client.expect(kind::HEADERS).field("from"), "free");
    }
}

#[test]
fn the_connect_time_out_is_kept_within_a_fifth_of_a_second() {
    let attempt = |_| {
        let server = Server::start();
        let proxy = Proxy::start_with(&[server.address()], "leno.dev/connect-timeout: 50ms", &[("max_attempts", "1")]);
        let mut client = proxy.connect();
        let began = Instant::now();
        client.send(&call(1));
        let error = client.expect(kind::HEADERS);
        assert_eq!(error.field("leno-proxy-error"), "connect-failed");
        began.elapsed()
    };
    // Compare only the shortest attempt: a busy machine can only lengthen an attempt.
    let shortest = (0..5).map(attempt).min().expect("five");
    assert!((Duration::from_millis(50)..Duration::from_millis(250)).contains(&shortest), "{shortest:?}");
}

#[test]
fn a_connection_that_is_mostly_idle_grows_no_older_than_it_may() {
    let mut first = CallInFlight::start_with(&call(1), "leno.dev/max-connection-age: 1s", &[]);
    let mut received = first.stream;
    // These calls take at least four seconds, so the connection reaches its maximum age long before the last call.
    for stream in (3..163).step_by(2) {
        first.endpoint.send(&answer(received, "me"));
        first.client.expect(kind::HEADERS);
        std::thread::sleep(Duration::from_millis(50));
        first.client.send(&call(stream));
        match std::iter::from_fn(|| first.endpoint.frame()).find(|frame| frame.kind == kind::HEADERS) {
            Some(request) => received = request.stream,
            None => return drop(first.server.accept()),
        }
    }
    panic!("the first connection is still in use");
}

#[test]
fn what_becomes_of_a_removed_services_connection_does_not_count_against_another_service() {
    let (silent, good) = (Server::start(), Server::start());
    let proxy = Proxy::start_with(&[silent.address()], "leno.dev/connect-timeout: 3s", &[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let mut never_ready = silent.accept_silently();
    proxy.set_mesh(mesh("other", &[good.address()], ""));
    assert_eq!(client.expect(kind::HEADERS).field("leno-proxy-error"), "no-route");

    let other = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "other")];
    client.send(&headers(3, &other, true));
    let mut endpoint = good.accept();
    let request = endpoint.expect(kind::HEADERS);
    endpoint.send(&answer(request.stream, "good"));
    assert_eq!(client.expect(kind::HEADERS).field("from"), "good");
    never_ready.until_closed();
    let explanation = proxy.explain();
    assert_eq!(explanation.cluster, "other.default:80");
    assert_eq!(explanation.endpoints[0].connect_failures, 0, "{explanation:?}");
}
