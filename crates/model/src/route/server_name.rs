//! Names of servers, as a TLS ClientHello has them (RFC 6066 section 3).

use std::fmt;

use serde::Serialize;

/// How long a name may be (RFC 1123 section 2.1).
const NAME_MAX_BYTES: usize = 253;
/// What stands before a name for all names below it.
const WILDCARD: &str = "*.";

/// A name that a TLS connection's server has to have: this one, or with `*.` before it, any below it, however deep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ServerName(Box<str>);

impl ServerName {
    /// Reads one; `None` of what is no name of Gateway API's: labels in lower case, and no address.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix(WILDCARD).unwrap_or(text);
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(is_allowed) && !label.starts_with('-') && !label.ends_with('-')
        };
        let is_name = text.len() <= NAME_MAX_BYTES && name.split('.').all(is_label);
        // The last label of an address of four numbers is a number, which that of a name never is (RFC 1123 section 2.1).
        let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
        (is_name && !is_address).then(|| Self(text.into()))
    }

    /// Whether `name` is one that is wanted; case does not matter.
    pub fn is_match(&self, name: &str) -> bool {
        match self.0.strip_prefix('*') {
            None => name.eq_ignore_ascii_case(&self.0),
            Some(end) => {
                let rest = name.len().checked_sub(end.len()).and_then(|at| name.split_at_checked(at));
                rest.is_some_and(|(below, found)| !below.is_empty() && found.eq_ignore_ascii_case(end))
            }
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for all names below one.
    pub(super) fn is_wildcard(&self) -> bool {
        self.0.starts_with(WILDCARD)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[path = "server_name_tests.rs"]
mod tests;
