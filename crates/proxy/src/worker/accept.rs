//! Accept: a client's socket, where it was going, and its HTTP/2 connection.

use std::io::ErrorKind;
use std::net::SocketAddr;

use leno_http2::{Connection, ConnectionError, Role, Violation};
use mio::Interest;
use mio::net::TcpStream;
use socket2::SockRef;

use super::detect::{self, Spoken};
use super::link::{Link, LinkId};
use super::record::Ending;
use super::{Worker, violation_label};
use crate::metrics::Direction;

/// Connections accepted in one turn of the loop.
const MAX_ACCEPTS: usize = 64;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) link: Link,
    pub(super) peer: SocketAddr,
    /// Tells this client from a later one at the same index.
    pub(super) serial: u64,
    /// Where the application meant to go, if netfilter has sent it here (SO_ORIGINAL_DST).
    pub(super) original_destination: Option<SocketAddr>,
    /// The cluster of its latest call: a gRPC client's calls all have the same authority.
    pub(super) latest_route: Option<LatestRoute>,
    /// Cancelled calls that endpoints have not been told of.
    pub(super) cancelled_calls: u32,
    /// Calls that wait for connections to endpoints.
    pub(super) waiting_calls: usize,
    pub(super) idle_since: Option<std::time::Instant>,
}

/// A route that was looked up.
#[derive(Debug)]
pub(super) struct LatestRoute {
    pub(super) authority: Vec<u8>,
    pub(super) mesh_version: u64,
    pub(super) cluster: usize,
}

impl Worker {
    pub(super) fn accept(&mut self) {
        self.accept_again = false;
        for _ in 0..MAX_ACCEPTS {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, peer)) => self.add_client(socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of file descriptors, most likely: connections wait until some have closed.
                    tracing::warn!("cannot accept a connection: {error}; raise the limit of open files (ulimit -n)");
                    self.accept_failed = true;
                    return;
                }
            }
        }
        self.accept_again = true;
    }

    fn add_client(&mut self, socket: TcpStream, peer: SocketAddr) {
        if self.clients.len() >= self.limits.relay.max_client_connections as usize {
            self.metrics.count_abuse("client_connections");
            return;
        }
        let _ = socket.set_nodelay(true);
        let original_destination = original_destination(&socket);
        let http2 = Connection::new(Role::Server, self.limits.client.clone(), self.now);
        let serial = self.take_serial();
        let index = self.clients.insert(Client {
            link: Link::new(socket, http2, self.now),
            peer,
            serial,
            original_destination,
            latest_route: None,
            cancelled_calls: 0,
            waiting_calls: 0,
            idle_since: Some(self.now),
        });
        self.downstream_tcp.opened();
        let registered = match self.clients.get_mut(index) {
            Some(client) => self.poll.registry().register(
                &mut client.link.socket,
                LinkId::client(index).token(),
                Interest::READABLE | Interest::WRITABLE,
            ),
            None => Ok(()),
        };
        if let Err(error) = registered {
            tracing::warn!("cannot watch a connection: {error}");
            self.close_client(index);
        }
    }

    /// Forgets a client's connection; its calls are cancelled.
    pub(super) fn close_client(&mut self, index: usize) {
        self.cancel_calls_of(index);
        if let Some(client) = self.clients.try_remove(index) {
            self.downstream_tcp.closed(self.now - client.link.opened);
            self.burst = true;
        }
    }

    pub(super) fn cancel_calls_of(&mut self, index: usize) {
        let Some(client) = self.clients.get(index) else { return };
        for (stream, token) in client.link.http2.open_streams() {
            if self.calls.get(token as usize).is_some_and(|call| call.client == index && call.client_stream == stream) {
                self.end_call(token, Ending::Cancelled);
            }
        }
    }

    /// Ends the connection of a client that broke the protocol or a limit: the GOAWAY says why, calls are cancelled.
    pub(super) fn dismiss_client(&mut self, index: usize, error: ConnectionError, first_bytes: &[u8]) {
        self.cancel_calls_of(index);
        let Some(client) = self.clients.get_mut(index) else { return };
        let (now, metrics) = (self.now, &self.downstream_tcp);
        if error.why == Violation::BadPreface {
            let spoken = detect::detect(first_bytes);
            let (peer, name) = (client.peer, spoken.name());
            tracing::info!("{peer} speaks {name}; this port takes HTTP/2 without TLS (prior knowledge), as gRPC does");
            self.metrics.count_proxy_error(Direction::Outbound, spoken.label());
            if spoken != Spoken::Unknown {
                return client.link.begin_closing(now, spoken.farewell(), metrics);
            }
        } else {
            tracing::info!("{} is disconnected: {error}", client.peer);
        }
        self.metrics.count_abuse(violation_label(&error.why));
        client.link.begin_closing(now, b"", metrics);
    }

    pub(super) fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}

/// Where the connection was going before netfilter redirected it here.
fn original_destination(socket: &TcpStream) -> Option<SocketAddr> {
    let local = socket.local_addr().ok()?;
    let reference = SockRef::from(socket);
    let original = match local.ip().to_canonical() {
        std::net::IpAddr::V4(_) => reference.original_dst_v4(),
        std::net::IpAddr::V6(_) => reference.original_dst_v6(),
    };
    // Connection tracking also knows connections that nobody redirected.
    original.ok()?.as_socket().filter(|original| *original != local)
}
