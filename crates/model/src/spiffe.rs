//! SPIFFE names of workloads: `spiffe://<trust-domain>/ns/<namespace>/sa/<service-account>`.
//!
//! Kubernetes uses this form of SPIFFE ids (SPIFFE-ID sections 2.1 and 2.2). Other SPIFFE ids do not name workloads of
//! a mesh.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Maximum length of a SPIFFE id in bytes (SPIFFE-ID section 2.3).
pub const ID_MAX_BYTES: usize = 2_048;
/// Maximum length of a trust domain in bytes (SPIFFE-ID section 2.1).
const TRUST_DOMAIN_MAX_BYTES: usize = 255;
/// Maximum length of a Kubernetes name in bytes.
const NAME_MAX_BYTES: usize = 253;

/// A trust domain: the identities that one set of trust anchors verifies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(Box<str>);

/// A workload within a trust domain; its text is `ns/<namespace>/sa/<service-account>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    pub namespace: Box<str>,
    pub service_account: Box<str>,
}

/// The full name of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    pub trust_domain: TrustDomain,
    pub workload: Workload,
}

/// Error: a text is not a valid name. The message says what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("{0:?} is not a trust domain; use at most 255 lower-case letters, digits, dots, dashes and underscores")]
    TrustDomain(String),
    #[error("{0:?} is not a workload; write ns/<namespace>/sa/<service-account>")]
    Workload(String),
    #[error("{0:?} is not a workload's SPIFFE id; write spiffe://<trust-domain>/ns/<namespace>/sa/<service-account>")]
    Id(String),
}

impl FromStr for TrustDomain {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
        let fits = (1..=TRUST_DOMAIN_MAX_BYTES).contains(&text.len());
        if fits && text.bytes().all(allowed) { Ok(Self(text.into())) } else { Err(BadName::TrustDomain(shown(text))) }
    }
}

impl FromStr for Workload {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("ns"), Some(namespace), Some("sa"), Some(service_account), None)
                if is_name(namespace) && is_name(service_account) =>
            {
                Ok(Self { namespace: namespace.into(), service_account: service_account.into() })
            }
            _ => Err(BadName::Workload(shown(text))),
        }
    }
}

impl FromStr for SpiffeId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::Id(shown(text));
        let rest = text.strip_prefix("spiffe://").filter(|_| text.len() <= ID_MAX_BYTES).ok_or_else(bad)?;
        let (trust_domain, workload) = rest.split_once('/').ok_or_else(bad)?;
        Ok(Self {
            trust_domain: trust_domain.parse().map_err(|_| bad())?,
            workload: workload.parse().map_err(|_| bad())?,
        })
    }
}

impl TrustDomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ns/{}/sa/{}", self.namespace, self.service_account)
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/{}", self.trust_domain, self.workload)
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns whether the text is a DNS subdomain, as Kubernetes defines it.
pub fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let ends_well = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= NAME_MAX_BYTES
        && text.bytes().all(allowed)
        && ends_well(text.bytes().next())
        && ends_well(text.bytes().last())
}

/// Shortens a peer's text for a log line. The error's message escapes the text.
fn shown(text: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 200;
    text.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "spiffe_tests.rs"]
mod tests;
