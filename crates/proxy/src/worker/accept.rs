//! Accept: accepts connections, and records their source and destination.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use leno_model::mesh::canonical;
use leno_relay::failure::ConnectionFailure;
use leno_relay::{Door, Id, Origin};
use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::Worker;
use super::wire::{Carries, Wire, WireId, is_local};

/// Maximum number of connections that are accepted from one listener in one turn of the event loop.
pub(super) const MAX_ACCEPTS: usize = 64;

/// Returns the TCP keepalive settings for a silent peer: the first probe after `silence`, and further probes at
/// intervals of a third of `silence`. The kernel sends at most three probes.
pub(super) fn keepalive(silence: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(silence).with_interval(silence / 3).with_retries(3)
}

/// Identifies an arrival within its worker.
pub(super) type ArrivalId = Id<Arrival>;

/// A client's connection whose protocol is not known yet.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) wire: WireId,
    pub(super) origin: Origin,
    /// When the worker began to read the connection or, before that, accepted it.
    pub(super) since: Instant,
    /// Whether reading waits for the control plane's answer about the connection's destination.
    pub(super) is_held: bool,
    /// When the worker accepted the connection, if reading had to wait for the control plane's answer and has begun.
    pub(super) held_since: Option<Instant>,
    /// Bytes received so far, decrypted if the proxy terminates the connection's TLS.
    pub(super) first: Vec<u8>,
    /// Target port that another proxy sent in its TLS server name. This port applies only if netfilter did not redirect
    /// the connection.
    pub(super) named_port: Option<u16>,
    /// Whether the TLS handshake began with a trust bundle that has been replaced since.
    pub(super) is_outdated: bool,
    /// Whether the worker guessed that the server speaks first, and the guess was wrong.
    pub(super) was_guessed: bool,
    /// Number of sweeps that have checked for this silent client whether its server sends first. Counts only sweeps at
    /// least `server_first_after_ms` after `since`.
    pub(super) late_looks: u8,
    /// Memory that the worker's budget counts for this connection, in bytes.
    pub(super) charged_bytes: usize,
}

/// Returns the origin of a connection. `door` is the kind of the listener that accepted it.
fn origin_of(door: Door, peer: SocketAddr, socket: &TcpStream) -> io::Result<Origin> {
    let local = canonical(socket.local_addr()?);
    let reference = SockRef::from(socket);
    let original = match local.ip() {
        IpAddr::V4(_) => reference.original_dst_v4(),
        IpAddr::V6(_) => reference.original_dst_v6(),
    };
    // For a connection that netfilter did not redirect, the kernel may report `local` as the original destination. We
    // then record no original destination.
    let original_destination =
        original.ok().and_then(|original| original.as_socket()).map(canonical).filter(|&original| original != local);
    Ok(Origin { door, peer: canonical(peer), local, original_destination })
}

impl Worker {
    pub(super) fn accept(&mut self) {
        self.accept_again = false;
        for place in 0..self.listeners.len() {
            self.accept_at(place);
        }
    }

    fn accept_at(&mut self, place: usize) {
        for _ in 0..MAX_ACCEPTS {
            let Some(listener) = self.listeners.get(place) else { return };
            match self.free_socket().and_then(|()| listener.accept()) {
                Ok((socket, peer)) => self.add_arrival(listener.door, socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Stop accepting until the next sweep: new connections wait in the kernel's queue.
                    let is_out_of_files = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                    let advice = if is_out_of_files {
                        "; raise the limit of open files (ulimit -n), or the limit max_sockets"
                    } else {
                        ""
                    };
                    tracing::warn!("cannot accept a connection: {error}{advice}");
                    self.accept_failed = true;
                    return;
                }
            }
        }
        self.accept_again = true;
    }

    /// Fails if the worker has `max_sockets` sockets, with the error of a process that has no more files. The process
    /// needs its other files, for example for the admin endpoint.
    pub(super) fn free_socket(&self) -> io::Result<()> {
        if self.wires.len() < self.relay.limits().relay.max_sockets as usize {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }

    fn add_arrival(&mut self, door: Door, socket: TcpStream, peer: SocketAddr) {
        // A socket without an address has been reset already.
        let Ok(origin) = origin_of(door, peer, &socket) else { return };
        let is_local = is_local(origin.local.ip(), origin.peer.ip());
        let wire = self.wires.insert(Wire::new(socket, None, is_local, self.relay.now()));
        if self.take_place(door, origin.peer.ip(), wire).is_err() {
            self.wires.remove(wire);
            self.relay.metrics().count_abuse("client_connections");
            return self.relay.report(origin, ConnectionFailure::NoPlace);
        }
        let arrival = Arrival {
            wire,
            origin,
            since: self.relay.now(),
            is_held: door == Door::Outbound && self.relay.asks_first(&origin),
            held_since: None,
            first: Vec::new(),
            named_port: None,
            is_outdated: false,
            was_guessed: false,
            late_looks: 0,
            charged_bytes: 0,
        };
        let id = self.arrivals.insert(arrival);
        self.charge_arrival(id);
        self.attach(wire, Carries::Arrival(id));
        if let Err(error) = self.watch(wire) {
            tracing::warn!("cannot watch a connection: {error}");
            return self.drop_arrival(id);
        }
        self.review_arrival(id);
    }
}
