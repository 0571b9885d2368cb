//! Calls that wait for a connection.

use leno_http2::frame::kind;

use crate::peer::{Server, answer, call, rst_stream};
use crate::proxy::{Proxy, eventually};

#[test]
fn cancelled_calls_leave_the_queue_to_others() {
    let server = Server::start();
    let limits = [("max_waiting_calls_per_endpoint", "10"), ("max_rapid_resets", "1000")];
    let proxy = Proxy::start_with(&[server.address()], "", &limits);
    let mut client = proxy.connect();
    for stream in (1..20).step_by(2) {
        client.send(&call(stream));
    }
    eventually("ten calls wait", || proxy.metrics.upstream.open_connections.get() == 1 && proxy.waiting_calls() == 10);
    // The first, at the head of the queue, stays.
    for stream in (3..20).step_by(2) {
        client.send(&rst_stream(stream, 8));
    }
    eventually("one waits", || proxy.waiting_calls() == 1);

    client.send(&call(21));
    let mut endpoint = server.accept();
    for _ in 0..2 {
        let request = endpoint.expect(kind::HEADERS);
        endpoint.send(&answer(request.stream, "me"));
        assert_eq!(client.expect(kind::HEADERS).field("from"), "me");
    }
}
