//! A simulated client: makes calls over one connection, and checks what becomes of them.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};

use crate::content::{LONGEST_BYTES, is_part, part};
use crate::net::{CableId, End, Net, Read};

/// Longest time after a call's deadline at which it may still end: a way there and back, a turn of the timing wheel, and
/// content that is on its way.
const GRACE: Duration = Duration::from_millis(500);

/// A call as its client sees it.
#[derive(Debug)]
pub(crate) struct Call {
    id: u64,
    stream: StreamKey,
    /// Length of the response's content that the server is asked for.
    response_bytes: usize,
    received_bytes: usize,
    /// How long the call may take.
    timeout: Option<Duration>,
    /// When the request's fields had gone.
    sent_at: Option<Instant>,
    cancel_at: Option<Instant>,
}

impl Call {
    /// Returns when the call must be over.
    fn ends_by(&self) -> Option<Instant> {
        Some(self.sent_at? + self.timeout? + GRACE)
    }
}

/// How calls have ended.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Endings {
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) reset: u64,
    pub(crate) cancelled: u64,
    pub(crate) cut: u64,
}

impl Endings {
    pub(crate) fn all(self) -> u64 {
        self.answered + self.errors + self.reset + self.cancelled + self.cut
    }
}

impl AddAssign for Endings {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.reset += other.reset;
        self.cancelled += other.cancelled;
        self.cut += other.cut;
    }
}

pub(crate) struct Caller {
    cable: CableId,
    http2: Connection,
    fields: FieldSection,
    calls: BTreeMap<u64, Call>,
    /// Calls that are still to be made.
    left: u32,
    next_call_at: Instant,
    /// Does not read until then.
    deaf_until: Option<Instant>,
    /// Closes its connection at this time, whatever goes on.
    leave_at: Option<Instant>,
    pub(crate) begun: u64,
    pub(crate) endings: Endings,
    /// The calls whose response is complete, an error of the proxy or not.
    pub(crate) ended: Vec<u64>,
    pub(crate) is_gone: bool,
    held: Vec<u8>,
}

impl Caller {
    pub(crate) fn new(cable: CableId, net: &mut Net, calls: u32) -> Self {
        let limits = Limits {
            initial_window_bytes: if net.random.bool() { 65_535 } else { net.random.u32(1..20_000) },
            ..Limits::server()
        };
        // Some servers never answer, and not every call has a deadline.
        let patience = if net.random.u8(..6) == 0 { net.random.u64(1..400) } else { 30_000 };
        let leave_at = Some(net.now + Duration::from_millis(patience));
        Self {
            cable,
            http2: Connection::new(Role::Client, Arc::new(limits), net.now),
            fields: FieldSection::new(),
            calls: BTreeMap::new(),
            left: calls,
            next_call_at: net.now,
            deaf_until: None,
            leave_at,
            begun: 0,
            endings: Endings::default(),
            ended: Vec::new(),
            is_gone: false,
            held: Vec::new(),
        }
    }

    /// Does everything that is due. Returns an error if an invariant is broken.
    pub(crate) fn run(&mut self, net: &mut Net, next_id: &mut u64) -> Result<(), String> {
        if self.is_gone {
            return Ok(());
        }
        if self.leave_at.is_some_and(|at| at <= net.now) {
            self.leave(net);
            return Ok(());
        }
        self.begin_calls(net, next_id);
        self.cancel_calls(net);
        if self.deaf_until.is_none_or(|until| until <= net.now) {
            if self.deaf_until.take().is_some() {
                self.wake(net.now);
            }
            self.read(net)?;
        }
        if self.is_gone {
            return Ok(());
        }
        let is_late = |call: &&Call| call.ends_by().is_some_and(|at| net.now > at);
        if let Some(call) = self.calls.values().find(is_late).filter(|_| self.deaf_until.is_none()) {
            return Err(format!("call {} is not over after {:?}: {call:?}", call.id, call.timeout));
        }
        self.flush(net);
        if self.left == 0 && self.calls.is_empty() {
            self.leave(net);
        }
        Ok(())
    }

    /// Allows the proxy time again from `now` on: before that, this client or the whole machine was away.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.calls.values_mut().for_each(|call| call.sent_at = call.sent_at.map(|at| at.max(now)));
    }

    fn begin_calls(&mut self, net: &mut Net, next_id: &mut u64) {
        while self.left > 0 && self.next_call_at <= net.now {
            self.next_call_at += Duration::from_micros(net.random.u64(..4_000));
            self.left -= 1;
            let id = *next_id;
            let (length, response_bytes) = (size(net), size(net));
            let timeout = (net.random.u8(..3) == 0).then(|| Duration::from_millis(net.random.u64(1..300)));
            let mut fields = FieldSection::new();
            for (name, value) in [
                (":method", "POST".to_owned()),
                (":scheme", "http".to_owned()),
                (":path", format!("/sim.Echo/{}", id % 3)),
                (":authority", "echo".to_owned()),
                ("content-type", "application/grpc".to_owned()),
                ("te", "trailers".to_owned()),
                ("x-request-id", id.to_string()),
                ("x-request-bytes", length.to_string()),
                ("x-response-bytes", response_bytes.to_string()),
            ] {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            if let Some(timeout) = timeout {
                fields.push(b"grpc-timeout", format!("{}m", timeout.as_millis()).as_bytes());
            }
            let Ok(stream) = self.http2.open(net.now, id as u32, &fields, length == 0) else {
                // The proxy has said that it takes no more, or not so many at once.
                continue;
            };
            *next_id += 1;
            self.begun += 1;
            let mut sent = 0;
            while sent < length {
                let piece = if net.random.u8(..4) == 0 { net.random.usize(1..40) } else { 9_000 }.min(length - sent);
                self.http2.send_data(stream, part(id, sent, piece), sent + piece == length);
                sent += piece;
            }
            let cancel_at =
                (net.random.u8(..8) == 0).then(|| net.now + Duration::from_micros(net.random.u64(..20_000)));
            self.calls
                .insert(id, Call { id, stream, response_bytes, received_bytes: 0, timeout, sent_at: None, cancel_at });
            if net.random.u8(..40) == 0 {
                self.deaf_until = Some(net.now + Duration::from_millis(net.random.u64(1..2_000)));
            }
        }
    }

    fn cancel_calls(&mut self, net: &Net) {
        let due = self.calls.values().filter(|call| call.cancel_at.is_some_and(|at| at <= net.now));
        for (id, stream) in due.map(|call| (call.id, call.stream)).collect::<Vec<_>>() {
            self.http2.reset(stream, ErrorCode::CANCEL);
            self.calls.remove(&id);
            self.endings.cancelled += 1;
        }
    }

    fn read(&mut self, net: &mut Net) -> Result<(), String> {
        loop {
            match net.read(self.cable, End::Near, 16 << 10) {
                Read::Bytes(bytes) => {
                    self.held.extend(bytes);
                    let held = std::mem::take(&mut self.held);
                    let mut input = &held[..];
                    let mut fields = std::mem::take(&mut self.fields);
                    while let Some(event) = self
                        .http2
                        .receive(net.now, &mut input, &mut fields)
                        .map_err(|error| format!("the proxy broke the protocol: {error}"))?
                    {
                        self.on_event(&event, &fields)?;
                    }
                    self.fields = fields;
                    self.held = input.to_vec();
                }
                Read::End => {
                    self.leave(net);
                    return Ok(());
                }
                Read::Nothing => return Ok(()),
            }
        }
    }

    fn on_event(&mut self, event: &Event<'_>, fields: &FieldSection) -> Result<(), String> {
        match *event {
            Event::Headers { stream, section, end_stream, .. } => {
                let Some(id) = self.call_of(stream) else { return Ok(()) };
                if end_stream {
                    let is_proxys = fields.iter().any(|line| line.name == b"leno-proxy-error");
                    let call = self.calls.remove(&id).expect("it was found");
                    self.ended.push(id);
                    if is_proxys {
                        self.endings.errors += 1;
                    } else if section == Section::Trailers {
                        if call.received_bytes != call.response_bytes {
                            let (found, wanted) = (call.received_bytes, call.response_bytes);
                            return Err(format!("call {id} ends with {found} bytes of {wanted}"));
                        }
                        self.endings.answered += 1;
                    } else {
                        self.endings.errors += 1;
                    }
                }
            }
            Event::Data { stream, bytes, .. } => {
                self.http2.release(stream, bytes.len());
                let Some(id) = self.call_of(stream) else { return Ok(()) };
                let call = self.calls.get_mut(&id).expect("it was found");
                if !is_part(!id, call.received_bytes, bytes) {
                    return Err(format!("call {id}: wrong content at {}", call.received_bytes));
                }
                call.received_bytes += bytes.len();
            }
            Event::Reset { stream, .. } => {
                if let Some(id) = self.call_of(stream) {
                    self.calls.remove(&id);
                    self.endings.reset += 1;
                }
            }
            Event::GoAway { last_stream, .. } => {
                for (stream, _) in self.http2.streams_above(last_stream) {
                    self.http2.abandon(stream);
                    if let Some(id) = self.call_of(stream) {
                        self.calls.remove(&id);
                        self.endings.reset += 1;
                    }
                }
                self.left = 0;
            }
            Event::Settings => {}
        }
        Ok(())
    }

    fn call_of(&self, stream: StreamKey) -> Option<u64> {
        self.calls.values().find(|call| call.stream == stream).map(|call| call.id)
    }

    fn flush(&mut self, net: &mut Net) {
        loop {
            let output = self.http2.output();
            if output.is_empty() {
                break;
            }
            match net.write(self.cable, End::Near, output) {
                Some(0) | None => break,
                Some(written) => self.http2.advance_output(written),
            }
        }
        while self.http2.next_drained().is_some() {}
        if self.http2.pending_output() == 0 {
            self.calls.values_mut().for_each(|call| {
                call.sent_at.get_or_insert(net.now);
            });
        }
    }

    fn leave(&mut self, net: &mut Net) {
        self.endings.cut += self.calls.len() as u64;
        self.calls.clear();
        net.close(self.cable, End::Near);
        self.is_gone = true;
    }

    /// Returns when something is due.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        if self.is_gone {
            return None;
        }
        let begins = (self.left > 0).then_some(self.next_call_at);
        let cancels = self.calls.values().filter_map(|call| call.cancel_at).min();
        let ends = self.calls.values().filter_map(Call::ends_by).min().filter(|_| self.deaf_until.is_none());
        let times = [begins, cancels, ends, self.deaf_until, self.leave_at];
        times.into_iter().flatten().map(|at| at.max(net.now + Duration::from_micros(1))).min()
    }
}

/// Returns the length of some content: often nothing, rarely much.
fn size(net: &mut Net) -> usize {
    match net.random.u8(..10) {
        0..4 => 0,
        4..8 => net.random.usize(1..200),
        8 => net.random.usize(1..20_000),
        _ => net.random.usize(1..LONGEST_BYTES),
    }
}
