//! Two proxies relay HTTP/1 messages over an HTTP/2 connection between them. The messages must come out unchanged.

use std::sync::Arc;
use std::time::Instant;

use leno_http1::{Event, FieldSection, Limits, Role, Section, StreamKey};
use leno_http2::Connection;

use crate::endpoint::{Endpoint, Happening, section};
use crate::pair::{Message, borrowed};

/// Both sides of an HTTP/2 connection that carries one call.
struct Crossing {
    client: Connection,
    server: Connection,
    now: Instant,
    /// The call's key on each side.
    keys: [StreamKey; 2],
}

impl Crossing {
    fn new() -> Self {
        let now = Instant::now();
        let connection = |role, limits| Connection::new(role, Arc::new(limits), now);
        Self {
            client: connection(Role::Client, leno_http2::Limits::client()),
            server: connection(Role::Server, leno_http2::Limits::server()),
            now,
            keys: [StreamKey::numbered(0); 2],
        }
    }

    /// Sends HTTP/1 events over the HTTP/2 connection: from the client if `by_client`, else from the server. Returns
    /// the events on the other side.
    fn carry(&mut self, happened: &[Happening], by_client: bool) -> Vec<Happening> {
        for happening in happened {
            let sender = if by_client { &mut self.client } else { &mut self.server };
            let key = self.keys[usize::from(!by_client)];
            match happening {
                Happening::Headers { section: Section::Request, fields, end_stream } => {
                    let opened = sender.open(self.now, 0, &section(&borrowed(fields)), *end_stream);
                    self.keys[0] = opened.expect("a stream is free");
                }
                Happening::Headers { section: kind, fields, end_stream } => {
                    sender.send_headers(key, *kind, &section(&borrowed(fields)), *end_stream);
                }
                Happening::Data { bytes, end_stream } => drop(sender.send_data(key, bytes, *end_stream)),
                Happening::Reset { code, .. } => sender.reset(key, *code),
            }
        }
        self.run(by_client)
    }

    fn run(&mut self, by_client: bool) -> Vec<Happening> {
        let mut arrived = Vec::new();
        loop {
            let to_server = take_output(&mut self.client);
            let to_client = take_output(&mut self.server);
            if to_server.is_empty() && to_client.is_empty() {
                return arrived;
            }
            let at_server = read(&mut self.server, self.now, &to_server, &mut self.keys[1]);
            let at_client = read(&mut self.client, self.now, &to_client, &mut self.keys[0]);
            for happening in if by_client { at_server } else { at_client } {
                join(&mut arrived, happening);
            }
        }
    }
}

fn take_output(connection: &mut Connection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.advance_output(output.len());
    output
}

fn read(connection: &mut Connection, now: Instant, mut input: &[u8], key: &mut StreamKey) -> Vec<Happening> {
    let mut fields = FieldSection::new();
    let mut happened = Vec::new();
    while let Some(event) = connection.receive(now, &mut input, &mut fields).expect("both are honest") {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the test sends text");
        match event {
            Event::Headers { stream, section, end_stream, .. } => {
                *key = stream;
                let fields = fields.iter().map(|line| (text(line.name), text(line.value))).collect();
                happened.push(Happening::Headers { section, fields, end_stream });
            }
            Event::Data { stream, bytes, end_stream, .. } => {
                connection.release(stream, bytes.len());
                happened.push(Happening::Data { bytes: bytes.to_vec(), end_stream });
            }
            Event::Reset { code, by_peer, .. } => happened.push(Happening::Reset { code, by_peer }),
            Event::Settings | Event::GoAway { .. } => {}
        }
    }
    happened
}

fn join(all: &mut Vec<Happening>, next: Happening) {
    match (all.last_mut(), next) {
        (Some(Happening::Data { bytes, end_stream: ended @ false }), Happening::Data { bytes: more, end_stream }) => {
            bytes.extend_from_slice(&more);
            *ended = end_stream;
        }
        (_, next) => all.push(next),
    }
}

fn send(to: &mut Endpoint, happened: &[Happening]) {
    for happening in happened {
        match happening {
            Happening::Headers { section: Section::Request, fields, end_stream } => {
                to.request(&borrowed(fields), *end_stream).expect("the connection is free");
            }
            Happening::Headers { section: kind, fields, end_stream } => {
                to.http1.send_headers(to.key, *kind, &section(&borrowed(fields)), *end_stream, &mut to.heads);
            }
            Happening::Data { bytes, end_stream } => drop(to.http1.send_data(to.key, bytes, *end_stream)),
            Happening::Reset { code, .. } => to.http1.reset(to.key, *code),
        }
    }
}

/// Carries a request and its response from one application to another, through a proxy beside each application.
fn cross(request: &[u8], response: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut outbound = Endpoint::server();
    let mut inbound = Endpoint::new(Role::Client, Limits::client());
    let mut crossing = Crossing::new();
    outbound.feed(request);
    let asked = outbound.take();
    send(&mut inbound, &crossing.carry(&asked, true));
    let request = inbound.written_bytes();
    inbound.feed(response);
    let answered = inbound.take();
    send(&mut outbound, &crossing.carry(&answered, false));
    (request, outbound.written_bytes())
}

#[test]
fn messages_come_out_as_they_went_in() {
    for seed in leno_testing::seeds(0..100) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut client = Endpoint::new(Role::Client, Limits::client());
        Message::request(&mut rng).send(&mut client, &mut rng);
        let request = client.written_bytes();
        let mut server = Endpoint::server();
        server.feed(&request);
        Message::response(&mut rng).send(&mut server, &mut rng);
        let response = server.written_bytes();

        let (request_out, response_out) = cross(&request, &response);
        let [mut reader_in, mut reader_out] = [Endpoint::server(), Endpoint::server()];
        reader_in.feed(&request);
        reader_out.feed(&request_out);
        assert!(reader_in.take() == reader_out.take(), "the request differs: seed {seed}");
        client.feed(&response);
        let mut client_out = Endpoint::new(Role::Client, Limits::client());
        Message::request(&mut fastrand::Rng::with_seed(seed)).send(&mut client_out, &mut rng);
        client_out.written_bytes();
        client_out.feed(&response_out);
        assert!(client.take() == client_out.take(), "the response differs: seed {seed}");
    }
}

#[test]
fn an_upgrade_crosses_as_its_request_and_comes_out_as_an_upgrade() {
    let request =
        "GET /chat HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nframe";
    let (request, response) = cross(request.as_bytes(), response.as_bytes());
    let expected =
        "GET /chat HTTP/1.1\r\nhost: a\r\nsec-websocket-key: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(request, expected.as_bytes());
    let expected = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nframe";
    assert_eq!(response, expected.as_bytes());
}
