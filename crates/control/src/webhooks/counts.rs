//! Counts the requests of each webhook by their answers.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use leno_install::webhook::AdmissionResponse;

use super::review::Webhook;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The Pod gets a proxy or the gRPC sidecar.
    Injected,
    /// The Pod gets neither.
    Skipped,
    Allowed,
    /// The object contains an error that its author must fix.
    Refused,
    /// The request was no review, or could not be answered.
    Error,
}

/// The possible results of each webhook.
const ROWS: [(Webhook, Outcome); 7] = [
    (Webhook::Inject, Outcome::Injected),
    (Webhook::Inject, Outcome::Skipped),
    (Webhook::Inject, Outcome::Refused),
    (Webhook::Inject, Outcome::Error),
    (Webhook::Validate, Outcome::Allowed),
    (Webhook::Validate, Outcome::Refused),
    (Webhook::Validate, Outcome::Error),
];

/// Counters since the start. Any thread may count.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; ROWS.len()]);

impl Outcome {
    /// Returns the result of a request with this answer.
    pub(super) fn of(webhook: Webhook, answer: &AdmissionResponse) -> Self {
        match webhook {
            _ if !answer.allowed => Self::Refused,
            Webhook::Validate => Self::Allowed,
            Webhook::Inject if answer.patch.is_some() => Self::Injected,
            Webhook::Inject => Self::Skipped,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Skipped => "skipped",
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Error => "error",
        }
    }
}

impl Counts {
    pub(super) fn count(&self, webhook: Webhook, outcome: Outcome) {
        for (number, row) in self.0.iter().zip(ROWS) {
            if row == (webhook, outcome) {
                number.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn write_metrics(&self, text: &mut String) {
        let name = "leno_control_webhook_requests_total";
        let _ = writeln!(text, "# HELP {name} Requests of API servers to webhooks.\n# TYPE {name} counter");
        for (number, (webhook, outcome)) in self.0.iter().zip(ROWS) {
            let (webhook, answer, number) = (webhook.name(), outcome.name(), number.load(Ordering::Relaxed));
            let _ = writeln!(text, "{name}{{webhook=\"{webhook}\",answer=\"{answer}\"}} {number}");
        }
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
