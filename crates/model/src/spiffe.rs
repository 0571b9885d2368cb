//! SPIFFE names of workloads: `spiffe://<trust-domain>/ns/<namespace>/sa/<service-account>`.
//!
//! The form is Kubernetes' own convention within SPIFFE-ID (sections 2.1 and 2.2); names that do not have it are no
//! workload of a mesh.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How long a SPIFFE id may be, in bytes (SPIFFE-ID section 2.3).
pub const ID_MAX_BYTES: usize = 2_048;
/// How long a trust domain may be, in bytes (SPIFFE-ID section 2.1).
const TRUST_DOMAIN_MAX_BYTES: usize = 255;
/// How long a Kubernetes name may be, in bytes.
const NAME_MAX_BYTES: usize = 253;

/// A trust domain: what one set of anchors vouches for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(Box<str>);

/// A workload within a trust domain; its text is `ns/<namespace>/sa/<service-account>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The Kubernetes namespace.
    pub namespace: Box<str>,
    /// The service account that it runs as.
    pub service_account: Box<str>,
}

/// A workload's whole name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    /// Who vouches for it.
    pub trust_domain: TrustDomain,
    /// What it is.
    pub workload: Workload,
}

/// Why a text names no workload; it says what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Not a trust domain.
    #[error("{0:?} is not a trust domain; use at most 255 lower-case letters, digits, dots, dashes and underscores")]
    TrustDomain(String),
    /// Not a workload.
    #[error("{0:?} is not a workload; write ns/<namespace>/sa/<service-account>")]
    Workload(String),
    /// Not a SPIFFE id of a workload.
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
    /// Its text.
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

/// A name as Kubernetes' DNS subdomains have it.
pub fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let ends_well = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= NAME_MAX_BYTES
        && text.bytes().all(allowed)
        && ends_well(text.bytes().next())
        && ends_well(text.bytes().last())
}

/// As much of a peer's text as a log line should have.
fn shown(text: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 200;
    text.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "spiffe_tests.rs"]
mod tests;
