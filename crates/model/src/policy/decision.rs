//! Decisions and their reasons.

use std::fmt;
use std::sync::Arc;

use super::{AuthorizationPolicy, DefaultInboundPolicy, Mode};

/// The decision of the policies about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// The call may continue, and the proxy logs the reason: a policy in audit mode, or the default policy `audit`,
    /// would deny the call.
    AllowAudited(Reason),
    Deny(Reason),
}

/// The reason why a policy denies a call, or would deny it without audit mode. The displayed text names the policy to
/// change. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No policy is enforced on the port, and the default policy does not allow the caller.
    Default(DefaultInboundPolicy),
    /// The port serves private data of the proxy, and no enforced policy names the port.
    Private,
    /// No rule of the policies that select the port allows the caller.
    NoRule {
        /// The policy that the displayed text names: the first unreadable policy or, if every policy is readable, the
        /// first policy by name.
        policy: Arc<AuthorizationPolicy>,
        /// Number of the other policies that select the port.
        others: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(default) => {
                write!(f, "the default inbound policy is {default}, which {}", default.demand())
            }
            Self::Private => f.write_str(
                "this port serves private data of the proxy: only an AuthorizationPolicy whose ports name it lets callers \
                 in, by their identities",
            ),
            Self::NoRule { policy, .. } if policy.mode == Mode::Unreadable => {
                let AuthorizationPolicy { namespace, name, .. } = &**policy;
                write!(f, "AuthorizationPolicy {namespace}/{name} cannot be read, and denies every caller; correct it")
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
