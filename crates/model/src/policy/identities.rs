//! Sets of identities, as written in a policy.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::spiffe::{SpiffeId, TrustDomain, is_name};

const ANY: &str = "*";
const SCHEME: &str = "spiffe://";

/// One or more identities: `ns/shop/sa/web`, `ns/shop/sa/*`, `spiffe://other.org/ns/shop/sa/web` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Every identity, of any trust domain whose trust anchors we have.
    Any,
    /// The identities that match all of these fields.
    Of {
        /// Trust domain; `None` for the trust domain of the called workload.
        trust_domain: Option<TrustDomain>,
        /// Namespace; `None` for any.
        namespace: Option<Box<str>>,
        /// Service account; `None` for any.
        service_account: Option<Box<str>>,
    },
}

/// Error: a text is not a set of identities. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write ns/<namespace>/sa/<service-account>, in which either name may be *, with spiffe://<trust-domain>/ before it for \
     another trust domain, or * alone for every identity"
)]
pub struct BadIdentities;

impl Identities {
    /// Returns whether the set contains `identity`, for a workload of the trust domain `own`. Decisions use the
    /// policy's index instead. An explanation uses this function to find the line of the policy that allows a caller.
    /// Tests check that this function and the index agree.
    pub(super) fn contain(&self, identity: &SpiffeId, own: &TrustDomain) -> bool {
        let is = |wanted: &Option<Box<str>>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        match self {
            Self::Any => true,
            Self::Of { trust_domain, namespace, service_account } => {
                identity.trust_domain == *trust_domain.as_ref().unwrap_or(own)
                    && is(namespace, &identity.workload.namespace)
                    && is(service_account, &identity.workload.service_account)
            }
        }
    }
}

impl FromStr for Identities {
    type Err = BadIdentities;

    fn from_str(text: &str) -> Result<Self, BadIdentities> {
        if text == ANY {
            return Ok(Self::Any);
        }
        let (trust_domain, workload) = match text.strip_prefix(SCHEME) {
            None => (None, text),
            Some(rest) => {
                let (trust_domain, workload) = rest.split_once('/').ok_or(BadIdentities)?;
                (Some(trust_domain.parse().map_err(|_| BadIdentities)?), workload)
            }
        };
        let (namespace, service_account) =
            workload.strip_prefix("ns/").and_then(|rest| rest.split_once("/sa/")).ok_or(BadIdentities)?;
        Ok(Self::Of { trust_domain, namespace: name(namespace)?, service_account: name(service_account)? })
    }
}

fn name(text: &str) -> Result<Option<Box<str>>, BadIdentities> {
    match text {
        ANY => Ok(None),
        name if is_name(name) => Ok(Some(name.into())),
        _ => Err(BadIdentities),
    }
}

impl fmt::Display for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Of { trust_domain, namespace, service_account } = self else {
            return f.write_str(ANY);
        };
        if let Some(trust_domain) = trust_domain {
            write!(f, "{SCHEME}{trust_domain}/")?;
        }
        let namespace = namespace.as_deref().unwrap_or(ANY);
        write!(f, "ns/{namespace}/sa/{}", service_account.as_deref().unwrap_or(ANY))
    }
}

impl Serialize for Identities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "identities_tests.rs"]
mod tests;
