//! The relay's limits at their edges.

use leno_http2::frame::kind;

use crate::peer::{data, open_call, rst_stream};
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
