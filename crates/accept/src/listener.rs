//! The accept loop of every server on tokio.
//!
//! A listener accepts every connection immediately. If the listener waited for a free place first, new connections
//! would stay in the kernel's queue for as long as silent connections hold the places.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::family::{stream_socket, usable};
use crate::{Place, Room, RoomSize, Source};

/// Maximum number of connections that the kernel queues until we accept them. The kernel drops a further connection,
/// and its client retries only after a second, which is too late for a kubelet's probe.
pub const BACKLOG: i32 = 4_096;
/// Pause after a failed attempt to accept a connection, for example because the process has no free file descriptor.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Minimum time between two log lines about connections that were closed because no place was free.
const CROWD_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Listens at an address, with a long queue in the kernel for bursts. `[::]` accepts connections of both address
/// families, or only IPv4 connections on a system without IPv6. Needs a tokio runtime.
///
/// # Errors
/// If the address does not belong to this machine, or is in use.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let address = usable(address);
    let socket = stream_socket(address)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A listening socket, and the places of its connections.
#[derive(Debug)]
pub struct Listener {
    /// The listener's name in log lines.
    name: &'static str,
    socket: TcpListener,
    room: Room,
    told_of_crowd: Instant,
}

/// An accepted connection, and its place among the listener's limited number of connections.
#[derive(Debug)]
pub struct Arrival {
    pub stream: TcpStream,
    pub address: SocketAddr,
    /// The connection's place. The caller must keep it for as long as the connection is open.
    pub place: Place,
}

impl Listener {
    /// Creates a listener on `socket`, with as many places as `size` allows. Log lines use `name`.
    pub fn new(name: &'static str, socket: TcpListener, size: RoomSize) -> Self {
        Self { name, socket, room: Room::new(size), told_of_crowd: Instant::now() }
    }

    /// Waits for the next connection that gets a place, and returns it. If no place is free, a new connection takes the
    /// place of another connection, or is closed if it may not take one.
    pub async fn accept(&mut self) -> Arrival {
        loop {
            // Let the tasks of earlier connections run first: a burst must not replace a connection before the
            // connection's task has read the first bytes.
            yield_now().await;
            match self.socket.accept().await {
                Ok((stream, address)) => {
                    let place = self.room.enter(Source::of(address.ip()));
                    self.tell_of_crowd();
                    if let Some(place) = place {
                        return Arrival { stream, address, place };
                    }
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(listener = self.name, %error, "a connection could not be accepted");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Logs, at most once in [`CROWD_LOG_INTERVAL`], how many connections were closed for lack of places, and which
    /// address has the most connections.
    fn tell_of_crowd(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.told_of_crowd) < CROWD_LOG_INTERVAL {
            return;
        }
        self.told_of_crowd = now;
        let (closed, most) = self.room.take_crowded_out();
        if closed > 0 {
            let (listener, most) = (self.name, most.map(tracing::field::display));
            tracing::warn!(listener, closed, most, "connections were closed to make room for newer ones");
        }
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
