//! Link: a socket, its TLS if it has any, and its codec. All bytes from and to clients and endpoints are read and
//! written here.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mio::Token;
use mio::net::TcpStream;
use socket2::SockRef;

use super::codec::Codec;
use super::meter::Meter;
use super::tls::{SEAL_BYTES, Tls};

/// Most bytes that the peer of a closing connection may still send before the connection is closed.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// If a client's socket accepts no bytes and more content than this waits for it, no further requests of the client are
/// read.
const MAX_QUEUED_WHILE_BLOCKED_BYTES: usize = 4 << 20;

/// Most unsent bytes that the kernel accepts for one connection. Bytes that are sent but not yet acknowledged do not
/// count. By default, the kernel accepts up to 4 MiB (`net.ipv4.tcp_wmem`) for a peer that does not read.
const KERNEL_UNSENT_MAX_BYTES: u32 = 128 << 10;

/// The kernel's timeout for a peer that reads nothing is this much longer than ours, so that ours fires first and can
/// report why.
const KERNEL_GRACE: Duration = Duration::from_secs(2);

/// The kind of a link: who opened it, and whether its protocol is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A client opened it, and its protocol is not known yet.
    Arrival,
    /// A client opened it.
    Client,
    /// We opened it, to an endpoint.
    Endpoint,
}

/// Identifies a link within its worker. Indexes are used again after a link has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkId {
    pub(super) side: Side,
    pub(super) index: usize,
}

/// The poll tokens below this are the worker's own.
pub(super) const FIRST_LINK: usize = 64;

const SIDES: [Side; 3] = [Side::Arrival, Side::Client, Side::Endpoint];

impl LinkId {
    pub(super) fn arrival(index: usize) -> Self {
        Self { side: Side::Arrival, index }
    }

    pub(super) fn client(index: usize) -> Self {
        Self { side: Side::Client, index }
    }

    pub(super) fn endpoint(index: usize) -> Self {
        Self { side: Side::Endpoint, index }
    }

    /// Returns the token under which the socket is polled.
    pub(super) fn token(self) -> Token {
        Token(FIRST_LINK + SIDES.len() * self.index + self.side as usize)
    }

    /// Returns the link of a token; `None` for the worker's own tokens.
    pub(super) fn of(token: Token) -> Option<Self> {
        let n = token.0.checked_sub(FIRST_LINK)?;
        let side = *SIDES.get(n % SIDES.len())?;
        Some(Self { side, index: n / SIDES.len() })
    }
}

/// Buffers that all links of a worker share.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Bytes as received from a socket.
    raw: Vec<u8>,
    /// The decrypted content of these bytes, if the socket has TLS.
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

/// Why a link cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

/// A socket and its TLS.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: TcpStream,
    pub(super) tls: Option<Box<Tls>>,
    pub(super) meter: Meter,
    /// The peer has closed its sending side, or the socket cannot be written any more. The worker reads on to the end,
    /// because no event will report the end.
    pub(super) end_follows: bool,
    /// The connection is in the worker's list of connections with more to read.
    pub(super) unfinished: bool,
}

impl Wire {
    /// Wraps a socket. Small writes are sent at once. Most bytes that the peer does not read wait in the proxy, where
    /// the budget counts them, and not in the kernel.
    pub(super) fn new(socket: TcpStream, tls: Option<Box<Tls>>, now: Instant) -> Self {
        // Without these options the connection is slower, or uses more of the container's memory.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_notsent_lowat(KERNEL_UNSENT_MAX_BYTES);
        Self { socket, tls, meter: Meter::new(now), end_follows: false, unfinished: false }
    }

    /// Reads once, at most `most` bytes. A short read means that the socket is empty: epoll is edge-triggered and
    /// reports later bytes with a new event.
    pub(super) fn read<'a>(&mut self, most: usize, buffers: &'a mut Buffers) -> Result<Fill<'a>, LinkError> {
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
            Err(error) => return Err(error.into()),
        };
        self.meter.read(read);
        let end = start + read;
        let more = end == room || (self.end_follows && !ended);
        let received = raw.get_mut(..end).unwrap_or_default();
        let Some(tls) = &mut self.tls else {
            return Ok(if ended { Fill::End } else { Fill::Bytes { bytes: received, more } });
        };
        opened.clear();
        tls.open(received, opened)?;
        let ended = ended || tls.has_ended();
        Ok(if ended && opened.is_empty() { Fill::End } else { Fill::Bytes { bytes: opened, more: more || ended } })
    }

    /// Writes pending TLS records, and then `plain`. Returns how many bytes of `plain` are written or sealed: with TLS,
    /// at most [`SEAL_BYTES`] at a time. 0 means that the socket accepts no more, or that the handshake comes first.
    fn write(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<usize, LinkError> {
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
    fn is_pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.pending().is_empty())
    }

    /// Writes pending TLS records, such as handshake messages and alerts.
    pub(super) fn flush_tls(&mut self, buffers: &mut Buffers) -> Result<(), LinkError> {
        self.write(&[], &mut buffers.sealed).map(drop)
    }
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
            Err(error) => return Err(error),
        }
    }
}

/// A connection with its codec: one side of the relay.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) codec: Codec,
    /// Input that the codec did not take because it is paused.
    pub(super) held: Vec<u8>,
    /// Memory that the worker's budget counts for this link, in bytes.
    pub(super) charged_bytes: usize,
    /// The link is in the worker's list of links to flush.
    pub(super) dirty: bool,
    /// The socket is not read, because the codec is paused or because of [`Link::is_deaf`].
    pub(super) paused: bool,
    /// When the socket stopped accepting bytes; `None` while it accepts them.
    pub(super) blocked_since: Option<Instant>,
    pub(super) opened: Instant,
    pub(super) last_read: Instant,
    /// When queued DATA began to wait for the peer's windows without progress.
    pub(super) stalled_since: Option<Instant>,
    /// When the proxy sent its last output. Bytes that still arrive are dropped.
    pub(super) closing_since: Option<Instant>,
    /// Our sending side of the socket is closed.
    write_closed: bool,
    lingered_bytes: usize,
}

impl Link {
    pub(super) fn new(wire: Wire, codec: Codec, now: Instant) -> Self {
        Self {
            wire,
            codec,
            held: Vec::new(),
            charged_bytes: 0,
            dirty: false,
            paused: false,
            blocked_since: None,
            opened: now,
            last_read: now,
            stalled_since: None,
            closing_since: None,
            write_closed: false,
            lingered_bytes: 0,
        }
    }

    /// Makes the kernel end the connection if the peer accepts no bytes for `limit` plus [`KERNEL_GRACE`]. This also
    /// detects a peer that is gone. Opaque bytes may stay unread for as long as their receiver likes.
    pub(super) fn limit_unread(&self, limit: Duration) {
        if !self.codec.is_opaque() {
            // Without this option, the kernel ends the connection later.
            let _ = SockRef::from(&self.wire.socket).set_tcp_user_timeout(Some(limit + KERNEL_GRACE));
        }
    }

    /// Reads once.
    pub(super) fn fill<'a>(&mut self, now: Instant, buffers: &'a mut Buffers) -> Result<Fill<'a>, LinkError> {
        let fill = self.wire.read(self.codec.read_room(), buffers)?;
        if let Fill::Bytes { bytes, .. } = &fill
            && !bytes.is_empty()
        {
            self.last_read = now;
            if self.closing_since.is_some() {
                self.lingered_bytes += bytes.len();
                if self.lingered_bytes > MAX_LINGER_BYTES {
                    return Ok(Fill::End);
                }
            }
        }
        Ok(fill)
    }

    /// Writes until nothing is left or the socket is full.
    pub(super) fn flush(&mut self, now: Instant, buffers: &mut Buffers) -> Result<(), LinkError> {
        loop {
            let output = self.codec.output();
            let wanted = output.len();
            let written = self.wire.write(output, &mut buffers.sealed)?;
            if written > 0 {
                self.blocked_since = None;
                self.stalled_since = None;
                self.codec.advance_output(written);
            }
            if wanted == 0 && !self.wire.is_pending() {
                self.blocked_since = None;
                break;
            }
            if written == 0 {
                self.blocked_since.get_or_insert(now);
                break;
            }
        }
        if self.codec.queued_bytes() == 0 {
            self.stalled_since = None;
        } else {
            self.stalled_since.get_or_insert(now);
        }
        if self.codec.ends_output() && self.codec.pending_output() == 0 && !self.wire.is_pending() {
            self.close_write();
        }
        Ok(())
    }

    /// Sends the last output and waits for the peer to close. If the proxy closed the socket at once, a TCP reset could
    /// discard that output before the peer reads it.
    pub(super) fn begin_closing(&mut self, now: Instant, buffers: &mut Buffers) {
        if self.closing_since.is_some() {
            return;
        }
        // The result does not matter: a peer that does not read the last output does not get it.
        let _ = self.flush(now, buffers);
        self.closing_since = Some(now);
        self.close_write();
    }

    /// Returns whether an HTTP/2 client does not read its socket while much content waits for it. Then the worker does
    /// not read from the client either, so that it cannot make the proxy hold the responses to ever more requests. Its
    /// frames are not needed meanwhile: the output that waits needs no window from the client.
    pub(super) fn is_deaf(&self) -> bool {
        self.blocked_since.is_some()
            && self.codec.has_windows()
            && self.codec.queued_bytes() > MAX_QUEUED_WHILE_BLOCKED_BYTES
    }

    fn close_write(&mut self) {
        if !std::mem::replace(&mut self.write_closed, true) {
            let _ = self.wire.socket.shutdown(Shutdown::Write);
        }
    }
}
