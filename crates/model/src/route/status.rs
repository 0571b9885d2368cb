//! The status of a route at each of its parents: the conditions that Gateway API defines.

use std::fmt;

use serde::Serialize;

use super::RouteName;

/// The status of a route at one of its parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParentStatus {
    pub route: RouteName,
    /// The parent, as the route names it.
    pub parent: ParentRef,
    /// The conditions, `Accepted` first; one of each type.
    pub conditions: Vec<Condition>,
}

/// A parent as written in a route. Missing fields are `None`, because a status repeats the reference as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ParentRef {
    /// The API group; empty or `core` for Services.
    pub group: Option<Box<str>>,
    pub kind: Option<Box<str>>,
    /// The namespace as written; `None` stands for the route's namespace.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
    /// The name of the Service's port.
    pub section_name: Option<Box<str>>,
    /// The number of the Service's port.
    pub port: Option<u16>,
}

/// A condition of a route at a parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    pub kind: ConditionKind,
    /// Whether the condition is true.
    pub status: bool,
    /// Machine-readable reason.
    pub reason: Reason,
    /// Explanation for people; one line.
    pub message: String,
}

/// The types of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionKind {
    /// Whether the route is in force at the parent.
    Accepted,
    /// Whether all referenced objects exist, and the route may refer to them.
    ResolvedRefs,
}

/// The reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// Accepted.
    Accepted,
    /// Not accepted: the Service or its port does not exist, the Service is headless or has no TCP port, or the port is
    /// opaque and the route matches requests.
    NoMatchingParent,
    /// Not accepted: the port has routes of another kind, this route would exceed the size limit of the port's route
    /// table, or the routes of its namespace would select too many ports. For a policy: an older policy has the same
    /// target.
    Conflicted,
    /// Not accepted: an unknown or unsupported value.
    UnsupportedValue,
    /// Not accepted: filters, or a filter and a match, that cannot be combined.
    IncompatibleFilters,
    /// Not accepted: a policy selects an object, or a rule or port of an object, that does not exist.
    TargetNotFound,
    /// Not accepted: a policy that is not valid.
    Invalid,
    /// References are resolved.
    ResolvedRefs,
    /// Not resolved: a backend of a kind other than Service.
    InvalidKind,
    /// Not resolved: no such Service or port, or a Service without a TCP port.
    BackendNotFound,
    /// Not resolved: the Service is in another namespace, and no ReferenceGrant there allows the reference.
    RefNotPermitted,
    /// Not resolved: the endpoints speak a protocol that the route cannot send.
    UnsupportedProtocol,
}

impl fmt::Display for ConditionKind {
    /// Writes the condition's `type`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Reason {
    /// Writes the condition's `reason`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
