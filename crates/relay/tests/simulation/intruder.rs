//! A hostile client: makes some calls, then breaks the protocol, floods the proxy, or falls silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::frame::{PREFACE, flag};
use leno_http2::{Connection, FieldSection, Limits, Role};

use crate::attack::{Position, attack, request_head, truncated};
use crate::content::LONGEST_BYTES;
use crate::net::{CableId, End, Net, Read};
use crate::parts::Part;
use crate::text_attack;

/// Longest time until a relay closes the connection of a client that does not complete its handshake or its frame. It
/// is the sum of `handshake_timeout_ms` or `frame_timeout_ms`, the wait for the client to close, and the waits for two
/// sweeps.
const ENDS_WITHIN: Duration = Duration::from_secs(14);

/// The behaviour of a hostile client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The intruder obeys HTTP/2 before its attacks and between them.
    Attacks,
    /// It never reads.
    Deaf,
    /// The intruder attacks with its first bytes after the preface.
    Blunt,
    /// It attacks in HTTP/1.
    Text,
    /// The intruder sends nothing, or only a part of the preface, or the preface without SETTINGS.
    Silent,
    /// The intruder falls silent in the middle of a frame or of a header block.
    Halting,
}

pub(crate) struct Intruder {
    /// The inbound proxy to which the intruder connects; `None` for the clients' proxy.
    pub(crate) to: Option<SocketAddr>,
    cable: Option<CableId>,
    way: Way,
    http2: Connection,
    fields: FieldSection,
    /// Output, with the attacks between the frames of the engine.
    output: Vec<u8>,
    next_stream: u32,
    acts_at: Instant,
    leave_at: Instant,
    /// Time by which the relay must have closed the connection.
    ends_by: Option<Instant>,
    pub(crate) is_gone: bool,
}

impl Intruder {
    pub(crate) fn new(net: &mut Net, to: Option<SocketAddr>) -> Self {
        let way = match net.random.u8(..20) {
            0..9 => Way::Attacks,
            9..12 if net.parts.has(Part::Http1) => Way::Text,
            9..15 => Way::Deaf,
            15..17 => Way::Blunt,
            // Only the clients' proxy must close a silent connection. A server's proxy keeps it: the server's port is
            // declared to speak HTTP, and an HTTP/1 client may be silent.
            17 if to.is_none() => Way::Silent,
            _ => Way::Halting,
        };
        let limits = Limits { initial_window_bytes: net.random.u32(..70_000), ..Limits::server() };
        Self {
            to,
            cable: None,
            way,
            http2: Connection::new(Role::Client, Arc::new(limits), net.now),
            fields: FieldSection::new(),
            output: Vec::new(),
            next_stream: 1,
            acts_at: net.now + Duration::from_micros(net.random.u64(..100_000)),
            leave_at: net.now + Duration::from_millis(net.random.u64(1..2_000)),
            ends_by: None,
            is_gone: false,
        }
    }

    /// Does everything that is due; `connect` opens a connection to the proxy, if the proxy listens. Returns an error
    /// if an invariant is broken.
    pub(crate) fn run(
        &mut self,
        net: &mut Net,
        connect: impl FnOnce(&mut Net) -> Option<CableId>,
    ) -> Result<(), String> {
        if self.is_gone {
            return Ok(());
        }
        let Some(cable) = self.cable else {
            self.cable = connect(net);
            self.is_gone = self.cable.is_none();
            self.begin(net);
            return Ok(());
        };
        if self.ends_by.is_some_and(|at| at < net.now) {
            return Err("a relay keeps a client that does not complete what it has begun".to_owned());
        }
        if self.ends_by.is_none() && self.leave_at <= net.now {
            self.leave(net, cable);
            return Ok(());
        }
        if self.acts_at <= net.now && self.ends_by.is_none() && self.output.is_empty() {
            self.act(net);
        }
        if self.ends_by.is_some() && net.is_cut(cable) {
            self.leave(net, cable);
            return Ok(());
        }
        // A client that waits for the proxy to end the connection does not read: at the end of its input, it would
        // close its own side.
        if self.way != Way::Deaf && self.ends_by.is_none() {
            self.read(net, cable);
        }
        while !self.output.is_empty() {
            match net.write(cable, End::Near, &self.output) {
                Some(0) | None => break,
                Some(written) => drop(self.output.drain(..written)),
            }
        }
        Ok(())
    }

    fn begin(&mut self, net: &mut Net) {
        match self.way {
            Way::Attacks | Way::Deaf => self.take_output(),
            Way::Text => {}
            Way::Blunt => self.output.extend(PREFACE),
            Way::Halting => {
                self.take_output();
                self.output.extend(truncated(&mut net.random, &Position { role: Role::Client, open: &[], next: 1 }));
                self.ends_by = Some(net.now + ENDS_WITHIN);
            }
            Way::Silent => {
                let length = net.random.usize(..=PREFACE.len());
                self.output.extend(&PREFACE[..length]);
                self.ends_by = Some(net.now + ENDS_WITHIN);
            }
        }
    }

    /// Makes a call, or attacks.
    fn act(&mut self, net: &mut Net) {
        self.acts_at = net.now + Duration::from_micros(net.random.u64(..20_000));
        if self.way == Way::Text {
            return self.output.extend(text_attack::requests(&mut net.random));
        }
        self.take_output();
        let id = self.next_stream;
        if self.way != Way::Blunt && net.random.bool() {
            let response_bytes = net.random.usize(..LONGEST_BYTES).to_string();
            let more =
                [("x-hostile", "1"), ("content-type", "application/grpc"), ("x-response-bytes", &response_bytes)];
            // Half of the requests have no END_STREAM.
            let flags = flag::END_HEADERS | if net.random.bool() { flag::END_STREAM } else { 0 };
            self.output.extend(request_head(id, &more, flags));
            self.next_stream += 2;
            return;
        }
        let open: Vec<u32> = (1..id).step_by(2).collect();
        let at = Position { role: Role::Client, open: &open, next: id };
        self.output.extend(attack(&mut net.random, &at));
        self.next_stream += 2 * net.random.u32(..2);
    }

    fn take_output(&mut self) {
        self.output.extend(self.http2.output());
        let length = self.http2.output().len();
        self.http2.advance_output(length);
    }

    fn read(&mut self, net: &mut Net, cable: CableId) {
        loop {
            match net.read(cable, End::Near, 16 << 10) {
                Read::Bytes(bytes) => {
                    // The engine reads the bytes only to send acknowledgements. It does not know the intruder's
                    // streams.
                    let mut input = &bytes[..];
                    while let Ok(Some(_)) = self.http2.receive(net.now, &mut input, &mut self.fields) {}
                }
                Read::End => return self.leave(net, cable),
                Read::Nothing => return,
            }
        }
    }

    /// Restarts the proxy's time limit at `now`, because the machine was suspended until then.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.ends_by = self.ends_by.map(|_| now + ENDS_WITHIN);
    }

    fn leave(&mut self, net: &mut Net, cable: CableId) {
        net.close(cable, End::Near);
        self.is_gone = true;
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        if self.is_gone {
            return None;
        }
        // The intruder acts again only after the proxy's socket has accepted all its bytes.
        let acts_at = if self.output.is_empty() { self.acts_at } else { self.leave_at };
        let due = self.ends_by.or(Some(self.leave_at.min(acts_at)));
        due.map(|at| at.max(net.now + Duration::from_micros(1)))
    }
}
