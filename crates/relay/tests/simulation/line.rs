//! A client's connection: sends the client's calls, and checks their results.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leno_http2::{ErrorCode, Event, FieldSection, OpenError, Section, StreamKey, Windows};

use crate::content::{is_part, part};
use crate::engine::Engine;
use crate::net::{CableId, End, Net, Read};
use crate::settings::Changes;

/// Longest time from a call's deadline until its end: a round trip, a turn of the timing wheel, and content in transit.
const GRACE: Duration = Duration::from_millis(500);

/// Longest time of a call whose server answers: `max_wait_ms` in each of two relays, and some time for everything else.
const HANGS: Duration = Duration::from_secs(25);

/// Recorded reason if a call is lost because its connection ended before the response.
pub(crate) const ENDED: &str = "the connection ended";
/// Recorded reason if a call is lost because its connection ended in the middle of the response.
pub(crate) const CUT_SHORT: &str = "the connection ended in the middle of the response";
/// Recorded reason if a call is lost because a server answered that it is unavailable.
pub(crate) const UNAVAILABLE: &str = "a server is unavailable";
/// Recorded reason if a call is lost because its response differs from the requested response.
pub(crate) const STRANGE: &str = "a strange answer";

/// A request, which may be sent several times if no server has processed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The call's id; each attempt at the call has an id of its own.
    pub(crate) id: u64,
    pub(crate) request_bytes: usize,
    /// Length of the content that the client requests from the server.
    pub(crate) response_bytes: usize,
    /// Timeout of the call.
    pub(crate) timeout: Option<Duration>,
    /// The form of an HTTP/1 request; `None` for a gRPC request.
    pub(crate) http1: Option<Http1>,
}

/// A request of HTTP/1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http1 {
    pub(crate) method: &'static str,
    /// Whether the request's header section contains the length of the content.
    pub(crate) has_length: bool,
}

impl Http1 {
    /// Returns whether a server may receive the request twice.
    pub(crate) fn is_idempotent(self) -> bool {
        self.method != "POST"
    }
}

/// An attempt at a call, as its client sees it.
#[derive(Debug)]
struct Call {
    request: Request,
    attempt: u64,
    stream: StreamKey,
    received_bytes: usize,
    /// Whether the response comes from a server.
    is_answer: bool,
    /// The proxy's error.
    error: Option<String>,
    begun_at: Instant,
    /// Time at which the client had sent all of the request's fields.
    sent_at: Option<Instant>,
    cancel_at: Option<Instant>,
}

impl Call {
    /// Returns the reason to record if the call is lost because its connection ends.
    fn why_ended(&self) -> &'static str {
        if self.is_answer { CUT_SHORT } else { ENDED }
    }

    fn lost(&self, why: &str) -> Lost {
        Lost { request: self.request, attempt: self.attempt, why: why.to_owned() }
    }

    /// Returns the time by which the call must have ended, if the proxy may leave the request unread for `unread_for`.
    /// `None` if the call has no deadline, or its request has not been sent.
    fn ends_by(&self, unread_for: Duration) -> Option<Instant> {
        Some(self.sent_at? + unread_for + self.request.timeout? + GRACE)
    }
}

/// Numbers of a client's attempts, counted by the way in which each attempt ended.
#[derive(Debug, Default, Clone)]
pub(crate) struct Endings {
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) reset: u64,
    pub(crate) cancelled: u64,
    pub(crate) cut: u64,
    /// Number of attempts that no server has processed: the client may send their requests again.
    pub(crate) unprocessed: u64,
}

impl Endings {
    pub(crate) fn all(&self) -> u64 {
        self.answered + self.errors + self.reset + self.cancelled + self.cut + self.unprocessed
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.reset += other.reset;
        self.cancelled += other.cancelled;
        self.cut += other.cut;
        self.unprocessed += other.unprocessed;
    }
}

/// A call that got no answer although its client waited for an answer.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) request: Request,
    /// The last attempt at the call.
    pub(crate) attempt: u64,
    pub(crate) why: String,
}

/// The results of a client's calls.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) endings: Endings,
    /// The attempts whose response is complete, from a server or from the proxy.
    pub(crate) ended: Vec<u64>,
    /// The attempts that got no response, although their requests had been sent before the client gave up the attempts.
    pub(crate) sent: Vec<u64>,
    /// The calls that were answered, and whose whole request the client has sent.
    pub(crate) sent_whole: Vec<u64>,
    /// The calls that got no answer although their client waited for an answer.
    pub(crate) lost: Vec<Lost>,
    /// The calls that had been open for at least [`HANGS`] when their client left.
    pub(crate) unanswered: Vec<Request>,
    /// Whether the client left although it had more calls to make.
    pub(crate) has_unmade_calls: bool,
    /// The calls that no server has processed, so that the client may make them again.
    pub(crate) unprocessed: Vec<Request>,
    /// Whether a hostile server may answer, so that a wrong response is no error.
    pub(crate) may_be_strange: bool,
}

/// The ways in which a client breaks a connection off in the middle of its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Break {
    /// The client closes its sending side, and still reads. It gets only the responses that the proxy has received
    /// completely.
    HalfClose,
    Reset,
}

pub(crate) struct Line {
    /// The client writes nothing before this time.
    speaks_at: Instant,
    /// Longest time for which the proxy does not read the connection.
    unread_for: Duration,
    cable: CableId,
    engine: Engine,
    fields: FieldSection,
    /// The calls on the connection, by the ids of their attempts.
    calls: BTreeMap<u64, Call>,
    held: Vec<u8>,
    /// Changes of SETTINGS, to be written before the next output of the engine.
    changed: Vec<u8>,
    changes: Changes,
    break_at: Option<(Instant, Break)>,
    is_half_closed: bool,
    /// The attempts that got no response although their requests had been sent.
    sent: Vec<u64>,
    /// The streams and the ids of the calls that were answered. The client may still be sending the requests of these
    /// calls.
    answered: Vec<(StreamKey, u64)>,
    /// Whether the proxy accepts no more calls on this connection.
    pub(crate) is_leaving: bool,
    pub(crate) is_over: bool,
}

impl Line {
    /// Begins a connection on which the client sends nothing before `speaks_at`. The proxy may leave the connection
    /// unread for the time `unread_for`.
    pub(crate) fn new(
        cable: CableId,
        engine: Engine,
        changes: Changes,
        speaks_at: Instant,
        unread_for: Duration,
    ) -> Self {
        Self {
            speaks_at,
            unread_for,
            cable,
            engine,
            fields: FieldSection::new(),
            calls: BTreeMap::new(),
            held: Vec::new(),
            changed: Vec::new(),
            changes,
            break_at: None,
            is_half_closed: false,
            sent: Vec::new(),
            answered: Vec::new(),
            is_leaving: false,
            is_over: false,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Sends a request. Returns an error if the connection does not accept the request.
    pub(crate) fn send(&mut self, net: &mut Net, attempt: u64, request: Request) -> Result<(), OpenError> {
        let Request { id, request_bytes, .. } = request;
        let fields = fields_of(attempt, &request);
        let stream = self.engine.open(net.now, attempt as u32, &fields, request_bytes == 0)?;
        let mut sent = 0;
        while sent < request_bytes {
            let piece = if net.random.u8(..4) == 0 { net.random.usize(1..40) } else { 9_000 };
            let piece = piece.min(request_bytes - sent);
            self.engine.send_data(stream, part(id, sent, piece), sent + piece == request_bytes);
            sent += piece;
        }
        let call = Call {
            request,
            attempt,
            stream,
            received_bytes: 0,
            is_answer: false,
            error: None,
            begun_at: net.now,
            sent_at: None,
            cancel_at: None,
        };
        self.calls.insert(attempt, call);
        Ok(())
    }

    /// Cancels an attempt at this time, if it has not ended by then.
    pub(crate) fn cancel_at(&mut self, attempt: u64, at: Instant) {
        if let Some(call) = self.calls.get_mut(&attempt) {
            call.cancel_at = Some(at);
        }
    }

    /// Breaks the connection off at this time.
    pub(crate) fn break_at(&mut self, at: Instant, how: Break) {
        self.break_at.get_or_insert((at, how));
    }

    /// Breaks the connection off if that is due.
    pub(crate) fn break_due(&mut self, net: &mut Net, outcome: &mut Outcome) {
        match self.break_at {
            Some((at, Break::Reset)) if at <= net.now => {
                net.reset(self.cable);
                // Do not count the requests as sent: a reset may discard them before they arrive.
                self.sent.clear();
                self.answered.clear();
                self.calls.values_mut().for_each(|call| call.sent_at = None);
                self.close(net, outcome);
            }
            // Close only when all output was written. Otherwise, the proxy would miss the end of a request.
            Some((at, Break::HalfClose)) if at <= net.now && self.engine.pending_output() == 0 => {
                net.close_write(self.cable, End::Near);
                (self.break_at, self.is_half_closed, self.is_leaving) = (None, true, true);
            }
            _ => {}
        }
    }

    pub(crate) fn cancel_due(&mut self, net: &Net, outcome: &mut Outcome) {
        let due = self.calls.values().filter(|call| call.cancel_at.is_some_and(|at| at <= net.now));
        for (attempt, stream) in due.map(|call| (call.attempt, call.stream)).collect::<Vec<_>>() {
            self.engine.reset(stream, ErrorCode::CANCEL);
            let call = self.calls.remove(&attempt);
            self.sent.extend(call.and_then(|call| call.sent_at).map(|_| attempt));
            outcome.endings.cancelled += 1;
        }
    }

    /// Restarts the time limits of all calls at `now`: until then, the client did not read, or the machine was
    /// suspended.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.calls.values_mut().for_each(|call| call.sent_at = call.sent_at.map(|at| at.max(now)));
    }

    /// Returns an error if a call has not ended within [`GRACE`] after its deadline.
    pub(crate) fn check_deadlines(&self, net: &Net) -> Result<(), String> {
        let is_late = |call: &&Call| call.ends_by(self.unread_for).is_some_and(|at| net.now > at);
        match self.calls.values().find(is_late) {
            Some(call) => Err(format!("a call is not over after its deadline: {call:?}")),
            None => Ok(()),
        }
    }

    pub(crate) fn read(&mut self, net: &mut Net, outcome: &mut Outcome) -> Result<(), String> {
        while !self.is_over {
            match net.read(self.cable, End::Near, 16 << 10) {
                Read::Bytes(bytes) => {
                    self.held.extend(bytes);
                    let held = std::mem::take(&mut self.held);
                    let mut input = &held[..];
                    let mut fields = std::mem::take(&mut self.fields);
                    while let Some(event) = self
                        .engine
                        .receive(net.now, &mut input, &mut fields)
                        .map_err(|error| format!("the proxy broke the protocol: {error}"))?
                    {
                        self.on_event(&event, &fields, outcome)?;
                    }
                    self.fields = fields;
                    self.held = input.to_vec();
                }
                Read::End => {
                    if let Some(event) = self.engine.input_ended(net.now) {
                        self.on_event(&event, &FieldSection::new(), outcome)?;
                    }
                    // A client that has closed its sending side has given up its calls: the proxy cancels the calls
                    // without a complete response, and ends the connection. These calls do not count as lost.
                    if !self.is_half_closed {
                        outcome.lost.extend(self.calls.values().map(|call| call.lost(call.why_ended())));
                    }
                    self.close(net, outcome);
                }
                Read::Nothing => break,
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event<'_>, fields: &FieldSection, outcome: &mut Outcome) -> Result<(), String> {
        match *event {
            Event::Headers { stream, section, end_stream, .. } => {
                let Some(call) = self.call_of(stream) else { return Ok(()) };
                call.is_answer |= section == Section::Response && fields.iter().any(|line| line.name == b"x-answer");
                if let Some(line) = fields.iter().find(|line| line.name == b"leno-proxy-error") {
                    call.error = Some(String::from_utf8_lossy(line.value).into_owned());
                }
                if fields.iter().any(|line| line.name == b"x-unavailable") {
                    call.error = Some(UNAVAILABLE.to_owned());
                }
                if end_stream {
                    self.end(stream, outcome)?;
                }
            }
            Event::Data { stream, bytes, end_stream, .. } => {
                self.engine.release(stream, bytes.len());
                let Some(call) = self.call_of(stream) else { return Ok(()) };
                if call.error.is_none() && !is_part(!call.request.id, call.received_bytes, bytes) {
                    if outcome.may_be_strange {
                        call.error = Some(STRANGE.to_owned());
                        return if end_stream { self.end(stream, outcome) } else { Ok(()) };
                    }
                    return Err(format!("call {}: wrong content at {}", call.request.id, call.received_bytes));
                }
                call.received_bytes += bytes.len();
                if end_stream {
                    self.end(stream, outcome)?;
                }
            }
            Event::Reset { stream, code, .. } => self.on_reset(stream, code, outcome),
            Event::GoAway { last_stream, .. } => {
                self.is_leaving = true;
                for stream in self.engine.abandon_above(last_stream) {
                    self.on_reset(stream, ErrorCode::REFUSED_STREAM, outcome);
                }
            }
            Event::Settings => {}
        }
        Ok(())
    }

    /// Handles a complete response.
    fn end(&mut self, stream: StreamKey, outcome: &mut Outcome) -> Result<(), String> {
        let Some(call) = self.take(stream) else { return Ok(()) };
        let id = call.request.id;
        outcome.ended.push(call.attempt);
        if let Some(why) = &call.error {
            outcome.endings.errors += 1;
            outcome.lost.push(call.lost(why));
        } else if !call.is_answer || call.received_bytes != call.request.response_bytes {
            if !outcome.may_be_strange {
                return Err(format!("call {id} ends with the wrong response: {call:?}"));
            }
            outcome.endings.errors += 1;
            outcome.lost.push(call.lost(STRANGE));
        } else {
            outcome.endings.answered += 1;
            self.answered.push((stream, id));
        }
        Ok(())
    }

    fn on_reset(&mut self, stream: StreamKey, code: ErrorCode, outcome: &mut Outcome) {
        self.answered.retain(|(answered, _)| *answered != stream);
        let Some(call) = self.take(stream) else { return };
        if self.engine.is_http1() {
            outcome.endings.cut += 1;
            if !self.is_half_closed {
                outcome.lost.push(call.lost(call.why_ended()));
            }
        } else if code == ErrorCode::REFUSED_STREAM {
            outcome.endings.unprocessed += 1;
            outcome.unprocessed.push(call.request);
        } else {
            outcome.endings.reset += 1;
            outcome.lost.push(call.lost(&format!("it was reset: {code}")));
        }
    }

    fn call_of(&mut self, stream: StreamKey) -> Option<&mut Call> {
        self.calls.values_mut().find(|call| call.stream == stream)
    }

    fn take(&mut self, stream: StreamKey) -> Option<Call> {
        let attempt = self.call_of(stream)?.attempt;
        self.calls.remove(&attempt)
    }

    pub(crate) fn flush(&mut self, net: &mut Net, outcome: &mut Outcome) {
        if self.is_half_closed || self.speaks_at > net.now {
            return;
        }
        self.change_settings(net);
        loop {
            let is_change = !self.changed.is_empty();
            let output = if is_change { &self.changed[..] } else { self.engine.output() };
            if output.is_empty() {
                break;
            }
            match net.write(self.cable, End::Near, output) {
                Some(0) | None => break,
                Some(written) if is_change => drop(self.changed.drain(..written)),
                Some(written) => self.engine.advance_output(written),
            }
        }
        if self.engine.pending_output() == 0 && self.changed.is_empty() {
            self.calls.values_mut().for_each(|call| {
                call.sent_at.get_or_insert(net.now);
            });
        }
        if self.engine.is_http1() && self.engine.is_over() && !self.is_over {
            self.close(net, outcome);
        }
    }

    /// Returns the connection and its flow-control windows, if no bytes are in transit on the connection.
    pub(crate) fn windows(&self, net: &Net) -> Option<(CableId, Windows)> {
        let is_silent = self.held.is_empty() && self.engine.pending_output() == 0 && net.is_silent(self.cable);
        self.engine.windows().filter(|_| is_silent).map(|windows| (self.cable, windows))
    }

    /// Announces other settings if that is due, between two frames of the engine.
    fn change_settings(&mut self, net: &mut Net) {
        let is_between_frames = self.changed.is_empty() && self.engine.pending_output() == 0;
        if is_between_frames && !self.engine.is_http1() {
            self.changed.extend(self.changes.due(net).into_iter().flatten());
        }
    }

    /// Records the open calls on the connection that began at least [`HANGS`] ago.
    pub(crate) fn note_unanswered(&self, net: &Net, outcome: &mut Outcome) {
        let hanging = self.calls.values().filter(|call| call.begun_at + HANGS <= net.now);
        outcome.unanswered.extend(hanging.map(|call| call.request));
    }

    /// Closes the connection, and counts its calls as cut.
    pub(crate) fn close(&mut self, net: &mut Net, outcome: &mut Outcome) {
        outcome.endings.cut += self.calls.len() as u64;
        let calls = std::mem::take(&mut self.calls).into_values();
        self.sent.extend(calls.filter(|call| call.sent_at.is_some()).map(|call| call.attempt));
        outcome.sent.append(&mut self.sent);
        if self.engine.pending_output() == 0 {
            let open = self.engine.open_streams();
            let whole = self.answered.iter().filter(|(stream, _)| !open.contains(&stream.id));
            outcome.sent_whole.extend(whole.map(|(_, id)| *id));
        }
        net.close(self.cable, End::Near);
        self.is_over = true;
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, is_deaf: bool, net: &Net) -> Option<Instant> {
        let cancels = self.calls.values().filter_map(|call| call.cancel_at).min();
        let ends = self.calls.values().filter_map(|call| call.ends_by(self.unread_for)).min().filter(|_| !is_deaf);
        let breaks = self.break_at.map(|(at, _)| at).filter(|at| *at > net.now);
        let speaks = Some(self.speaks_at).filter(|at| *at > net.now);
        cancels.into_iter().chain(ends).chain(breaks).chain(self.changes.next(net)).chain(speaks).min()
    }
}

/// Returns the fields of a request.
fn fields_of(attempt: u64, request: &Request) -> FieldSection {
    let Request { id, request_bytes, response_bytes, timeout, http1 } = *request;
    let mut fields = FieldSection::new();
    let mut push = |name: &str, value: String| fields.push(name.as_bytes(), value.as_bytes());
    push(":method", http1.map_or("POST", |http1| http1.method).to_owned());
    push(":scheme", "http".to_owned());
    push(":path", format!("/sim.Echo/M{}", id % 3));
    push(":authority", "echo".to_owned());
    push("x-request-id", attempt.to_string());
    push("x-call", id.to_string());
    push("x-request-bytes", request_bytes.to_string());
    push("x-response-bytes", response_bytes.to_string());
    match http1 {
        Some(http1) if http1.has_length => push("content-length", request_bytes.to_string()),
        Some(_) => {}
        None => {
            push("content-type", "application/grpc".to_owned());
            push("te", "trailers".to_owned());
        }
    }
    if let Some(timeout) = timeout {
        push("grpc-timeout", format!("{}m", timeout.as_millis()));
    }
    fields
}
