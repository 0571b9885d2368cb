//! The relay's behavior at its limits, and just beyond them.

use leno_http2::frame::kind;

use crate::peer::{call, data, headers, open_call, rst_stream};
use crate::proxy::CallInFlight;

const REFUSED_STREAM: u32 = 7;

#[test]
fn content_beyond_what_may_be_kept_is_not_sent_twice() {
    let request = [open_call(1), data(1, &[0; 1_001], true)].concat();
    let mut call = CallInFlight::start_with(&request, "", &[("max_replay_bytes_per_call", "1000")]);
    call.endpoint.expect(kind::DATA);
    call.endpoint.send(&rst_stream(call.stream, REFUSED_STREAM));
    assert_eq!(call.client.expect(kind::HEADERS).field("leno-proxy-error"), "refused");
}

#[test]
fn interim_responses_are_relayed_up_to_a_limit_and_then_the_call_fails() {
    let mut relayed = CallInFlight::start_with(&call(1), "", &[("max_interim_responses", "3")]);
    let interim = headers(relayed.stream, &[(":status", "103"), ("link", "</a>")], false);
    relayed.endpoint.send(&interim.repeat(4));
    for _ in 0..3 {
        assert_eq!(relayed.client.expect(kind::HEADERS).field(":status"), "103");
    }
    assert_eq!(relayed.client.expect(kind::HEADERS).field("leno-proxy-error"), "protocol-error");
    assert_eq!(relayed.proxy.metrics.abuse_count("interim_responses"), 1);
    assert_eq!(relayed.endpoint.expect(kind::RST_STREAM).stream, relayed.stream);
}
