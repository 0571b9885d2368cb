//! Classes of calls that have ended.

/// The class of a call that has ended. Metrics, taps and traces all use the same class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Success,
    /// The answer shows a failure, the answer is missing or incomplete, or the proxy found no destination for the call.
    Failure,
    /// The client cancelled the call.
    Cancelled,
}
