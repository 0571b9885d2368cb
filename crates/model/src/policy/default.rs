//! The policy for ports on which no AuthorizationPolicy is enforced.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::{Caller, Decision, Reason};
use crate::spiffe::TrustDomain;

/// The callers that may call a port on which no AuthorizationPolicy is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum DefaultInboundPolicy {
    /// Every caller.
    #[default]
    AllUnauthenticated,
    /// Callers with an identity of any trust domain whose trust anchors we have.
    AllAuthenticated,
    /// Callers with an identity of the workload's own trust domain.
    ClusterAuthenticated,
    /// No caller.
    Deny,
    /// Every caller, but the proxy logs the calls that no policy in audit mode allows.
    Audit,
}

impl DefaultInboundPolicy {
    /// All default inbound policies, in the order in which messages list them.
    pub const ALL: [Self; 5] =
        [Self::AllUnauthenticated, Self::AllAuthenticated, Self::ClusterAuthenticated, Self::Deny, Self::Audit];

    /// Returns the name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllUnauthenticated => "all-unauthenticated",
            Self::AllAuthenticated => "all-authenticated",
            Self::ClusterAuthenticated => "cluster-authenticated",
            Self::Deny => "deny",
            Self::Audit => "audit",
        }
    }

    pub(super) fn decide(self, caller: &Caller<'_>, own: &TrustDomain) -> Decision {
        let allowed = match self {
            Self::AllUnauthenticated => true,
            Self::AllAuthenticated => caller.identity.is_some(),
            Self::ClusterAuthenticated => caller.identity.is_some_and(|identity| identity.trust_domain == *own),
            Self::Deny => false,
            Self::Audit => return Decision::AllowAudited(Reason::Default(self)),
        };
        if allowed { Decision::Allow } else { Decision::Deny(Reason::Default(self)) }
    }

    /// Returns the end of a message such as "the default inbound policy is all-authenticated, which requires a client
    /// certificate": the text after "which".
    pub(super) const fn demand(self) -> &'static str {
        match self {
            Self::AllUnauthenticated => "allows every caller",
            Self::AllAuthenticated => "requires a client certificate",
            Self::ClusterAuthenticated => "requires a client certificate of this trust domain",
            Self::Deny => "allows only callers that an AuthorizationPolicy allows",
            Self::Audit => "reports callers that no AuthorizationPolicy allows",
        }
    }
}

impl fmt::Display for DefaultInboundPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for DefaultInboundPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Error: a text is not the name of a [`DefaultInboundPolicy`]. The message lists the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a default inbound policy; use all-unauthenticated, all-authenticated, cluster-authenticated, deny or audit"
)]
pub struct UnknownDefault;

impl FromStr for DefaultInboundPolicy {
    type Err = UnknownDefault;

    fn from_str(text: &str) -> Result<Self, UnknownDefault> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or(UnknownDefault)
    }
}
