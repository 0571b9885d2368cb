//! A simulated client: makes calls. If the proxy ends a connection, the client makes its further calls over another
//! connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Limits, OpenError, Role, Windows};

use crate::content::LONGEST_BYTES;
use crate::engine::Engine;
use crate::line::{Break, Http1, Line, Outcome, Request};
use crate::net::{CableId, Net};
use crate::parts::Part;
use crate::settings::Changes;

/// Maximum number of connections of a client. An HTTP/1 connection carries one call at a time.
const LINES_MAX: usize = 4;

/// Time for which a client keeps its connections after its last call, unless the world ends earlier.
const LINGERS: Duration = Duration::from_secs(1);

pub(crate) struct Caller {
    /// Whether the client is *late*: it connects to the address of the Service or of a server, and may send nothing for
    /// a while. A client that is not late connects to the proxy's own address, and its requests name the Service.
    pub(crate) is_late: bool,
    /// The address to which a late client connects.
    pub(crate) to: Option<SocketAddr>,
    /// Longest time for which the proxy does not read a new connection, because it waits for an answer of its control
    /// plane.
    pub(crate) unread_for: Duration,
    lines: Vec<Line>,
    limits: Arc<Limits>,
    speaks_http1: bool,
    /// Number of calls that the client has not begun yet.
    left: u32,
    /// The next request. It waits while the connection accepts no more calls.
    next_request: Option<Request>,
    next_call_at: Instant,
    /// Time at which the client connects if it has no connection.
    connect_at: Instant,
    /// Time until which the client does not read.
    deaf_until: Option<Instant>,
    /// Whether the client has already been deaf (has not read for a while). A client is deaf at most once, because the
    /// relay closes the connection of a client that does not read for longer.
    pub(crate) was_deaf: bool,
    /// Time at which the client closes its connections, even during calls.
    leave_at: Instant,
    /// Whether the client leaves within 400 ms, most likely in the middle of its calls.
    is_hasty: bool,
    /// Time at which the client noticed that its last call had ended.
    done_at: Option<Instant>,
    pub(crate) begun: u64,
    pub(crate) outcome: Outcome,
    pub(crate) is_gone: bool,
}

impl Caller {
    pub(crate) fn new(net: &mut Net, calls: u32) -> Self {
        let has_small_windows = !net.random.bool() && net.parts.has(Part::SmallWindows);
        let limits = Limits {
            initial_window_bytes: if has_small_windows { net.random.u32(1..20_000) } else { 65_535 },
            // This limit is lower than the size of some servers' header sections, so that the proxy must handle
            // sections that it cannot forward.
            max_header_list_bytes: 16 << 10,
            ..Limits::client()
        };
        // Every client leaves at some time: some servers never answer, and not every call has a deadline.
        let is_hasty = net.random.u8(..6) == 0 && net.parts.has(Part::HastyClients);
        let patience = if is_hasty { net.random.u64(1..400) } else { 30_000 };
        let is_late = net.random.u8(..6) == 0 && net.parts.has(Part::LateClients);
        Self {
            is_late,
            to: None,
            unread_for: Duration::ZERO,
            lines: Vec::new(),
            limits: Arc::new(limits),
            speaks_http1: net.random.u8(..4) == 0 && net.parts.has(Part::Http1),
            left: if net.parts.has(Part::ManyCalls) { calls } else { calls.min(4) },
            next_request: None,
            next_call_at: net.now,
            connect_at: net.now,
            deaf_until: None,
            was_deaf: false,
            leave_at: net.now + Duration::from_millis(patience),
            is_hasty,
            done_at: None,
            begun: 0,
            outcome: Outcome::default(),
            is_gone: false,
        }
    }

    /// Does everything that is due; `connect` opens a connection to the proxy, if the proxy listens. Returns an error
    /// if an invariant is broken.
    pub(crate) fn run(
        &mut self,
        net: &mut Net,
        next_id: &mut u64,
        connect: impl FnMut(&mut Net) -> Option<CableId>,
    ) -> Result<(), String> {
        if self.is_gone {
            return Ok(());
        }
        if self.leave_at <= net.now {
            if !self.is_hasty {
                self.lines.iter().for_each(|line| line.note_unanswered(net, &mut self.outcome));
                self.outcome.has_unmade_calls = !self.has_no_more();
            }
            self.leave(net);
            return Ok(());
        }
        self.connect(net, connect);
        self.begin_calls(net, next_id);
        for line in &mut self.lines {
            line.cancel_due(net, &mut self.outcome);
            line.break_due(net, &mut self.outcome);
        }
        self.lines.retain(|line| !line.is_over);
        if self.deaf_until.is_none_or(|until| until <= net.now) {
            if self.deaf_until.take().is_some() {
                self.wake(net.now);
            }
            for line in &mut self.lines {
                line.read(net, &mut self.outcome)?;
                line.check_deadlines(net)?;
            }
        }
        for line in &mut self.lines {
            line.flush(net, &mut self.outcome);
            if line.is_leaving && line.is_idle() && !line.is_over {
                line.close(net, &mut self.outcome);
            }
        }
        self.lines.retain(|line| !line.is_over);
        if self.is_done() && *self.done_at.get_or_insert(net.now) + LINGERS <= net.now {
            self.leave(net);
        }
        Ok(())
    }

    /// Restarts the proxy's time limits at `now`: until now, this client did not read, or the whole machine was
    /// suspended.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.lines.iter_mut().for_each(|line| line.wake(now));
    }

    /// Lets the client leave later by the time `by`, because the machine is suspended for this time.
    pub(crate) fn suspend(&mut self, until: Instant, by: Duration) {
        self.leave_at += by;
        self.wake(until);
    }

    /// Returns whether the client knows that the proxy will end all its connections, or cannot know it yet.
    pub(crate) fn knows_of_drain(&self) -> bool {
        // An HTTP/1 client learns only from the response that its connection ends.
        let waits = |line: &Line| self.speaks_http1 && !line.is_idle();
        self.deaf_until.is_some() || self.lines.iter().all(|line| line.is_leaving || waits(line))
    }

    /// Returns whether the client has made all its calls, and all of them have ended. The connections may still be
    /// open.
    pub(crate) fn is_done(&self) -> bool {
        self.is_gone || (self.has_no_more() && self.lines.iter().all(Line::is_idle))
    }

    /// Returns the flow-control windows of the connections on which no bytes are in transit.
    pub(crate) fn windows(&self, net: &Net) -> Vec<(CableId, Windows)> {
        self.lines.iter().filter_map(|line| line.windows(net)).collect()
    }

    fn has_no_more(&self) -> bool {
        self.left == 0 && self.next_request.is_none() && self.outcome.unprocessed.is_empty()
    }

    /// Returns whether the next call needs no new connection: a connection is free, or the client has the maximum
    /// number of connections.
    fn has_line(&self) -> bool {
        self.lines.iter().any(|line| self.is_free(line)) || self.lines.len() >= LINES_MAX
    }

    fn is_free(&self, line: &Line) -> bool {
        !line.is_leaving && (!self.speaks_http1 || line.is_idle())
    }

    fn connect(&mut self, net: &mut Net, mut connect: impl FnMut(&mut Net) -> Option<CableId>) {
        if self.has_line() || self.has_no_more() || self.connect_at > net.now {
            return;
        }
        match connect(net) {
            Some(cable) => {
                let engine = match self.speaks_http1 {
                    true => Engine::http1(Role::Client, net.now),
                    false => Engine::http2(Role::Client, &self.limits, net.now),
                };
                let silence =
                    if self.is_late { Duration::from_micros(net.random.u64(..1_500_000)) } else { Duration::ZERO };
                let speaks_at = net.now + silence;
                let changes = Changes::new(&self.limits, net);
                self.lines.push(Line::new(cable, engine, changes, speaks_at, self.unread_for));
            }
            None => self.connect_at = net.now + Duration::from_millis(net.random.u64(1..50)),
        }
    }

    fn begin_calls(&mut self, net: &mut Net, next_id: &mut u64) {
        while self.next_call_at <= net.now {
            let Some(index) = self.lines.iter().position(|line| self.is_free(line)) else { return };
            let again = || self.outcome.unprocessed.pop();
            let Some(request) = self.next_request.take().or_else(again) else {
                if self.left == 0 {
                    return;
                }
                self.left -= 1;
                self.next_request = Some(self.new_request(net, *next_id));
                *next_id += 1;
                continue;
            };
            // The longer pause is long enough for all calls to end, so that the relay may forget their target.
            let longest_us = if net.random.u8(..30) == 0 && net.parts.has(Part::Pauses) { 400_000 } else { 4_000 };
            self.next_call_at = net.now + Duration::from_micros(net.random.u64(..longest_us));
            let attempt = *next_id;
            let line = &mut self.lines[index];
            match line.send(net, attempt, request) {
                Ok(()) => {}
                Err(OpenError::StreamLimit) => return self.next_request = Some(request),
                Err(OpenError::Closed) => {
                    line.is_leaving = true;
                    return self.next_request = Some(request);
                }
            }
            *next_id += 1;
            self.begun += 1;
            if net.random.u8(..8) == 0 && net.parts.has(Part::Cancels) {
                line.cancel_at(attempt, net.now + Duration::from_micros(net.random.u64(..20_000)));
            }
            for (part, how) in [(Part::HalfCloses, Break::HalfClose), (Part::Resets, Break::Reset)] {
                if net.random.u16(..1_000) == 0 && net.parts.has(part) {
                    line.break_at(net.now + Duration::from_micros(net.random.u64(..20_000)), how);
                }
            }
            if net.random.u8(..40) == 0
                && net.parts.has(Part::DeafClients)
                && !std::mem::replace(&mut self.was_deaf, true)
            {
                self.deaf_until = Some(net.now + Duration::from_millis(net.random.u64(1..2_000)));
            }
        }
    }

    fn new_request(&self, net: &mut Net, id: u64) -> Request {
        let [mut request_bytes, mut response_bytes] = [(); 2].map(|()| size(net));
        let timeout = (net.random.u8(..3) == 0).then(|| Duration::from_millis(net.random.u64(1..300)));
        let timeout = timeout.filter(|_| net.parts.has(Part::Deadlines) && !self.speaks_http1);
        let http1 = self.speaks_http1.then(|| Http1 {
            method: net.random.choice(["GET", "POST", "PUT", "HEAD", "DELETE"]).unwrap_or("GET"),
            has_length: net.random.bool(),
        });
        match http1.map(|http1| http1.method) {
            Some("GET" | "DELETE") => request_bytes = 0,
            Some("HEAD") => (request_bytes, response_bytes) = (0, 0),
            _ => {}
        }
        Request { id, request_bytes, response_bytes, timeout, http1 }
    }

    pub(crate) fn leave(&mut self, net: &mut Net) {
        self.lines.iter_mut().for_each(|line| line.close(net, &mut self.outcome));
        self.lines.clear();
        self.is_gone = true;
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        if self.is_gone {
            return None;
        }
        let begins_at = if self.has_line() { self.next_call_at } else { self.connect_at };
        let is_full = !self.lines.iter().any(|line| self.is_free(line)) && self.has_line();
        let begins = (!self.has_no_more() && !is_full).then_some(begins_at);
        let lines = self.lines.iter().filter_map(|line| line.next(self.deaf_until.is_some(), net));
        let due = lines.chain(begins).chain(self.deaf_until).chain([self.leave_at]);
        let due = due.chain(self.done_at.map(|at| at + LINGERS));
        due.map(|at| at.max(net.now + Duration::from_micros(1))).min()
    }
}

/// Returns a random length for content, in bytes: often 0, rarely large.
fn size(net: &mut Net) -> usize {
    let bytes = match net.random.u8(..10) {
        0..4 => 0,
        4..8 => net.random.usize(1..200),
        8 => net.random.usize(1..20_000),
        _ => net.random.usize(1..LONGEST_BYTES),
    };
    if net.parts.has(Part::LongContent) { bytes } else { bytes.min(10) }
}
