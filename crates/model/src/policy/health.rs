//! Paths that everybody may ask for, because whoever checks a workload's health has no identity.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::Request;

/// The method that gRPC's health checks call; it is the one path that is asked for by POST.
const GRPC_HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// How long a path may be, in bytes.
const PATH_MAX_BYTES: usize = 1_024;

/// One path, in normal form: nothing is escaped, no segment is `.`, `..` or (but the last) empty.
///
/// A request has this path only if it is written so byte for byte, so that no server can take it for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthPath(Box<str>);

/// The text is no path in normal form; it says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Does not begin as a path does, or is too long.
    #[error("write one such as /healthz, of at most 1024 bytes")]
    Form,
    /// Has a character that stands for something else.
    #[error("use letters, digits and any of -._~!$&'()*+,;=:@ between slashes, and leave out the query")]
    Character,
    /// Has a segment that servers may leave out.
    #[error("leave out segments that are empty, . or ..")]
    Segment,
}

impl HealthPath {
    /// How it is asked for.
    pub fn method(&self) -> &'static str {
        if self.is_grpc() { "POST" } else { "GET" }
    }

    /// Whether `request` asks for this path, whatever its query, by GET (gRPC's own health check: by POST).
    ///
    /// A GET with content is no health check: a request that never ends holds the application for as long as its caller
    /// likes, and an application that leaves a GET's content unread takes it for the next request. gRPC's own health check
    /// carries a message, so it may have content.
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
        // The characters of a path (RFC 3986 section 3.3) but the percent sign.
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
