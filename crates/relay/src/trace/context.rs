//! The context of a trace in the fields of a request, in four formats: W3C `traceparent`, B3 in one field (`b3`), B3 in
//! several fields (`x-b3-*`), and OpenCensus in `grpc-trace-bin`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use leno_http2::FieldSection;
use leno_http2::fields::Known;

use super::{SpanId, TraceId};

/// The flag bits of `traceparent` that the proxy passes on: the call is sampled, and its trace id is random (W3C Trace
/// Context level 2, section 3.2.2.5).
const SAMPLED: u8 = 0x01;
const RANDOM: u8 = 0x02;

/// Bytes of `grpc-trace-bin`: the version, and the field number that precedes the value of each field.
const BINARY_VERSION: u8 = 0;
const BINARY_TRACE_ID: u8 = 0;
const BINARY_SPAN_ID: u8 = 1;
const BINARY_OPTIONS: u8 = 2;
/// Length of `grpc-trace-bin` in bytes, decoded.
const BINARY_BYTES: usize = 29;
/// Longest value of `grpc-trace-bin` that the proxy decodes, in characters.
const BINARY_ENCODED_MAX: usize = 40;

/// Base64 as gRPC uses it for `-bin` fields: reads values with and without padding, and writes values without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The position of a call in a trace, according to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceContext {
    /// The trace and the caller's span; `None` if the caller only decides whether the call is sampled.
    pub caller: Option<(TraceId, SpanId)>,
    /// Whether the caller samples the call; `None` if the caller leaves the decision to the proxy.
    pub sampled: Option<bool>,
    pub(super) formats: Formats,
    /// The flags of `traceparent` that the proxy passes on.
    flags: u8,
    /// Whether the trace id in the B3 fields has only 64 bits.
    is_short: bool,
    /// Whether B3's debug flag is set: the call is then sampled, independent of the sampling rate.
    is_debug: bool,
}

/// The formats in which a request carries its context. All of them carry the same trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Formats {
    traceparent: bool,
    b3: bool,
    b3_multiple: bool,
    binary: bool,
}

impl TraceContext {
    /// Returns whether a request has a field of one of the formats.
    #[inline]
    pub(super) fn may_be_in(request: &FieldSection) -> bool {
        request.contains(Known::Traceparent)
            || request.contains(Known::B3)
            || request.contains(Known::XB3TraceId)
            || request.contains(Known::XB3Sampled)
            || request.contains(Known::XB3Flags)
            || request.contains(Known::GrpcTraceBin)
    }

    /// Reads the context of a request. If formats disagree, the first of these applies: `traceparent`, `b3`, `x-b3-*`,
    /// `grpc-trace-bin`. Malformed fields are ignored.
    pub fn of(request: &FieldSection) -> Option<Self> {
        if !Self::may_be_in(request) {
            return None;
        }
        [of_traceparent, of_b3, of_b3_multiple, of_binary].into_iter().filter_map(|read| read(request)).reduce(
            |mut first, next| {
                if first.caller.map(|caller| caller.0) == next.caller.map(|caller| caller.0) {
                    first.formats.b3 |= next.formats.b3;
                    first.formats.b3_multiple |= next.formats.b3_multiple;
                    first.formats.binary |= next.formats.binary;
                    first.is_short |= next.is_short;
                    first.is_debug |= next.is_debug;
                }
                first
            },
        )
    }

    /// Returns the context of a call whose request has none.
    pub(super) fn root() -> Self {
        Self { formats: Formats { traceparent: true, ..Default::default() }, ..Default::default() }
    }

    /// Returns whether the request's `tracestate` belongs to this context. `tracestate` has no meaning without a valid
    /// `traceparent` (W3C Trace Context section 3.3).
    pub(crate) fn has_state(&self) -> bool {
        self.formats.traceparent && self.caller.is_some()
    }

    /// Writes the fields for the next hop, in the formats in which the request carries its context. `parent` is the
    /// parent of `span`; only the fields `x-b3-*` contain it. Removes a `tracestate` that belongs to no context.
    pub fn write(
        &self,
        request: &mut FieldSection,
        (trace, span, parent): (TraceId, SpanId, Option<SpanId>),
        is_sampled: bool,
    ) {
        let Formats { traceparent, b3, b3_multiple, binary } = self.formats;
        let mut text = String::with_capacity(64);
        if traceparent {
            let flags = self.flags & RANDOM | if is_sampled { SAMPLED } else { 0 };
            let _ = write!(text, "00-{trace}-{span}-{flags:02x}");
            request.set(Known::Traceparent, text.as_bytes());
        }
        if !self.has_state() {
            request.remove(Known::Tracestate);
        }
        let b3_trace = || if self.is_short { format!("{:016x}", trace.0.get() as u64) } else { trace.to_string() };
        if b3 {
            let state = if self.is_debug { 'd' } else { char::from(b'0' + u8::from(is_sampled)) };
            request.set(Known::B3, format!("{}-{span}-{state}", b3_trace()).as_bytes());
        }
        if b3_multiple {
            request.set(Known::XB3TraceId, b3_trace().as_bytes());
            request.set(Known::XB3SpanId, span.to_string().as_bytes());
            match parent {
                Some(parent) => request.set(Known::XB3ParentSpanId, parent.to_string().as_bytes()),
                None => request.remove(Known::XB3ParentSpanId),
            }
            // The debug flag implies that the call is sampled.
            if !self.is_debug {
                request.set(Known::XB3Sampled, if is_sampled { b"1" } else { b"0" });
            }
        }
        if binary {
            let mut bytes = [0; BINARY_BYTES];
            let parts: [&[u8]; 6] = [
                &[BINARY_VERSION, BINARY_TRACE_ID],
                &trace.0.get().to_be_bytes(),
                &[BINARY_SPAN_ID],
                &span.0.get().to_be_bytes(),
                &[BINARY_OPTIONS],
                &[u8::from(is_sampled)],
            ];
            for (byte, value) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
                *byte = *value;
            }
            request.set(Known::GrpcTraceBin, BASE64.encode(bytes).as_bytes());
        }
    }
}

/// Reads `traceparent` (W3C Trace Context section 3.2.2).
fn of_traceparent(request: &FieldSection) -> Option<TraceContext> {
    let value = request.get(Known::Traceparent)?;
    let mut parts = value.splitn(5, |byte| *byte == b'-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (version, flags) = (hex(version, 2)? as u8, hex(flags, 2)? as u8);
    // A later version may append further parts, after the parts of version 0.
    if version == u8::MAX || (version == 0 && parts.next().is_some()) || value.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    Some(TraceContext {
        caller: Some((TraceId::of(hex(trace, 32)?)?, SpanId::of(hex(span, 16)?)?)),
        sampled: Some(flags & SAMPLED != 0),
        formats: Formats { traceparent: true, ..Default::default() },
        flags: flags & RANDOM,
        ..Default::default()
    })
}

/// Reads B3 in one field: `{trace}-{span}-{state}-{parent}` or only `{state}`.
fn of_b3(request: &FieldSection) -> Option<TraceContext> {
    let mut parts = request.get(Known::B3)?.split(|byte| *byte == b'-');
    let (first, span, state) = (parts.next()?, parts.next(), parts.next());
    let formats = Formats { b3: true, ..Default::default() };
    let context = |caller, state: Option<&[u8]>, is_short| {
        let (sampled, is_debug) = match state {
            None => (None, false),
            Some(b"0") => (Some(false), false),
            Some(b"1") => (Some(true), false),
            Some(b"d") => (Some(true), true),
            Some(_) => return None,
        };
        Some(TraceContext { caller, sampled, formats, is_short, is_debug, ..Default::default() })
    };
    match span {
        None => context(None, Some(first), false),
        Some(span) => {
            let (trace, is_short) = b3_trace_id(first)?;
            context(Some((trace, SpanId::of(hex(span, 16)?)?)), state, is_short)
        }
    }
}

/// Reads B3 in several fields.
fn of_b3_multiple(request: &FieldSection) -> Option<TraceContext> {
    let is_debug = request.get(Known::XB3Flags) == Some(b"1");
    let sampled = match request.get(Known::XB3Sampled) {
        _ if is_debug => Some(true),
        Some(b"1" | b"true") => Some(true),
        Some(b"0" | b"false") => Some(false),
        None | Some(_) => None,
    };
    let ids = request.get(Known::XB3TraceId).zip(request.get(Known::XB3SpanId));
    let (caller, is_short) = match ids {
        Some((trace, span)) => {
            let (trace, is_short) = b3_trace_id(trace)?;
            (Some((trace, SpanId::of(hex(span, 16)?)?)), is_short)
        }
        None => (None, false),
    };
    let formats = Formats { b3_multiple: true, ..Default::default() };
    (caller.is_some() || sampled.is_some()).then_some(TraceContext {
        caller,
        sampled,
        formats,
        is_short,
        is_debug,
        ..Default::default()
    })
}

/// Reads the trace id of B3, and whether it has only 64 bits.
fn b3_trace_id(digits: &[u8]) -> Option<(TraceId, bool)> {
    let is_short = digits.len() == 16;
    let id = hex(digits, if is_short { 16 } else { 32 })?;
    Some((TraceId::of(id)?, is_short))
}

/// Reads OpenCensus' binary format.
fn of_binary(request: &FieldSection) -> Option<TraceContext> {
    let value = request.get(Known::GrpcTraceBin).filter(|value| value.len() <= BINARY_ENCODED_MAX)?;
    let bytes = BASE64.decode(value).ok()?;
    let rest = bytes.strip_prefix(&[BINARY_VERSION, BINARY_TRACE_ID])?;
    let (trace, rest) = rest.split_first_chunk::<16>()?;
    let (span, rest) = rest.strip_prefix(&[BINARY_SPAN_ID])?.split_first_chunk::<8>()?;
    let options = rest.strip_prefix(&[BINARY_OPTIONS])?.first()?;
    Some(TraceContext {
        caller: Some((TraceId::of(u128::from_be_bytes(*trace))?, SpanId::of(u64::from_be_bytes(*span).into())?)),
        sampled: Some(options & SAMPLED != 0),
        formats: Formats { binary: true, ..Default::default() },
        ..Default::default()
    })
}

/// Reads a number of exactly `length` hexadecimal digits, at most 32.
fn hex(digits: &[u8], length: usize) -> Option<u128> {
    if digits.len() != length {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
