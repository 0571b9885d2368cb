//! What became of a route, for each of its parents: the conditions that Gateway API defines.

use std::fmt;

use serde::Serialize;

use super::RouteName;

/// What became of a route at one of its parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParentStatus {
    /// The route.
    pub route: RouteName,
    /// The parent, as the route names it.
    pub parent: ParentRef,
    /// The conditions, `Accepted` first; each type once.
    pub conditions: Vec<Condition>,
}

/// A parent as a route names it; what is not written is `None`, for a status repeats what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ParentRef {
    /// The API group; empty for Services.
    pub group: Option<Box<str>>,
    /// The kind.
    pub kind: Option<Box<str>>,
    /// The namespace, if it is not the route's.
    pub namespace: Option<Box<str>>,
    /// The name.
    pub name: Box<str>,
    /// The name of the Service's port.
    pub section_name: Option<Box<str>>,
    /// The number of the Service's port.
    pub port: Option<u16>,
}

/// One thing that is true or false of a route at a parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// What it is about.
    pub kind: ConditionKind,
    /// Whether it is so.
    pub status: bool,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, for people; one line.
    pub message: String,
}

/// The types of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionKind {
    /// Whether the route is in force at the parent.
    Accepted,
    /// Whether all that it refers to is there and may be referred to.
    ResolvedRefs,
}

/// The reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// Accepted: nothing is in the way.
    Accepted,
    /// Not accepted: the parent has no such port.
    NoMatchingParent,
    /// Not accepted: a route of another kind has the port, or so many of its own have it that there is no room.
    Conflicted,
    /// Not accepted: a value that is not known or not supported.
    UnsupportedValue,
    /// Not accepted: filters, or a filter and a match, that do not go together.
    IncompatibleFilters,
    /// References are resolved.
    ResolvedRefs,
    /// Not resolved: a backend of a kind other than Service.
    InvalidKind,
    /// Not resolved: no such Service or port.
    BackendNotFound,
    /// Not resolved: a Service of another namespace, and no ReferenceGrant there allows it.
    RefNotPermitted,
}

impl fmt::Display for ConditionKind {
    /// The condition's `type`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Reason {
    /// The condition's `reason`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
