//! A simulated server: answers calls, refuses some, resets some, stalls, goes away, dies and comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};

use crate::attack::{Position, attack};
use crate::content::{LONGEST_BYTES, is_part, part};
use crate::log::Seen;
use crate::net::{CableId, End, Net, Read};
use crate::parts::Part;
use crate::shell::Listen;

/// The path of the requests of intruders.
const STRANGE: &[u8] = b"/sim.Hostile/x";

/// What a server does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Answer(Instant),
    /// Resets the stream before the response or in the middle of it.
    Break(Instant),
    Silent,
}

#[derive(Debug)]
struct Call {
    id: u64,
    /// An intruder has made it.
    is_strange: bool,
    stream: StreamKey,
    request_bytes: usize,
    response_bytes: usize,
    received_bytes: usize,
    is_complete: bool,
    plan: Plan,
}

struct Served {
    cable: CableId,
    http2: Connection,
    is_hostile: bool,
    /// By the token of their stream.
    calls: BTreeMap<u32, Call>,
    last_token: u32,
    held: Vec<u8>,
    /// Output, with the attacks between the frames of the engine.
    output: Vec<u8>,
    is_over: bool,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    served: Vec<Served>,
    limits: Arc<Limits>,
    /// Accepts no connections until then.
    down_until: Option<Instant>,
    /// How likely faults are, out of 255.
    faults: u8,
    /// It ends connections, but answers all calls that it has not refused.
    is_restless: bool,
    /// It breaks the protocol.
    pub(crate) is_hostile: bool,
    fields: FieldSection,
}

impl Server {
    pub(crate) fn new(number: u8, net: &mut Net) -> Self {
        let has_small_windows = !net.random.bool() && net.parts.has(Part::SmallWindows);
        let takes_few_calls = !net.random.bool() && net.parts.has(Part::SmallLimits);
        let has_faults = !net.random.bool() && net.parts.has(Part::ServerFaults);
        let limits = Limits {
            max_concurrent_streams: if takes_few_calls { net.random.u32(1..20) } else { 1_000 },
            initial_window_bytes: if has_small_windows { net.random.u32(1..20_000) } else { 65_535 },
            max_stream_errors: u32::MAX,
            ..Limits::server()
        };
        Self {
            address: SocketAddr::from(([10, 0, 0, number], 8080)),
            served: Vec::new(),
            limits: Arc::new(limits),
            down_until: None,
            faults: if has_faults { net.random.u8(1..40) } else { 0 },
            is_restless: !net.random.bool() && net.parts.has(Part::RestlessServers),
            is_hostile: false,
            fields: FieldSection::new(),
        }
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.faults > 0
    }

    /// Does everything that is due. Returns an error if an invariant is broken.
    pub(crate) fn run(&mut self, net: &mut Net, seen: &mut Seen) -> Result<(), String> {
        for index in 0..self.served.len() {
            self.read(index, net, seen)?;
            if self.faults > 0 && self.served[index].calls.len() > 1 && net.random.u16(..) < u16::from(self.faults) {
                self.fault(index, net);
            } else if self.is_restless && self.served[index].calls.len() > 1 && net.random.u8(..50) == 0 {
                self.served[index].end_gently(net);
            }
            self.answer(index, net);
            self.flush(index, net);
        }
        self.served.retain(|served| !served.is_over);
        Ok(())
    }

    fn fault(&mut self, index: usize, net: &mut Net) {
        match net.random.u8(..4) {
            0 | 1 => self.served[index].end_gently(net),
            2 => self.served[index].close(net),
            _ => {
                for served in &mut self.served {
                    served.close(net);
                }
                self.down_until = Some(net.now + Duration::from_millis(net.random.u64(1..500)));
            }
        }
    }

    fn read(&mut self, index: usize, net: &mut Net, seen: &mut Seen) -> Result<(), String> {
        let chances = (self.faults, if self.is_restless { self.faults.max(2) } else { self.faults });
        let served = &mut self.served[index];
        while !served.is_over {
            match net.read(served.cable, End::Far, 16 << 10) {
                Read::Bytes(bytes) => {
                    served.held.extend(bytes);
                    let held = std::mem::take(&mut served.held);
                    let mut input = &held[..];
                    loop {
                        match served.http2.receive(net.now, &mut input, &mut self.fields) {
                            Ok(Some(event)) => served.on_event(&event, &self.fields, net, chances, seen)?,
                            Ok(None) => break,
                            // It has confused the proxy.
                            Err(_) if self.is_hostile => break served.close(net),
                            Err(error) => {
                                return Err(format!("the proxy broke the protocol with {}: {error}", self.address));
                            }
                        }
                    }
                    served.held = input.to_vec();
                }
                Read::End => {
                    served.close(net);
                }
                Read::Nothing => break,
            }
        }
        Ok(())
    }

    fn answer(&mut self, index: usize, net: &Net) {
        let served = &mut self.served[index];
        let is_due = |call: &Call| match call.plan {
            Plan::Answer(at) => call.is_complete && at <= net.now,
            Plan::Break(at) => at <= net.now,
            Plan::Silent => false,
        };
        let due: Vec<_> = served.calls.iter().filter(|(_, call)| is_due(call)).map(|(token, _)| *token).collect();
        for token in due {
            let call = served.calls.remove(&token).expect("it was found");
            let stream = call.stream;
            if matches!(call.plan, Plan::Break(_)) && call.id.is_multiple_of(2) {
                served.http2.reset(stream, ErrorCode::INTERNAL_ERROR);
                continue;
            }
            let mut head = FieldSection::new();
            head.push(b":status", b"200");
            head.push(b"content-type", b"application/grpc");
            head.push(b"x-answer", b"1");
            served.http2.send_headers(stream, Section::Response, &head, false);
            if matches!(call.plan, Plan::Break(_)) {
                served.http2.send_data(stream, part(!call.id, 0, call.response_bytes / 2), false);
                served.http2.reset(stream, ErrorCode::INTERNAL_ERROR);
                continue;
            }
            served.http2.send_data(stream, part(!call.id, 0, call.response_bytes), false);
            let mut trailers = FieldSection::new();
            trailers.push(b"grpc-status", b"0");
            served.http2.send_headers(stream, Section::Trailers, &trailers, true);
        }
    }

    fn flush(&mut self, index: usize, net: &mut Net) {
        let served = &mut self.served[index];
        if self.is_hostile && served.output.is_empty() && net.random.u8(..12) == 0 {
            served.attack(net);
        }
        while !served.is_over {
            if served.output.is_empty() {
                served.output.extend(served.http2.output());
                served.http2.advance_output(served.output.len());
            }
            if served.output.is_empty() {
                break;
            }
            match net.write(served.cable, End::Far, &served.output) {
                Some(0) | None => break,
                Some(written) => drop(served.output.drain(..written)),
            }
        }
        while served.http2.next_drained().is_some() {}
        if served.http2.is_drained() && !served.http2.wants_write() && served.output.is_empty() && !served.is_over {
            served.close(net);
        }
    }

    /// Returns when something is due.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        let calls = self.served.iter().flat_map(|served| served.calls.values());
        let due = calls.filter_map(|call| match call.plan {
            Plan::Answer(at) => call.is_complete.then_some(at),
            Plan::Break(at) => Some(at),
            Plan::Silent => None,
        });
        due.map(|at| at.max(net.now + Duration::from_micros(1))).min()
    }
}

impl Listen for Server {
    fn accept(&mut self, address: SocketAddr, cable: CableId, net: &mut Net) -> bool {
        if self.address != address || self.down_until.is_some_and(|until| net.now < until) {
            return false;
        }
        let http2 = Connection::new(Role::Server, self.limits.clone(), net.now);
        self.served.push(Served {
            cable,
            http2,
            is_hostile: self.is_hostile,
            calls: BTreeMap::new(),
            last_token: 0,
            held: Vec::new(),
            output: Vec::new(),
            is_over: false,
        });
        true
    }
}

impl Served {
    fn attack(&mut self, net: &mut Net) {
        self.output.extend(self.http2.output());
        self.http2.advance_output(self.output.len());
        let open: Vec<u32> = self.http2.open_streams().iter().map(|(stream, _)| stream.id).collect();
        let next = open.iter().max().map_or(1, |last| last + 2);
        self.output.extend(attack(&mut net.random, &Position { role: Role::Server, open: &open, next }));
    }

    /// Takes no more calls.
    fn end_gently(&mut self, net: &mut Net) {
        if net.random.bool() { self.http2.shut_down() } else { self.http2.go_away(ErrorCode::NO_ERROR, "restarts") }
    }

    fn close(&mut self, net: &mut Net) {
        net.close(self.cable, End::Far);
        self.is_over = true;
    }

    fn on_event(
        &mut self,
        event: &Event<'_>,
        fields: &FieldSection,
        net: &mut Net,
        (faults, refusals): (u8, u8),
        seen: &mut Seen,
    ) -> Result<(), String> {
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
                if net.random.u8(..) < refusals {
                    self.http2.reset(stream, ErrorCode::REFUSED_STREAM);
                    return Ok(());
                }
                if !is_strange {
                    seen.attempts.insert(attempt);
                }
                // What a hostile server says of its calls, a relay may believe.
                if !is_strange && !self.is_hostile && !seen.calls.insert(id) {
                    return Err(format!("call {id} is sent again although a server may have processed it"));
                }
                let soon = net.now + Duration::from_micros(net.random.u64(..30_000));
                let plan = match net.random.u8(..) {
                    chance if chance < faults / 2 => Plan::Break(soon),
                    chance if chance < faults => Plan::Silent,
                    _ => Plan::Answer(soon),
                };
                let [request_bytes, response_bytes] = [b"x-request-bytes".as_slice(), b"x-response-bytes"]
                    .map(|name| number(name).unwrap_or_default().min(LONGEST_BYTES as u64) as usize);
                let call = Call {
                    id,
                    is_strange,
                    stream,
                    request_bytes,
                    response_bytes,
                    received_bytes: 0,
                    is_complete: end_stream,
                    plan,
                };
                self.last_token += 1;
                self.http2.set_token(stream, self.last_token);
                self.calls.insert(self.last_token, call);
            }
            Event::Headers { .. } | Event::Settings | Event::GoAway { .. } => {}
            Event::Data { stream, token, bytes, end_stream } => {
                self.http2.release(stream, bytes.len());
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
            }
            Event::Reset { token, .. } => {
                self.calls.remove(&token);
            }
        }
        Ok(())
    }
}
