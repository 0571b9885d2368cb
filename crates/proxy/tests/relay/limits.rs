//! The relay's limits at their edges.

use leno_http2::frame::kind;

use crate::peer::{Server, data, open_call, rst_stream};
use crate::proxy::Proxy;

const REFUSED_STREAM: u32 = 7;

#[test]
fn content_beyond_what_may_be_kept_is_not_sent_twice() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_replay_bytes_per_call", "1000")]);
    let mut client = proxy.connect();
    client.send(&[open_call(1), data(1, &[0; 1_001], true)].concat());
    let mut endpoint = server.accept();
    let request = endpoint.expect(kind::HEADERS);
    endpoint.expect(kind::DATA);
    endpoint.send(&rst_stream(request.stream, REFUSED_STREAM));
    assert_eq!(client.expect(kind::HEADERS).field("leno-proxy-error"), "refused");
}
