//! The status of a policy at each of its targets: the conditions of GEP-713.

use serde::Serialize;

use super::PolicyKind;
use crate::route::status::Condition;

/// The status of a policy at one of its targets. In the object's status, the target is an `ancestorRef`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetStatus {
    pub kind: PolicyKind,
    /// The policy's namespace, which is also the target's namespace.
    pub namespace: Box<str>,
    /// The policy's name.
    pub policy: Box<str>,
    pub target: TargetRef,
    /// The condition `Accepted`.
    pub condition: Condition,
}

/// A target as the policy names it (`LocalPolicyTargetReference`): an object in the policy's namespace, or one rule or
/// port of this object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TargetRef {
    pub kind: TargetKind,
    pub name: Box<str>,
    /// The name of a rule of the route, or of a port of the Service; `None` for the whole object.
    pub section_name: Option<Box<str>>,
}

/// The kinds of objects that a policy can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum TargetKind {
    Service,
    #[serde(rename = "HTTPRoute")]
    HttpRoute,
    #[serde(rename = "GRPCRoute")]
    GrpcRoute,
}

impl TargetKind {
    pub const ALL: [Self; 3] = [Self::Service, Self::HttpRoute, Self::GrpcRoute];

    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::HttpRoute => "HTTPRoute",
            Self::GrpcRoute => "GRPCRoute",
        }
    }

    /// Returns the API group of the kind; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Service => "",
            Self::HttpRoute | Self::GrpcRoute => crate::object::route::GROUP,
        }
    }
}
