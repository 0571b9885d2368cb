//! Taps: a tap shows calls to a user when they end (`leno tap`).
//!
//! A tap never slows calls: its rate and its buffer are bounded, and a call that does not fit is dropped and counted.
//! Without a tap, a call costs one comparison.

mod fields;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_model::balance::Method;
use leno_model::tap::{TapSelection, TapSide};
use leno_model::traffic::MethodLatencies;

use crate::access_log::{Format, Protocol, Queries, Record, format_line};
use crate::link::grpc;
use crate::metrics::{Class, Direction};

/// Maximum number of taps of one proxy.
pub const MAX_TAPS: usize = 4;

/// Maximum size of the lines that wait for the user, in bytes.
const MAX_WAITING_BYTES: usize = 256 << 10;

const SECOND: Duration = Duration::from_secs(1);

/// A tap, which all workers share with the control thread.
#[derive(Debug)]
pub struct Tap {
    selection: TapSelection,
    /// Lines that the control thread has not taken. Each is a JSON object.
    lines: Mutex<Vec<u8>>,
    /// Number of selected calls that were not shown, because of the tap's rate limit, a full buffer or a busy lock.
    dropped: AtomicU64,
    is_closed: AtomicBool,
}

impl Tap {
    pub fn new(selection: TapSelection) -> Arc<Self> {
        let (lines, dropped, is_closed) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { selection, lines, dropped, is_closed })
    }

    /// Takes the lines of the calls that have ended, and the number of selected calls that were not shown.
    pub fn take(&self) -> (Vec<u8>, u64) {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        (lines, self.dropped.swap(0, Ordering::Relaxed))
    }

    /// Ends the tap. Each worker removes it later from its list of open taps.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn offer(&self, line: &[u8]) {
        let mut lines = match self.lines.try_lock() {
            Ok(lines) => lines,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A worker never waits for the lock.
            Err(TryLockError::WouldBlock) => return self.drop_one(),
        };
        if lines.len() + line.len() > MAX_WAITING_BYTES {
            return self.drop_one();
        }
        lines.extend_from_slice(line);
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// The header fields of a call's response, while a tap shows headers.
#[derive(Debug, Default)]
pub(crate) struct TappedFields {
    pub(crate) response: FieldSection,
    pub(crate) trailers: FieldSection,
}

impl TappedFields {
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.response.capacity_bytes() + self.trailers.capacity_bytes()
    }
}

/// The taps of one worker.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    open: Vec<OpenTap>,
    /// Whether any of the taps shows headers.
    shows_fields: bool,
    /// The latencies of the calls of each method, while a tap compares calls with a percentile of their method.
    latencies: Option<Box<MethodLatencies>>,
    /// Buffers for [`Taps::show`].
    line: Vec<u8>,
    name: Vec<u8>,
}

#[derive(Debug)]
struct OpenTap {
    tap: Arc<Tap>,
    /// When the current second began, and how many calls were shown since.
    second: Instant,
    shown: u32,
}

impl Taps {
    /// Returns whether a user watches calls.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns whether a user watches the header fields of calls.
    #[inline]
    pub(crate) fn shows_fields(&self) -> bool {
        self.shows_fields
    }

    /// Begins a tap. Does nothing if [`MAX_TAPS`] taps are open.
    pub(crate) fn begin(&mut self, tap: Arc<Tap>, now: Instant) {
        self.forget_closed();
        if self.open.len() < MAX_TAPS {
            self.open.push(OpenTap { tap, second: now, shown: 0 });
        }
        self.update();
    }

    /// Forgets the taps that have ended.
    pub(crate) fn forget_closed(&mut self) {
        if self.open.iter().any(|open| open.tap.is_closed()) {
            self.open.retain(|open| !open.tap.is_closed());
            self.update();
        }
    }

    fn update(&mut self) {
        self.shows_fields = self.open.iter().any(|open| open.tap.selection.headers);
        if !self.open.iter().any(|open| open.tap.selection.slower_than_permille.is_some()) {
            self.latencies = None;
        } else if self.latencies.is_none() {
            self.latencies = Some(Box::default());
        }
        if self.open.is_empty() {
            (self.line, self.name) = (Vec::new(), Vec::new());
        }
    }

    /// Shows a call that has ended to the taps that select it.
    pub(crate) fn show(
        &mut self,
        (record, class): (&Record<'_>, Class),
        request: &FieldSection,
        response: Option<&TappedFields>,
        now: Instant,
        random: &mut fastrand::Rng,
    ) {
        let mut latencies = self.latencies.as_deref_mut();
        let method = latencies.is_some().then(|| method(&mut self.name, record, request)).flatten();
        for open in &mut self.open {
            let selection = &open.tap.selection;
            let percentile = |permille| latencies.as_mut()?.percentile(method?, permille, now);
            if !selects(selection, record, class, percentile)
                || (selection.one_in > 1 && random.u32(..selection.one_in) != 0)
            {
                continue;
            }
            if now.saturating_duration_since(open.second) >= SECOND {
                (open.second, open.shown) = (now, 0);
            }
            if open.shown >= selection.rate() {
                open.tap.drop_one();
                continue;
            }
            open.shown += 1;
            self.line.clear();
            format_line(&mut self.line, Format::Json, Queries::Drop, record);
            if selection.headers {
                // Remove the brace and the newline at the end of the line: they must follow the fields.
                self.line.truncate(self.line.len().saturating_sub(2));
                fields::push(&mut self.line, "request_headers", request);
                if let Some(TappedFields { response, trailers }) = response {
                    fields::push(&mut self.line, "response_headers", response);
                    fields::push(&mut self.line, "response_trailers", trailers);
                }
                self.line.extend(b"}\n");
            }
            open.tap.offer(&self.line);
        }
        // A cancelled call would have taken longer, and a denied call does not reach the method.
        if let (Some(latencies), Some(method)) = (latencies, method)
            && matches!(class, Class::Success | Class::Failure)
        {
            latencies.add(method, record.duration, now);
        }
    }
}

/// Returns the method of a call, as `leno stat methods` counts it. For a gRPC call, this is the path. For any other
/// HTTP call, it is the request method and the route. Calls in different directions, and outbound calls to different
/// authorities, have different methods. Returns `None` for opaque connections. `name` is a buffer.
fn method(name: &mut Vec<u8>, record: &Record<'_>, request: &FieldSection) -> Option<Method> {
    if record.protocol == Protocol::Opaque {
        return None;
    }
    name.clear();
    match record.direction {
        Direction::Inbound => name.push(b'<'),
        Direction::Outbound => {
            name.push(b'>');
            name.extend_from_slice(record.authority);
        }
    }
    name.push(b' ');
    if grpc::is_grpc(request) {
        name.extend_from_slice(record.path);
    } else {
        name.extend_from_slice(record.method);
        if let Some((route, _)) = record.route {
            name.push(b' ');
            name.extend_from_slice(route.namespace.as_bytes());
            name.push(b'/');
            name.extend_from_slice(route.name.as_bytes());
        }
    }
    Some(Method::of_path(name))
}

/// Returns whether a selection includes a call. `percentile` returns a percentile of the latency of the call's method.
fn selects(
    selection: &TapSelection,
    record: &Record<'_>,
    class: Class,
    percentile: impl FnOnce(u16) -> Option<Duration>,
) -> bool {
    let side = match record.direction {
        Direction::Inbound => TapSide::Inbound,
        Direction::Outbound => TapSide::Outbound,
    };
    let peer = match record.direction {
        Direction::Inbound => record.client_id,
        Direction::Outbound => record.server_id,
    };
    let path = record.path.split(|byte| b"?#".contains(byte)).next().unwrap_or_default();
    let peer = peer.map(|id| (&*id.workload.namespace, &*id.workload.service_account));
    selection.side.is_none_or(|of| of == side)
        && selection.has_method(path)
        && selection.has_route(record.route.map(|(route, _)| (&*route.namespace, &*route.name)))
        && selection.has_peer(peer)
        && selection.has_status(record.status, record.grpc_status)
        && (!selection.failed || class == Class::Failure)
        && selection.is_slow(record.duration, percentile)
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
