//! Failed calls: the class of each failure, for counts, and its reason, for people.

use std::fmt;

use h2::Reason;
use leno_model::traffic::GrpcCodes;
use serde::{Deserialize, Serialize};

use super::LAST_ANSWERS;

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The answer has this gRPC status code, which is not OK.
    Grpc(u16),
    /// The answer has this HTTP status, which is not 200, and no gRPC status.
    Http(u16),
    /// The peer reset the HTTP/2 stream with this error code.
    Reset(u32),
    /// The connection could not be opened, or ended before the answer.
    Connection,
    /// The answer did not arrive in time.
    TimeOut,
    /// The call was not sent: too many calls waited for an answer, or no client became free in time.
    NotSent,
    /// The answer breaks its protocol, or comes from an unknown server.
    Protocol,
    /// Any further class, after the first 64 classes.
    Other,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    /// The reason, in words.
    pub why: String,
}

impl Failure {
    pub(super) fn new(class: FailureClass, why: impl Into<String>) -> Self {
        Self { class, why: why.into() }
    }

    /// The failure of an answer with this HTTP status, which is not 200; `shown` is the status as text for people.
    pub(super) fn http(status: u16, shown: impl fmt::Display) -> Self {
        Self::new(FailureClass::Http(status), format!("HTTP status {shown}"))
    }

    pub(super) fn connection(why: impl fmt::Display) -> Self {
        Self::new(FailureClass::Connection, why.to_string())
    }

    pub(super) fn protocol(why: impl fmt::Display) -> Self {
        Self::new(FailureClass::Protocol, why.to_string())
    }

    /// The failure of a call that was not sent, because the maximum number of calls was in flight.
    pub(super) fn not_sent() -> Self {
        Self::new(FailureClass::NotSent, "too many calls wait for an answer")
    }

    /// The failure of a call that was not sent, because all clients were busy until the load gave up.
    pub(super) fn no_free_client() -> Self {
        let why = format!("no connection was free until {} s after the last call was due", LAST_ANSWERS.as_secs());
        Self::new(FailureClass::NotSent, why)
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        let class = match error.reason() {
            Some(reason) if error.is_reset() => FailureClass::Reset(reason.into()),
            _ => FailureClass::Connection,
        };
        Self::new(class, error.to_string())
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.why
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Grpc(code) => match u8::try_from(code).ok().and_then(GrpcCodes::name) {
                Some(name) => write!(f, "gRPC {name}"),
                None => write!(f, "gRPC {code}"),
            },
            Self::Http(status) => write!(f, "HTTP {status}"),
            // h2 offers the error codes' names from RFC 9113 only through Debug.
            Self::Reset(code) => write!(f, "reset {:?}", Reason::from(code)),
            Self::Connection => f.write_str("connection"),
            Self::TimeOut => f.write_str("time-out"),
            Self::NotSent => f.write_str("not sent"),
            Self::Protocol => f.write_str("protocol"),
            Self::Other => f.write_str("other"),
        }
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
