//! Workload identity: who a workload is, who vouches for it, and the TLS that proves it.
//!
//! A proxy makes a key pair ([`svid::Request`]), an [`issuer::Issuer`] signs its request, the answer is checked and
//! becomes an [`svid::Svid`], and with the trust bundle that came along it becomes a [`TlsIdentity`], which is all that
//! the data plane needs; [`upkeep`] keeps one good for as long as a program runs. After a handshake [`peer_id`] says who the peer is, and [`explain()`] says why there was none.
#![forbid(unsafe_code)]

pub mod authority;
pub mod bundle;
pub mod claims;
pub mod directory;
mod explain;
mod files;
pub mod issuer;
mod peer;
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
