use super::*;

fn answer(status: u16, body: &str) -> Answer {
    Answer { status, body: body.to_owned() }
}

/// The result for an answer that arrives in these pieces, followed by the end of the connection.
fn asked(pieces: &[&[u8]]) -> Result<Answer, Unreadable> {
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (mut here, mut there) = tokio::io::duplex(1 << 20);
        let server = async {
            let mut request = [0; 512];
            let length = there.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\nHost: "));
            assert!(request[..length].ends_with(b"\r\nConnection: close\r\n\r\n"));
            for piece in pieces {
                there.write_all(&piece).await.expect("it is read");
                tokio::task::yield_now().await;
            }
            drop(there);
        };
        tokio::join!(ask(&mut here, "/metrics"), server).0
    })
}

#[test]
fn an_answer_is_whole_when_its_length_says_so_and_not_when_the_connection_ends() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready";
    assert_eq!(parse(&text[..text.len() - 1], false), Ok(None));
    assert_eq!(parse(text, false), Ok(Some(answer(200, "ready"))));
}

#[test]
fn an_answer_in_pieces_is_put_together() {
    let pieces: Vec<&[u8]> =
        vec![b"HTTP/1.1 503 Serv", b"ice Unavailable\r\nconte", b"nt-length: 8\r\n\r\nwait", b"ing\n"];
    assert_eq!(asked(&pieces), Ok(answer(503, "waiting\n")));
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    assert_eq!(asked(&[b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it"]), Ok(answer(200, "all of it")));
}

#[test]
fn an_answer_that_is_cut_off_is_none() {
    assert_eq!(asked(&[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot"]), Err(Unreadable::Cut));
    assert_eq!(asked(&[]), Err(Unreadable::Cut));
}

#[test]
fn what_is_not_http_not_text_or_too_long_is_told_apart() {
    let refused = |bytes: &[u8]| parse(bytes, true).expect_err("it is no answer");
    assert_eq!(refused(b"\x16\x03\x01 hello"), Unreadable::NotHttp);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"), Unreadable::NotHttp);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), Unreadable::NotHttp);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"), Unreadable::TooLong);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff"), Unreadable::NotText);
}
