//! Matches requests and TLS connections against the conditions of rules.

use std::borrow::Cow;

use serde::Serialize;

use super::mismatch::Mismatch;
use super::path::split_query;
use super::{PathMatch, Pattern, ServerName};

/// The parts of a request that a [`Match`] examines. The returned texts may be any bytes.
pub trait RequestHead {
    /// The method, for example `GET`.
    fn method(&self) -> &[u8];
    /// The path with its query.
    fn path(&self) -> &[u8];
    /// `:authority`, or the `Host` of HTTP/1.1.
    fn authority(&self) -> &[u8];
    /// Returns the values, in order, of the header fields with this name. The name is in lower case, and never `host`.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;
}

/// Conditions on a request or on a TLS connection; all must be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Required server name of a TLS connection; `None` matches any name. A match for requests has no server name. A
    /// match for TLS connections sets only this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<ServerName>,
    /// Required path.
    pub path: PathMatch,
    /// Required method, in upper case; `None` matches any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
    /// Required header fields. Names are unique.
    #[serde(skip_serializing_if = "<[HeaderMatch]>::is_empty")]
    pub headers: Box<[HeaderMatch]>,
    /// Required query parameters. Names are unique.
    #[serde(skip_serializing_if = "<[QueryMatch]>::is_empty")]
    pub query: Box<[QueryMatch]>,
}

/// A condition on a header field. If several fields have the name, at least one of them must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeaderMatch {
    /// Lower-case name; `host` stands for the request's authority.
    pub name: Box<str>,
    /// Condition on the value.
    pub value: ValueMatch,
}

/// A condition on a query parameter. If several parameters have the name, the first of them must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueryMatch {
    /// The parameter's name, decoded and case-sensitive.
    pub name: Box<str>,
    /// Condition on the decoded value.
    pub value: ValueMatch,
}

/// A case-sensitive condition on a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueMatch {
    /// Exactly this text.
    Exact(Box<str>),
    /// A text that matches the pattern from end to end.
    Pattern(Pattern),
}

impl Match {
    /// Frees the compiled forms of all patterns in this match ([`Pattern::forget_compiled`]).
    pub fn forget_compiled(&mut self) {
        let headers = self.headers.iter_mut().map(|header| &mut header.value);
        let query = self.query.iter_mut().map(|parameter| &mut parameter.value);
        let (path, method) = match &mut self.path {
            PathMatch::Pattern(pattern) => (Some(pattern), None),
            PathMatch::Grpc(method) => (None, Some([&mut method.service, &mut method.method])),
            PathMatch::Exact(_) | PathMatch::Prefix(_) => (None, None),
        };
        let values = headers.chain(query).chain(method.into_iter().flatten().flatten());
        let patterns = values.filter_map(|value| match value {
            ValueMatch::Pattern(pattern) => Some(pattern),
            ValueMatch::Exact(_) => None,
        });
        patterns.chain(path).for_each(Pattern::forget_compiled);
    }

    /// A match for every request and every connection.
    pub fn any() -> Self {
        Self {
            server_name: None,
            path: PathMatch::Prefix(Box::default()),
            method: None,
            headers: Box::default(),
            query: Box::default(),
        }
    }

    /// A match for TLS connections with this server name.
    pub fn server(name: ServerName) -> Self {
        Self { server_name: Some(name), ..Self::any() }
    }

    /// Returns whether the request matches. Examines the path once, the query once for each required parameter, and all
    /// header fields once for each required header. Allocates only if it compares an encoded query parameter with a
    /// pattern.
    pub fn is_match(&self, head: &impl RequestHead) -> bool {
        let (path, query) = split_query(head.path());
        self.is_match_of(head, path, query)
    }

    /// Like [`Match::is_match`], with the request's path already split from its query.
    pub(super) fn is_match_of(&self, head: &impl RequestHead, path: &[u8], query: &[u8]) -> bool {
        self.mismatch(head, path, query).is_none()
    }

    /// Returns the first condition that the request does not meet; `None` if the request matches.
    pub(super) fn mismatch(&self, head: &impl RequestHead, path: &[u8], query: &[u8]) -> Option<Mismatch<'_>> {
        if self.server_name.is_some() {
            return Some(Mismatch::Server);
        }
        if !self.path.is_match(path) {
            return Some(Mismatch::Path(&self.path));
        }
        if let Some(method) = self.method.as_deref().filter(|method| method.as_bytes() != head.method()) {
            return Some(Mismatch::Method(method));
        }
        if let Some(header) = self.headers.iter().find(|header| !header.is_match(head)) {
            return Some(Mismatch::Header(header));
        }
        self.query.iter().find(|parameter| !parameter.is_match(query)).map(Mismatch::Query)
    }

    /// Returns whether a TLS connection matches; `name` is the server name in its ClientHello, if any.
    pub(super) fn is_match_of_server(&self, name: Option<&str>) -> bool {
        self.server_name.as_ref().is_none_or(|wanted| name.is_some_and(|name| wanted.is_match(name)))
    }
}

impl HeaderMatch {
    fn is_match(&self, head: &impl RequestHead) -> bool {
        if &*self.name == "host" {
            return self.value.is_match(head.authority());
        }
        head.values(&self.name).any(|value| self.value.is_match(value))
    }
}

impl QueryMatch {
    fn is_match(&self, query: &[u8]) -> bool {
        let parameters = query.strip_prefix(b"?").unwrap_or_default().split(|byte| *byte == b'&');
        let mut pairs = parameters.map(|parameter| {
            let end = parameter.iter().position(|byte| *byte == b'=').unwrap_or(parameter.len());
            let (name, value) = parameter.split_at(end);
            (name, value.strip_prefix(b"=").unwrap_or_default())
        });
        let first = pairs.find(|(name, _)| decoded(name).eq(self.name.bytes()));
        first.is_some_and(|(_, value)| match &self.value {
            ValueMatch::Exact(exact) => decoded(value).eq(exact.bytes()),
            ValueMatch::Pattern(pattern) => pattern.is_match(&decoded_whole(value)),
        })
    }
}

impl ValueMatch {
    /// Returns whether `text` meets the condition.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => text == exact.as_bytes(),
            Self::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

/// Decodes a part of a query: `+` is a space and `%41` is `A`; a `%` without two digits stays.
fn decoded(encoded: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = encoded;
    std::iter::from_fn(move || {
        let (byte, after) = match rest {
            [b'%', high, low, after @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'%', rest.get(1..).unwrap_or_default()),
            },
            [b'+', after @ ..] => (b' ', after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        rest = after;
        Some(byte)
    })
}

fn decoded_whole(encoded: &[u8]) -> Cow<'_, [u8]> {
    if encoded.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        Cow::Owned(decoded(encoded).collect())
    } else {
        Cow::Borrowed(encoded)
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
