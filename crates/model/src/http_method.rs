//! The names of HTTP methods that Leno knows. Clients may send any other name.

/// The methods of RFC 9110 section 9.1 and RFC 5789.
pub const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Returns the name of a known method. Method names are case-sensitive.
pub fn known(method: &[u8]) -> Option<&'static str> {
    KNOWN.into_iter().find(|known| known.as_bytes() == method)
}

#[cfg(test)]
#[path = "http_method_tests.rs"]
mod tests;
