//! Names that a client may not subscribe to, because it would exceed a limit. Only these names are refused: the stream
//! and its other subscriptions continue. If the stream ended instead, the client would connect again, ask for the same
//! names, and never get an update.

use envoy_types::pb::envoy::service::discovery::v3::{ResourceError, ResourceName};
use envoy_types::pb::google::rpc::Status;
use leno_xds::Kind;
use tonic::Code;

use super::accounts::Exhausted;
use super::limits::{REFUSED_NAMES_MAX, SUBSCRIPTIONS_MAX};

/// The reason why a client may not subscribe to one more name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverLimit {
    #[error("more than {SUBSCRIPTIONS_MAX} subscriptions of one kind; subscribe only to resources in use")]
    Subscriptions,
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// The names of one request that the client may not subscribe to.
#[derive(Debug)]
pub(crate) struct RefusedNames {
    pub(crate) kind: Kind,
    /// The first [`REFUSED_NAMES_MAX`] refused names.
    pub(crate) names: Vec<String>,
    /// Number of all refused names.
    pub(crate) count: usize,
    pub(crate) why: OverLimit,
}

impl RefusedNames {
    /// No names yet.
    pub(super) fn new(kind: Kind, why: OverLimit) -> Self {
        Self { kind, names: Vec::new(), count: 0, why }
    }

    pub(super) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < REFUSED_NAMES_MAX {
            self.names.push(name.to_owned());
        }
    }

    /// The errors for an incremental response. Only the first error has the message, which is the same for all names.
    pub(super) fn errors(&self) -> Vec<ResourceError> {
        let messages = std::iter::once(self.why.to_string()).chain(std::iter::repeat(String::new()));
        let error = |(name, message): (&String, String)| ResourceError {
            resource_name: Some(ResourceName { name: name.clone(), ..Default::default() }),
            error_detail: Some(Status { code: Code::ResourceExhausted.into(), message, ..Default::default() }),
        };
        self.names.iter().zip(messages).map(error).collect()
    }
}
