//! A socket and its HTTP/2 connection: bytes go in and out here, for clients and endpoints alike.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use leno_http2::Connection;
use mio::Token;
use mio::net::TcpStream;

use crate::metrics::TcpMetrics;

/// Bytes that a closing connection may still send us before it is cut.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Whose connection a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A client opened it.
    Client,
    /// We opened it, to an endpoint.
    Endpoint,
}

/// Names a link within its worker. Indexes are used again after a link has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkId {
    pub(super) side: Side,
    pub(super) index: usize,
}

/// The poll tokens below this are the worker's own.
const FIRST_LINK: usize = 2;

impl LinkId {
    pub(super) fn client(index: usize) -> Self {
        Self { side: Side::Client, index }
    }

    pub(super) fn endpoint(index: usize) -> Self {
        Self { side: Side::Endpoint, index }
    }

    /// The token under which the socket is polled.
    pub(super) fn token(self) -> Token {
        Token(FIRST_LINK + 2 * self.index + usize::from(self.side == Side::Endpoint))
    }

    /// The link of a token; `None` for the worker's own tokens.
    pub(super) fn of(token: Token) -> Option<Self> {
        let n = token.0.checked_sub(FIRST_LINK)?;
        let side = if n % 2 == 0 { Side::Client } else { Side::Endpoint };
        Some(Self { side, index: n / 2 })
    }
}

/// One side of the relay.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: TcpStream,
    pub(super) http2: Connection,
    /// It stands in the worker's list of links to flush.
    pub(super) dirty: bool,
    /// It stands in the worker's list of links to read on.
    pub(super) unfinished: bool,
    /// The peer has closed its side, or takes nothing more: reading goes on to the end, of which no event will tell.
    pub(super) end_follows: bool,
    /// The socket takes no bytes until it says so.
    pub(super) blocked_since: Option<Instant>,
    pub(super) opened: Instant,
    pub(super) last_read: Instant,
    /// DATA waits for the peer's windows since then without moving.
    pub(super) stalled_since: Option<Instant>,
    /// We have said our last word; what still comes is thrown away.
    pub(super) closing_since: Option<Instant>,
    lingered_bytes: usize,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// So many bytes, and nothing more for now.
    Last(usize),
    /// So many bytes, and there may be more.
    More(usize),
    /// Nothing for now.
    Empty,
    /// The peer sends nothing more.
    End,
}

impl Link {
    pub(super) fn new(socket: TcpStream, http2: Connection, now: Instant) -> Self {
        Self {
            socket,
            http2,
            dirty: false,
            unfinished: false,
            end_follows: false,
            blocked_since: None,
            opened: now,
            last_read: now,
            stalled_since: None,
            closing_since: None,
            lingered_bytes: 0,
        }
    }

    /// Reads once. A short read means that the socket is empty, as epoll is edge-triggered.
    pub(super) fn fill(&mut self, now: Instant, buffer: &mut [u8], metrics: &TcpMetrics) -> io::Result<Fill> {
        loop {
            return match self.socket.read(buffer) {
                Ok(0) => Ok(Fill::End),
                Ok(n) => {
                    self.last_read = now;
                    metrics.read_bytes_total.add(n as u64);
                    if self.closing_since.is_some() {
                        self.lingered_bytes += n;
                        if self.lingered_bytes > MAX_LINGER_BYTES {
                            return Ok(Fill::End);
                        }
                    }
                    Ok(if n == buffer.len() || self.end_follows { Fill::More(n) } else { Fill::Last(n) })
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    Ok(if self.end_follows { Fill::End } else { Fill::Empty })
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Writes until nothing is left or the socket is full.
    pub(super) fn flush(&mut self, now: Instant, metrics: &TcpMetrics) -> io::Result<()> {
        loop {
            let output = self.http2.output();
            if output.is_empty() {
                self.blocked_since = None;
                break;
            }
            match self.socket.write(output) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    metrics.write_bytes_total.add(n as u64);
                    self.blocked_since = None;
                    self.stalled_since = None;
                    self.http2.advance_output(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.http2.queued_bytes() == 0 {
            self.stalled_since = None;
        } else {
            self.stalled_since.get_or_insert(now);
        }
        Ok(())
    }

    /// Says the last words and waits for the peer to close, so that they are read and not lost in a TCP reset.
    pub(super) fn begin_closing(&mut self, now: Instant, last_words: &[u8], metrics: &TcpMetrics) {
        if self.closing_since.is_some() {
            return;
        }
        self.closing_since = Some(now);
        if last_words.is_empty() {
            let _ = self.flush(now, metrics);
        } else {
            // A peer that does not read its last words does without.
            let _ = self.socket.write(last_words);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
