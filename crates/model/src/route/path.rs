//! Matches paths, and the service and method in a gRPC path.

use serde::Serialize;

use super::{Pattern, ValueMatch};

/// A condition on a request's path without its query. Bytes are compared as received, without percent-decoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathMatch {
    /// Exactly this path.
    Exact(Box<str>),
    /// A path that begins with these elements: `/a` is a prefix of `/a/b`, but not of `/ab`. Stored without a trailing
    /// `/`; the empty prefix matches everything.
    Prefix(Box<str>),
    /// A path that matches the pattern from end to end.
    Pattern(Pattern),
    /// The path of a gRPC method.
    Grpc(GrpcMethod),
}

/// A condition on gRPC methods, whose path is `/service/method`. `None` matches any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrpcMethod {
    /// Condition on the service with its package, for example `shop.Cart`.
    pub service: Option<ValueMatch>,
    /// Condition on the method.
    pub method: Option<ValueMatch>,
}

impl PathMatch {
    /// Matches paths that begin with these elements; ignores a trailing `/`.
    pub fn prefix(path: &str) -> Self {
        Self::Prefix(path.trim_end_matches('/').into())
    }

    /// Returns whether `path`, without its query, matches. Takes time linear in the path's length, or more for a
    /// [`Pattern`].
    pub fn is_match(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => after_prefix(path, prefix).is_some(),
            Self::Pattern(pattern) => pattern.is_match(path),
            Self::Grpc(method) => method.is_match(path),
        }
    }
}

impl GrpcMethod {
    fn is_match(&self, path: &[u8]) -> bool {
        if self.service.is_none() && self.method.is_none() {
            return true;
        }
        let Some((service, method)) = service_and_method(path) else {
            return false;
        };
        let is_match = |wanted: &Option<ValueMatch>, found| wanted.as_ref().is_none_or(|wanted| wanted.is_match(found));
        is_match(&self.service, service) && is_match(&self.method, method)
    }
}

/// Returns the rest of `path` after the elements of `prefix`: empty, or beginning with `/`. `None` if `path` does not
/// begin with these elements.
pub(super) fn after_prefix<'a>(path: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(prefix.as_bytes())?;
    (prefix.is_empty() || rest.first().is_none_or(|first| *first == b'/')).then_some(rest)
}

/// Splits `:path` at the first `?`. The `?` stays with the query.
pub(super) fn split_query(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    path.split_at(end)
}

/// Splits `/service/method`. `None` if a part is empty or has a `/`.
fn service_and_method(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = path.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    let (service, method) = (parts.next()?, parts.next()?);
    (parts.next().is_none() && !service.is_empty() && !method.is_empty()).then_some((service, method))
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
