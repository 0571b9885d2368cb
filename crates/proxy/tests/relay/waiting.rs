//! Calls that wait for a connection.

use leno_http2::frame::kind;
use leno_relay::metrics::{Direction, PeerLabel};

use crate::peer::{Server, answer, call, data, open_call, rst_stream};
use crate::proxy::{CallInFlight, Proxy, eventually, mesh};

#[test]
fn cancelled_calls_leave_the_queue_to_others() {
    let server = Server::start();
    let limits = [("max_waiting_calls_per_endpoint", "20"), ("max_rapid_resets", "1000")];
    let proxy = Proxy::start_with(&[server.address()], "", &limits);
    let mut client = proxy.connect();
    for stream in (1..20).step_by(2) {
        client.send(&call(stream));
    }
    eventually("ten calls wait", || {
        proxy.metrics.open_connections(Direction::Outbound, PeerLabel::Destination) == 1 && proxy.waiting_calls() == 10
    });
    // The first call, at the head of the queue, is not cancelled.
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

#[test]
fn a_client_leaves_as_many_places_in_the_queue_as_it_takes() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_waiting_calls_per_endpoint", "20")]);
    let mut greedy = proxy.connect();
    for stream in (1..30).step_by(2) {
        greedy.send(&call(stream));
    }
    for _ in 10..15 {
        assert_eq!(greedy.expect(kind::HEADERS).field("leno-proxy-error"), "queue-full");
    }
    let mut other = proxy.connect();
    for stream in (1..10).step_by(2) {
        other.send(&call(stream));
    }
    eventually("the other's five calls wait too", || proxy.waiting_calls() == 15);
}

#[test]
fn a_clients_share_of_the_queue_comes_back_with_its_calls() {
    let server = Server::start();
    let limits = [("max_waiting_calls_per_endpoint", "20"), ("max_rapid_resets", "1000")];
    let proxy = Proxy::start_with(&[server.address()], "", &limits);
    let mut client = proxy.connect();
    let ten_wait = || {
        proxy.metrics.open_connections(Direction::Outbound, PeerLabel::Destination) == 1 && proxy.waiting_calls() == 10
    };
    let mut streams = (1..).step_by(2);
    for _ in 0..3 {
        let cancelled: Vec<u32> = streams.by_ref().take(10).collect();
        cancelled.iter().for_each(|stream| client.send(&call(*stream)));
        eventually("ten calls wait", ten_wait);
        cancelled.iter().for_each(|stream| client.send(&rst_stream(*stream, 8)));
        eventually("none waits", || proxy.waiting_calls() == 0);
    }
    for _ in 0..3 {
        streams.by_ref().take(10).for_each(|stream| client.send(&call(stream)));
        eventually("ten calls wait", ten_wait);
        let mut endpoint = server.accept();
        for _ in 0..10 {
            let request = endpoint.expect(kind::HEADERS);
            endpoint.send(&answer(request.stream, "me"));
            assert_eq!(client.expect(kind::HEADERS).field("from"), "me");
        }
        drop(endpoint);
        eventually("the connection is gone", || {
            proxy.metrics.open_connections(Direction::Outbound, PeerLabel::Destination) == 0
        });
    }
}

#[test]
fn a_call_whose_endpoints_keep_leaving_is_answered_in_the_end() {
    let silent: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let proxy = Proxy::start_with(&[silent[0].address()], "", &[("max_attempts", "2")]);
    let mut client = proxy.connect();
    client.send(&call(1));
    eventually("the call waits", || {
        proxy.metrics.opened_connections(Direction::Outbound, PeerLabel::Destination) == 1 && proxy.waiting_calls() == 1
    });
    proxy.set_mesh(mesh("echo", &[silent[1].address()], ""));
    eventually("it waits elsewhere", || {
        proxy.metrics.opened_connections(Direction::Outbound, PeerLabel::Destination) == 2 && proxy.waiting_calls() == 1
    });
    proxy.set_mesh(mesh("echo", &[silent[2].address()], ""));
    assert_eq!(client.expect(kind::HEADERS).field("leno-proxy-error"), "too-many-attempts");
    assert_eq!(proxy.explain().calls, 0);
}

#[test]
fn an_upload_that_waits_for_a_window_holds_up_no_call_that_fits() {
    let one_connection = "leno.dev/max-connections-per-endpoint: \"1\"";
    let mut upload = CallInFlight::start_with(&open_call(1), one_connection, &[]);
    upload.client.send(&data(1, &[0; 16_000], false).repeat(3));
    for _ in 0..3 {
        upload.endpoint.expect(kind::DATA);
    }
    upload.client.send(&open_call(3));
    eventually("the second upload waits", || upload.proxy.waiting_calls() == 1);
    let mut other = upload.proxy.connect();
    other.send(&call(1));
    let request = upload.endpoint.expect(kind::HEADERS);
    upload.endpoint.send(&answer(request.stream, "me"));
    assert_eq!(other.expect(kind::HEADERS).field("from"), "me");
    assert_eq!(upload.proxy.waiting_calls(), 1);
}
