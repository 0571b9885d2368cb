//! HTTP/1 clients and servers, byte by byte.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use crate::peer::PATIENCE;
use crate::proxy::{Proxy, mesh_of, service};
use crate::routes::http_route;

/// Sends `request` from an HTTP/1.1 client through the proxy to a server, which answers with `response`. Returns the
/// head of the request that the server received, and all bytes that the client read until the end of its connection.
fn exchange(request: &str, response: &str) -> (String, String) {
    exchange_through(|server| Proxy::start(&[server]), request, response)
}

/// Like [`exchange`], through the proxy that `start` returns for the address of the server.
fn exchange_through(start: impl FnOnce(SocketAddr) -> Proxy, request: &str, response: &str) -> (String, String) {
    let Asked { _proxy, mut client, mut server, seen } = Asked::through(start, request);
    server.write_all(response.as_bytes()).expect("the proxy reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer, and the end of the connection");
    (seen, answer)
}

/// A request that a server has received through the proxy, on these connections.
struct Asked {
    _proxy: Proxy,
    client: TcpStream,
    server: TcpStream,
    /// The head of the request, as the server received it.
    seen: String,
}

impl Asked {
    fn through(start: impl FnOnce(SocketAddr) -> Proxy, request: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = start(listener.local_addr().expect("a bound socket"));
        let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        client.write_all(request.as_bytes()).expect("the proxy reads");
        let (mut server, _) = listener.accept().expect("the proxy connects");
        server.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        let seen = read_until(&mut server, "\r\n\r\n");
        Self { _proxy: proxy, client, server, seen }
    }
}

/// Reads from a socket until the text ends with `end`.
fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("more bytes");
        seen.push(byte[0]);
    }
    String::from_utf8(seen).expect("text")
}

/// Checks that the proxy resets a connection. After an orderly close, a read would return the end instead.
fn expect_reset(socket: &mut TcpStream) {
    let end = socket.read_to_end(&mut Vec::new());
    assert_eq!(end.expect_err("an orderly close").kind(), ErrorKind::ConnectionReset);
}

/// A request that asks the proxy to close the connection after the response.
const GET: &str = "GET / HTTP/1.1\r\nHost: echo.default\r\nConnection: close\r\n\r\n";

#[test]
fn a_malformed_response_is_named_with_its_defect() {
    let two = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi";
    for (response, why) in [
        (two, "two content-length fields"),
        ("220 mail.example ESMTP\r\n\r\n", "the bytes are not an HTTP/1 response"),
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", "a line does not end with CR LF"),
    ] {
        let (_, answer) = exchange(GET, response);
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("\r\nleno-proxy-error: malformed-response\r\n"), "{answer}");
        let content = answer.split_once("\r\n\r\n").expect("a head").1;
        assert!(content.ends_with(&format!(" is malformed: {why}; correct the server\n")), "{content}");
    }
}

#[test]
fn names_and_reason_phrases_stay_as_they_are_written_between_http1_and_http1() {
    let request = "GET / HTTP/1.1\r\nHost: echo.default\r\nX-REQUEST-Id: 7\r\nplain: 8\r\nConnection: close\r\n\r\n";
    let response = "HTTP/1.1 200 Everything Is Fine\r\nX-Served-BY: me\r\nlower: 1\r\nContent-Length: 2\r\n\r\nhi";
    let (seen, answer) = exchange(request, response);
    assert_eq!(seen, "GET / HTTP/1.1\r\nHost: echo.default\r\nX-REQUEST-Id: 7\r\nplain: 8\r\n\r\n");
    let expected = "HTTP/1.1 200 Everything Is Fine\r\nX-Served-BY: me\r\nlower: 1\r\nContent-Length: 2\r\n\
                    Connection: close\r\n\r\nhi";
    assert_eq!(answer, expected);
}

#[test]
fn a_client_that_asks_learns_how_many_attempts_its_request_took() {
    let request =
        "GET / HTTP/1.1\r\nHost: echo.default\r\nLeno-Attempts: ?1\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    let (seen, answer) = exchange(request, "HTTP/1.1 200 OK\r\nLeno-Attempts: 9\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(seen, "GET / HTTP/1.1\r\nHost: echo.default\r\nAccept: */*\r\n\r\n");
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nleno-attempts: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    let (_, answer) = exchange(request, "220 mail.example ESMTP\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("\r\nleno-attempts: 1\r\n"), "{answer}");
}

#[test]
fn a_path_with_characters_that_uris_may_not_contain_reaches_a_server_of_http1() {
    let request = "GET /q?query=up{job=\"a\"} HTTP/1.1\r\nHost: echo.default\r\nConnection: close\r\n\r\n";
    let (seen, _) = exchange(request, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    assert!(seen.starts_with("GET /q?query=up{job=\"a\"} HTTP/1.1\r\n"), "{seen}");
}

#[test]
fn a_rewritten_path_with_characters_that_uris_may_not_contain_reaches_a_server_of_http1() {
    let route = http_route(
        "- matches: [{path: {value: /old}}]\n  filters:\n  \
         - {type: URLRewrite, urlRewrite: {hostname: v1.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}\n  \
         backendRefs: [{name: v1, port: 80}]",
    );
    let start = |server| {
        let services = [service("echo", &[], ""), service("v1", &[server], "")].concat();
        Proxy::start_in(mesh_of(&(services + &route)), &[])
    };
    let request = "GET /old/a?q=<\"> HTTP/1.1\r\nHost: echo.default\r\nConnection: close\r\n\r\n";
    let (seen, _) = exchange_through(start, request, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    assert!(seen.starts_with("GET /new/a?q=<\"> HTTP/1.1\r\n"), "{seen}");
    assert!(seen.to_lowercase().contains("\r\nhost: v1.example\r\n"), "{seen}");
}

#[test]
fn a_response_that_only_the_end_of_the_connection_would_end_is_cut_off_with_a_reset() {
    let asked = Asked::through(|server| Proxy::start(&[server]), "GET / HTTP/1.0\r\nHost: echo.default\r\n\r\n");
    let Asked { _proxy, mut client, mut server, .. } = asked;
    server.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").expect("the proxy reads");
    read_until(&mut client, "\r\n\r\nabc");
    drop(server);
    expect_reset(&mut client);
}

#[test]
fn a_client_that_closes_its_side_before_the_response_is_complete_ends_the_call_at_the_server() {
    for part in ["", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let Asked { _proxy, mut client, mut server, .. } = Asked::through(|server| Proxy::start(&[server]), GET);
        server.write_all(part.as_bytes()).expect("the proxy reads");
        if !part.is_empty() {
            read_until(&mut client, "abc\r\n");
        }
        client.shutdown(Shutdown::Write).expect("a TCP socket");
        assert_eq!(server.read(&mut [0]).expect("an orderly close"), 0);
        assert_eq!(client.read(&mut [0]).expect("an orderly close"), 0);
    }
}

#[test]
fn a_reset_of_one_side_of_an_upgraded_connection_reaches_the_other_side_as_a_reset() {
    let upgrade = "GET / HTTP/1.1\r\nHost: echo.default\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for is_server in [true, false] {
        let Asked { _proxy, mut client, mut server, .. } = Asked::through(|server| Proxy::start(&[server]), upgrade);
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        server.write_all(switch).expect("the proxy reads");
        read_until(&mut client, "\r\n\r\n");
        let (failing, mut other) = if is_server { (server, client) } else { (client, server) };
        SockRef::from(&failing).set_linger(Some(Duration::ZERO)).expect("a TCP socket");
        drop(failing);
        expect_reset(&mut other);
    }
}

#[test]
fn a_server_may_pause_an_upload_for_longer_than_a_server_of_http2() {
    const BYTES: usize = 8 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let proxy = Proxy::start_with(&[address], "", &[("unread_timeout_ms", "500")]);
    let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    let upload = thread::spawn(move || {
        let fields = format!("Host: echo.default\r\nContent-Length: {BYTES}\r\nConnection: close\r\n");
        client.write_all(format!("POST / HTTP/1.1\r\n{fields}\r\n").as_bytes()).expect("the proxy reads");
        client.write_all(&vec![b'x'; BYTES]).expect("the proxy reads all content");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer, and the end of the connection");
        answer
    });

    let (server, _) = listener.accept().expect("the proxy connects");
    server.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    // The proxy's limit for HTTP/2 is 0.5 s, and the kernel's limit is 2 s longer.
    thread::sleep(Duration::from_secs(5));
    let (mut request, mut line) = (BufReader::new(&server), String::new());
    while line != "\r\n" {
        line.clear();
        assert!(request.read_line(&mut line).expect("the proxy has kept the connection") > 0, "no whole head came");
    }
    request.read_exact(&mut vec![0; BYTES]).expect("the whole content");
    (&server).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("the proxy reads");
    let answer = upload.join().expect("the upload ends");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn trailers_of_a_request_are_forwarded() {
    let request = "POST / HTTP/1.1\r\nHost: echo.default\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   2\r\nhi\r\n0\r\nX-Checksum: 7\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = Proxy::start(&[listener.local_addr().expect("a bound socket")]);
    let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
    client.write_all(request.as_bytes()).expect("the proxy reads");
    let (mut server, _) = listener.accept().expect("the proxy connects");
    server.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).to_lowercase().ends_with("0\r\nx-checksum: 7\r\n\r\n") {
        let mut byte = [0];
        server.read_exact(&mut byte).expect("the request, with its trailers");
        seen.push(byte[0]);
    }
}
