//! Methods whose calls may be sent more than once without harm. Only the author of the service knows these methods.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Maximum number of methods that a policy may name, and maximum length of a method's name in bytes.
pub const REPEATABLE_MAX: usize = 16;
const NAME_MAX_BYTES: usize = 256;

/// The safe methods of HTTP (RFC 9110 section 9.2.1), except TRACE, which is not worth hedging.
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// A method, or all methods of a gRPC service, whose calls may be sent more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// A method of a gRPC service, for example `shop.v1.Cart/GetItem`.
    Grpc(Box<str>),
    /// All methods of a gRPC service, for example `shop.v1.Cart`.
    GrpcService(Box<str>),
    /// A method of HTTP, for calls that are not gRPC.
    Http(Box<str>),
}

impl Repeatable {
    /// Returns whether a call has this method, or a method of this service. `name` is the `:path` of a gRPC call, and
    /// the `:method` of any other call.
    pub(super) fn is_match(&self, is_grpc: bool, name: &[u8]) -> bool {
        let called = || name.strip_prefix(b"/").filter(|_| is_grpc);
        match self {
            Self::Grpc(method) => called().is_some_and(|called| called == method.as_bytes()),
            Self::GrpcService(service) => {
                let method = called().and_then(|called| called.strip_prefix(service.as_bytes()));
                method.is_some_and(|rest| rest.starts_with(b"/"))
            }
            Self::Http(method) => !is_grpc && name == method.as_bytes(),
        }
    }

    /// Returns the size of the value including its text, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        let (Self::Grpc(text) | Self::GrpcService(text) | Self::Http(text)) = self;
        size_of::<Self>() + text.len()
    }
}

impl FromStr for Repeatable {
    type Err = String;

    /// Reads `shop.v1.Cart/GetItem`, `shop.v1.Cart/*` or `GET`. The error says what to write.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if SAFE.contains(&text) {
            return Ok(Self::Http(text.into()));
        }
        let is_word = |word: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            word.bytes().all(allowed) && word.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        };
        let parts = text.split_once('/').filter(|_| text.len() <= NAME_MAX_BYTES);
        match parts.filter(|(service, _)| service.split('.').all(is_word)) {
            Some((service, "*")) => Ok(Self::GrpcService(service.into())),
            Some((_, method)) if is_word(method) => Ok(Self::Grpc(text.into())),
            _ => Err(format!(
                "write a gRPC method as shop.v1.Cart/GetItem, all of a service as shop.v1.Cart/*, or one of {}",
                SAFE.join(", ")
            )),
        }
    }
}

impl fmt::Display for Repeatable {
    /// Writes the method in the form that a policy uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GrpcService(service) => write!(f, "{service}/*"),
            Self::Grpc(name) | Self::Http(name) => f.write_str(name),
        }
    }
}

impl Serialize for Repeatable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "repeatable_tests.rs"]
mod tests;
