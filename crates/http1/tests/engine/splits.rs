//! The same bytes have the same meaning, wherever the network splits them.

use crate::endpoint::{Endpoint, GET, Happening, POST};

const REQUESTS: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\n\
    POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nt: 1\r\n\r\n\
    GET http://b/c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

const RESPONSES: &str = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00a;y=z\r\n0123456789\r\n0\r\nt: 1\r\nu: 2\r\n\r\n";

/// Events of a server that answers each request as soon as it is complete.
fn serve(parts: &[&[u8]]) -> Vec<Happening> {
    let mut server = Endpoint::server();
    let mut happened = Vec::new();
    for part in parts {
        server.feed(part);
        while server.http1.is_paused() {
            happened.append(&mut server.take());
            server.respond(&[(":status", "200")], true);
            server.feed(b"");
        }
        assert!(server.error.is_none(), "{:?}", server.error);
    }
    happened.append(&mut server.take());
    join(happened)
}

fn ask(parts: &[&[u8]]) -> Vec<Happening> {
    let mut client = Endpoint::client(POST, false);
    for part in parts {
        client.feed(part);
        assert!(client.error.is_none(), "{:?}", client.error);
    }
    assert!(!client.http1.is_paused());
    client.take()
}

/// Merges content that a pause has split.
fn join(happened: Vec<Happening>) -> Vec<Happening> {
    let mut joined: Vec<Happening> = Vec::new();
    for next in happened {
        match (joined.last_mut(), next) {
            (
                Some(Happening::Data { bytes, end_stream: ended @ false }),
                Happening::Data { bytes: more, end_stream },
            ) => {
                bytes.extend_from_slice(&more);
                *ended = end_stream;
            }
            (_, next) => joined.push(next),
        }
    }
    joined
}

#[test]
fn requests_are_the_same_cut_at_any_two_places() {
    let bytes = REQUESTS.as_bytes();
    let expected = serve(&[bytes]);
    assert_eq!(expected.iter().filter(|event| matches!(event, Happening::Headers { .. })).count(), 4);
    for first in 0..bytes.len() {
        for second in (first..bytes.len()).step_by(3) {
            let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(serve(&parts), expected, "cut at {first} and {second}");
        }
    }
}

#[test]
fn responses_are_the_same_cut_at_any_two_places() {
    let bytes = RESPONSES.as_bytes();
    let expected = ask(&[bytes]);
    assert_eq!(expected.len(), 4);
    for first in 0..bytes.len() {
        for second in first..bytes.len() {
            let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(ask(&parts), expected, "cut at {first} and {second}");
        }
    }
}

#[test]
fn single_bytes_mean_the_same_too() {
    let (requests, responses) = (REQUESTS.as_bytes(), RESPONSES.as_bytes());
    assert_eq!(serve(&requests.chunks(1).collect::<Vec<_>>()), serve(&[requests]));
    assert_eq!(ask(&responses.chunks(1).collect::<Vec<_>>()), ask(&[responses]));
}

#[test]
fn content_up_to_the_end_is_the_same_cut_anywhere() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nall of this";
    for cut in 0..bytes.len() {
        let mut client = Endpoint::client(GET, true);
        client.feed(&bytes[..cut]);
        client.feed(&bytes[cut..]);
        client.end();
        let data = Happening::Data { bytes: b"all of this".to_vec(), end_stream: true };
        assert_eq!(client.take().last(), Some(&data), "cut at {cut}");
    }
}
