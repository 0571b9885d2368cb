//! Classes of calls that have ended.

/// The class of a call that has ended. Metrics, taps and traces all use the same class. Only successes and failures
/// count for the share of successful calls and for latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Success,
    /// The answer shows a failure, the answer is missing or incomplete, or the proxy found no destination for the call.
    Failure,
    /// A policy denied the call. The denial shows nothing about the server: if it counted as a success, a client that is
    /// denied all its calls would hide the failures of the others.
    Denied,
    /// The client cancelled the call.
    Cancelled,
}

impl Class {
    /// Returns the value of the label `classification`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }
}
