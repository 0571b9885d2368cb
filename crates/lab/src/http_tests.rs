use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn answer(status: u16, body: &str) -> Result<Answer, Unreadable> {
    Ok(Answer { status, body: body.to_owned() })
}

/// Returns the result for an answer that arrives in these pieces. `then_ends` says whether the connection ends after
/// them.
fn asked(pieces: &[&[u8]], then_ends: bool) -> Result<Answer, Unreadable> {
    let runtime = runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        let server = async {
            let mut request = [0; 512];
            let length = there.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\nhost: "));
            assert!(request[..length].ends_with(b"\r\nconnection: close\r\n\r\n"));
            for piece in pieces {
                there.write_all(piece).await.expect("it is read");
                tokio::task::yield_now().await;
            }
            if then_ends {
                drop(there);
                None
            } else {
                Some(there)
            }
        };
        tokio::join!(get(here, "/metrics"), server).0
    })
}

#[test]
fn an_answer_is_whole_when_its_length_says_so_and_not_when_the_connection_ends() {
    let pieces: Vec<&[u8]> =
        vec![b"HTTP/1.1 503 Serv", b"ice Unavailable\r\nconte", b"nt-length: 8\r\n\r\nwait", b"ing\n"];
    assert_eq!(asked(&pieces, false), answer(503, "waiting\n"));
    assert_eq!(
        asked(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], false),
        answer(200, "ok")
    );
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    assert_eq!(asked(&[b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it"], true), answer(200, "all of it"));
}

#[test]
fn an_answer_that_is_cut_off_is_none() {
    assert_eq!(asked(&[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot"], true), Err(Unreadable::Cut));
    assert_eq!(asked(&[b"HTTP/1.1 200"], true), Err(Unreadable::Cut));
    assert_eq!(asked(&[], true), Err(Unreadable::Cut));
}

#[test]
fn what_is_not_http_not_text_or_too_long_is_told_apart() {
    let refused = |bytes: &[u8]| asked(&[bytes], true).expect_err("it is no answer");
    assert_eq!(refused(b"\x16\x03\x01 hello"), Unreadable::NotHttp);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"), Unreadable::NotHttp);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff"), Unreadable::NotText);
    let long =
        [b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec(), vec![b'x'; CONTENT_MAX_BYTES + 1]].concat();
    assert_eq!(refused(&long), Unreadable::TooLong);
}

#[test]
fn a_page_is_ok_if_it_answers_200() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let server = thread::spawn(move || {
        for status in ["200 OK", "503 Service Unavailable"] {
            let (mut stream, _) = listener.accept().expect("a connection");
            assert!(stream.read(&mut [0; 512]).expect("a request") > 0);
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").expect("it is read");
        }
    });
    assert!(is_ok(address, "/ready"));
    assert!(!is_ok(address, "/ready"));
    server.join().expect("it has answered twice");
    assert!(!is_ok(address, "/ready"), "no server listens now");
}
