use std::sync::Arc;
use std::time::Instant;

use leno_http2::{Connection, Event, FieldSection, Role, Section, StreamKey};

use super::*;
use crate::downstream::client::{ClientId, Speaks};
use crate::fixtures::{
    TO_CART, begin_connections, begin_to_connect, call, client, connect, connect_endpoint, establish_http2, fields,
    flush, inbound, mesh_of, outbound, relay, service,
};
use crate::link::LinkId;

#[test]
fn many_streams_have_equal_shares_of_half_of_the_limit() {
    for (streams, bytes) in [(0, 8 << 20), (1, 8 << 20), (256, 32 << 10), (2_048, 4 << 10), (10_000, 4 << 10)] {
        assert_eq!(equal_share(16 << 20, streams), bytes, "{streams} streams");
    }
}

#[test]
fn responses_of_http1_servers_wait_within_their_shares_and_none_is_reset() {
    const LIMIT: usize = 65_536;
    const CALLS: usize = 4;
    let request = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "cart.shop"),
        (":path", "/"),
        ("leno-orig-proto", "HTTP/1.1"),
    ];
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    Arc::make_mut(&mut relay.limits).relay.max_buffered_bytes_per_client = LIMIT as u32;
    let now = relay.now;
    let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), now);
    for _ in 0..CALLS {
        caller.open(now, 0, &fields(&request), true).expect("a stream");
    }
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let client = LinkId::Client(connect(&mut relay, 0, inbound(), Some(id), (Speaks::Http2, caller.output().to_vec())));
    assert!(relay.begin_read(client).is_some());
    relay.dispatch();
    let upstreams: Vec<_> = begin_connections(&mut relay).into_iter().map(|(id, _)| id).collect();
    assert_eq!(upstreams.len(), CALLS);
    for &id in &upstreams {
        relay.connected(id);
        flush(&mut relay, LinkId::Endpoint(id));
    }
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 64000\r\n\r\n";
    for (number, &id) in upstreams.iter().enumerate() {
        let upstream = LinkId::Endpoint(id);
        assert!(relay.begin_read(upstream).is_some());
        if number == 0 {
            relay.receive(upstream, &[&head[..], &[0; 64_000]].concat());
            assert_eq!(relay.begin_read(upstream), None, "the first read has brought content too");
            continue;
        }
        relay.receive(upstream, head);
        assert_eq!(
            relay.begin_read(upstream),
            Some(LIMIT / 2 / CALLS),
            "the relay does not read what it would have to keep"
        );
        relay.receive(upstream, &[0; 64_000]);
    }
    let queued_bytes = relay.link(client).expect("it is open").codec.queued_bytes();
    assert!((1..=LIMIT / 2).contains(&queued_bytes), "{queued_bytes}");
    assert_eq!(relay.calls.len(), CALLS);
}

/// Sends a call of a new client to an HTTP/1 endpoint. `number` distinguishes the clients. Returns the endpoint's connection.
fn begin_http1_call(relay: &mut Relay, number: u32) -> LinkId {
    call(relay, number, outbound(), None, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec());
    LinkId::Endpoint(connect_endpoint(relay))
}

#[test]
fn less_of_a_response_of_an_http1_server_waits_while_memory_is_short() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let half = relay.enough_bytes() / 7 * 4;
    let upstream = begin_http1_call(&mut relay, 0);
    assert!(relay.begin_read(upstream).is_some());
    relay.receive(upstream, b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n");
    let whole = relay.limits.http1_endpoint.content_window_bytes as usize;
    assert_eq!(relay.begin_read(upstream), Some(whole));
    relay.charge_arrival(0, half);
    assert!(!relay.exceeds_budget() && relay.is_short_of_memory());
    assert_eq!(relay.begin_read(upstream), Some(MAX_BYTES_WHILE_SHORT));
    let other = begin_http1_call(&mut relay, 1);
    assert_eq!(relay.begin_read(other), Some(MAX_BYTES_WHILE_SHORT), "content may come with the header section");
    relay.charge_arrival(half, 0);
    assert!(!relay.exceeds_budget() && !relay.is_short_of_memory());
    assert_eq!(relay.begin_read(upstream), Some(whole));
}

/// A client that reads a response of an endpoint. Both speak HTTP/2.
struct Download {
    relay: Relay,
    client: ClientId,
    caller: Connection,
    upstream: LinkId,
    server: Connection,
    /// The first stream that the server has received.
    stream: Option<StreamKey>,
}

impl Download {
    /// Sends a request, and receives the head of the response.
    fn begin(max_buffered_bytes_per_client: u32) -> Self {
        let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
        Arc::make_mut(&mut relay.limits).relay.max_buffered_bytes_per_client = max_buffered_bytes_per_client;
        let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), relay.now);
        caller.open(relay.now, 0, &fields(&TO_CART), true).expect("a stream");
        let client = connect(&mut relay, 0, outbound(), None, (Speaks::Http2, drain(&mut caller)));
        assert!(relay.begin_read(LinkId::Client(client)).is_some());
        relay.dispatch();
        let upstream = begin_to_connect(&mut relay);
        let server = establish_http2(&mut relay, upstream);
        let mut download = Self { relay, client, caller, upstream: LinkId::Endpoint(upstream), server, stream: None };
        download.run();
        let stream = download.stream.expect("the server has the request");
        download.server.send_headers(stream, Section::Response, &fields(&[(":status", "200")]), false);
        download
    }

    /// Opens further streams, which the server does not answer.
    fn open_quiet(&mut self, streams: usize) {
        for _ in 0..streams {
            self.caller.open(self.relay.now, 0, &fields(&TO_CART), true).expect("a stream");
        }
        self.run();
    }

    /// Lets the server send a MiB of content. The client reads it.
    fn send_mebibyte(&mut self) {
        let stream = self.stream.expect("the server has the request");
        for _ in 0..32 {
            self.server.send_data(stream, &[0; 32 << 10], false);
            self.run();
        }
        assert_eq!((self.server.queued_bytes(), self.waiting_bytes()), (0, 0), "the client has the content");
    }

    /// Returns the number of bytes that wait in the proxy for the client.
    fn waiting_bytes(&mut self) -> usize {
        self.relay.link(LinkId::Client(self.client)).expect("it is open").codec.queued_bytes()
    }

    /// Returns the number of bytes by which the windows of the client's responses have grown.
    fn grown_bytes(&self) -> usize {
        self.relay.downstreams.get(self.client).expect("it is open").grown_bytes
    }

    /// Passes all bytes on until no side sends any more.
    fn run(&mut self) {
        let (client, now) = (LinkId::Client(self.client), self.relay.now);
        loop {
            self.relay.dispatch();
            self.relay.serve_waiting();
            let to_server = written(&mut self.relay, self.upstream);
            let to_caller = written(&mut self.relay, client);
            let asked = take(&mut self.server, now, &to_server);
            self.stream = self.stream.or(asked);
            take(&mut self.caller, now, &to_caller);
            let (from_server, from_caller) = (drain(&mut self.server), drain(&mut self.caller));
            for (link, bytes) in [(self.upstream, &from_server), (client, &from_caller)] {
                if !bytes.is_empty() {
                    self.relay.begin_read(link);
                    self.relay.receive(link, bytes);
                }
            }
            if [to_server, to_caller, from_server, from_caller].iter().all(Vec::is_empty) {
                return;
            }
        }
    }
}

/// Returns the output of an HTTP/2 engine.
fn drain(http2: &mut Connection) -> Vec<u8> {
    let mut drained = Vec::new();
    while !http2.output().is_empty() {
        let part = http2.output().to_vec();
        http2.advance_output(part.len());
        drained.extend(part);
    }
    drained
}

/// Returns the output of a connection of the relay, as if its socket accepted all bytes.
fn written(relay: &mut Relay, id: LinkId) -> Vec<u8> {
    let now = relay.now;
    let link = relay.link(id).expect("it is open");
    let mut written = Vec::new();
    while !link.output().is_empty() {
        let part = link.output().to_vec();
        link.note_written(part.len());
        written.extend(part);
    }
    link.note_flushed(now, false);
    relay.flushed(id);
    written
}

/// Lets an HTTP/2 engine read bytes, and releases their content. Returns the stream of the first header section.
fn take(http2: &mut Connection, now: Instant, mut input: &[u8]) -> Option<StreamKey> {
    let (mut fields, mut first) = (FieldSection::new(), None);
    while let Some(event) = http2.receive(now, &mut input, &mut fields).expect("valid frames") {
        match event {
            Event::Headers { stream, .. } => first = first.or(Some(stream)),
            Event::Data { stream, bytes, .. } => http2.release(stream, bytes.len()),
            _ => {}
        }
    }
    first
}

/// Growth of a window from its initial size to its largest size.
const WHOLE_GROWTH: usize = (256 - 32) << 10;

#[test]
fn quiet_streams_do_not_slow_a_response_of_an_http2_server_down() {
    let mut download = Download::begin(1 << 20);
    download.open_quiet(6);
    for _ in 0..2 {
        download.send_mebibyte();
    }
    assert_eq!(download.grown_bytes(), WHOLE_GROWTH);
    let stream = download.stream.expect("the server has the request");
    download.server.send_data(stream, b"", true);
    download.run();
    assert_eq!((download.relay.calls.len(), download.grown_bytes()), (6, 0), "the window ends with its response");
}

#[test]
fn windows_of_http2_servers_shrink_when_many_more_responses_are_open() {
    let mut download = Download::begin(1 << 20);
    for _ in 0..2 {
        download.send_mebibyte();
    }
    assert_eq!(download.grown_bytes(), WHOLE_GROWTH);
    // The initial windows of 16 streams are half of the limit.
    download.open_quiet(15);
    download.send_mebibyte();
    assert_eq!(download.grown_bytes(), 0);
}

#[test]
fn windows_together_may_have_half_of_the_limit_and_each_may_have_its_share() {
    let limits = Limits::default();
    let (mut relay, id) = client(Speaks::Http1);
    let client = relay.downstreams.get_mut(id).expect("it is open");
    let half = limits.relay.max_buffered_bytes_per_client / 2;
    assert_eq!(client.response_window(&limits, 32 << 10), (32 << 10) + half);
    client.grown_bytes = half as usize - (64 << 10);
    assert_eq!(client.response_window(&limits, half - (32 << 10)), half + (32 << 10));
    client.grown_bytes = half as usize + 1;
    assert_eq!(client.response_window(&limits, 16 << 20), half, "the share of one stream");
    client.grown_bytes = (half + half / 2) as usize;
    assert_eq!(client.response_window(&limits, 32 << 10), 32 << 10, "no window grows");
}
