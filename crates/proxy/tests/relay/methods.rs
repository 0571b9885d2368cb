//! The metrics of methods: which calls and messages they count, and when.

use std::sync::Arc;

use leno_http2::frame::kind;
use leno_model::mesh::ClusterKey;
use leno_relay::metrics::{Direction, MethodLabels, MethodMetrics, MethodName, MethodTarget, TargetLabel};

use crate::peer::{answer, call, call_with, data, grpc, headers, message, open_call};
use crate::proxy::{CallInFlight, Proxy, eventually};

fn method(proxy: &Proxy, name: MethodName) -> Arc<MethodMetrics> {
    let key = ClusterKey { namespace: "default".into(), service: "echo".into(), port: 80 };
    let of = MethodTarget { direction: Direction::Outbound, target: TargetLabel::Service(key) };
    proxy.metrics.method(&MethodLabels { of: Arc::new(of), name })
}

/// Returns the metrics series of the method `a.B/C`, which [`call`] calls.
fn named(proxy: &Proxy) -> Arc<MethodMetrics> {
    method(proxy, MethodName::Grpc("a.B/C".into()))
}

#[test]
fn a_call_counts_under_its_method_once_it_is_answered() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } = CallInFlight::start(&call(1));
    endpoint.send(&answer(stream, "echo"));
    client.rest_of(1);
    let series = named(&proxy);
    assert_eq!((series.requests.get(), series.in_flight()), (1, 0));
    client.send(&call(3));
    let stream = endpoint.expect(kind::HEADERS).stream;
    assert_eq!((series.requests.get(), series.in_flight()), (2, 1));
    endpoint.send(&answer(stream, "echo"));
    client.rest_of(3);
    assert_eq!((series.requests.get(), series.in_flight()), (2, 0));
}

#[test]
fn a_method_that_the_server_does_not_have_gets_no_series() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } = CallInFlight::start(&call(1));
    endpoint.send(&headers(stream, &grpc("12"), true));
    client.rest_of(1);
    assert_eq!(method(&proxy, MethodName::Other).requests.get(), 1);
    assert_eq!(named(&proxy).requests.get(), 0);
}

#[test]
fn messages_of_a_stream_count_while_it_is_open() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } = CallInFlight::start(&open_call(1));
    endpoint.send(&headers(stream, &[(":status", "200"), ("content-type", "application/grpc")], false));
    client.expect(kind::HEADERS);
    let series = named(&proxy);
    client.send(&data(1, &[message(3), message(4), message(5)].concat(), false));
    eventually("the request's messages are counted", || series.request_messages.get() == 3);
    for part in [message(9), message(2)].concat().chunks(4) {
        endpoint.send(&data(stream, part, false));
    }
    eventually("the response's messages are counted", || series.response_messages.get() == 2);
    assert_eq!(series.in_flight(), 1);

    client.send(&data(1, &message(1), true));
    endpoint.send(&headers(stream, &[("grpc-status", "0")], true));
    client.rest_of(1);
    assert_eq!((series.request_messages.get(), series.response_messages.get()), (4, 2));
    assert_eq!(series.in_flight(), 0);
}

#[test]
fn a_request_that_is_too_large_to_be_kept_still_names_its_method() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } =
        CallInFlight::start_with(&open_call(1), "", &[("max_replay_bytes_per_call", "10")]);
    client.send(&data(1, &message(100), true));
    endpoint.expect(kind::DATA);
    endpoint.send(&answer(stream, "echo"));
    client.rest_of(1);
    assert_eq!(named(&proxy).requests.get(), 1);
}

#[test]
fn calls_with_a_deadline_count_the_time_that_they_had_left() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } =
        CallInFlight::start(&call_with(1, "grpc-timeout", "1H"));
    endpoint.send(&answer(stream, "echo"));
    client.rest_of(1);
    assert_eq!(named(&proxy).with_deadline(), 1);
    client.send(&call(3));
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&answer(stream, "echo"));
    client.rest_of(3);
    assert_eq!((named(&proxy).requests.get(), named(&proxy).with_deadline()), (2, 1));
}
