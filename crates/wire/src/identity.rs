//! The identity service: a workload's request for a certificate, and whom to trust, as protobuf.

/// What `identity.proto` says.
#[allow(missing_docs, clippy::all, reason = "generated; the proto file documents it")]
pub mod v1 {
    tonic::include_proto!("leno.identity.v1");
}

/// How long a request may be, in bytes: the longest signing request and the longest token fit.
pub const REQUEST_MAX_BYTES: usize = 32_768;

/// How long an answer may be, in bytes: a chain and a trust bundle of as many certificates as there may be fit.
pub const RESPONSE_MAX_BYTES: usize = 262_144;
