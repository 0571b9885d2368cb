//! Connections that the proxy closes because of a peer's behavior, and the calls on them.

use leno_http2::frame::kind;
use leno_relay::metrics::{Direction, PeerLabel};

use crate::peer::{Server, answer, call, call_with, headers, rst_stream};
use crate::proxy::{Proxy, eventually};

const CANCEL: u32 = 8;
/// Allows 100 rapid resets in total, however long the test takes.
const NO_REFILL: [(&str, &str); 2] = [("max_rapid_resets", "100"), ("rapid_resets_per_second", "0")];

/// Opens stream 1, opens and resets 100 other streams, and then resets stream 1: one reset too many.
fn one_reset_too_many() -> Vec<u8> {
    let mut bytes = call_with(1, "who", "attacker");
    for stream in (3..).step_by(2).take(100) {
        bytes.extend(call(stream));
        bytes.extend(rst_stream(stream, CANCEL));
    }
    bytes.extend(rst_stream(1, CANCEL));
    bytes
}

#[test]
fn the_call_whose_reset_was_one_too_many_is_over() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &NO_REFILL);
    let mut attacker = proxy.connect();
    attacker.send(&one_reset_too_many());
    attacker.expect(kind::GOAWAY);
    let _endpoint = server.accept_now();
    eventually("no call is left", || proxy.explain().calls == 0);
}

#[test]
fn an_answer_never_goes_to_the_client_that_took_the_place_of_a_dismissed_one() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &NO_REFILL);
    let mut attacker = proxy.connect();
    attacker.send(&one_reset_too_many());
    attacker.expect(kind::GOAWAY);
    drop(attacker);
    eventually("the attacker is gone", || proxy.metrics.open_connections(Direction::Outbound, PeerLabel::Source) == 0);

    let mut victim = proxy.connect();
    victim.send(&call_with(1, "who", "victim"));
    let mut endpoint = server.accept();
    loop {
        let request = endpoint.expect(kind::HEADERS);
        endpoint.send(&answer(request.stream, request.field("who")));
        if request.field("who") == "victim" {
            break;
        }
    }
    assert_eq!(victim.expect(kind::HEADERS).field("from"), "victim");
}

#[test]
fn the_call_whose_answer_was_one_malformed_answer_too_many_is_failed() {
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client = proxy.connect();
    let mut endpoint = None;
    // An endpoint may cause 1,000 stream errors per window. The next error is one too many.
    for stream in (1..).step_by(2).take(1_001) {
        client.send(&call(stream));
        let endpoint = endpoint.get_or_insert_with(|| server.accept());
        let request = endpoint.expect(kind::HEADERS);
        endpoint.send(&headers(request.stream, &[("status", "missing")], true));
        let error = client.expect(kind::HEADERS);
        assert_eq!((error.stream, error.field("grpc-status")), (stream, "14"));
    }
}
