//! The loop that accepts connections, for every server on tokio.
//!
//! A connection is accepted at once, always. A listener that waited for a free place before it accepted would have the kernel
//! keep newcomers waiting behind strangers that say nothing.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::{Place, Room, RoomSize, Source};

/// Connections that the kernel holds until they are accepted. Beyond that it drops them, and their clients try again after
/// a second: longer than a kubelet's probe may take.
const BACKLOG: u32 = 4_096;
/// How long to wait after a connection could not be accepted, which is when files run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Time between two log lines about connections that had to go for want of a place.
const CROWD_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Listens at an address, with room in the kernel for a burst of connections. Needs a tokio runtime.
///
/// # Errors
/// When the address is not one of this machine, or is in use.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a process before us do not keep us from its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A socket that listens, and the places of its connections.
#[derive(Debug)]
pub struct Listener {
    /// In log lines.
    name: &'static str,
    socket: TcpListener,
    room: Room,
    told_of_crowd: Instant,
}

/// A connection that has a place.
#[derive(Debug)]
pub struct Arrival {
    /// The connection.
    pub stream: TcpStream,
    /// Its peer.
    pub address: SocketAddr,
    /// To be kept for as long as the connection is open.
    pub place: Place,
}

impl Listener {
    /// Accepts from `socket`, for as many connections as there is room for. Log lines call it `name`.
    pub fn new(name: &'static str, socket: TcpListener, size: RoomSize) -> Self {
        Self { name, socket, room: Room::new(size), told_of_crowd: Instant::now() }
    }

    /// Waits for the next connection. A connection whose address holds the most places of a full room is closed.
    pub async fn accept(&mut self) -> Arrival {
        loop {
            // The tasks of connections that were accepted run first: a burst must not replace a connection before its task
            // has looked at what it says.
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

    /// Logs now and then how many connections had to go, and which address holds the most.
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
