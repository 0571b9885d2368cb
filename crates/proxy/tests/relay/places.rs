//! The limit on connections: silent clients do not displace other clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use leno_http2::frame::kind;

use crate::peer::{PATIENCE, Peer, Server, call, headers};
use crate::proxy::{Proxy, eventually, mesh};

const FEW: [(&str, &str); 2] = [("max_inbound_connections", "20"), ("max_outbound_connections", "20")];

fn connect_silently(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).expect("the proxy listens")).collect()
}

/// Whether the proxy has closed a silent connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a TCP socket");
    !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Sends an HTTP/1 request and returns the answer.
fn request(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: echo\r\nconnection: close\r\n\r\n").expect("the proxy reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn silent_connections_of_others_keep_neither_the_own_application_nor_a_client_that_speaks_out() {
    let server = Server::start();
    let (proxy, outbound, inbound) = Proxy::start_between(mesh("echo", &[server.address()], ""), &FEW);
    let silent = connect_silently(inbound, 60);
    eventually("the oldest connections yield", || proxy.metrics.abuse_count("client_connections") >= 40);

    let mut client = Peer::connect(outbound);
    client.send(&call(1));
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&headers(stream, &[(":status", "200")], true));
    assert_eq!(client.expect(kind::HEADERS).field(":status"), "200");

    // The proxy accepts a client that sends a request. It answers 404 only because the connection has no destination
    // port.
    let answer = request(inbound);
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("leno-proxy-error: no-route"), "{answer}");
    let closed = silent.iter().take_while(|stream| is_closed(stream)).count();
    assert!(closed >= 40 && silent.iter().skip(closed).all(|stream| !is_closed(stream)), "{closed}: not the oldest");
}

#[test]
fn a_client_that_has_spoken_keeps_its_place_among_silent_ones() {
    let server = Server::start();
    let (proxy, outbound, _) = Proxy::start_between(mesh("echo", &[server.address()], ""), &FEW);
    let mut client = Peer::connect(outbound);
    client.send(&call(1));
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    let _silent = connect_silently(outbound, 60);
    eventually("silent connections yield", || proxy.metrics.abuse_count("client_connections") >= 41);
    endpoint.send(&headers(stream, &[(":status", "200")], true));
    assert_eq!(client.expect(kind::HEADERS).field(":status"), "200");
}
