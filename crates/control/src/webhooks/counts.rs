//! How many requests came to each webhook, and what they were answered.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use leno_install::webhook::AdmissionResponse;

use super::review::Webhook;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The Pod gets a proxy.
    Injected,
    /// The Pod gets none.
    Skipped,
    /// The object is right.
    Allowed,
    /// A person has to mend something.
    Refused,
    /// It was no review, or could not be answered.
    Error,
}

/// What each webhook may answer.
const ROWS: [(Webhook, Outcome); 7] = [
    (Webhook::Inject, Outcome::Injected),
    (Webhook::Inject, Outcome::Skipped),
    (Webhook::Inject, Outcome::Refused),
    (Webhook::Inject, Outcome::Error),
    (Webhook::Validate, Outcome::Allowed),
    (Webhook::Validate, Outcome::Refused),
    (Webhook::Validate, Outcome::Error),
];

/// The numbers since the start. Any thread counts.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; ROWS.len()]);

impl Outcome {
    /// What an answer means.
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
    /// A request was answered.
    pub(super) fn count(&self, webhook: Webhook, outcome: Outcome) {
        for (number, row) in self.0.iter().zip(ROWS) {
            if row == (webhook, outcome) {
                number.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Adds its numbers in Prometheus' text format.
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
