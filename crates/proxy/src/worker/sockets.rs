//! Input and output: moves bytes between the sockets and the relay, and carries out the effects that the relay
//! requests.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use leno_model::discovery::Subject;
use leno_relay::failure::ConnectionFailure;
use leno_relay::limits::ms;
use leno_relay::{Effect, Id, Link, LinkId, ServerTls, UpstreamId};
use mio::net::TcpStream;
use mio::{Interest, event};
use socket2::SockRef;
use tokio::sync::mpsc::error::TrySendError;

use super::Worker;
use super::accept::keepalive;
use super::tls::Tls;
use super::trust::Peer;
use super::wire::{Buffers, Carries, Fill, Wire, WireError, WireId, is_local, token};

impl Worker {
    /// Handles an event of a wire's socket.
    pub(super) fn on_ready(&mut self, wire_id: WireId, event: &event::Event) {
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        wire.has_urgent |= event.is_priority();
        let id = match wire.carries {
            Some(Carries::Arrival(arrival)) => {
                wire.end_follows |= event.is_read_closed();
                wire.has_unread |= event.is_readable();
                return self.read_arrival(arrival);
            }
            Some(Carries::Link(id)) => id,
            None => return,
        };
        // `has_unread` stays set while the relay has paused the reading of this connection.
        wire.has_unread |= event.is_readable();
        if wire.is_connecting && !self.finish_connecting(wire_id, id) {
            return;
        }
        if event.is_error() {
            self.relay.socket_failed(id);
        }
        if event.is_writable() {
            self.relay.mark_dirty(id);
        }
        if event.is_read_closed() {
            self.read_to_end(wire_id, id);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(wire_id, id);
        }
    }

    /// Continues to read a wire that had more to read.
    pub(super) fn read_on(&mut self, wire_id: WireId) {
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        wire.unfinished = false;
        match wire.carries {
            Some(Carries::Arrival(arrival)) => self.read_arrival(arrival),
            Some(Carries::Link(id)) => self.read(wire_id, id),
            None => {}
        }
    }

    /// Handles a peer that has closed its sending side, or a socket that cannot be written any more. The worker still
    /// reads the bytes that the peer sent before.
    fn read_to_end(&mut self, wire_id: WireId, id: LinkId) {
        if let Some(wire) = self.wires.get_mut(wire_id) {
            wire.end_follows = true;
        }
        self.relay.end_follows(id);
        self.mark_unfinished(wire_id);
    }

    /// Reads once from a connection, and lets the relay handle the bytes.
    pub(super) fn read(&mut self, wire_id: WireId, id: LinkId) {
        let Some(most) = self.relay.begin_read(id) else { return };
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        let fill = match wire.read(most, &mut self.buffers) {
            Ok(fill) => fill,
            Err(error) => return self.close_after_failure(wire_id, id, error),
        };
        if let Some(peer) = &mut wire.peer
            && let LinkId::Endpoint(upstream) = id
            && let Some(verdict) = peer.check_server(wire.tls.as_deref())
        {
            match verdict {
                Ok(()) => {
                    if std::mem::take(&mut peer.is_outdated) {
                        self.recheck.add(wire_id);
                    }
                    peer.note_server(wire.tls.as_deref(), &self.standing);
                    self.relay.count_upstream(upstream);
                }
                Err(wrong) => return self.relay.end_upstream(upstream, &wrong),
            }
        }
        match fill {
            Fill::Bytes { bytes, more } => {
                if more && !std::mem::replace(&mut wire.unfinished, true) {
                    self.unfinished.push(wire_id);
                }
                self.relay.receive(id, bytes);
            }
            Fill::End => self.relay.receive_end(id),
        }
    }

    /// Lists a wire to be read in the next turn, whether or not its socket reports that there is something to read.
    pub(super) fn mark_unfinished(&mut self, id: WireId) {
        if let Some(wire) = self.wires.get_mut(id)
            && !std::mem::replace(&mut wire.unfinished, true)
        {
            self.unfinished.push(id);
        }
    }

    /// Writes the output of all connections, until no connection has output.
    pub(super) fn flush_all(&mut self) {
        loop {
            while let Some(id) = self.relay.next_dirty() {
                self.flush(id);
            }
            self.relay.serve_waiting();
            self.carry_out();
            if !self.relay.has_dirty() {
                return;
            }
        }
    }

    fn flush(&mut self, id: LinkId) {
        let now = self.relay.now();
        let Some(link) = self.relay.link(id) else { return };
        let Some(wire_id) = link.wire().map(Id::cast) else { return };
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        let takes_output = !wire.is_write_closed() && !link.is_unwritable();
        let written = if takes_output { write(link, wire, now, &mut self.buffers) } else { Ok(()) };
        // Close our side only after the socket has accepted all output, including TLS records.
        let ends_output = (link.is_closing() || link.is_finished()) && !link.is_aborted();
        if ends_output && !link.is_blocked() && !wire.is_pending() {
            wire.close_write();
        }
        wire.measure_if_stuck(now, link.is_blocked());
        link.set_wire_bytes(wire.tls_bytes(), wire.kernel_bytes());
        // If the connection is closing, ignore a failed write of its last output.
        if written.is_err() && !link.is_closing() {
            link.note_unwritable();
            return self.read_to_end(wire_id, id);
        }
        self.relay.flushed(id);
    }

    /// Carries out the effects that the relay has requested.
    pub(super) fn carry_out(&mut self) {
        loop {
            let effects = self.relay.take_effects();
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.carry_out_one(effect));
        }
    }

    fn carry_out_one(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { upstream, address, tls, own_inbound_port } => {
                let own = own_inbound_port.filter(|_| is_own_ip(address.ip()));
                let address = own.map_or(address, |port| SocketAddr::new(address.ip(), port));
                if let Err(why) = self.connect(upstream, address, tls) {
                    self.relay.end_upstream(upstream, &why);
                }
            }
            Effect::ReadOn(wire) => self.mark_unfinished(wire.cast()),
            Effect::Settle(wire) => self.doors.settle(wire.cast()),
            Effect::Count(wire, series) => {
                if let Some(wire) = self.wires.get_mut(wire.cast::<Wire>()) {
                    wire.meter.count_in(series);
                }
            }
            Effect::WriteLast(wire, bytes) => {
                if let Some(wire) = self.wires.get_mut(wire.cast::<Wire>()) {
                    write_last(wire, &bytes, &mut self.buffers);
                }
            }
            Effect::Abort(wire) => {
                if let Some(wire) = self.wires.get(wire.cast::<Wire>()) {
                    wire.abort();
                }
            }
            Effect::Close(wire) => self.close_wire(wire.cast()),
            Effect::Ask(subject) => self.ask(&subject),
            Effect::Recall { wire, origin, first } => self.recall(wire.cast(), origin, first),
        }
    }

    /// Begins to connect to an endpoint.
    fn connect(
        &mut self,
        upstream: UpstreamId,
        address: SocketAddr,
        tls: Option<ServerTls>,
    ) -> Result<(), Box<ConnectionFailure>> {
        if !self.relay.has_upstream(upstream) {
            return Ok(());
        }
        let peer = tls.as_ref().map(|tls| Box::new(Peer::server(tls.expected.clone(), address.ip())));
        let tls = match (tls, &self.identity) {
            (None, _) => None,
            (Some(tls), Some(identity)) => {
                let tls = Tls::connect(&identity.client, tls.target_port);
                Some(tls.map_err(|error| ConnectionFailure::Connect { error: error.to_string() })?)
            }
            (Some(_), None) => {
                return Err(Box::new(ConnectionFailure::Connect { error: "the proxy has no identity".to_owned() }));
            }
        };
        if self.free_socket().is_err() {
            let error = format!(
                "this worker has {} sockets, its limit max_sockets; raise it, or the limit of open files (ulimit -n)",
                self.wires.len()
            );
            return Err(Box::new(ConnectionFailure::NoSocket { error }));
        }
        let socket = TcpStream::connect(address).map_err(|error| cannot_open(&error, address))?;
        let keepalive_ms = self.relay.limits().relay.keepalive_ms;
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive(ms(keepalive_ms)));
        let is_local = socket.local_addr().is_ok_and(|own| is_local(own.ip(), address.ip()));
        let mut wire = Wire::new(socket, tls.map(Box::new), is_local, self.relay.now());
        wire.limit_unread(self.relay.unread_limit(LinkId::Endpoint(upstream)));
        (wire.is_connecting, wire.peer) = (true, peer);
        let wire = self.wires.insert(wire);
        self.attach(wire, Carries::Link(LinkId::Endpoint(upstream)));
        self.relay.attach_upstream(upstream, wire.cast(), address);
        self.watch(wire).map_err(|error| cannot_open(&error, address).into())
    }

    /// Asks the control plane about a subject.
    fn ask(&mut self, subject: &Subject) {
        match self.discovery.as_ref().map(|discovery| discovery.try_send(subject.clone())) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => self.refuse_question(subject, true),
            // The task that asks the control plane has ended: the proxy is shutting down.
            Some(Err(TrySendError::Closed(_))) | None => self.refuse_question(subject, false),
        }
    }

    fn refuse_question(&mut self, subject: &Subject, too_many: bool) {
        self.relay.refuse_question(subject, too_many);
        // Continue the connections that wait for an answer, so that their calls fail with the reason.
        self.review_arrivals(|arrival| arrival.is_held);
    }

    /// Completes the opening of a connection; called with each of its events. Returns whether TCP is established.
    fn finish_connecting(&mut self, wire: WireId, id: LinkId) -> bool {
        let (Some(wire), LinkId::Endpoint(upstream)) = (self.wires.get_mut(wire), id) else { return false };
        if let Some(error) = wire.socket.take_error().ok().flatten() {
            self.relay.close_upstream(upstream, &error.to_string());
            return false;
        }
        if wire.socket.peer_addr().is_err() {
            return false;
        }
        wire.is_connecting = false;
        self.relay.connected(upstream);
        true
    }

    /// Records what a wire carries from now on: an arrival, or a connection of the relay.
    pub(super) fn attach(&mut self, wire: WireId, carries: Carries) {
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.carries = Some(carries);
        }
    }

    /// Begins to poll a wire's socket.
    pub(super) fn watch(&mut self, id: WireId) -> io::Result<()> {
        let Some(wire) = self.wires.get_mut(id) else { return Ok(()) };
        let interests = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        self.poll.registry().register(&mut wire.socket, token(id), interests)
    }

    /// Returns the TLS on a wire, if it has any.
    pub(super) fn tls_on(&self, wire: WireId) -> Option<&Tls> {
        self.wires.get(wire).and_then(|wire| wire.tls.as_deref())
    }

    /// Closes a wire, and frees its place if it has one.
    pub(super) fn close_wire(&mut self, id: WireId) {
        if let Some(mut wire) = self.wires.remove(id) {
            if wire.is_blocked() {
                // Reset the connection: the peer does not read, and would not get all of our output anyway. After an
                // orderly close, the kernel would keep the unsent output until the peer reads, and no budget would
                // count it.
                wire.abort();
            }
            wire.meter.close(self.relay.now());
            self.doors.leave(id);
            self.burst = true;
        }
    }

    /// Closes a connection whose socket or TLS has failed.
    fn close_after_failure(&mut self, wire: WireId, id: LinkId, error: WireError) {
        if let (WireError::Tls(_), Some(wire)) = (&error, self.wires.get_mut(wire)) {
            // Send the TLS alert. A failure does not matter, since the connection ends.
            let _ = wire.flush_tls(&mut self.buffers);
        }
        match (id, error) {
            (LinkId::Endpoint(upstream), WireError::Tls(error)) => {
                self.relay.end_upstream(upstream, &ConnectionFailure::Handshake(error));
            }
            (_, error) => self.relay.close(id, &error.to_string()),
        }
    }
}

/// Writes a connection's output until nothing is left or the socket is full.
fn write(link: &mut Link, wire: &mut Wire, now: Instant, buffers: &mut Buffers) -> Result<(), WireError> {
    loop {
        let output = link.output();
        let wanted = output.len();
        let written = wire.write(output, buffers)?;
        if written > 0 {
            link.note_written(written);
        }
        if wanted == 0 && !wire.is_pending() {
            link.note_flushed(now, false);
            return Ok(());
        }
        if written == 0 {
            link.note_flushed(now, true);
            return Ok(());
        }
    }
}

/// Writes as much of a connection's last output as the socket accepts. A failure does not matter, since the connection
/// ends.
fn write_last(wire: &mut Wire, mut rest: &[u8], buffers: &mut Buffers) {
    while let Ok(written @ 1..) = wire.write(rest, buffers) {
        rest = rest.get(written..).unwrap_or_default();
    }
}

/// Returns why a connection to `address` could not be opened. If this proxy or its machine has used up a resource, the
/// endpoint is not the cause.
fn cannot_open(error: &io::Error, address: SocketAddr) -> ConnectionFailure {
    let (lack, remedy) = match error.raw_os_error() {
        Some(libc::EMFILE) => ("this proxy has no file descriptor left", "raise its limit of open files (ulimit -n)"),
        Some(libc::ENFILE) => ("this machine has no open file left", "raise the limit fs.file-max of this machine"),
        // Without a source address, this machine has no way to the endpoint, however many ports are free.
        Some(libc::EADDRNOTAVAIL) if source_to(address.ip()).is_ok() => (
            "this machine has no local port left for connections to this address",
            "widen net.ipv4.ip_local_port_range, or add endpoints",
        ),
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            ("this machine has no memory left for a socket", "give it more memory, or close connections")
        }
        Some(libc::ENOSPC) => ("this machine polls no further socket of this user", "raise fs.epoll.max_user_watches"),
        _ => return ConnectionFailure::Connect { error: error.to_string() },
    };
    ConnectionFailure::NoSocket { error: format!("{lack} ({error}); {remedy}") }
}

/// Returns whether `ip` belongs to this machine. The kernel uses `ip` itself as the source address of packets to `ip`
/// only then.
fn is_own_ip(ip: IpAddr) -> bool {
    source_to(ip).is_ok_and(|source| source == ip)
}

/// Asks the kernel for the source address of packets to `ip`, without sending a packet.
fn source_to(ip: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((ip, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
