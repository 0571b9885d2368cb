//! Paths that every caller may request, because health checkers have no identity.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::Request;

/// The path of gRPC's health check, the only path that health checkers request with POST.
pub const GRPC_HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Maximum length of a path in bytes.
const PATH_MAX_BYTES: usize = 1_024;

/// A path in normal form: nothing is escaped, no segment is `.` or `..`, and only the last segment may be empty.
///
/// A request's path matches only if its bytes are equal. Since the normal form is unambiguous, no server can interpret
/// a matching path as another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthPath(Box<str>);

/// Error: a text is not a path in normal form. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// The path does not begin with a slash, or is too long.
    #[error("write one such as /healthz, of at most 1024 bytes")]
    Form,
    /// The path has a character with a special meaning.
    #[error("use letters, digits and any of -._~!$&'()*+,;=:@ between slashes")]
    Character,
    /// A query follows the path.
    #[error("leave out the query")]
    Query,
    /// The path has a segment that servers may remove.
    #[error("leave out segments that are empty, . or ..")]
    Segment,
}

impl HealthPath {
    /// Returns the HTTP method of health checks for this path.
    pub fn method(&self) -> &'static str {
        if self.is_grpc() { "POST" } else { "GET" }
    }

    /// Returns whether `request` is a GET for this path, with any query (a POST for gRPC's own health check).
    ///
    /// A GET with content is not accepted as a health check, for two reasons. Content that never ends occupies the
    /// application for as long as the caller likes. And an application that does not read the content of a GET would
    /// parse this content as the next request. gRPC's own health check carries a message, so it may have content.
    pub(super) fn matches(&self, request: &Request<'_>) -> bool {
        let path = request.path.split(|b| *b == b'?').next().unwrap_or_default();
        let may_have_content = self.is_grpc();
        request.method == self.method().as_bytes()
            && path == self.0.as_bytes()
            && !request.upgrade
            && (may_have_content || !request.has_content)
    }

    fn is_grpc(&self) -> bool {
        &*self.0 == GRPC_HEALTH_CHECK
    }
}

impl FromStr for HealthPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let rest = text.strip_prefix('/').filter(|_| text.len() <= PATH_MAX_BYTES).ok_or(BadPath::Form)?;
        if text.contains('?') {
            return Err(BadPath::Query);
        }
        // The characters of a path (RFC 3986 section 3.3), except the percent sign.
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&b);
        if !text.bytes().all(is_plain) {
            return Err(BadPath::Character);
        }
        let before_last = rest.rsplit_once('/').map_or("x", |(before, _)| before);
        let has_empty = before_last.split('/').any(str::is_empty);
        if has_empty || rest.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(BadPath::Segment);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for HealthPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for HealthPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
