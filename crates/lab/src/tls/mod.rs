//! The lab's own TLS code: an authority for each experiment, and clients and servers on rustls.
//!
//! All meshes use TLS 1.3 with TLS_AES_128_GCM_SHA256: Envoy and Leno prefer this cipher suite, and the lab configures
//! HAProxy to use it. Only a ztunnel as a client prefers TLS_AES_256_GCM_SHA384. All meshes present P-256 certificates
//! with SPIFFE ids. The key exchange follows each program's preference: X25519MLKEM768 for Envoy and Leno, X25519 for
//! HAProxy on OpenSSL 3.0.

mod authority;
mod check;
mod config;
pub mod tunnel;

pub(crate) use authority::{Authority, Credentials, Request};
pub(crate) use check::{ensure_mutual_tls, ensure_mutual_tls_of};
pub(crate) use config::{client as client_config, one_sided_server};

/// The trust domain of all certificates of the lab.
pub(crate) const TRUST_DOMAIN: &str = "lab.local";
/// The identity of clients, without the trust domain.
pub(crate) const CLIENT: &str = "ns/lab/sa/client";
/// The identity of servers, without the trust domain.
pub(crate) const SERVER: &str = "ns/lab/sa/server";

/// The identity of a waypoint, without the trust domain.
pub(crate) const WAYPOINT: &str = "ns/lab/sa/waypoint";

/// The SPIFFE id of a workload, as certificates contain it.
pub(crate) fn spiffe_id(workload: &str) -> String {
    format!("spiffe://{TRUST_DOMAIN}/{workload}")
}
