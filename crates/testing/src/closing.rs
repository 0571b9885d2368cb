//! A server that closes each connection after the connection's first request.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

/// An HTTP/1 server that closes the connection after each request, without an answer. It answers only during a call of
/// [`keep_connections`](Self::keep_connections).
pub struct Closing {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    /// Set while the server answers requests. Each answer waits until [`Closing::CONNECTIONS`] requests have arrived.
    kept: Arc<Kept>,
}

type Kept = Mutex<Option<Arc<Barrier>>>;

impl Closing {
    /// Number of connections that [`keep_connections`](Self::keep_connections) opens. This is more than the number of
    /// attempts that a proxy makes for one request.
    pub const CONNECTIONS: usize = 8;

    /// Starts the server.
    ///
    /// # Errors
    /// If the address is not free.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let this = Self { address: listener.local_addr()?, requests: Arc::default(), kept: Arc::default() };
        let (requests, kept) = (this.requests.clone(), this.kept.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, kept) = (requests.clone(), kept.clone());
                thread::spawn(move || serve(stream, &requests, &kept).ok());
            }
        });
        Ok(this)
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls `request` [`CONNECTIONS`](Self::CONNECTIONS) times at once. The server answers when all requests have
    /// arrived, so a proxy needs one connection for each request, and keeps these connections. `request` must panic
    /// unless the status of the answer is 200.
    pub fn keep_connections(&self, request: impl Fn() + Sync) {
        self.set_kept(Some(Arc::new(Barrier::new(Self::CONNECTIONS))));
        thread::scope(|scope| (0..Self::CONNECTIONS).for_each(|_| drop(scope.spawn(&request))));
        self.set_kept(None);
    }

    fn set_kept(&self, kept: Option<Arc<Barrier>>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// Returns the number of requests since the last call of this function.
    pub fn take_requests(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, requests: &AtomicU64, kept: &Kept) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    loop {
        while !lines.next().ok_or(io::ErrorKind::UnexpectedEof)??.is_empty() {}
        requests.fetch_add(1, Ordering::Relaxed);
        let Some(all) = kept.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return Ok(()) };
        all.wait();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}
