//! Wire: a socket, and its TLS if it has any. All bytes from and to clients and endpoints are read and written here.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::time::{Duration, Instant};

use leno_relay::{CONNECTION_BYTES, Id, LinkId};
use mio::Token;
use mio::net::TcpStream;
use socket2::SockRef;

use super::accept::ArrivalId;
use super::meter::Meter;
use super::socket_memory::{has_unacknowledged, socket_memory};
use super::tls::{SEAL_BYTES, Tls};
use super::trust::Peer;

/// Maximum number of unsent bytes that the kernel accepts for one connection. Bytes that are sent but not yet
/// acknowledged do not count. By default, the kernel accepts up to 4 MiB (`net.ipv4.tcp_wmem`) for a peer that does not
/// read.
pub(super) const KERNEL_UNSENT_MAX_BYTES: u32 = 128 << 10;

/// Size of the kernel's receive buffer for a connection within this machine. With its overhead, the kernel uses up to
/// twice as much.
///
/// Without this limit, the buffer grows to `net.ipv4.tcp_rmem` (6 MiB, or 32 MiB since Linux 6.16) if a program sends
/// faster than we forward its bytes. Loopback does not need such a large buffer. With this limit and
/// [`LOCAL_SEND_BYTES`], a connection of a test program carried 0.7 to 0.8 GB/s; without the limits, it carried 0.7 to
/// 0.9 GB/s. A connection to another machine keeps the kernel's sizes, because a path with a high latency needs a large
/// window.
const LOCAL_RECEIVE_BYTES: usize = 128 << 10;
/// Size of the kernel's send buffer for a connection within this machine, for the same reason as
/// [`LOCAL_RECEIVE_BYTES`]. The buffer has room for [`KERNEL_UNSENT_MAX_BYTES`]. Without this limit, the kernel also
/// kept 3.4 MB of sent bytes that a local peer had dropped.
const LOCAL_SEND_BYTES: usize = 192 << 10;

/// Shortest interval at which flushes measure the kernel's memory of a stuck connection ([`Wire::is_stuck`]). A
/// measurement is one system call.
const MEASURE_EVERY: Duration = Duration::from_millis(100);

/// Time by which the kernel's timeout for a peer that reads nothing exceeds our timeout, so that ours fires first and
/// can report why.
const KERNEL_GRACE: Duration = Duration::from_secs(2);

/// Memory of the keys and buffers of a connection's TLS, besides [`Tls::held_bytes`], in bytes.
const TLS_BYTES: usize = 12 << 10;

/// Identifies a wire within its worker.
pub(super) type WireId = Id<Wire>;

/// The bit that is set only in the poll tokens of wires, and not in the worker's own tokens (waker and listeners).
const WIRE_BIT: u64 = 1 << 63;

const _: () = assert!(usize::BITS == 64, "a poll token holds the id of a wire");

/// Returns the token under which a wire's socket is polled.
pub(super) fn token(id: WireId) -> Token {
    Token((WIRE_BIT | id.to_bits()) as usize)
}

/// Returns the wire of a token, which may have closed since; `None` for the worker's own tokens.
pub(super) fn wire_of(token: Token) -> Option<WireId> {
    let bits = token.0 as u64;
    if bits & WIRE_BIT == 0 { None } else { Id::of_bits(bits & !WIRE_BIT) }
}

/// Buffers that all wires of a worker share.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Bytes as received from a socket.
    raw: Vec<u8>,
    /// The decrypted content of `raw`, if the socket has TLS.
    opened: Vec<u8>,
    /// Encrypted bytes to be sent, if the socket has TLS.
    sealed: Vec<u8>,
}

impl Buffers {
    pub(super) fn new(read_bytes: usize) -> Self {
        Self { raw: vec![0; read_bytes], opened: Vec::new(), sealed: Vec::new() }
    }
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fill<'a> {
    /// Zero or more bytes. If `more` is set, there may be more to read, and no event will report it.
    Bytes { bytes: &'a [u8], more: bool },
    /// The peer sends nothing more.
    End,
}

/// Why a wire cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

/// The arrival or the connection of the relay whose bytes a wire carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    /// A client opened the connection, and its protocol is not known yet.
    Arrival(ArrivalId),
    /// A connection of the relay.
    Link(LinkId),
}

/// A measurement of the memory that the kernel holds for a connection.
#[derive(Debug, Clone, Copy)]
struct Measured {
    bytes: usize,
    at: Instant,
    /// Number of bytes that the worker had written to the socket before the measurement.
    written_bytes: u64,
    /// Whether the connection was stuck ([`Wire::is_stuck`]) at the measurement.
    while_stuck: bool,
}

/// A limit that the kernel enforces (TCP_USER_TIMEOUT): how long the peer may leave bytes unread or unacknowledged.
#[derive(Debug, Clone, Copy)]
struct UnreadLimit {
    timeout: Duration,
    /// Whether the kernel enforces the limit now.
    is_set: bool,
    /// Number of bytes that the worker had written to the socket at the latest check.
    written_bytes: u64,
}

/// A socket and its TLS.
#[derive(Debug)]
pub(super) struct Wire {
    /// What the wire carries. `None` only until the arrival or the link of a new wire has been created.
    pub(super) carries: Option<Carries>,
    /// Whether the TCP connection is still being established.
    pub(super) is_connecting: bool,
    /// The workload at the other end, if the proxy terminates the TLS: a client that has proved its identity, or a
    /// server that must prove it.
    pub(super) peer: Option<Box<Peer>>,
    pub(super) socket: TcpStream,
    pub(super) tls: Option<Box<Tls>>,
    pub(super) meter: Meter,
    /// Whether the peer has closed its sending side, or the socket cannot be written any more. The worker then reads on
    /// to the end, because no event will report the end.
    pub(super) end_follows: bool,
    /// Whether the connection is in the worker's list of connections with more to read.
    pub(super) unfinished: bool,
    /// Whether the kernel has bytes of the peer that the worker has not read.
    pub(super) has_unread: bool,
    /// Whether the peer has sent urgent data (RFC 9293 section 3.8.5). A read ends at the urgent byte even if more
    /// bytes follow.
    pub(super) has_urgent: bool,
    /// Whether the socket accepts no bytes.
    is_blocked: bool,
    /// The latest measurement of the kernel's memory for the connection; `None` before the first measurement.
    measured: Option<Measured>,
    /// `None`: the peer may leave bytes unread for any time.
    unread_limit: Option<UnreadLimit>,
    /// Whether our sending side of the socket is closed.
    write_closed: bool,
}

impl Wire {
    /// Wraps a socket, and sets its options. The kernel sends small writes at once. Bytes that the peer does not read
    /// wait mostly in the proxy, and not in the kernel. `is_local` is true if both ends of the connection are on this
    /// machine.
    pub(super) fn new(socket: TcpStream, tls: Option<Box<Tls>>, is_local: bool, now: Instant) -> Self {
        // Ignore errors of these options: without an option, the connection is only slower, or uses more of the
        // container's memory.
        let _ = socket.set_nodelay(true);
        let options = SockRef::from(&socket);
        let _ = options.set_tcp_notsent_lowat(KERNEL_UNSENT_MAX_BYTES);
        // Forward the urgent byte like the other bytes. Otherwise it would be lost.
        let _ = options.set_out_of_band_inline(true);
        if is_local {
            let _ = options.set_recv_buffer_size(LOCAL_RECEIVE_BYTES);
            let _ = options.set_send_buffer_size(LOCAL_SEND_BYTES);
        }
        let meter = Meter::new(now);
        Self {
            carries: None,
            is_connecting: false,
            peer: None,
            socket,
            tls,
            meter,
            end_follows: false,
            unfinished: false,
            has_unread: false,
            has_urgent: false,
            is_blocked: false,
            measured: None,
            unread_limit: None,
            write_closed: false,
        }
    }

    /// Makes the kernel end the connection if the peer leaves bytes unread or unacknowledged for `limit` plus
    /// [`KERNEL_GRACE`]. This also detects a peer that is gone. `None`: the peer may leave bytes unread for any time.
    /// Does nothing if the limit is the same as before. The caller then calls [`Self::update_unread_limit`] once a
    /// second.
    pub(super) fn limit_unread(&mut self, limit: Option<Duration>) {
        let timeout = limit.map(|limit| limit + KERNEL_GRACE);
        if self.unread_limit.map(|limit| limit.timeout) == timeout {
            return;
        }
        let written_bytes = self.meter.written_bytes;
        self.unread_limit = timeout.map(|timeout| UnreadLimit { timeout, is_set: true, written_bytes });
        set_user_timeout(&self.socket, timeout);
    }

    /// Lifts the limit of [`Self::limit_unread`] while the peer has acknowledged all bytes. Sets it again after the
    /// worker has written more bytes.
    ///
    /// While the limit is set, Linux ignores the number of keepalive probes (TCP_KEEPCNT). It then ends a connection as
    /// soon as the peer has been silent for the limit and one probe is unanswered. A short limit would end a silent
    /// connection after one lost packet. A long limit would keep the connection of a vanished peer for longer than
    /// three probes take.
    pub(super) fn update_unread_limit(&mut self) {
        let Some(limit) = &mut self.unread_limit else { return };
        let written_bytes = self.meter.written_bytes;
        let has_written = std::mem::replace(&mut limit.written_bytes, written_bytes) != written_bytes;
        let is_needed = has_written || (limit.is_set && has_unacknowledged(&self.socket));
        if std::mem::replace(&mut limit.is_set, is_needed) != is_needed {
            set_user_timeout(&self.socket, is_needed.then_some(limit.timeout));
        }
    }

    /// Reads once, at most `most` bytes. If the read fills less than the buffer, the socket is empty, and epoll
    /// (edge-triggered) will report later bytes with a new event. Exception: urgent data ends a read early.
    pub(super) fn read<'a>(&mut self, most: usize, buffers: &'a mut Buffers) -> Result<Fill<'a>, WireError> {
        let Buffers { raw, opened, .. } = buffers;
        let start = self.tls.as_mut().map_or(0, |tls| tls.lend_partial(raw));
        let room = raw.len().min(start.saturating_add(most));
        let outcome = loop {
            match self.socket.read(raw.get_mut(start..room).unwrap_or_default()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        let (read, ended) = match outcome {
            Ok(0) => (0, true),
            Ok(n) => (n, false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => (0, self.end_follows),
            Err(error) => {
                self.meter.failed(&error);
                return Err(error.into());
            }
        };
        self.meter.read(read);
        let end = start + read;
        self.has_urgent &= read > 0;
        self.has_unread = end == room || self.has_urgent;
        let more = self.has_unread || (self.end_follows && !ended);
        let received = raw.get_mut(..end).unwrap_or_default();
        let Some(tls) = &mut self.tls else {
            return Ok(if ended { Fill::End } else { Fill::Bytes { bytes: received, more } });
        };
        opened.clear();
        tls.open(received, opened)?;
        let ended = ended || tls.has_ended();
        Ok(if ended && opened.is_empty() { Fill::End } else { Fill::Bytes { bytes: opened, more: more || ended } })
    }

    /// Writes pending TLS records, and then `plain`. Returns the number of bytes of `plain` that are written or, with
    /// TLS, encrypted: at most [`SEAL_BYTES`] at a time. Returns 0 if the socket accepts no more, or if the handshake
    /// is not complete.
    pub(super) fn write(&mut self, plain: &[u8], buffers: &mut Buffers) -> Result<usize, WireError> {
        self.write_with(plain, &mut buffers.sealed)
    }

    fn write_with(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<usize, WireError> {
        let Some(tls) = &mut self.tls else {
            return Ok(write_some(&mut self.socket, plain, &mut self.meter)?);
        };
        loop {
            while !tls.pending().is_empty() {
                match write_some(&mut self.socket, tls.pending(), &mut self.meter)? {
                    0 => return Ok(0),
                    n => tls.advance(n),
                }
            }
            if plain.is_empty() {
                return Ok(0);
            }
            let plain = plain.get(..plain.len().min(SEAL_BYTES)).unwrap_or_default();
            let length = tls.seal(plain, sealed);
            if !tls.pending().is_empty() {
                continue;
            }
            let sealed = sealed.get(..length).unwrap_or_default();
            let written = if sealed.is_empty() { 0 } else { write_some(&mut self.socket, sealed, &mut self.meter)? };
            tls.keep(sealed.get(written..).unwrap_or_default());
            return Ok(if sealed.is_empty() { 0 } else { plain.len() });
        }
    }

    /// Returns whether TLS records wait for the socket.
    pub(super) fn is_pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.pending().is_empty())
    }

    /// Writes pending TLS records, such as handshake messages and alerts.
    pub(super) fn flush_tls(&mut self, buffers: &mut Buffers) -> Result<(), WireError> {
        self.write(&[], buffers).map(drop)
    }

    /// Returns whether our sending side of the socket is closed.
    pub(super) fn is_write_closed(&self) -> bool {
        self.write_closed
    }

    /// Closes our sending side of the socket.
    pub(super) fn close_write(&mut self) {
        if !std::mem::replace(&mut self.write_closed, true) {
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }

    /// Makes the peer see a reset when the socket is closed ([`Effect::Abort`](leno_relay::Effect::Abort)).
    pub(super) fn abort(&self) {
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    /// Measures what the kernel holds for the connection.
    pub(super) fn measure(&mut self, now: Instant) {
        let bytes = socket_memory(&self.socket, self.is_blocked);
        let (written_bytes, while_stuck) = (self.meter.written_bytes, self.is_stuck());
        self.measured = Some(Measured { bytes, at: now, written_bytes, while_stuck });
    }

    /// Records whether the socket is blocked, that is, accepts no bytes. Then measures like [`Self::measure`], if the
    /// connection is stuck and was not measured within [`MEASURE_EVERY`].
    pub(super) fn measure_if_stuck(&mut self, now: Instant, is_blocked: bool) {
        self.is_blocked = is_blocked;
        if self.is_stuck() && self.measured.is_none_or(|latest| now - latest.at >= MEASURE_EVERY) {
            self.measure(now);
        }
    }

    /// Returns whether to measure the connection. There are three cases:
    ///
    /// - The connection is stuck.
    /// - At the latest measurement, the kernel held more than `negligible` or more than [`CONNECTION_BYTES`] for it.
    /// - The worker has written more than `negligible` bytes since the latest measurement. If the peer does not read,
    ///   the kernel can hold up to [`KERNEL_UNSENT_MAX_BYTES`] of these bytes while the connection is not stuck.
    pub(super) fn should_be_measured(&self, negligible: usize) -> bool {
        let written_before = self.valid_measurement().map_or(0, |latest| latest.written_bytes);
        let written = self.meter.written_bytes.saturating_sub(written_before);
        self.is_stuck() || self.kernel_bytes() > negligible.min(CONNECTION_BYTES) || written > negligible as u64
    }

    /// Returns whether the socket accepts no bytes, or has bytes that the worker has not read.
    fn is_stuck(&self) -> bool {
        self.is_blocked || self.has_unread
    }

    /// Returns whether the socket accepts no bytes.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns what the kernel held for the connection at the latest measurement, in bytes.
    pub(super) fn kernel_bytes(&self) -> usize {
        self.valid_measurement().map_or(0, |latest| latest.bytes)
    }

    /// Returns the latest measurement. `None` if the connection was stuck at the measurement and is not stuck now: such
    /// a measurement is not valid any more. Otherwise a busy connection whose peer is a little slower than we are would
    /// be charged for a full buffer all the time.
    fn valid_measurement(&self) -> Option<Measured> {
        self.measured.filter(|latest| self.is_stuck() || !latest.while_stuck)
    }

    /// Returns the memory of the connection's TLS, in bytes.
    pub(super) fn tls_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| TLS_BYTES + tls.held_bytes())
    }
}

/// Returns whether both ends of a connection are on this machine: our end has a loopback address, or both ends have the
/// same address.
pub(super) fn is_local(own: IpAddr, peer: IpAddr) -> bool {
    own.is_loopback() || own == peer
}

/// Sets how long the peer may leave bytes unread or unacknowledged; `None` for the kernel's default.
fn set_user_timeout(socket: &TcpStream, timeout: Option<Duration>) {
    // Ignore an error: without this option, the kernel only ends the connection later.
    let _ = SockRef::from(socket).set_tcp_user_timeout(timeout);
}

/// Writes once. Returns 0 if the socket accepts no bytes now.
fn write_some(socket: &mut TcpStream, bytes: &[u8], meter: &mut Meter) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    loop {
        match socket.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => {
                meter.written(n);
                return Ok(n);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                meter.failed(&error);
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
