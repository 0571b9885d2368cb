//! Detect: what a client speaks that does not speak HTTP/2, and the answer it understands.

/// What the first bytes of a connection look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// HTTP/1.x (RFC 9112 section 3): a method, a space, and a version before the line ends.
    Http1,
    /// A TLS handshake record (RFC 8446 section 5.1).
    Tls,
    /// Anything else.
    Unknown,
}

/// Looks at the first bytes of a connection that did not begin with the HTTP/2 preface.
pub fn detect(first: &[u8]) -> Spoken {
    if let [22, 3, ..] = first {
        return Spoken::Tls;
    }
    let line = first.split(|&c| c == b'\n').next().unwrap_or_default();
    let begins_with_method = line.first().is_some_and(u8::is_ascii_uppercase) && line.contains(&b' ');
    // The line of a long target has not come to its version yet.
    let has_version = line.windows(7).any(|window| window == b"HTTP/1.") || line.len() == first.len();
    if begins_with_method && has_version { Spoken::Http1 } else { Spoken::Unknown }
}

impl Spoken {
    /// What to write before closing.
    pub fn farewell(self) -> &'static [u8] {
        match self {
            Self::Http1 => {
                b"HTTP/1.1 505 HTTP Version Not Supported\r\n\
                connection: close\r\n\
                content-type: text/plain\r\n\
                content-length: 74\r\n\
                leno-proxy-error: http1-not-supported\r\n\r\n\
                leno-proxy takes HTTP/2 without TLS here (prior knowledge), as gRPC does.\n"
            }
            // A fatal handshake_failure alert (RFC 8446 section 6).
            Self::Tls => &[21, 3, 3, 0, 2, 2, 40],
            Self::Unknown => b"",
        }
    }

    /// The log line's middle, and the label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1",
            Self::Tls => "TLS",
            Self::Unknown => "an unknown protocol",
        }
    }

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Http1 => "http1-not-supported",
            Self::Tls => "tls-not-supported",
            Self::Unknown => "unknown-protocol",
        }
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
