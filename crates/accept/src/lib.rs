//! Accepting connections from strangers: which of them a listener keeps when it has no place left.
//!
//! Every listener of the mesh that another workload can reach uses [`Places`]: the proxy's doors, the admin endpoint, the
//! probes, the webhooks, the issuer and xDS.
#![forbid(unsafe_code)]

mod places;
mod source;

pub use places::{Entry, Places};
pub use source::Source;
