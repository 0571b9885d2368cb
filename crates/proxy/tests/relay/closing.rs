//! Connections that a peer or the proxy closes, and the calls on them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use leno_http2::frame::kind;
use leno_relay::metrics::{Direction, PeerLabel};

use crate::peer::{answer, call, frame, open_call};
use crate::proxy::{CallInFlight, Proxy, eventually};

/// A frame of an unknown type, which the proxy must ignore.
fn unknown_frame() -> Vec<u8> {
    frame(0xbe, 0, 0, &[0; 16_384])
}

#[test]
fn the_end_behind_more_bytes_than_one_read_takes_is_noticed() {
    let proxy = Proxy::start(&[]);
    let burst = unknown_frame().repeat(6);
    for _ in 0..50 {
        let mut client = proxy.connect();
        client.expect(kind::SETTINGS);
        // These bursts make the proxy's receive buffer grow, so that the last burst and the end of the connection
        // arrive together.
        for _ in 0..5 {
            client.send(&burst);
            std::thread::sleep(Duration::from_millis(1));
        }
        client.send(&burst);
        client.socket.shutdown(Shutdown::Both).expect("a socket");
    }
    eventually("no connection is left", || proxy.metrics.open_connections(Direction::Outbound, PeerLabel::Source) == 0);
}

#[test]
fn a_client_that_closes_has_its_calls_cancelled() {
    let CallInFlight { proxy, client, mut endpoint, stream, .. } = CallInFlight::start(&open_call(1));
    drop(client);
    let reset = endpoint.expect(kind::RST_STREAM);
    assert_eq!((reset.stream, reset.payload), (stream, vec![0, 0, 0, 8]));
    eventually("no call is left", || proxy.explain().calls == 0);
}

#[test]
fn an_answer_right_before_the_end_of_the_endpoints_connection_is_relayed() {
    let mut call = CallInFlight::start(&call(1));
    call.endpoint.send(&answer(call.stream, "me"));
    drop(call.endpoint);
    assert_eq!(call.client.expect(kind::HEADERS).field("from"), "me");
}

#[test]
fn an_http1_client_that_is_still_sending_gets_its_answer_whole() {
    let proxy = Proxy::start(&[]);
    let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 300\r\n\r\n").expect("the proxy reads");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(20));
        client.write_all(&[b'x'; 100]).expect("the proxy still reads");
    }
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.ends_with("define it\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn an_http1_client_whose_content_is_malformed_gets_its_answer_though_more_has_arrived() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = Proxy::start(&[listener.local_addr().expect("a bound socket")]);
    let mut request =
        b"POST / HTTP/1.1\r\nhost: echo.default\r\ntransfer-encoding: chunked\r\n\r\nnot-a-length\r\n".to_vec();
    request.resize(256 << 10, b'x');
    let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
    client.write_all(&request).expect("the proxy reads, or its kernel does");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    for _ in 0..3 {
        client.write_all(&[b'x'; 100]).expect("the proxy still reads");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_idle_client_that_does_not_answer_goaway_is_disconnected() {
    let proxy = Proxy::start_with(&[], "", &[("client_idle_timeout_ms", "1")]);
    let mut client = proxy.connect();
    let frames = client.until_closed();
    assert_eq!(frames.iter().filter(|frame| frame.kind == kind::GOAWAY).count(), 2, "{frames:?}");
}
