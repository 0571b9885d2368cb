use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn answer(status: u16, body: &str) -> Result<Answer, Unreadable> {
    Ok(Answer { status, body: body.to_owned() })
}

/// Returns the result for an answer that arrives in these pieces. If `then_ends` is true, the connection ends after the
/// last piece.
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

/// Returns the lines of an answer that arrives in these pieces, and the result.
fn lines_of(pieces: &[&[u8]]) -> (Vec<String>, Result<Answer, Unreadable>) {
    let runtime = runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        let server = async {
            let mut request = [0; 512];
            let length = there.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"POST /tap HTTP/1.1\r\n") && request[..length].ends_with(b"{}"));
            for piece in pieces {
                // Ignore the error: the client may have closed the connection before the last piece.
                let _ = there.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            drop(there);
        };
        let mut lines = Vec::new();
        let asked = post_for_lines(here, "/tap", "{}".to_owned(), |line| lines.push(line.to_owned()));
        let result = tokio::join!(asked, server).0;
        (lines, result)
    })
}

#[test]
fn lines_are_handed_over_whole_however_they_are_divided() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n";
    let (lines, result) = lines_of(&[head, b"\none\ntw", b"o", b"\n\nth", b"ree\nfo", b"u"]);
    assert_eq!((lines, result), (["", "one", "two", "", "three"].map(str::to_owned).to_vec(), answer(200, "")));
    let (lines, result) = lines_of(&[b"HTTP/1.1 403 Forbidden\r\ncontent-length: 3\r\n\r\nno\n"]);
    assert_eq!((lines.len(), result), (0, answer(403, "no\n")));
}

#[test]
fn a_line_that_never_ends_is_not_kept() {
    let long = vec![b'x'; LINE_MAX_BYTES + 1];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 2 * long.len());
    let (lines, result) = lines_of(&[head.as_bytes(), &long, &long]);
    assert_eq!((lines.len(), result), (0, Err(Unreadable::LineTooLong)));
}
