//! Tests of remembered header sections: they save work, and change no result.

use std::sync::Arc;
use std::time::Instant;

use leno_http1::{Connection, Event, FieldSection, Heads, Limits, Role};

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\nCookie: b=1\r\nCookie: c=2\r\nX-Y: 1\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "POST /p HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
];

const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhi",
    "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.0 200 OK\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
];

/// The two connections of a relay, and a record of all events and output.
struct Relay {
    front: Connection,
    back: Connection,
    seen: Vec<String>,
}

impl Relay {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            front: Connection::new(Role::Server, Arc::new(Limits::server()), now),
            back: Connection::new(Role::Client, Arc::new(Limits::client()), now),
            seen: Vec::new(),
        }
    }

    /// Relays one request and its response, in pieces of `piece` bytes. Returns the content numbers of the two header
    /// sections.
    fn relay(&mut self, request: &str, response: &str, piece: usize, heads: &mut Heads) -> [u64; 2] {
        let mut contents = [0; 2];
        let mut fields = FieldSection::new();
        for (is_request, bytes) in [(true, request), (false, response)] {
            for mut part in bytes.as_bytes().chunks(piece) {
                loop {
                    let (from, to) = match is_request {
                        true => (&mut self.front, &mut self.back),
                        false => (&mut self.back, &mut self.front),
                    };
                    let event = match from.receive(Instant::now(), &mut part, &mut fields, heads) {
                        Ok(Some(event)) => event,
                        Ok(None) => break,
                        Err(error) => {
                            self.seen.push(error.to_string());
                            break;
                        }
                    };
                    self.seen.push(format!("{event:?} {fields:?}"));
                    let key = to.open_streams().first().map(|(key, _)| *key);
                    match event {
                        Event::Headers { end_stream, .. } if is_request => {
                            contents[0] = fields.content();
                            let opened = to.open(Instant::now(), 7, &fields, end_stream, heads);
                            self.seen.push(format!("{opened:?}"));
                        }
                        Event::Headers { section, end_stream, .. } => {
                            contents[1] = fields.content();
                            if let Some(key) = key {
                                to.send_headers(key, section, &fields, end_stream, heads);
                            }
                        }
                        Event::Data { stream, bytes, end_stream, .. } => {
                            from.release(stream, bytes.len());
                            if let Some(key) = key {
                                to.send_data(key, bytes, end_stream);
                            }
                        }
                        _ => {}
                    }
                }
                for side in [&mut self.front, &mut self.back] {
                    self.seen.push(String::from_utf8_lossy(side.output()).into_owned());
                    let n = side.pending_output();
                    side.advance_output(n);
                }
            }
        }
        contents
    }
}

#[test]
fn what_is_remembered_changes_nothing() {
    for seed in leno_testing::seeds(0..400) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut heads = Heads::default();
        for _ in 0..6 {
            let (mut remembering, mut forgetful) = (Relay::new(), Relay::new());
            for _ in 0..random.usize(1..12) {
                let (request, response) =
                    (REQUESTS[random.usize(..REQUESTS.len())], RESPONSES[random.usize(..RESPONSES.len())]);
                let piece = if random.bool() { usize::MAX } else { random.usize(1..60) };
                remembering.relay(request, response, piece, &mut heads);
                forgetful.relay(request, response, piece, &mut Heads::default());
                assert_eq!(remembering.seen, forgetful.seen, "LENO_SEED={seed}");
            }
        }
    }
}

#[test]
fn the_second_time_is_remembered_for_all_connections() {
    let mut heads = Heads::default();
    let contents = [(); 4].map(|()| Relay::new().relay(REQUESTS[0], RESPONSES[0], usize::MAX, &mut heads));
    assert_eq!((contents[0], contents[1]), ([0, 0], [0, 0]));
    assert!(contents[2].iter().all(|content| *content != 0) && contents[2] == contents[3], "{contents:?}");
    let memory = heads.memory_bytes();
    assert!(memory > 0);
    heads.save_memory(true);
    let contents = [(); 4].map(|()| Relay::new().relay(REQUESTS[0], RESPONSES[0], usize::MAX, &mut heads));
    assert_eq!((contents, heads.memory_bytes()), ([[0, 0]; 4], 0));
}

#[test]
fn what_belongs_to_tunnels_and_interim_responses_is_not_remembered() {
    let mut heads = Heads::default();
    for (request, response) in [(REQUESTS[6], RESPONSES[6]), (REQUESTS[7], RESPONSES[2]), (REQUESTS[0], RESPONSES[7])] {
        // Send only the first header section: the final response after an interim response could be remembered.
        let end = response.find("\r\n\r\n").map_or(response.len(), |end| end + 4);
        let contents = [(); 4].map(|()| Relay::new().relay(request, &response[..end], 9, &mut heads));
        let is_tunnel = request != REQUESTS[0];
        assert!(!is_tunnel || contents == [[0, 0]; 4], "{request} {contents:?}");
        assert!(contents.iter().all(|[_, response]| *response == 0), "{response} {contents:?}");
    }
    // As a response to CONNECT, these bytes begin a tunnel. As a response to GET, they have no content.
    let (mut remembering, mut forgetful) = (Relay::new(), Relay::new());
    remembering.relay(REQUESTS[0], RESPONSES[2], usize::MAX, &mut heads);
    forgetful.relay(REQUESTS[0], RESPONSES[2], usize::MAX, &mut Heads::default());
    assert_eq!(remembering.seen, forgetful.seen);
}

#[test]
fn secrets_are_not_remembered() {
    let mut heads = Heads::default();
    for field in ["Authorization: Basic YTpi", "Cookie: a=b", "Proxy-Authorization: x"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        let contents = [(); 4].map(|()| Relay::new().relay(&request, RESPONSES[0], usize::MAX, &mut heads)[0]);
        assert_eq!(contents, [0; 4], "{field}");
    }
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\nhi";
    let contents = [(); 4].map(|()| Relay::new().relay(REQUESTS[0], response, usize::MAX, &mut heads)[1]);
    assert_eq!(contents, [0; 4]);
}

#[test]
fn a_get_and_a_head_of_the_same_resource_are_both_remembered() {
    let mut heads = Heads::default();
    let mut latest = [[0; 2]; 2];
    for _ in 0..4 {
        latest = [REQUESTS[0], REQUESTS[4]].map(|request| {
            let response = if request == REQUESTS[0] { RESPONSES[0] } else { &RESPONSES[0][..RESPONSES[0].len() - 2] };
            Relay::new().relay(request, response, usize::MAX, &mut heads)
        });
    }
    assert!(latest.iter().flatten().all(|content| *content != 0), "{latest:?}");
}

#[test]
fn memory_is_bounded() {
    let mut heads = Heads::default();
    let mut most = 0;
    for number in 0..2_000 {
        let values: String = (0..40).map(|field| format!("x-{field}: {number:06}\r\n")).collect();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{values}\r\n");
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{values}\r\n");
        for _ in 0..4 {
            Relay::new().relay(&request, &response, usize::MAX, &mut heads);
        }
        most = most.max(heads.memory_bytes());
    }
    assert!(most > 40 << 10, "most of the memory is used: {most}");
    assert!(most <= 96 << 10, "{most}");
}
