//! The protobuf of the identity service: requests for certificates, and the trust bundle.

/// The messages and services of `identity.proto`.
#[allow(missing_docs, clippy::all, reason = "generated; the proto file documents it")]
pub mod v1 {
    tonic::include_proto!("leno.identity.v1");
}

/// Maximum length of a request, in bytes: the longest signing request and the longest token fit.
pub const REQUEST_MAX_BYTES: usize = 32_768;

/// Maximum length of a response, in bytes: the longest chain and the largest trust bundle fit.
pub const RESPONSE_MAX_BYTES: usize = 262_144;
