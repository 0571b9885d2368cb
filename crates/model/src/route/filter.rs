//! The filters of a rule or a backend for requests and responses.

use serde::{Deserialize, Serialize};

use super::{Redirect, Rewrite};
use crate::mesh::ClusterKey;

/// The filters of a rule or of a backend. At most one of redirect and rewrite is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Changes the request's header fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderModifier>,
    /// Changes the response's header fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderModifier>,
    /// Answers the request with a redirect; the proxy does not forward the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Changes the request's host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// The backends that get a copy of the request; their responses are dropped.
    #[serde(skip_serializing_if = "<[Mirror]>::is_empty")]
    pub mirrors: Box<[Mirror]>,
}

/// Changes header fields: first `remove`, then `set`, then `add`. Names are lower-case. Pseudo-headers,
/// connection-specific fields, `host` and Leno's own fields are not allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderModifier {
    /// Fields to set: each replaces all fields of the request or response that have its name.
    pub set: Box<[Header]>,
    /// Fields to add; fields of the request or response with the same names stay.
    pub add: Box<[Header]>,
    /// Removes the fields with these names.
    pub remove: Box<[Box<str>]>,
}

/// A header field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Lower-case name.
    pub name: Box<str>,
    pub value: Box<str>,
}

/// Sends copies of some requests to another cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    pub to: ClusterKey,
    /// Numerator of the fraction of requests that the proxy copies. At most `denominator`.
    pub numerator: u32,
    /// Denominator of the fraction of requests that the proxy copies. At least 1.
    pub denominator: u32,
}

impl Filters {
    /// Returns whether there is no filter.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl HeaderModifier {
    /// Returns one modifier with the same effect as this modifier followed by `next`.
    pub fn then(&self, next: &Self) -> Self {
        let is_kept = |header: &&Header| {
            !next.remove.contains(&header.name) && next.set.iter().all(|later| later.name != header.name)
        };
        let joined =
            |own: &[Header], later: &[Header]| own.iter().filter(is_kept).chain(later).cloned().collect::<Box<[_]>>();
        Self {
            set: joined(&self.set, &next.set),
            add: joined(&self.add, &next.add),
            remove: self.remove.iter().chain(&next.remove).cloned().collect(),
        }
    }
}

impl Mirror {
    /// Decides by a random number whether to copy a request. `random` must be uniform over all `u64`.
    pub fn takes(&self, random: u64) -> bool {
        let ticket = (u128::from(random) * u128::from(self.denominator)) >> 64;
        ticket < u128::from(self.numerator)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
