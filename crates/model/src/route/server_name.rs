//! Server names in TLS ClientHellos (RFC 6066 section 3).

use std::fmt;

use serde::Serialize;

/// Maximum length of a name in bytes (RFC 1123 section 2.1).
const NAME_MAX_BYTES: usize = 253;
/// Prefix of a wildcard: `*.example.org` matches all names below `example.org`.
const WILDCARD: &str = "*.";

/// A required server name: exactly this name or, with the prefix `*.`, any name below it at any depth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ServerName(Box<str>);

impl ServerName {
    /// Parses a name; `None` if Gateway API does not allow the name. A name needs lower-case labels, and must not be an
    /// address.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix(WILDCARD).unwrap_or(text);
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(is_allowed) && !label.starts_with('-') && !label.ends_with('-')
        };
        let is_name = text.len() <= NAME_MAX_BYTES && name.split('.').all(is_label);
        // The last label of a name is never a number, so an IPv4 address is not a name (RFC 1123 section 2.1).
        let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
        (is_name && !is_address).then(|| Self(text.into()))
    }

    /// Returns whether `name` meets this requirement; ignores case.
    pub fn is_match(&self, name: &str) -> bool {
        match self.0.strip_prefix('*') {
            None => name.eq_ignore_ascii_case(&self.0),
            Some(end) => {
                let rest = name.len().checked_sub(end.len()).and_then(|at| name.split_at_checked(at));
                rest.is_some_and(|(below, found)| !below.is_empty() && found.eq_ignore_ascii_case(end))
            }
        }
    }

    /// Returns the name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the name is a wildcard: `*.` and a name.
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
