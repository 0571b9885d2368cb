//! Workload identity: SVIDs, the authorities that issue them, and the TLS that proves them.
//!
//! A proxy makes a key pair ([`svid::Request`]), and an [`issuer::Issuer`] signs the request. The checked answer
//! becomes an [`svid::Svid`]. The SVID and the trust bundle together become a [`TlsIdentity`], which is all that the
//! data plane needs. [`upkeep`] renews this identity for as long as a program runs. After a handshake, [`peer_id`]
//! gives the peer's SPIFFE id. After a failed handshake, [`explain()`] gives the reason.
//!
//! ```
//! # use std::time::{Duration, SystemTime};
//! use leno_identity::{Validity, authority::Authority, bundle::TrustBundle, svid::Request};
//!
//! let now = SystemTime::now();
//! let authority = Authority::create("example.org".parse()?, now)?;
//! let bundle = TrustBundle::from_pem(authority.certificate_pem().as_bytes())?;
//!
//! // The key stays with the workload; only the request goes to the authority.
//! let request = Request::new("spiffe://example.org/ns/shop/sa/cart".parse()?)?;
//! let validity = Validity::starting(now, Duration::from_secs(86_400));
//! let certificate = authority.sign(request.id(), request.csr(), validity, now)?;
//! let svid = request.accept(vec![certificate], &bundle, now)?;
//! svid.verify(&bundle, now)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod authority;
pub mod bundle;
pub mod claims;
pub mod directory;
mod explain;
mod files;
pub mod issuer;
mod peer;
mod pem;
pub mod renewal;
pub mod server;
pub mod svid;
pub mod tls;
pub mod upkeep;
mod verify;
mod x509;

#[cfg(test)]
mod fixtures;

pub use explain::{explain, explain_io, innermost};
pub use peer::{PeerIdError, peer_expiry, peer_id};
pub use tls::TlsIdentity;
pub use x509::Validity;
