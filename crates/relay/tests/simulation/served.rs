//! A connection of a simulated server: reads requests, checks them, and responds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey, Windows};

use crate::attack::{Position, attack};
use crate::content::{LONGEST_BYTES, is_part, part};
use crate::engine::Engine;
use crate::log::Seen;
use crate::net::{CableId, End, Net};
use crate::settings::Changes;
use crate::text_attack;

/// The path of the requests of intruders.
const STRANGE: &[u8] = b"/sim.Hostile/x";

/// The behaviour of a server towards its clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// Frequency of faults, in 256ths. For example, it is the probability that the server resets a call or never
    /// answers it. 0 for a server without faults.
    pub(crate) faults: u8,
    /// Whether the server ends connections, but answers all calls that it has not refused.
    pub(crate) is_restless: bool,
    /// Whether the server answers some calls before it has read the whole request.
    pub(crate) is_early: bool,
    /// Whether the server breaks the protocol.
    pub(crate) is_hostile: bool,
}

/// A server's reaction to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Answer(Instant),
    /// Answers at the given time, even if the request is incomplete, and then reads the rest of the request.
    AnswerEarly(Instant),
    /// The server has answered the call, and still reads the rest of its request.
    ReadOn,
    /// Answers that the service is unavailable, as soon as the request has begun.
    Fail(Instant),
    /// Resets the stream before the response or in the middle of it.
    Break(Instant),
    Silent,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    /// Whether an intruder has made the call.
    pub(crate) is_strange: bool,
    /// Whether the response has no content.
    pub(crate) is_head: bool,
    pub(crate) stream: StreamKey,
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    pub(crate) received_bytes: usize,
    pub(crate) is_complete: bool,
    pub(crate) plan: Plan,
}

/// A connection of a server.
pub(crate) struct Served {
    pub(crate) cable: CableId,
    /// The engine of the connection's protocol; `None` before the first bytes show the protocol.
    pub(crate) engine: Option<Engine>,
    pub(crate) limits: Arc<Limits>,
    /// The calls on the connection, by the tokens of their streams.
    pub(crate) calls: BTreeMap<u32, Call>,
    pub(crate) last_token: u32,
    pub(crate) attacks: u32,
    pub(crate) held: Vec<u8>,
    /// Bytes to send: the engine's frames, with attacks and changes of SETTINGS between them.
    pub(crate) output: Vec<u8>,
    pub(crate) changes: Changes,
    /// Whether the server has closed its sending side. It then handles no more requests.
    pub(crate) is_half_closed: bool,
    pub(crate) is_over: bool,
}

impl Served {
    pub(crate) fn attack(&mut self, net: &mut Net) {
        self.take_output();
        let Some(engine) = &self.engine else { return };
        if engine.is_http1() {
            return self.output.extend(text_attack::responses(&mut net.random));
        }
        let open = engine.open_streams();
        let next = open.iter().max().map_or(1, |last| last + 2);
        self.output.extend(attack(&mut net.random, &Position { role: Role::Server, open: &open, next }));
    }

    /// Accepts no more calls on the connection. An idle HTTP/1 connection that has carried calls closes at once.
    pub(crate) fn end_gently(&mut self, net: &mut Net) {
        let has_served = self.last_token > 0 && self.output.is_empty() && self.held.is_empty();
        match &mut self.engine {
            Some(engine @ Engine::Http1(..)) if has_served && engine.open_streams().is_empty() => self.close(net),
            Some(engine) if self.calls.len() > 1 || engine.is_http1() => {
                if net.random.bool() {
                    engine.shut_down();
                } else {
                    engine.go_away();
                }
            }
            _ => {}
        }
    }

    /// Returns the connection and its flow-control windows, if no bytes are in transit on the connection.
    pub(crate) fn windows(&self, net: &Net) -> Option<(CableId, Windows)> {
        let engine = self.engine.as_ref().filter(|engine| engine.pending_output() == 0)?;
        let is_silent = self.held.is_empty() && self.output.is_empty() && net.is_silent(self.cable);
        engine.windows().filter(|_| is_silent).map(|windows| (self.cable, windows))
    }

    /// Sends changed SETTINGS if a change is due.
    pub(crate) fn change_settings(&mut self, net: &mut Net) {
        // Wait for the client's preface. Only then does the engine send its own SETTINGS, which must be the first
        // frame.
        let is_established = matches!(&self.engine, Some(Engine::Http2(http2)) if http2.is_established());
        if !is_established || !self.output.is_empty() {
            return;
        }
        self.take_output();
        self.output.extend(self.changes.due(net).into_iter().flatten());
    }

    /// Closes the sending side and forgets the calls: the server can no longer answer them. The peer may still send.
    pub(crate) fn half_close(&mut self, net: &mut Net) {
        net.close_write(self.cable, End::Far);
        self.is_half_closed = true;
        self.calls.clear();
    }

    pub(crate) fn take_output(&mut self) {
        if let Some(engine) = self.engine.as_mut().filter(|_| self.output.is_empty()) {
            self.output.extend(engine.output());
            engine.advance_output(self.output.len());
        }
    }

    /// Handles the bytes that have arrived, as far as the engine accepts them.
    pub(crate) fn take_held(
        &mut self,
        net: &mut Net,
        habits: &Habits,
        fields: &mut FieldSection,
        seen: &mut Seen,
    ) -> Result<(), String> {
        if self.is_half_closed {
            self.held.clear();
            return Ok(());
        }
        if self.engine.is_none() && self.held.len() >= 3 {
            let is_http2 = self.held.starts_with(b"PRI");
            self.engine = Some(match is_http2 {
                true => Engine::http2(Role::Server, &self.limits, net.now),
                false => Engine::http1(Role::Server, net.now),
            });
        }
        let held = std::mem::take(&mut self.held);
        let mut input = &held[..];
        while let Some(engine) = &mut self.engine {
            match engine.receive(net.now, &mut input, fields) {
                Ok(Some(event)) => self.on_event(&event, fields, net, habits, seen)?,
                Ok(None) => break,
                // A hostile server's own frames may make the proxy send bytes that the server's engine rejects. This is
                // no fault of the proxy.
                Err(_) if habits.is_hostile => {
                    self.close(net);
                    break;
                }
                // Not a fault: an intruder may send as many fields as the relay accepts. The relay adds some fields, so
                // the request may exceed this server's limit.
                Err(error) if error.contains("(431)") => {
                    self.close(net);
                    break;
                }
                Err(error) => return Err(format!("the proxy broke the protocol: {error}")),
            }
        }
        self.held = input.to_vec();
        Ok(())
    }

    pub(crate) fn close(&mut self, net: &mut Net) {
        net.close(self.cable, End::Far);
        self.is_over = true;
    }

    fn on_event(
        &mut self,
        event: &Event<'_>,
        fields: &FieldSection,
        net: &mut Net,
        habits: &Habits,
        seen: &mut Seen,
    ) -> Result<(), String> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let is_http1 = engine.is_http1();
        match *event {
            Event::Headers { stream, section: Section::Request, end_stream, .. } => {
                let number = |name: &[u8]| {
                    let value = fields.iter().find(|line| line.name == name).map(|line| line.value.to_vec());
                    String::from_utf8(value?).ok()?.parse::<u64>().ok()
                };
                let call = number(b"x-call").zip(number(b"x-request-id"));
                let is_strange =
                    call.is_none() && fields.iter().any(|line| line.name == b":path" && line.value == STRANGE);
                let (id, attempt) = call.or(is_strange.then_some((0, 0))).ok_or("a request lost its fields")?;
                let faults = habits.faults;
                let refusals = if habits.is_restless { faults.max(2) } else { faults };
                if !is_http1 && net.random.u8(..) < refusals {
                    engine.reset(stream, ErrorCode::REFUSED_STREAM);
                    return Ok(());
                }
                if is_strange {
                    seen.strange += 1;
                } else {
                    seen.attempts.insert(attempt);
                }
                // Only count the attempts of calls that a relay must not repeat. A relay may repeat a call if a hostile
                // server claims that it has not processed the call.
                let method = fields.get(Known::Method).unwrap_or_default();
                let may_repeat = is_http1 && method != b"POST";
                if !is_strange && !habits.is_hostile && !may_repeat {
                    let is_marked = is_http1 || fields.contains(Known::GrpcPreviousRpcAttempts);
                    let name = if is_http1 { method } else { fields.get(Known::Path).unwrap_or_default() };
                    seen.note(id, attempt, name, is_marked)?;
                }
                let soon = net.now + Duration::from_micros(net.random.u64(..30_000));
                let plan = match net.random.u8(..) {
                    chance if chance < faults / 2 => Plan::Break(soon),
                    chance if chance < faults => Plan::Silent,
                    chance if chance < faults.saturating_mul(3) => Plan::Fail(soon),
                    _ if habits.is_early && net.random.u8(..4) == 0 => Plan::AnswerEarly(soon),
                    _ => Plan::Answer(soon),
                };
                let is_head = method == b"HEAD";
                if plan == Plan::Silent || (matches!(plan, Plan::Fail(_)) && fails_with_content(id, is_head)) {
                    seen.never_answered.insert(id);
                }
                let [request_bytes, response_bytes] = [b"x-request-bytes".as_slice(), b"x-response-bytes"]
                    .map(|name| number(name).unwrap_or_default().min(LONGEST_BYTES as u64) as usize);
                let call = Call {
                    id,
                    is_strange,
                    is_head,
                    stream,
                    request_bytes,
                    response_bytes,
                    received_bytes: 0,
                    is_complete: end_stream,
                    plan,
                };
                // A relay may end the connection of a hostile server before the request is complete. So do not expect
                // the rest of such a request.
                if !is_strange && !habits.is_hostile && !end_stream && matches!(plan, Plan::AnswerEarly(_)) {
                    seen.incomplete.insert(id);
                }
                self.last_token += 1;
                engine.set_token(stream, self.last_token);
                self.calls.insert(self.last_token, call);
            }
            Event::Headers { .. } | Event::Settings | Event::GoAway { .. } => {}
            Event::Data { stream, token, bytes, end_stream } => {
                engine.release(stream, bytes.len());
                let Some(call) = self.calls.get_mut(&token) else { return Ok(()) };
                if call.is_strange {
                    call.is_complete |= end_stream;
                    return Ok(());
                }
                if !is_part(call.id, call.received_bytes, bytes) {
                    return Err(format!("call {}: wrong content of the request at {}", call.id, call.received_bytes));
                }
                call.received_bytes += bytes.len();
                call.is_complete |= end_stream;
                if end_stream && call.received_bytes != call.request_bytes {
                    let (found, wanted) = (call.received_bytes, call.request_bytes);
                    return Err(format!("the request of call {} ends with {found} bytes of {wanted}", call.id));
                }
                if end_stream {
                    seen.incomplete.remove(&call.id);
                    if call.plan == Plan::ReadOn {
                        self.calls.remove(&token);
                    }
                }
            }
            Event::Reset { stream, token, code, by_peer } => {
                let call = self.calls.remove(&token);
                if !by_peer && !is_http1 && !habits.is_hostile {
                    return Err(format!("the proxy broke the protocol on {stream:?}, of {call:?}: {code}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the response of a failed call has content. The server never ends this content.
fn fails_with_content(id: u64, is_head: bool) -> bool {
    !is_head && (id / 2).is_multiple_of(2)
}

/// Sends the response to a call. If the plan is [`Plan::Break`], resets the stream before the response or in the middle
/// of it.
pub(crate) fn respond(engine: &mut Engine, call: &Call) {
    let (stream, is_http1) = (call.stream, engine.is_http1());
    if matches!(call.plan, Plan::Fail(_)) {
        let mut head = FieldSection::new();
        let has_content = fails_with_content(call.id, call.is_head);
        let fields: &[(&str, &str)] = match (is_http1, has_content) {
            (true, true) => &[(":status", "503"), ("content-length", "10")],
            (true, false) => &[(":status", "503"), ("content-length", "0")],
            (false, true) => &[(":status", "503"), ("content-type", "text/html")],
            (false, false) => &[(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "14")],
        };
        fields.iter().for_each(|(name, value)| head.push(name.as_bytes(), value.as_bytes()));
        head.push(b"x-unavailable", b"1");
        engine.send_headers(stream, Section::Response, &head, !has_content);
        if has_content {
            engine.send_data(stream, b"sorry", false);
        }
        return;
    }
    let is_broken = matches!(call.plan, Plan::Break(_));
    // Let the second-lowest bit of the id decide: the lowest bit is the same in most ids, because the ids of calls and
    // of attempts alternate.
    if is_broken && (call.id / 2).is_multiple_of(2) {
        return engine.reset(stream, ErrorCode::INTERNAL_ERROR);
    }
    let has_length = is_http1 && call.id.is_multiple_of(3);
    let mut head = FieldSection::new();
    head.push(b":status", b"200");
    head.push(b"x-answer", b"1");
    if !is_http1 {
        head.push(b"content-type", b"application/grpc");
    }
    if has_length {
        head.push(b"content-length", call.response_bytes.to_string().as_bytes());
    }
    engine.send_headers(stream, Section::Response, &head, call.is_head);
    if call.is_head {
        return;
    }
    if is_broken {
        engine.send_data(stream, part(!call.id, 0, call.response_bytes / 2), false);
        return engine.reset(stream, ErrorCode::INTERNAL_ERROR);
    }
    engine.send_data(stream, part(!call.id, 0, call.response_bytes), has_length);
    if !has_length {
        let mut trailers = FieldSection::new();
        trailers.push(b"grpc-status", b"0");
        engine.send_headers(stream, Section::Trailers, &trailers, true);
    }
}
