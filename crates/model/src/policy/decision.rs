//! What was decided, and why.

use std::fmt;
use std::sync::Arc;

use super::{AuthorizationPolicy, DefaultInboundPolicy, Mode};

/// Whether a caller may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// Yes, but a policy that is only audited, or the default policy `audit`, would not have it: tell why.
    AllowAudited(Reason),
    /// No.
    Deny(Reason),
}

/// Why a caller may not go on, or would not: what to change if it should. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No policy is enforced on the port, and the default one does not have it.
    Default(DefaultInboundPolicy),
    /// No rule of the policies that select the port has it.
    NoRule {
        /// The first of them by name.
        policy: Arc<AuthorizationPolicy>,
        /// How many more there are.
        others: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(default) => {
                write!(f, "the default inbound policy is {default}, which {}", default.demand())
            }
            Self::NoRule { policy, .. } if policy.mode == Mode::Unreadable => {
                let AuthorizationPolicy { namespace, name, .. } = &**policy;
                write!(f, "AuthorizationPolicy {namespace}/{name} cannot be read, and denies every caller; mend it")
            }
            Self::NoRule { policy, others } => {
                write!(f, "no rule of AuthorizationPolicy {}/{}", policy.namespace, policy.name)?;
                match others {
                    0 => {}
                    1 => f.write_str(" nor of 1 other")?,
                    others => write!(f, " nor of {others} others")?,
                }
                f.write_str(" allows it")
            }
        }
    }
}
