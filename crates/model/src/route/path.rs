//! Matching of paths, and of the service and method that a gRPC path is made of.

use serde::Serialize;

use super::{Pattern, ValueMatch};

/// What a request's path has to be, without its query. Bytes are compared as they come, percent signs and all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathMatch {
    /// This very path.
    Exact(Box<str>),
    /// A path that begins with these elements: `/a` is a prefix of `/a/b`, and not of `/ab`. Without a `/` at its end;
    /// the empty prefix matches everything.
    Prefix(Box<str>),
    /// A path that the pattern matches from end to end.
    Pattern(Pattern),
    /// The path of a gRPC method.
    Grpc(GrpcMethod),
}

/// The gRPC methods that match; the path is `/service/method`. `None` is any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrpcMethod {
    /// The service with its package, as `shop.Cart`.
    pub service: Option<ValueMatch>,
    /// The method.
    pub method: Option<ValueMatch>,
}

impl PathMatch {
    /// The path with these first elements; a `/` at its end is of no account.
    pub fn prefix(path: &str) -> Self {
        Self::Prefix(path.trim_end_matches('/').into())
    }

    /// Whether `path`, which has no query, matches. Costs as much as it is long, a [`Pattern`] more.
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

/// What follows the elements of `prefix` in `path`: nothing, or `/` and more.
pub(super) fn after_prefix<'a>(path: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(prefix.as_bytes())?;
    (prefix.is_empty() || rest.first().is_none_or(|first| *first == b'/')).then_some(rest)
}

/// Splits what `:path` holds at the first `?`, which stays with the query.
pub(super) fn split_query(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    path.split_at(end)
}

/// Splits `/service/method`; neither part is empty or has a `/`.
fn service_and_method(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = path.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    let (service, method) = (parts.next()?, parts.next()?);
    (parts.next().is_none() && !service.is_empty() && !method.is_empty()).then_some((service, method))
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
