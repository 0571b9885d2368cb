//! Bytes that break HTTP/1 or strain its receiver.

use fastrand::Rng;

/// Returns bytes that a hostile client sends. They need not be the first bytes of a connection.
pub(crate) fn requests(random: &mut Rng) -> Vec<u8> {
    let post = "POST /sim.Hostile/x HTTP/1.1\r\nhost: echo\r\n";
    let get = "GET /sim.Hostile/x HTTP/1.1\r\nhost: echo\r\nx-response-bytes: 100000\r\n\r\n";
    let text = match random.u8(..16) {
        0 => format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef"),
        1 => format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        2 => format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\nabc"),
        3 => format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\nabc"),
        4 => format!("{post}transfer-encoding: chunked, chunked\r\n\r\n"),
        5 => format!("{post}x-large: {}\r\n\r\n", "x".repeat(random.usize(10_000..100_000))),
        6 => format!("{post}{}\r\n", "a: b\r\n".repeat(random.usize(100..1_000))),
        7 => format!("{post} folded: 1\r\n\r\n"),
        8 => format!("{post}content-length: 100\r\n\r\nabc"),
        9 => get.repeat(random.usize(1..60)),
        10 => "GET /sim.Hostile/x HTTP/1.0\r\nhost: echo\r\n\r\n".to_owned(),
        11 => "GET /sim.Hostile/x HTTP/1.1\r\nhost: echo\r\nhost: other\r\n\r\n".to_owned(),
        12 => format!("{post}content-length: 0\r\n\r\nGARBAGE\r\n\r\n"),
        13 => format!("{post}transfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", "1;a=b\r\nx\r\n".repeat(2_000)),
        14 => format!("{post}expect: 100-continue\r\ncontent-length: 3\r\n\r\n"),
        _ => post.to_owned(),
    };
    text.into_bytes()
}

/// Returns bytes that a hostile server sends, even if the server has no request to answer.
pub(crate) fn responses(random: &mut Rng) -> Vec<u8> {
    let ok = "HTTP/1.1 200 OK\r\n";
    let text = match random.u8(..14) {
        0 => format!("{ok}content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef"),
        1 => format!("{ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        2 => format!("{ok}transfer-encoding: chunked\r\n\r\nzz\r\nabc"),
        3 => format!("{ok}transfer-encoding: gzip\r\n\r\nabc"),
        4 => format!("{ok}x-large: {}\r\n\r\n", "x".repeat(random.usize(10_000..100_000))),
        5 => format!("{ok}content-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nxyz"),
        6 => "HTTP/1.1 100 Continue\r\n\r\n".repeat(random.usize(1..60)),
        7 => "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nabc".to_owned(),
        8 => "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        9 => format!("{ok}content-length: 100\r\n\r\nabc"),
        10 => format!("{ok}content-length: -1\r\n\r\n"),
        11 => format!("{ok}\r\n"),
        12 => "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
        _ => "\0\0\0 nonsense\r\n\r\n".to_owned(),
    };
    text.into_bytes()
}
