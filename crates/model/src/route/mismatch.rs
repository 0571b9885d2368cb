//! Explains in words why a request does not match a rule: the first condition of the rule that the request fails.

use std::fmt;

use super::{GrpcMethod, HeaderMatch, Match, PathMatch, QueryMatch, RequestHead, ValueMatch};
use crate::problem::quoted;

/// Maximum number of values of one header field that an explanation shows.
const VALUES_MAX: usize = 3;

/// The first condition that a request does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch<'a> {
    /// The rule is for TLS connections to one server name.
    Server,
    Path(&'a PathMatch),
    Method(&'a str),
    Header(&'a HeaderMatch),
    Query(&'a QueryMatch),
}

impl Mismatch<'_> {
    /// Describes the condition, and the request's value that fails the condition. Escapes the request's texts.
    pub(super) fn explain(self, head: &impl RequestHead) -> String {
        let text = |bytes: &[u8]| quoted(&String::from_utf8_lossy(bytes));
        match self {
            Self::Server => "it is for TLS connections to one server name".to_owned(),
            Self::Path(path) => format!("{path}: the call has {}", text(head.path())),
            Self::Method(method) => format!("method {method}: the call has {}", text(head.method())),
            Self::Header(header) if &*header.name == "host" => {
                format!("{header}: the call has {}", text(head.authority()))
            }
            Self::Header(header) => {
                let values: Vec<_> = head.values(&header.name).take(VALUES_MAX).map(text).collect();
                let has = if values.is_empty() { "none".to_owned() } else { values.join(", ") };
                format!("{header}: the call has {has}")
            }
            Self::Query(parameter) => format!("{parameter}: the call has {}", text(head.path())),
        }
    }
}

impl fmt::Display for Match {
    /// Writes all conditions, for example `path prefix "/items", header x-canary = "yes"`, or `every call`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions = Vec::new();
        if self.path != PathMatch::Prefix(Box::default()) {
            conditions.push(self.path.to_string());
        }
        conditions.extend(self.method.iter().map(|method| format!("method {method}")));
        conditions.extend(self.headers.iter().map(HeaderMatch::to_string));
        conditions.extend(self.query.iter().map(QueryMatch::to_string));
        if self.server_name.is_some() {
            conditions.push("a server name of TLS".to_owned());
        }
        f.write_str(if conditions.is_empty() { "every call" } else { "" })?;
        f.write_str(&conditions.join(", "))
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => write!(f, "path {path:?}"),
            Self::Prefix(prefix) if prefix.is_empty() => f.write_str("any path"),
            Self::Prefix(prefix) => write!(f, "path prefix {prefix:?}"),
            Self::Pattern(pattern) => write!(f, "path matches {:?}", pattern.as_str()),
            Self::Grpc(GrpcMethod { service, method }) => {
                let part = |wanted: &Option<ValueMatch>| {
                    wanted.as_ref().map_or_else(|| "*".to_owned(), |value| value.plain().to_owned())
                };
                write!(f, "gRPC method {}/{}", part(service), part(method))
            }
        }
    }
}

impl fmt::Display for HeaderMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {} {}", self.name, self.value)
    }
}

impl fmt::Display for QueryMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query parameter {} {}", self.name, self.value)
    }
}

impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(_) => write!(f, "= {:?}", self.plain()),
            Self::Pattern(_) => write!(f, "matches {:?}", self.plain()),
        }
    }
}

impl ValueMatch {
    /// Returns the text of the condition: the required text, or the regular expression.
    fn plain(&self) -> &str {
        match self {
            Self::Exact(text) => text,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

#[cfg(test)]
#[path = "mismatch_tests.rs"]
mod tests;
