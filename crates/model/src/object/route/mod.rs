//! Gateway API routes, as far as they can be checked without other objects.
//!
//! A route can be wrong in two ways. If Kubernetes would refuse to store the route, the file has a mistake. If
//! Kubernetes stores the route but the mesh does not support a part of it, that part causes a [`Refusal`]. The route's
//! status reports the refusal. Requests that match the rule get an error, because skipping a filter would be unsafe.

mod backend;
mod connection;
mod filter;
mod headers;
mod names;
mod parent;
mod reading;
pub(crate) mod written;

use std::sync::Arc;

pub(crate) use backend::SERVICE;
pub use backend::{BackendRef, MirrorRef, Reference, RouteFilters};
pub(super) use connection::{ConnectionRule, read_rules};
pub(super) use filter::{has_prefix_rewrite, needs_no_backend};
pub(super) use headers::{header_matches, query_matches};
pub(super) use names::{path_fault, pattern, text_match};
pub use parent::Parent;
pub(super) use reading::{Reading, RuleParts};

use super::Identity;
use crate::problem::Mark;
use crate::route::status::Reason;
use crate::route::{Match, RouteKind, Seniority};
use crate::traffic::CallPolicy;

/// The API group of routes, and of parents without a group.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// The `apiVersion` of routes.
pub(crate) const API_VERSION: &str = "gateway.networking.k8s.io/v1";
/// The earlier `apiVersion` of routes, with the same content.
pub(crate) const OLD_API_VERSION: &str = "gateway.networking.k8s.io/v1beta1";
/// The first `apiVersion` of TLSRoutes and TCPRoutes, with the same content.
pub(crate) const FIRST_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha2";
/// The second `apiVersion` of TLSRoutes.
pub(crate) const TLS_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha3";

/// A route kind that Leno does not read, but must not report as a misspelling of another kind.
pub(crate) const NOT_READ: &str = "UDPRoute";

/// Limit on the number of rules of a route.
pub const RULES_MAX: usize = 16;
/// Limit on the number of matches of one rule. A TLSRoute's names have a limit of their own.
pub const MATCHES_MAX: usize = 64;
/// Limit on the number of matches in all rules of a route. A TLSRoute's names have a limit of their own.
pub const ROUTE_MATCHES_MAX: usize = 128;
/// Limit on the length of each list in a rule: its filters, its backends, the header conditions and the query
/// conditions of one match, and the header fields that a filter sets, adds or removes.
pub const ITEMS_MAX: usize = 16;
/// Limit on the number of parents of a route, as in the schema of Gateway API.
pub const PARENTS_MAX: usize = 32;

/// A route of any kind.
#[derive(Clone, Debug)]
pub struct Route {
    /// The route's name, and where it was defined.
    pub identity: Identity,
    pub kind: RouteKind,
    /// Time of the route's creation, in seconds since 1970; `None` if unknown, as in most files.
    pub created: Option<i64>,
    /// The objects to which the route is attached.
    pub parents: Box<[Parent]>,
    /// The rules, in order. If the route's patterns are too large for any table, some matches are missing.
    pub rules: Box<[RouteRule]>,
    /// Size in bytes of all patterns that were compiled, including the compiled patterns of missing matches.
    pattern_bytes: usize,
}

impl Route {
    /// Returns the number of matches in all rules of the route.
    pub fn match_count(&self) -> usize {
        self.rules.iter().map(|rule| rule.matches.len()).sum()
    }

    /// Returns the size in bytes of the route's matches and filters in a table of routes.
    pub fn size_bytes(&self) -> usize {
        let of_rule = |rule: &RouteRule| {
            let filters = rule.backends.iter().map(|backend| &backend.filters).chain([&rule.filters]);
            let filters: usize = filters.map(|filters| filters.fixed.size_bytes()).sum();
            let calls = rule.calls.size_bytes();
            rule.matches.iter().map(|matches| matches.size_bytes() + calls + filters).sum::<usize>()
        };
        self.rules.iter().map(of_rule).sum::<usize>().max(self.pattern_bytes)
    }

    /// Frees the compiled forms of the route's patterns, for a program that keeps routes but serves no requests.
    pub fn forget_compiled(&mut self) {
        self.rules.iter_mut().flat_map(|rule| &mut rule.matches).for_each(|one| Arc::make_mut(one).forget_compiled());
    }

    /// Returns the part of the rules' precedence that is equal for all rules of the route.
    pub fn seniority(&self) -> Seniority {
        Seniority::new(self.created, &self.identity.namespace, &self.identity.name)
    }
}

/// A rule whose references are not resolved yet.
#[derive(Clone, Debug)]
pub struct RouteRule {
    /// The rule's name, if it has one.
    pub name: Option<Box<str>>,
    /// The conditions. A request or connection must meet at least one; if there are none, the rule matches nothing.
    pub matches: Vec<Arc<Match>>,
    pub filters: RouteFilters,
    pub backends: Box<[BackendRef]>,
    /// The parts of the policy for calls that the route itself sets.
    pub calls: CallPolicy,
    /// The parts of the rule that the mesh does not support.
    pub refusals: Vec<Refusal>,
}

/// A part of a route that the mesh does not support.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where the part is written.
    pub spot: Spot,
    /// The reason in the route's status.
    pub reason: Reason,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The path of the field, for example `spec.rules[0].backendRefs[1]`.
    pub field: Box<str>,
    /// The field's position in the object's file.
    pub mark: Mark,
}
