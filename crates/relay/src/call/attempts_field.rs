//! Attempts field: if a client sends `leno-attempts: ?1`, the response contains the number of attempts that its call
//! took. The values are Structured Fields (RFC 9651): a Boolean in the request, an Integer with parameters in the
//! response.
//!
//! Only the client's own proxy answers. It removes the field from the request, so no endpoint and no other proxy sees
//! it.

use std::fmt::Write;

use leno_http2::fields::Known;
use leno_http2::{FieldSection, Section};

use crate::call::Call;

/// Removes the field from a request. Returns whether the client asks for the number of attempts.
#[inline]
pub(crate) fn take(request: &mut FieldSection) -> bool {
    request.contains(Known::LenoAttempts) && take_present(request)
}

#[cold]
fn take_present(request: &mut FieldSection) -> bool {
    let asks = asks(request);
    request.remove(Known::LenoAttempts);
    asks
}

/// Returns whether a request has the field exactly once, with the Boolean true. The proxy ignores a value of another
/// type (RFC 9651 section 4.2). It also ignores the field if it has several lines, because several lines form a list.
fn asks(request: &FieldSection) -> bool {
    let mut lines = request.iter().filter(|line| line.known == Known::LenoAttempts);
    matches!((lines.next(), lines.next()), (Some(line), None) if is_true(line.value))
}

/// Returns whether a value is the Boolean true. Ignores parameters of the value.
fn is_true(value: &[u8]) -> bool {
    let rest = value.trim_ascii().strip_prefix(b"?1");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b';')))
}

impl Call {
    /// If the client has asked for the number of attempts, adds the number to the response. First removes each field
    /// with this name that the endpoint has sent, also from trailers: the client would take it for the proxy's field.
    #[inline]
    pub(crate) fn tell_attempts(&self, section: Section, fields: &mut FieldSection) {
        if self.asks_attempts {
            self.set_attempts(section, fields);
        }
    }

    #[cold]
    fn set_attempts(&self, section: Section, fields: &mut FieldSection) {
        fields.remove(Known::LenoAttempts);
        if section == Section::Response {
            fields.push(Known::LenoAttempts.name().as_bytes(), self.attempts_value().as_bytes());
        }
    }

    /// Returns the field's value: the number of attempts, and how many of them were retries and hedges of the policy,
    /// such as `3;retries=1;hedges=1`.
    fn attempts_value(&self) -> String {
        let mut value = self.attempts.begun().to_string();
        for (name, count) in [("retries", self.retries), ("hedges", self.hedges())] {
            if count > 0 {
                // Writing to a String cannot fail.
                write!(value, ";{name}={count}").ok();
            }
        }
        value
    }
}

#[cfg(test)]
#[path = "attempts_field_tests.rs"]
mod tests;
