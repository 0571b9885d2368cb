//! Tells apart the reasons for which an API server refuses a request with the status 403. Authorization and admission
//! have the same status and the same reason `Forbidden`, so only the words of the message differ. All modules that
//! interpret such a message do it here.

use super::connect::ClusterError;

/// Words in the message of an authorizer: `User "jane" cannot list resource "pods" in API group ""`, or `cannot get path
/// "/readyz"`.
const AUTHORIZER: [(&str, &str); 2] = [(" cannot ", " resource \""), (" cannot ", " path \"")];

/// Words if a user creates a role with rights that the user does not hold.
const ESCALATION: &str = "permissions not currently held";

/// Words in the message of an admission plug-in for limits.
const LIMIT_RANGE: [&str; 3] = ["usage per Container is", "usage per Pod is", "limit to request ratio per"];

/// What refused a request. The texts are names in the API server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden<'a> {
    /// The user lacks a right.
    Rights,
    /// The user may create roles, but not a role with rights that the user does not hold.
    Escalation,
    /// An admission webhook with this name.
    Webhook(&'a str),
    /// A ValidatingAdmissionPolicy with this name.
    Policy(&'a str),
    PodSecurity,
    Quota,
    LimitRange,
    /// Another admission plug-in, or a program between this machine and the API server.
    Other,
}

impl<'a> Forbidden<'a> {
    /// Finds out from the API server's message what refused the request.
    pub(crate) fn of(message: &'a str) -> Self {
        // Admission plug-ins and webhooks quote texts of users, so look for their own words first.
        if let Some(name) = between(message, "admission webhook \"", "\" denied the request") {
            Self::Webhook(name)
        } else if let Some(name) = between(message, "ValidatingAdmissionPolicy '", "' ") {
            Self::Policy(name)
        } else if message.contains("violates PodSecurity") {
            Self::PodSecurity
        } else if ["failed quota", "exceeded quota"].iter().any(|words| message.contains(words)) {
            Self::Quota
        } else if LIMIT_RANGE.iter().any(|words| message.contains(words)) {
            Self::LimitRange
        } else if message.contains(ESCALATION) {
            Self::Escalation
        } else if AUTHORIZER.iter().any(|(before, after)| between(message, before, after).is_some()) {
            Self::Rights
        } else {
            Self::Other
        }
    }

    /// Whether the user lacks a right, so that the request may succeed for another user.
    pub(crate) fn is_of_rights(self) -> bool {
        matches!(self, Self::Rights | Self::Escalation)
    }

    /// Says what refused the request, and what to do. Only a missing right has its own sentence: almost all requests that
    /// get here only read, and admission refuses no such request.
    pub(crate) fn explain(self, message: &str) -> ClusterError {
        match self {
            Self::Rights => ClusterError::new(
                format!("you may not do this: {message}"),
                "ask an administrator of the cluster for that right, or choose another --context",
            ),
            _ => ClusterError::new(
                format!("the API server refused the request: {message}"),
                "correct what the message names; if it names a missing right, ask an administrator of the cluster for that right",
            ),
        }
    }
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

#[cfg(test)]
#[path = "forbidden_tests.rs"]
mod tests;
