//! A worker whose memory budget is used up.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::proxy::{Proxy, eventually};

/// Number of clients that upload. The sum of their requests is several times as large as the worker's budget, and the
/// kernel may hold all of these bytes.
const UPLOADS: usize = 64;
/// Size of an upload's content, in bytes. The kernel takes the whole request, so no socket of the proxy is blocked.
const CONTENT_BYTES: usize = 250_000;
/// Time between two uploads. The worker measures each second what the kernel holds for a connection.
const PACE: Duration = Duration::from_millis(30);

/// Uploads until the proxy closes the connection or all is sent, and returns the connection.
fn upload(proxy: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(proxy).expect("the proxy listens");
    let head = format!("POST / HTTP/1.1\r\nhost: echo\r\ncontent-length: {CONTENT_BYTES}\r\n\r\n");
    let _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&[0; CONTENT_BYTES]));
    client
}

/// Reads a connection until it ends or its peer is silent for 2 s. Returns the error that ends the connection, or
/// `WouldBlock` for a silent peer; `None` after an orderly end.
fn end_of(mut connection: TcpStream) -> Option<ErrorKind> {
    connection.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    connection.read_to_end(&mut Vec::new()).err().map(|error| error.kind())
}

/// The proxy must reset the connections to the server. After an orderly close, the kernel would keep their unsent
/// content for as long as the server does not read.
#[test]
fn a_client_that_is_given_up_leaves_no_content_in_the_kernel_for_its_server() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let server = listener.local_addr().expect("bound");
    let proxy = Proxy::start_with(&[server], "", &[("memory_budget_kib", "4096")]);
    let begin = |_| {
        std::thread::sleep(PACE);
        upload(proxy.address())
    };
    let _clients: Vec<_> = (0..UPLOADS).map(begin).collect();
    eventually("the worker gives up a client", || proxy.metrics.abuse_count("memory_budget") > 0);
    listener.set_nonblocking(true).expect("a socket");
    let mut connections: Vec<TcpStream> = Vec::new();
    // Give the worker time to drop all clients that it must drop.
    std::thread::sleep(Duration::from_secs(1));
    while let Ok((connection, _)) = listener.accept() {
        connection.set_nonblocking(false).expect("a socket");
        connections.push(connection);
    }
    let reading: Vec<_> = connections.into_iter().map(|connection| std::thread::spawn(|| end_of(connection))).collect();
    let ends: Vec<_> = reading.into_iter().map(|reader| reader.join().expect("it ends")).collect();
    let count = |end| ends.iter().filter(|other| **other == end).count();
    let (resets, orderly) = (count(Some(ErrorKind::ConnectionReset)), count(None));
    // Allow some orderly ends: the worker may drop a client before it has measured the connection to the client's
    // server.
    assert!(resets > 2 * orderly, "{ends:?}");
}
