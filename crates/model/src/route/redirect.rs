//! Answers a request with a redirect.

use serde::Serialize;

use super::rewrite::rewritten;
use super::{PathMatch, PathRewrite, RequestHead};

/// The redirect's target; parts that are not set stay as in the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redirect {
    pub scheme: Option<Scheme>,
    pub hostname: Option<Box<str>>,
    /// The port. Default: if a scheme is set, that scheme's port; otherwise the Service's port to which the request was
    /// sent.
    pub port: Option<u16>,
    /// The new path. The query of the request stays.
    pub path: Option<PathRewrite>,
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// The scheme of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `http`, with the default port 80.
    Http,
    /// `https`, with the default port 443.
    Https,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The scheme's default port, which a URI may omit.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Redirect {
    /// Returns the port of the redirect's target. The request was sent to the Service's port `port`.
    pub fn port_from(&self, port: u16) -> u16 {
        self.port.unwrap_or_else(|| self.scheme.map_or(port, Scheme::port))
    }

    /// Returns the status and the `Location` of the redirect. The request has the scheme `scheme`, and was sent to the
    /// Service's port `port`. `matched` is the condition that the request's path matched. The request's authority must
    /// be a host, possibly with a port: a redirect without a hostname copies it to the `Location`.
    pub fn location(&self, head: &impl RequestHead, scheme: Scheme, port: u16, matched: &PathMatch) -> (u16, Vec<u8>) {
        let port = self.port_from(port);
        let scheme = self.scheme.unwrap_or(scheme);
        let host = self.hostname.as_ref().map_or_else(|| host(head.authority()), |hostname| hostname.as_bytes());
        let mut location = Vec::new();
        location.extend_from_slice(scheme.name().as_bytes());
        location.extend_from_slice(b"://");
        location.extend_from_slice(host);
        if port != scheme.port() {
            location.extend_from_slice(format!(":{port}").as_bytes());
        }
        let path = rewritten(head.path(), self.path.as_ref(), matched);
        if !path.starts_with(b"/") {
            // `OPTIONS *` and CONNECT have targets that are not paths.
            location.push(b'/');
        }
        location.extend_from_slice(&path);
        (self.status, location)
    }
}

/// Returns an authority without its port.
fn host(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(colon) if authority.get(colon) == Some(&b':') => authority.get(..colon).unwrap_or_default(),
        _ => authority,
    }
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
