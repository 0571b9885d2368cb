//! The question that `leno explain` sends to a proxy: it describes a call, and asks how the proxy would handle the
//! call.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::authority::AUTHORITY_MAX_BYTES;
use crate::problem::quoted;

/// Maximum number of header fields in a question.
pub const FIELDS_MAX: usize = 64;
/// Maximum total size of a question's method, path and header fields, in bytes.
pub const HEAD_MAX_BYTES: usize = 3_072;

/// A hypothetical call. The proxy does not make the call, but explains how it would handle the call.
///
/// Check the question with [`CallQuestion::check`] before use, because any user of the admin port may send a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallQuestion {
    /// Whether the proxy would be the caller's proxy or the server's proxy, with the data for this side.
    pub side: CallSide,
    /// The HTTP method, for example `GET`; `POST` for gRPC.
    pub method: String,
    /// The path with its query, for example `/shop.v1.Cart/Get`.
    pub path: String,
    /// Further header fields. Names are in lower case.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// The side of the call on which the proxy would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum CallSide {
    /// The proxy's own application would make the call.
    Outbound {
        /// `:authority`, for example `cart.shop:80`.
        authority: String,
        /// The address to which the application would connect, if netfilter redirects its connections to the proxy.
        /// `None` if the application connects to the proxy's outbound port. `authority` alone then determines the
        /// destination.
        #[serde(default)]
        address: Option<SocketAddr>,
    },
    /// Another workload would call the proxy's application.
    Inbound {
        /// The port on which the application listens.
        port: u16,
        /// The caller's SPIFFE id; `None` for a caller without a certificate.
        #[serde(default)]
        identity: Option<String>,
        /// The caller's address.
        address: IpAddr,
    },
}

/// The reason why a question is rejected. The error text states what the user should write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    #[error("{} is not a method of HTTP; write one as GET", quoted(.0))]
    Method(String),
    #[error("{} is not a path; write one as /items or /shop.v1.Cart/Get, without spaces", quoted(.0))]
    Path(String),
    #[error("{} is not the name of a header field; write it in lower case, as x-canary", quoted(.0))]
    FieldName(String),
    #[error("the value of the header field {name} has a character that HTTP does not allow")]
    FieldValue { name: String },
    #[error("{} is not an authority; write a Service and its port, as cart.shop:80", quoted(.0))]
    Authority(String),
    #[error("{} is not an identity; write spiffe://<trust-domain>/ns/<namespace>/sa/<service-account>", quoted(.0))]
    Identity(String),
    #[error("the question has {0} header fields; send at most {FIELDS_MAX}")]
    ManyFields(usize),
    #[error("the method, the path and the header fields have {0} bytes; send at most {HEAD_MAX_BYTES}")]
    Long(usize),
}

impl CallQuestion {
    /// Checks the sizes and the characters of the method, the path, the header fields and the authority.
    ///
    /// # Errors
    /// [`BadQuestion`] for the first text that no HTTP request can contain, or that exceeds a limit.
    pub fn check(&self) -> Result<(), BadQuestion> {
        if self.headers.len() > FIELDS_MAX {
            return Err(BadQuestion::ManyFields(self.headers.len()));
        }
        let of_fields: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = self.method.len() + self.path.len() + of_fields;
        if bytes > HEAD_MAX_BYTES {
            return Err(BadQuestion::Long(bytes));
        }
        if !is_token(&self.method) {
            return Err(BadQuestion::Method(self.method.clone()));
        }
        if !self.path.starts_with('/') || !is_visible(&self.path) {
            return Err(BadQuestion::Path(self.path.clone()));
        }
        for (name, value) in &self.headers {
            if !is_token(name) || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return Err(BadQuestion::FieldName(name.clone()));
            }
            if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                return Err(BadQuestion::FieldValue { name: name.clone() });
            }
        }
        match &self.side {
            CallSide::Outbound { authority, .. }
                if authority.is_empty() || authority.len() > AUTHORITY_MAX_BYTES || !is_visible(authority) =>
            {
                Err(BadQuestion::Authority(authority.clone()))
            }
            CallSide::Outbound { .. } | CallSide::Inbound { .. } => Ok(()),
        }
    }

    /// Returns whether a request with this method is assumed to have no content. A request with another method, such as
    /// the POST of gRPC, is assumed to have content.
    pub fn has_no_content(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "DELETE")
    }
}

/// Returns whether the text is a token as defined by HTTP (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Returns whether the text consists only of visible ASCII characters.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
