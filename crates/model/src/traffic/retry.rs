//! The retry policy: the failures after which the proxy sends a call again, although an endpoint may have processed it
//! (GEP-1731, gRFC A6).

use std::time::Duration;

use serde::Serialize;

use crate::settings::milliseconds;

/// Maximum number of retries of one call that a rule may allow.
pub const RETRIES_MAX: u8 = 10;
/// Maximum value that a rule may set for the pause before the first retry.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The pause before the first retry, unless the rule sets another pause.
pub const DEFAULT_BACKOFF: Duration = Duration::from_millis(25);
/// Upper limits of the pause before a retry, because a call holds memory during its pause. `LONGEST_PAUSE` is a
/// multiple of the pause before the first retry, and `PAUSE_MAX` is an absolute limit.
const LONGEST_PAUSE: u32 = 10;
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// The statuses after which a call is retried, and the maximum number of its retries. Lost connections, resets and
/// attempts that exceed their time limit are failures too, even if the lists of statuses are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retry {
    /// The HTTP statuses that count as failures, ascending; each is 400 to 599.
    pub http_codes: Box<[u16]>,
    /// The gRPC statuses that count as failures.
    pub grpc_codes: GrpcCodes,
    /// Maximum number of retries of one call: 1 to [`RETRIES_MAX`].
    pub attempts: u8,
    /// Shortest pause before the first retry. The pause doubles before each further retry, up to ten times the first
    /// pause and up to 20 s.
    #[serde(rename = "backoff_ms", serialize_with = "milliseconds")]
    pub backoff: Duration,
}

/// The gRPC statuses after which gRPC clients and Envoy retry a call, if their configuration says so (gRFC A44).
pub const KNOWN_TO_GRPC: [u8; 5] = [1, 4, 8, 13, 14];

/// A set of gRPC status codes, 0 to 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcCodes(u32);

/// The names of the gRPC status codes; each index is a code.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Default for Retry {
    /// Allows one retry. No HTTP status and no gRPC status counts as a failure.
    fn default() -> Self {
        let (http_codes, grpc_codes) = Default::default();
        Self { http_codes, grpc_codes, attempts: 1, backoff: DEFAULT_BACKOFF }
    }
}

impl Retry {
    /// Returns the size in bytes of the list of HTTP statuses.
    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(&*self.http_codes)
    }

    /// Returns whether a response with this status counts as a failure. `grpc` is the gRPC status of a gRPC call.
    pub fn applies_to(&self, http: u16, grpc: Option<u8>) -> bool {
        match grpc {
            Some(code) => self.grpc_codes.contains(code),
            None => self.http_codes.binary_search(&http).is_ok(),
        }
    }

    /// Returns whether gRPC clients without a proxy support all of `grpc_codes` in a retry policy (gRFC A44).
    pub fn is_known_to_grpc(&self) -> bool {
        self.grpc_codes.iter().all(|(code, _)| KNOWN_TO_GRPC.contains(&code))
    }

    /// Returns the pause before the retry with this number, from 1. `random` is uniformly distributed. The random part
    /// makes the pause up to 50 % longer, so that calls that failed together are not retried at the same moment.
    pub fn pause(&self, number: u8, random: u32) -> Duration {
        let doubled = 1u32.checked_shl(u32::from(number.saturating_sub(1))).unwrap_or(u32::MAX);
        let shortest = (self.backoff * doubled.min(LONGEST_PAUSE)).min(PAUSE_MAX);
        shortest + shortest.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
    }
}

impl GrpcCodes {
    /// Adds a code; does nothing for a number above 16, which is no code.
    #[must_use]
    pub fn with(self, code: u8) -> Self {
        if usize::from(code) < NAMES.len() { Self(self.0 | 1 << code) } else { self }
    }

    pub fn contains(self, code: u8) -> bool {
        usize::from(code) < NAMES.len() && self.0 & 1 << code != 0
    }

    /// Returns the name of a code; `None` for a number above 16.
    pub fn name(code: u8) -> Option<&'static str> {
        NAMES.get(usize::from(code)).copied()
    }

    /// Returns the code with this name.
    pub fn code(name: &str) -> Option<u8> {
        (0u8..).zip(NAMES).find(|(_, known)| *known == name).map(|(code, _)| code)
    }

    /// The names of all codes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }

    /// The codes in ascending order, each with its name.
    pub fn iter(self) -> impl Iterator<Item = (u8, &'static str)> {
        (0u8..).zip(NAMES).filter(move |(code, _)| self.contains(*code))
    }

    /// Returns the codes that stand for the same failures as these HTTP statuses, by the mapping of `google.rpc.Code`:
    /// 429 is RESOURCE_EXHAUSTED, 500 INTERNAL, 503 UNAVAILABLE, 504 DEADLINE_EXCEEDED. Other statuses have no code.
    pub fn like_http(statuses: &[u16]) -> Self {
        const SAME: [(u16, u8); 4] = [(429, 8), (500, 13), (503, 14), (504, 4)];
        let same = SAME.iter().filter(|(status, _)| statuses.contains(status));
        same.fold(Self::default(), |codes, (_, code)| codes.with(*code))
    }
}

impl Serialize for GrpcCodes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(_, name)| name))
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
