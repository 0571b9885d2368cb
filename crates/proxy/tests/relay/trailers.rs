//! Trailers of HTTP/2 requests. The proxy drops them: gRPC requests have none, and some gRPC servers close the connection
//! when they receive a second HEADERS frame on a stream, even if the request is not gRPC.

use leno_http2::frame::kind;

use crate::peer::{Frame, answer, data, grpc, headers, open_call, open_post};
use crate::policies::Policed;
use crate::proxy::CallInFlight;

fn trailers(stream: u32, value: &str) -> Vec<u8> {
    headers(stream, &[("x-checksum", value)], true)
}

/// A whole gRPC request on stream 1, with content and trailers.
fn grpc_request() -> Vec<u8> {
    [open_call(1), data(1, b"question", false), trailers(1, "1")].concat()
}

/// Checks that the frames have only content, and returns the content.
fn content(frames: &[Frame]) -> Vec<u8> {
    assert!(frames.iter().all(|frame| frame.kind == kind::DATA), "{frames:?}");
    frames.iter().flat_map(|frame| frame.payload.clone()).collect()
}

#[test]
fn the_trailers_of_a_request_end_its_content_and_are_dropped() {
    for (first, rest, expected) in [
        (open_call(1), [data(1, b"question", false), trailers(1, "1")].concat(), &b"question"[..]),
        (open_call(1), trailers(1, "1"), &b""[..]),
        (open_post(1), [data(1, b"question", false), trailers(1, "1")].concat(), &b"question"[..]),
        // The call waits for its connection.
        (grpc_request(), Vec::new(), &b"question"[..]),
    ] {
        let mut call = CallInFlight::start(&first);
        call.client.send(&rest);
        assert_eq!(content(&call.endpoint.rest_of(call.stream)), expected);
        call.endpoint.send(&answer(call.stream, "me"));
        assert_eq!(call.client.rest_of(1)[0].field("from"), "me");
        assert_eq!(call.proxy.explain().calls, 0);
    }
}

#[test]
fn further_attempts_at_a_grpc_call_have_no_trailers_either() {
    let mut retried = Policed::start("retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 0s}");
    retried.client.send(&grpc_request());
    for status in ["14", "0"] {
        let (place, request) = retried.servers.next_request();
        assert_eq!(request.field(":path"), "/a.B/C");
        while !retried.servers.next_frame(kind::DATA).1.ends_stream() {}
        retried.servers.send(place, &headers(request.stream, &grpc(status), true));
    }
    assert_eq!(retried.client.rest_of(1)[0].field("grpc-status"), "0");

    let mut hedged = Policed::start("hedge: {delay: 50ms, methods: [a.B/C]}");
    hedged.client.send(&grpc_request());
    for _ in 0..2 {
        while !hedged.servers.next_frame(kind::DATA).1.ends_stream() {}
    }
}
