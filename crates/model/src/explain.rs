//! The request of `leno explain` to a proxy: a question about a call that is not made.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::authority::AUTHORITY_MAX_BYTES;
use crate::problem::quoted;

/// Maximum number of header fields in a question.
pub const FIELDS_MAX: usize = 64;
/// Maximum size of the method, the path and the header fields of a question together, in bytes.
pub const HEAD_MAX_BYTES: usize = 3_072;

/// A call for which one proxy explains what it would do. [`CallQuestion::check`] must accept the question before the
/// proxy uses it, because any user of the admin port may send a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallQuestion {
    /// The proxy's side of the call, and the data that only this side has.
    pub side: CallSide,
    /// The HTTP method, for example `GET`; `POST` for gRPC.
    pub method: String,
    /// The path with its query, for example `/shop.v1.Cart/Get`.
    pub path: String,
    /// Further header fields. Names are in lower case.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// The proxy's side of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum CallSide {
    /// The proxy's own application makes the call.
    Outbound {
        /// `:authority`, for example `cart.shop:80`.
        authority: String,
        /// The address to which the application connects, if netfilter redirects the connection to the proxy. `None`
        /// for a call to the proxy's own outbound port: only the authority then names the destination.
        #[serde(default)]
        address: Option<SocketAddr>,
    },
    /// Another workload calls the proxy's application.
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

/// Why a question cannot be answered. The text says what to write.
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
    /// Checks the sizes and the characters of all texts.
    ///
    /// # Errors
    /// [`BadQuestion`] for the first fault: a text that no HTTP request can have, or a size above its limit.
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

    /// Returns whether a request with this method has no content. Requests with other methods, such as gRPC calls, have
    /// content.
    pub fn has_no_content(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "DELETE")
    }
}

/// Returns whether the text is a token of HTTP (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Returns whether the text has only visible characters of ASCII.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
