//! The mesh's certificate authority in a cluster: certifies workloads that prove by a token who they are.
//!
//! ```text
//! Secret leno-identity-issuer -> keeper -> Signing -> service (a request and a token in, an SVID out)
//!                                                  -> anchors: bundles (ConfigMap leno-trust-bundle in meshed namespaces)
//! ```
//!
//! Every replica signs with what the Secret says. The one that holds the Lease makes the Secret where there is none,
//! renews the issuing authority in it, and writes the ConfigMaps. A Secret that somebody else keeps, as cert-manager
//! does, is only read.

mod anchors;
mod bundles;
mod keeper;
mod lease;
mod material;
mod serve;
mod service;
mod signing;
mod token;

pub(crate) use anchors::{Carrier, keep_anchors};
pub(crate) use keeper::Keeper;
pub(crate) use lease::{Lease, hold, release};
pub(crate) use serve::serve;
pub(crate) use signing::{ClusterIssuer, Signing};

/// The Secret of the issuing authority, in the control plane's namespace.
const SECRET: &str = "leno-identity-issuer";
/// The ConfigMap of the trust bundle, in each meshed namespace.
pub(crate) const BUNDLE: &str = "leno-trust-bundle";
/// Its key.
const BUNDLE_KEY: &str = "ca.crt";
/// Who we are where the API server asks who changed what.
const FIELD_MANAGER: &str = "leno-control";
