//! Link: a connection to a client or to an endpoint, with its codec. The relay has no sockets: the event loop's `wire`
//! delivers the bytes that arrive, and takes the bytes to be sent.
//!
//! | file | subject |
//! |---|---|
//! | `detect` | which protocol do the first bytes show? |
//! | `codec` | one interface for HTTP/2, HTTP/1 and opaque bytes |
//! | `opaque` | opaque bytes as one CONNECT stream |
//! | `grpc` | what the relay knows of gRPC: statuses, deadlines |

pub(crate) mod codec;
pub mod detect;
pub mod grpc;
pub(crate) mod messages;
pub(crate) mod opaque;

use std::time::{Duration, Instant};

use leno_http2::Windows;

use crate::downstream::client::ClientId;
use crate::effect::WireId;
use crate::limits::RelayLimits;
use crate::link::codec::Codec;
use crate::pool::upstream::UpstreamId;

/// Maximum number of bytes that the peer of a closing connection may still send before the connection is closed.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Maximum number of bytes of content that may wait for a client that does not read. Above this limit, the worker reads
/// no further requests of the client.
const MAX_QUEUED_WHILE_DEAF_BYTES: usize = 4 << 20;
/// How long a socket must have accepted no bytes until its client counts as one that does not read. The socket of a
/// client that reads as fast as its network allows is blocked most of the time, but accepts some bytes more often than
/// this.
const DEAF_AFTER: Duration = Duration::from_millis(500);

/// Identifies a link within its relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkId {
    /// A client opened the connection.
    Client(ClientId),
    /// We opened the connection, to an endpoint.
    Endpoint(UpstreamId),
}

/// A connection to a client or to an endpoint, with its codec and its wire.
#[derive(Debug)]
pub struct Link {
    /// The wire that carries the connection's bytes; `None` until the event loop has begun to connect to the endpoint.
    pub(crate) wire: Option<WireId>,
    /// Memory of the wire's TLS, in bytes.
    pub(crate) tls_bytes: usize,
    /// Memory that the kernel holds for the wire's socket, in bytes.
    pub(crate) kernel_bytes: usize,
    pub(crate) codec: Codec,
    /// Input that the codec has not taken yet ([`Codec::is_paused`], [`Codec::takes_input`]).
    pub(crate) pending_input: Vec<u8>,
    /// Memory that the worker's budget counts for this link, in bytes.
    pub(crate) charged_bytes: usize,
    /// The link is in the worker's list of links to flush.
    pub(crate) dirty: bool,
    /// The relay does not read the socket. See `must_wait` in `transfer`.
    pub(crate) paused: bool,
    /// When the relay last began to read the socket: when the link was created, or when the last pause ended.
    reading_since: Instant,
    /// When the socket stopped accepting bytes; `None` while it accepts them.
    pub(crate) blocked_since: Option<Instant>,
    pub(crate) opened: Instant,
    pub(crate) last_read: Instant,
    pub(crate) has_received: bool,
    /// When queued DATA last began to wait for the peer's flow-control windows; reset by each write to the socket.
    pub(crate) stalled_since: Option<Instant>,
    /// A write has failed, or the socket has reported an error. See [`Link::note_unwritable`].
    is_unwritable: bool,
    /// Whether to reset the socket when the link is removed, so that the kernel does not keep its local port for a minute
    /// (TIME_WAIT).
    pub(crate) frees_port: bool,
    /// When the proxy began to close the connection. Since then, the proxy adds no output, and drops bytes that still
    /// arrive. If a sweep finds that a client has read some of the last output, the time starts again.
    pub(crate) closing_since: Option<Instant>,
    /// The smallest `kernel_bytes` that a sweep has found since the proxy began to close the connection; [`usize::MAX`]
    /// before the first of these sweeps. If a sweep finds less, the peer has read some bytes.
    pub(crate) least_kernel_bytes: usize,
    lingered_bytes: usize,
}

impl Link {
    pub(crate) fn new(wire: Option<WireId>, codec: Codec, now: Instant) -> Self {
        Self {
            wire,
            tls_bytes: 0,
            kernel_bytes: 0,
            codec,
            pending_input: Vec::new(),
            charged_bytes: 0,
            dirty: false,
            paused: false,
            reading_since: now,
            blocked_since: None,
            opened: now,
            last_read: now,
            has_received: false,
            stalled_since: None,
            is_unwritable: false,
            frees_port: false,
            closing_since: None,
            least_kernel_bytes: usize::MAX,
            lingered_bytes: 0,
        }
    }

    /// Records that bytes were received. Returns whether the connection is closing and has received more than
    /// [`MAX_LINGER_BYTES`] since it began to close.
    pub(crate) fn note_received(&mut self, now: Instant, bytes: usize) -> bool {
        if bytes == 0 {
            return false;
        }
        self.last_read = now;
        self.has_received = true;
        if self.closing_since.is_some() {
            self.lingered_bytes += bytes;
        }
        self.lingered_bytes > MAX_LINGER_BYTES
    }

    /// Returns the wire that carries the connection's bytes; `None` until the event loop has begun to connect to the
    /// endpoint.
    pub fn wire(&self) -> Option<WireId> {
        self.wire
    }

    /// Returns the flow-control windows of the connection, for tests; `None` if its protocol has no windows.
    pub fn windows(&self) -> Option<Windows> {
        match &self.codec {
            Codec::Http2(http2) => Some(http2.windows()),
            Codec::Http1(_) | Codec::Opaque(_) => None,
        }
    }

    /// Records how much memory the wire uses, in bytes: the memory of its TLS, and the kernel's memory for its socket.
    pub fn set_wire_bytes(&mut self, tls_bytes: usize, kernel_bytes: usize) {
        (self.tls_bytes, self.kernel_bytes) = (tls_bytes, kernel_bytes);
    }

    /// Returns whether output waits because the socket accepts no bytes.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }

    /// Returns whether the peer has left its socket unread for longer than it may ([`Codec::unread_limit`]).
    pub(crate) fn is_unread_too_long(&self, now: Instant, relay: &RelayLimits) -> bool {
        let limit = self.codec.unread_limit(relay);
        self.blocked_since.zip(limit).is_some_and(|(since, limit)| now - since >= limit)
    }

    /// Returns whether the connection sends nothing after its current output.
    pub fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    /// Returns the next bytes to be written. More bytes may follow once these are written.
    pub fn output(&mut self) -> &[u8] {
        self.codec.output()
    }

    /// Records that bytes of the output were written.
    pub fn note_written(&mut self, bytes: usize) {
        self.blocked_since = None;
        self.stalled_since = None;
        self.codec.advance_output(bytes);
    }

    /// Records that the peer reads no more, because a write has failed or the socket has reported an error. The relay
    /// still reads the bytes that the peer has sent before, and then ends the connection. If the relay does not read a
    /// client's connection now (`paused`), it ends that connection at once.
    pub fn note_unwritable(&mut self) {
        self.is_unwritable = true;
    }

    /// Returns whether a write has failed, or the socket has reported an error.
    pub fn is_unwritable(&self) -> bool {
        self.is_unwritable
    }

    /// Returns whether the codec will take the input in `pending_input` as soon as the codec is not paused. Also
    /// returns `true` if there is no such input.
    pub(crate) fn takes_pending_input(&self) -> bool {
        self.pending_input.is_empty() || self.codec.takes_input()
    }

    /// Records that no more output can be written now, because there is no output or because the socket accepts no
    /// bytes.
    pub fn note_flushed(&mut self, now: Instant, is_blocked: bool) {
        if is_blocked {
            self.blocked_since.get_or_insert(now);
        } else {
            self.blocked_since = None;
        }
        if self.codec.queued_bytes() == 0 {
            self.stalled_since = None;
        } else {
            self.stalled_since.get_or_insert(now);
        }
    }

    /// Returns whether we send nothing more once the output is written.
    pub fn is_finished(&self) -> bool {
        self.codec.ends_output() && self.codec.pending_output() == 0
    }

    /// Returns whether the connection must be reset at once. The event loop must not close our side of the socket
    /// first: the peer would take this for the end of the content, and a later reset would not change that.
    pub fn is_aborted(&self) -> bool {
        self.codec.is_aborted()
    }

    /// Begins to close the connection: after the current output, we send nothing more, and wait for the peer to close.
    /// If the proxy closed the socket at once, a TCP reset could discard that output before the peer reads it.
    pub(crate) fn begin_closing(&mut self, now: Instant) {
        self.closing_since.get_or_insert(now);
    }

    /// Ends a pause: from now on, the relay reads the socket.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.paused = false;
        self.reading_since = now;
    }

    /// Returns since when the relay has waited for the rest of an incomplete frame or header block; `None` if nothing is
    /// incomplete, or if the relay does not read. The peer may have sent the rest during a pause, so a pause does not
    /// count.
    pub(crate) fn awaits_rest_since(&self) -> Option<Instant> {
        let began = self.codec.incomplete_since().filter(|_| !self.paused)?;
        Some(began.max(self.reading_since))
    }

    /// Returns whether an HTTP/2 client does not read its socket while much content waits for this client. The worker
    /// then does not read from the client either. Otherwise, the client could send more and more requests, and the
    /// proxy would have to hold their responses. The client's frames are not needed in the meantime: the output that
    /// waits for the socket needs no WINDOW_UPDATE from the client.
    pub(crate) fn is_deaf(&self, now: Instant) -> bool {
        self.blocked_since.is_some_and(|since| now - since >= DEAF_AFTER)
            && self.codec.has_windows()
            && self.codec.queued_bytes() > MAX_QUEUED_WHILE_DEAF_BYTES
    }
}
