//! A server that answers with bytes from the test, valid or not.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::wire::{self, Frame, PREFACE, flag, kind};

/// A request that has begun.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The stream of the request.
    pub stream: u32,
    /// Number of earlier requests on the same connection.
    pub earlier: u64,
}

/// The bytes with which a server answers a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes and closes the connection.
    SendAndClose(Vec<u8>),
}

impl Reply {
    /// A complete, successful answer with an empty message.
    pub fn success(stream: u32) -> Vec<u8> {
        let trailers = wire::literal("grpc-status", "0");
        [
            wire::headers(stream, flag::NONE, &wire::answer_block(&[])),
            wire::frame(kind::DATA, flag::NONE, stream, &[0; 5]),
            wire::headers(stream, flag::END_STREAM, &trailers),
        ]
        .concat()
    }

    /// A trailers-only answer with the status UNAVAILABLE.
    pub fn unavailable(stream: u32) -> Vec<u8> {
        wire::headers(stream, flag::END_STREAM, &wire::answer_block(&[("grpc-status", "14")]))
    }
}

/// A running server. Its threads end when the proxy closes their connections.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Scripted {
    /// Starts a server that calls `script` whenever a request begins.
    pub fn start(script: impl Fn(Begun) -> Reply + Send + Sync + 'static) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let count = requests.clone();
        let address = listen(move |stream| serve(stream, &script, &count));
        Self { address, requests }
    }

    /// Starts a server that sends `words` as soon as a client connects, and does not speak HTTP/2.
    pub fn speaking(words: &'static [u8]) -> Self {
        let address = listen(move |mut stream| {
            stream.write_all(words)?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        });
        Self { address, requests: Arc::default() }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests begun so far, on all connections.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Listens on a free port, with one thread for each connection.
fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // Ignore an error: it means that the proxy has closed the connection, and ends this thread.
            thread::spawn(move || serve(stream).ok());
        }
    });
    address
}

fn serve(mut stream: TcpStream, script: &dyn Fn(Begun) -> Reply, requests: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&wire::settings(&[]))?;
    let mut earlier = 0;
    loop {
        let frame = Frame::read(&mut stream)?;
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => {
                stream.write_all(&wire::frame(kind::SETTINGS, flag::ACK, 0, &[]))?;
            }
            kind::PING if !frame.has(flag::ACK) => {
                stream.write_all(&wire::frame(kind::PING, flag::ACK, 0, &frame.payload))?;
            }
            kind::HEADERS => {
                requests.fetch_add(1, Ordering::Relaxed);
                match script(Begun { stream: frame.stream, earlier }) {
                    Reply::Send(bytes) => stream.write_all(&bytes)?,
                    Reply::SendAndClose(bytes) => return stream.write_all(&bytes),
                }
                earlier += 1;
            }
            _ => {}
        }
    }
}
