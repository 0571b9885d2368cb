//! The mesh's certificate authority in a cluster: issues a certificate to a workload that proves its identity with a
//! token.
//!
//! ```text
//! Secret leno-identity-issuer -> keeper -> Signing -> service (a request and a token in, an SVID out)
//!                                                  -> anchors: bundles (leno-trust-bundle in meshed namespaces)
//!                                                  -> bundle_file (for the proxy of this replica's own Pod)
//! ```
//!
//! `serve` accepts connections, and `intake` limits the requests on them. Every replica signs certificates with the
//! authority in the Secret. Only the replica that holds the Lease (`lease`) creates a missing Secret, renews the
//! issuing authority in it, and writes the ConfigMaps. If another program, such as cert-manager, maintains the Secret
//! (`--external-authority`), we only read it.

mod anchors;
mod bundle_file;
mod bundles;
mod intake;
mod issuers;
mod keeper;
mod lease;
mod material;
mod serve;
mod service;
mod signing;
mod token;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
pub(crate) mod store;

pub(crate) use anchors::{Carrier, keep_anchors};
pub(crate) use bundle_file::keep_bundle_file;
pub(crate) use keeper::Keeper;
pub(crate) use lease::{Lease, hold, release};
pub(crate) use serve::serve;
pub(crate) use signing::{ClusterIssuer, Signing};
