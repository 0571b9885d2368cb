//! Arbitrary bytes at full speed: a server that receives or sends them, and clients.
//!
//! A client's first byte selects the direction. No protocol that a proxy could detect begins with this byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::child::{free_address, pin};
use crate::error::{Error, Result, io as io_error};

/// Bytes per read or write.
const CHUNK_BYTES: usize = 128 << 10;
/// Longest time without a byte. After this time, the target counts as stalled.
const STALL: Duration = Duration::from_secs(5);

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client.
    Up,
    /// To the client.
    Down,
}

impl Direction {
    fn command(self) -> u8 {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// A server that receives or sends bytes, on threads of this process. It ends only with the process.
#[derive(Debug)]
pub(crate) struct BulkServer {
    pub(crate) address: SocketAddr,
    taken: Arc<AtomicU64>,
}

impl BulkServer {
    /// Starts the server on these CPUs. An empty list allows all.
    pub(crate) fn start(cpus: &[usize]) -> Result<Self> {
        let address = free_address()?;
        let listener = TcpListener::bind(address).map_err(io_error(format!("listening on {address}")))?;
        let taken = Arc::new(AtomicU64::new(0));
        let (cpus, counter) = (cpus.to_vec(), Arc::clone(&taken));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (cpus, counter) = (cpus.clone(), Arc::clone(&counter));
                // Ignore the result: only the client needs to know why its connection ended.
                thread::spawn(move || pin(&cpus).and_then(|()| serve(stream, &counter)));
            }
        });
        Ok(Self { address, taken })
    }
}

fn serve(mut stream: TcpStream, taken: &AtomicU64) -> io::Result<()> {
    let mut command = [0];
    stream.read_exact(&mut command)?;
    if command == [Direction::Down.command()] {
        return make(&mut stream, &AtomicBool::new(false));
    }
    take(&mut stream, taken)
}

/// Reads until the end of the stream.
fn take(stream: &mut TcpStream, taken: &AtomicU64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            count => taken.fetch_add(count as u64, Ordering::Relaxed),
        };
    }
}

/// Writes until the peer has closed, or `stop` is set.
fn make(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let chunk = vec![b'x'; CHUNK_BYTES];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// Clients of a [`BulkServer`], which run until this value is dropped.
pub(crate) struct Bulk {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Bulk {
    /// Opens a connection to each of the addresses. The connections lead to `server`, possibly through a target.
    ///
    /// # Errors
    /// If a connection cannot be opened.
    pub(crate) fn start(
        addresses: &[SocketAddr],
        server: &BulkServer,
        direction: Direction,
        cpus: &[usize],
    ) -> Result<Self> {
        let received = match direction {
            Direction::Up => Arc::clone(&server.taken),
            Direction::Down => Arc::new(AtomicU64::new(0)),
        };
        let mut bulk =
            Self { received, stop: Arc::new(AtomicBool::new(false)), streams: Vec::new(), threads: Vec::new() };
        for &address in addresses {
            let open = || -> io::Result<(TcpStream, TcpStream)> {
                let mut stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(STALL))?;
                stream.set_write_timeout(Some(STALL))?;
                stream.write_all(&[direction.command()])?;
                Ok((stream.try_clone()?, stream))
            };
            let why = |error: io::Error| Error::Connect { target: "bytes".to_owned(), address, why: error.to_string() };
            let (handle, mut stream) = open().map_err(why)?;
            let (cpus, received, stop) = (cpus.to_vec(), Arc::clone(&bulk.received), Arc::clone(&bulk.stop));
            bulk.streams.push(handle);
            bulk.threads.push(thread::spawn(move || {
                pin(&cpus)?;
                match direction {
                    Direction::Up => make(&mut stream, &stop),
                    Direction::Down => take(&mut stream, &received),
                }
            }));
        }
        Ok(bulk)
    }

    /// Number of bytes that have arrived so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns whether a connection has ended. That is always a failure, because connections stay open until this value
    /// is dropped.
    pub(crate) fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // Ignore the error: the peer may have closed the stream already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // Ignore the thread's error: shutting down its stream may have caused it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;
