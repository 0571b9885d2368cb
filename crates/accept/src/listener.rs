//! The loop that accepts connections, for every server on tokio.
//!
//! A connection is accepted at once, always. A listener that waited for a free place before it accepted would have the kernel
//! keep newcomers waiting behind strangers that say nothing.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::{Capacity, Place, Room, Source};

/// How long to wait after a connection could not be accepted, which is when files run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Time between two log lines about connections that were turned away.
const TURNED_AWAY_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A socket that listens, and the places of its connections.
#[derive(Debug)]
pub struct Listener {
    /// In log lines.
    name: &'static str,
    socket: TcpListener,
    room: Room,
    turned_away: u64,
    told: Option<Instant>,
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
    pub fn new(name: &'static str, socket: TcpListener, capacity: Capacity) -> Self {
        Self { name, socket, room: Room::new(capacity), turned_away: 0, told: None }
    }

    /// Waits for the next connection. A connection whose address holds the most places of a full room is closed.
    pub async fn accept(&mut self) -> Arrival {
        loop {
            // The tasks of connections that were accepted run first: a burst must not replace a connection before its task
            // has looked at what it says.
            yield_now().await;
            match self.socket.accept().await {
                Ok((stream, address)) => match self.room.enter(Source::of(address.ip())) {
                    Some(place) => return Arrival { stream, address, place },
                    None => self.turn_away(address),
                },
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(listener = self.name, %error, "a connection could not be accepted");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn turn_away(&mut self, address: SocketAddr) {
        self.turned_away += 1;
        let now = Instant::now();
        if self.told.is_none_or(|told| now.duration_since(told) >= TURNED_AWAY_LOG_INTERVAL) {
            let (listener, source, times) =
                (self.name, Source::of(address.ip()), std::mem::take(&mut self.turned_away));
            tracing::warn!(listener, %source, times, "no place is free, and this address holds the most: connections were closed");
            self.told = Some(now);
        }
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
