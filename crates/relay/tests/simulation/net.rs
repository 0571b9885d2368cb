//! A simulated network: connections that deliver bytes after some time, in pieces of any size.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::parts::{Part, Parts};

/// Capacity of one direction of a connection: with this many bytes in transit or unread, the sender's socket accepts no
/// more bytes.
const CAPACITY_BYTES: usize = 96 << 10;

/// One direction of a connection.
#[derive(Debug, Default)]
struct Pipe {
    /// Pieces of bytes in transit, each with its arrival time.
    moving: VecDeque<(Instant, Vec<u8>)>,
    arrived: Vec<u8>,
    unread_bytes: usize,
    /// Time at which the end of the stream (FIN) arrives.
    end_at: Option<Instant>,
    /// Whether the reader has read the end of the stream.
    is_over: bool,
    /// Whether the reader has got an event for the end of the stream.
    is_end_told: bool,
}

impl Pipe {
    /// Appends to `arrived` the bytes in transit whose arrival time has come.
    fn arrive(&mut self, now: Instant) {
        while self.moving.front().is_some_and(|(time, _)| *time <= now) {
            self.arrived.extend(self.moving.pop_front().expect("it was there").1);
        }
    }
}

/// One of the two sockets of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The socket of the side that opened the connection.
    Near,
    Far,
}

/// The result of a read.
pub(crate) enum Read {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

/// A connection.
#[derive(Debug)]
struct Cable {
    pipes: [Pipe; 2],
    latency: Duration,
    /// Time after which nothing arrives any more: a side has reset the connection or closed its socket.
    cut_at: Option<Instant>,
    /// Whether the connection was reset. Both sides see the reset at once.
    is_reset: bool,
}

pub(crate) type CableId = usize;

/// All connections, open or closed.
pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) random: Rng,
    pub(crate) parts: Parts,
    cables: Vec<Cable>,
}

impl Net {
    pub(crate) fn new(now: Instant, random: Rng, parts: Parts) -> Self {
        Self { now, random, parts, cables: Vec::new() }
    }

    pub(crate) fn open(&mut self) -> CableId {
        let latency = Duration::from_micros(self.random.u64(20..3_000));
        self.cables.push(Cable { pipes: Default::default(), latency, cut_at: None, is_reset: false });
        self.cables.len() - 1
    }

    /// Writes as many bytes as the socket accepts, sometimes fewer. Returns the number of bytes written; `None` if the
    /// peer has closed its socket or the connection was reset.
    pub(crate) fn write(&mut self, id: CableId, from: End, bytes: &[u8]) -> Option<usize> {
        let now = self.now;
        let cable = &mut self.cables[id];
        if cable.cut_at.is_some_and(|at| at <= now) {
            return None;
        }
        let pipe = &mut cable.pipes[from as usize];
        let room = CAPACITY_BYTES.saturating_sub(pipe.unread_bytes);
        let mut length = bytes.len().min(room);
        if length > 1 && self.random.u8(..8) == 0 && self.parts.has(Part::Pieces) {
            length = self.random.usize(1..=length);
        }
        if length > 0 && cable.cut_at.is_none() && pipe.end_at.is_none() {
            let jitter = Duration::from_micros(self.random.u64(..200));
            // Later bytes never arrive before earlier bytes.
            let earliest = pipe.moving.back().map_or(now, |(at, _)| *at);
            let at = (now + cable.latency + jitter).max(earliest);
            pipe.moving.push_back((at, bytes[..length].to_vec()));
            pipe.unread_bytes += length;
        }
        Some(length)
    }

    /// Reads up to `most` of the bytes that have arrived.
    pub(crate) fn read(&mut self, id: CableId, at: End, most: usize) -> Read {
        let now = self.now;
        let cable = &mut self.cables[id];
        let from = if at == End::Near { End::Far } else { End::Near };
        let pipe = &mut cable.pipes[from as usize];
        pipe.arrive(now);
        let mut length = pipe.arrived.len().min(most);
        if length > 1 && self.random.u8(..6) == 0 && self.parts.has(Part::Pieces) {
            length = self.random.usize(1..=length);
        }
        if length > 0 {
            pipe.unread_bytes -= length;
            let rest = pipe.arrived.split_off(length);
            return Read::Bytes(std::mem::replace(&mut pipe.arrived, rest));
        }
        let has_ended = pipe.moving.is_empty() && pipe.end_at.is_some_and(|time| time <= now);
        let is_cut = cable.cut_at.is_some_and(|time| time <= now);
        if (has_ended || is_cut) && pipe.arrived.is_empty() && !pipe.is_over {
            pipe.is_over = true;
            return Read::End;
        }
        Read::Nothing
    }

    /// Makes the end of the stream readable again. A real socket returns the end of the stream at every further read.
    pub(crate) fn put_back_end(&mut self, id: CableId, at: End) {
        self.cables[id].pipes[1 - at as usize].is_over = false;
    }

    /// Returns whether bytes or the end of the stream have arrived since the last call of this function: an
    /// edge-triggered event.
    pub(crate) fn take_event(&mut self, id: CableId, at: End) -> bool {
        let now = self.now;
        let cable = &mut self.cables[id];
        let pipe = &mut cable.pipes[1 - at as usize];
        let before = pipe.arrived.len();
        pipe.arrive(now);
        let ends = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        let has_ended = ends(cable.cut_at) || (pipe.moving.is_empty() && ends(pipe.end_at));
        let is_news = has_ended && !std::mem::replace(&mut pipe.is_end_told, has_ended);
        pipe.arrived.len() > before || is_news
    }

    /// Returns whether bytes or the end of the stream can be read now.
    pub(crate) fn is_readable(&self, id: CableId, at: End) -> bool {
        let cable = &self.cables[id];
        let pipe = &cable.pipes[1 - at as usize];
        let has_bytes = !pipe.arrived.is_empty() || pipe.moving.front().is_some_and(|(time, _)| *time <= self.now);
        let ends = |time: Option<Instant>| time.is_some_and(|time| time <= self.now);
        has_bytes || (!pipe.is_over && (ends(cable.cut_at) || (pipe.moving.is_empty() && ends(pipe.end_at))))
    }

    /// Returns whether the socket accepts bytes again, or reports an error.
    pub(crate) fn is_writable(&self, id: CableId, from: End) -> bool {
        self.is_cut(id) || self.cables[id].pipes[from as usize].unread_bytes < CAPACITY_BYTES
    }

    /// Closes the sending side: the peer reads the end of the stream after the bytes in transit.
    pub(crate) fn close_write(&mut self, id: CableId, from: End) {
        let now = self.now;
        let cable = &mut self.cables[id];
        let latency = cable.latency;
        let pipe = &mut cable.pipes[from as usize];
        let last = pipe.moving.back().map_or(now, |(at, _)| *at);
        pipe.end_at.get_or_insert(last.max(now + latency));
    }

    /// Closes the socket: bytes in transit arrive, and bytes that the peer sends later are lost.
    pub(crate) fn close(&mut self, id: CableId, from: End) {
        self.close_write(id, from);
        let now = self.now;
        let cable = &mut self.cables[id];
        let last = cable.pipes.iter().filter_map(|pipe| pipe.moving.back()).map(|(at, _)| *at).max();
        let at = last.unwrap_or(now).max(now + cable.latency);
        cable.cut_at.get_or_insert(at);
    }

    /// Returns whether nothing arrives any more, because a side has reset the connection or closed its socket.
    pub(crate) fn is_cut(&self, id: CableId) -> bool {
        self.cables[id].cut_at.is_some_and(|at| at <= self.now)
    }

    /// Returns whether the connection was reset.
    pub(crate) fn is_reset(&self, id: CableId) -> bool {
        self.cables[id].is_reset
    }

    /// Resets a connection at once: bytes in transit are lost.
    pub(crate) fn reset(&mut self, id: CableId) {
        let now = self.now;
        let cable = &mut self.cables[id];
        cable.cut_at = Some(cable.cut_at.map_or(now, |at| at.min(now)));
        cable.is_reset = true;
        cable.pipes.iter_mut().for_each(|pipe| pipe.moving.clear());
    }

    /// Resets all connections.
    pub(crate) fn reset_all(&mut self) {
        (0..self.cables.len()).for_each(|id| self.reset(id));
    }

    /// Returns whether no bytes are in transit or unread in either direction.
    pub(crate) fn is_silent(&self, id: CableId) -> bool {
        let cable = &self.cables[id];
        cable.cut_at.is_none() && cable.pipes.iter().all(|pipe| pipe.unread_bytes == 0 && pipe.end_at.is_none())
    }

    /// Returns the earliest future time at which bytes, the end of a stream, a reset or the close of a socket arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        let times = self.cables.iter().flat_map(|cable| {
            let of_pipes = cable.pipes.iter().flat_map(|pipe| {
                let end = pipe.end_at.filter(|_| !pipe.is_over);
                pipe.moving.front().map(|(at, _)| *at).into_iter().chain(end)
            });
            of_pipes.chain(cable.cut_at)
        });
        times.filter(|at| *at > self.now).min()
    }
}
