//! What a rule or a backend does to requests and responses on their way.

use serde::Serialize;

use super::{Redirect, Rewrite};
use crate::mesh::ClusterKey;

/// The filters of a rule or of a backend. A redirect and a rewrite are never both there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Changes the request's header fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderModifier>,
    /// Changes the response's header fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderModifier>,
    /// Answers the request; it goes nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Changes the request's host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Who gets a copy of the request; what they answer is dropped.
    #[serde(skip_serializing_if = "<[Mirror]>::is_empty")]
    pub mirrors: Box<[Mirror]>,
}

/// Changes header fields: first `remove`, then `set`, then `add`. Names are in lower case, and none is of a
/// pseudo-header, of the connection, of `host` or of Leno's own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeaderModifier {
    /// Each becomes the only field of its name.
    pub set: Box<[Header]>,
    /// Each is added to the fields of its name.
    pub add: Box<[Header]>,
    /// The fields of these names are removed.
    pub remove: Box<[Box<str>]>,
}

/// A header field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Its name, in lower case.
    pub name: Box<str>,
    /// Its value.
    pub value: Box<str>,
}

/// Sends copies of some requests elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// Where to.
    pub to: ClusterKey,
    /// How many of `denominator` requests are copied; at most all of them.
    pub numerator: u32,
    /// From 1.
    pub denominator: u32,
}

impl Filters {
    /// Whether they change nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Mirror {
    /// Whether a request is copied; `random` is any number, all of them equally likely.
    pub fn takes(&self, random: u64) -> bool {
        let ticket = (u128::from(random) * u128::from(self.denominator)) >> 64;
        ticket < u128::from(self.numerator)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
