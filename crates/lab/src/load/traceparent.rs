//! The header field `traceparent` (W3C Trace Context) of a call that begins a trace.

use http::{HeaderName, HeaderValue};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A new trace with a new span. The flags are 0, because the lab collects no spans.
pub(super) fn new_traceparent() -> HeaderValue {
    // The standard forbids ids of 0.
    let (trace, span) = (fastrand::u128(1..), fastrand::u64(1..));
    let text = format!("00-{trace:032x}-{span:016x}-00");
    HeaderValue::from_str(&text).expect("digits, letters and hyphens")
}

#[cfg(test)]
#[path = "traceparent_tests.rs"]
mod tests;
