//! Reads Gateway API routes, and checks them as far as this is possible without other objects.
//!
//! A route can be wrong in two ways:
//!
//! - Kubernetes would reject it. This is a mistake, and the file is invalid.
//! - Kubernetes stores it, but the mesh does not support a part of it. This part causes a [`Refusal`], which the
//!   route's status reports. Requests that match the rule get an error, because applying the rule without the part
//!   could be unsafe, for example without a filter.

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

/// The API group of routes. It is also the default group of a parent.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// The `apiVersion` of routes.
pub(crate) const API_VERSION: &str = "gateway.networking.k8s.io/v1";
/// An earlier `apiVersion` of routes, with the same fields.
pub(crate) const OLD_API_VERSION: &str = "gateway.networking.k8s.io/v1beta1";
/// The first `apiVersion` of TLSRoutes and TCPRoutes, with the same fields.
pub(crate) const FIRST_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha2";
/// The second `apiVersion` of TLSRoutes.
pub(crate) const TLS_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha3";

/// A kind of route that Leno ignores. Its name must not be reported as a misspelling of another kind.
pub(crate) const NOT_READ: &str = "UDPRoute";

/// Maximum number of rules of a route.
pub const RULES_MAX: usize = 16;
/// Maximum number of matches of one rule. The hostnames of a TLSRoute have another limit.
pub const MATCHES_MAX: usize = 64;
/// Maximum number of matches in all rules of a route. The hostnames of a TLSRoute have another limit.
pub const ROUTE_MATCHES_MAX: usize = 128;
/// Maximum length of each list in a rule: filters, backends, the header and query conditions of one match, and the
/// header fields that a filter sets, adds or removes.
pub const ITEMS_MAX: usize = 16;
/// Maximum number of parents of a route, as in Gateway API's schema.
pub const PARENTS_MAX: usize = 32;

/// A route of any kind.
#[derive(Clone, Debug)]
pub struct Route {
    /// The route's name, and the position of its definition.
    pub identity: Identity,
    pub kind: RouteKind,
    /// Time of the route's creation, in seconds since 1970; `None` if unknown, as in most files.
    pub created: Option<i64>,
    /// The objects to which the route asks to be attached.
    pub parents: Box<[Parent]>,
    /// The rules, in the order of the object. If the route's compiled patterns exceed the limit of any table of routes,
    /// some matches are missing; the table then rejects the whole route.
    pub rules: Box<[RouteRule]>,
    /// Remarks on fields whose values the mesh lowers to its limits, each with the path of its field. The route's status
    /// lists them.
    pub remarks: Box<[Box<str>]>,
    /// Size in bytes of all compiled patterns, including the patterns of matches that are missing in `rules`.
    pattern_bytes: usize,
}

impl Route {
    /// Returns the number of matches in all rules of the route.
    pub fn match_count(&self) -> usize {
        self.rules.iter().map(|rule| rule.matches.len()).sum()
    }

    /// Returns the size in bytes that the route needs in a table of routes.
    pub fn size_bytes(&self) -> usize {
        let of_rule = |rule: &RouteRule| {
            let filters = rule.backends.iter().map(|backend| &backend.filters).chain([&rule.filters]);
            let filters: usize = filters.map(|filters| filters.fixed.size_bytes()).sum();
            let calls = rule.calls.size_bytes();
            rule.matches.iter().map(|matches| matches.size_bytes() + calls + filters).sum::<usize>()
        };
        self.rules.iter().map(of_rule).sum::<usize>().max(self.pattern_bytes)
    }

    /// Frees the compiled forms of the route's patterns. Used by a program that keeps routes but serves no requests.
    pub fn forget_compiled(&mut self) {
        self.rules.iter_mut().flat_map(|rule| &mut rule.matches).for_each(|one| Arc::make_mut(one).forget_compiled());
    }

    /// Returns the route's age, namespace and name. This part of the precedence is equal for all rules of the route.
    pub fn seniority(&self) -> Seniority {
        Seniority::new(self.created, &self.identity.namespace, &self.identity.name)
    }
}

/// A rule of a route. Its references to backends are not resolved yet.
#[derive(Clone, Debug)]
pub struct RouteRule {
    /// The rule's name, if it has one.
    pub name: Option<Box<str>>,
    /// The matches. The rule applies to a request or connection that meets at least one of them. Without matches, the
    /// rule applies to no request.
    pub matches: Vec<Arc<Match>>,
    pub filters: RouteFilters,
    pub backends: Box<[BackendRef]>,
    /// The call settings that the rule itself contains, such as time limits and retries.
    pub calls: CallPolicy,
    /// The parts of the rule that the mesh does not support.
    pub refusals: Vec<Refusal>,
}

/// A part of a route that the mesh does not support.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The field of the route that contains the part.
    pub spot: Spot,
    /// The reason that the route's status shows.
    pub reason: Reason,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

/// The path and the position of a field in an object.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The path of the field, for example `spec.rules[0].backendRefs[1]`.
    pub field: Box<str>,
    /// The field's position in the object's file.
    pub mark: Mark,
}
