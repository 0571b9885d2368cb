//! The lab's own side of mutual TLS: an authority for the length of an experiment, and TLS on rustls.
//!
//! All meshes speak TLS 1.3 with TLS_AES_128_GCM_SHA256, which Envoy and Leno prefer and HAProxy is told to use, and
//! show P-256 certificates with SPIFFE ids. Keys are agreed on as each prefers: Envoy and Leno with X25519MLKEM768,
//! HAProxy on OpenSSL 3.0 with X25519.

mod authority;
mod check;
mod config;
pub mod tunnel;

pub(crate) use authority::{Authority, Credentials};
pub(crate) use check::ensure_mutual_tls;
pub(crate) use config::client as client_config;

/// The trust domain of all certificates here.
pub(crate) const TRUST_DOMAIN: &str = "lab.local";
/// The identity of the calling side, without the trust domain.
pub(crate) const CLIENT: &str = "ns/lab/sa/client";
/// The identity of the serving side, without the trust domain.
pub(crate) const SERVER: &str = "ns/lab/sa/server";

/// An identity as a certificate writes it.
pub(crate) fn spiffe_id(workload: &str) -> String {
    format!("spiffe://{TRUST_DOMAIN}/{workload}")
}
