//! The parts of gRPC over HTTP/2 that the relay reads and writes (the gRPC protocol's "PROTOCOL-HTTP2" page).

use std::time::Duration;

use leno_http2::FieldSection;
use leno_http2::fields::Known;

/// A gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Status {
    Unknown = 2,
    DeadlineExceeded = 4,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// Returns whether a request is gRPC: `content-type: application/grpc`, `application/grpc+proto` and so on.
pub fn is_grpc(request: &FieldSection) -> bool {
    let Some(rest) = request.get(Known::ContentType).and_then(|value| value.strip_prefix(b"application/grpc")) else {
        return false;
    };
    matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Longest timeout that the relay uses. The relay cuts a longer timeout to this value, because no call lasts that long.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Reads `grpc-timeout`: one to eight digits and a unit. Returns `None` if the value is malformed.
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
    let timeout = match unit {
        b'H' => Duration::from_secs(n * 3_600),
        b'M' => Duration::from_secs(n * 60),
        b'S' => Duration::from_secs(n),
        b'm' => Duration::from_millis(n),
        b'u' => Duration::from_micros(n),
        b'n' => Duration::from_nanos(n),
        _ => return None,
    };
    Some(timeout.min(MAX_TIMEOUT))
}

/// Writes a `grpc-timeout`, rounded down, in the finest unit for which eight digits are enough.
pub fn format_timeout(timeout: Duration) -> String {
    const MOST: u128 = 99_999_999;
    for (unit, value) in [('n', timeout.as_nanos()), ('u', timeout.as_micros()), ('m', timeout.as_millis())] {
        if value <= MOST {
            return format!("{value}{unit}");
        }
    }
    format!("{}S", timeout.as_secs().min(MOST as u64))
}

/// Reads `grpc-status` of trailers, or of a trailers-only response.
pub fn status(trailers: &FieldSection) -> Option<u8> {
    match trailers.get(Known::GrpcStatus)? {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'6'] => Some(10 + digit - b'0'),
        _ => Some(Status::Unknown as u8),
    }
}

/// A server's instruction for retries of the call: the value of `grpc-retry-pushback-ms` (gRFC A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// Wait this long before the retry.
    Wait(Duration),
    /// Do not retry the call: the value is negative or is not a number.
    Stop,
}

impl Pushback {
    /// Returns how long to wait; `None` if the call must not be retried.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Self::Wait(duration) => Some(duration),
            Self::Stop => None,
        }
    }
}

/// Reads `grpc-retry-pushback-ms`. Returns `None` if the field is missing.
pub fn pushback(trailers: &FieldSection) -> Option<Pushback> {
    let text = std::str::from_utf8(trailers.get(Known::GrpcRetryPushbackMs)?).unwrap_or_default();
    Some(text.parse().map_or(Pushback::Stop, |ms| Pushback::Wait(Duration::from_millis(ms))))
}

/// Percent-encodes a `grpc-message`: encodes `%`, and all bytes that are not printable ASCII.
pub fn encode_message(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;
