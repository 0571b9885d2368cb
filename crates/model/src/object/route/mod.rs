//! Gateway API routes, as far as they mean something without any other object.
//!
//! Two things can be wrong with a route. What Kubernetes would refuse to store is a mistake in the file, like any other.
//! What Kubernetes stores and the mesh cannot do is a [`Refusal`]: the route is told so in its status, and what the rule
//! matches is answered with an error, for a filter must not be skipped.

mod backend;
mod connection;
mod filter;
mod headers;
mod names;
mod parent;
mod reading;
pub(crate) mod written;

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
use crate::route::{Match, RouteKind, Seniority, Timeouts};

/// The API group of routes, and of the parents that name none.
pub(crate) const GROUP: &str = "gateway.networking.k8s.io";
/// Their `apiVersion`.
pub(crate) const API_VERSION: &str = "gateway.networking.k8s.io/v1";
/// The `apiVersion` that they had before, with the same content.
pub(crate) const OLD_API_VERSION: &str = "gateway.networking.k8s.io/v1beta1";
/// The `apiVersion` that TLSRoutes and TCPRoutes began with, with the same content.
pub(crate) const FIRST_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha2";
/// The one that TLSRoutes had next.
pub(crate) const TLS_API_VERSION: &str = "gateway.networking.k8s.io/v1alpha3";

/// A kind of route that looks like another misspelt.
pub(crate) const NOT_READ: &str = "UDPRoute";

/// How many rules a route may have.
pub const RULES_MAX: usize = 16;
/// How many matches one rule may have; a TLSRoute's names are limited by themselves.
pub const MATCHES_MAX: usize = 64;
/// How many matches all rules of a route may have; likewise.
pub const ROUTE_MATCHES_MAX: usize = 128;
/// How many filters, backends, or header fields of one match there may be.
pub const ITEMS_MAX: usize = 16;
/// How many parents a route may have.
pub const PARENTS_MAX: usize = 32;

/// A route of any kind.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name.
    pub identity: Identity,
    /// Which kind it is of.
    pub kind: RouteKind,
    /// When it was created, in seconds since 1970; not known of a file.
    pub created: Option<i64>,
    /// Whom it is for.
    pub parents: Box<[Parent]>,
    /// Its rules, in order. If its patterns are too large for any table, some of its matches are missing.
    pub rules: Box<[RouteRule]>,
    /// What its patterns take, those of missing matches too.
    pattern_bytes: usize,
}

impl Route {
    /// How many matches all its rules have.
    pub fn match_count(&self) -> usize {
        self.rules.iter().map(|rule| rule.matches.len()).sum()
    }

    /// How many bytes its matches and filters take in a table of routes.
    pub fn size_bytes(&self) -> usize {
        let of_rule = |rule: &RouteRule| {
            let filters = rule.backends.iter().map(|backend| &backend.filters).chain([&rule.filters]);
            let filters: usize = filters.map(|filters| filters.fixed.size_bytes()).sum();
            rule.matches.iter().map(|matches| matches.size_bytes() + filters).sum::<usize>()
        };
        self.rules.iter().map(of_rule).sum::<usize>().max(self.pattern_bytes)
    }

    /// Frees the compiled forms of its patterns, for a program that keeps routes and takes no requests.
    pub fn forget_compiled(&mut self) {
        self.rules.iter_mut().flat_map(|rule| &mut rule.matches).for_each(Match::forget_compiled);
    }

    /// Its place among routes of its kind, as far as it is the same for all of its rules.
    pub fn seniority(&self) -> Seniority {
        Seniority::new(self.created, &self.identity.namespace, &self.identity.name)
    }
}

/// A rule whose references are not resolved yet.
#[derive(Clone, Debug)]
pub struct RouteRule {
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// Which requests or connections it is about; none if the rules before it leave nothing.
    pub matches: Vec<Match>,
    /// What is done with them.
    pub filters: RouteFilters,
    /// Where they go.
    pub backends: Box<[BackendRef]>,
    /// How long they may take.
    pub timeouts: Timeouts,
    /// What of it the mesh cannot do.
    pub refusals: Vec<Refusal>,
}

/// Something that the mesh cannot do.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where it is asked for.
    pub spot: Spot,
    /// Its word for the route's status.
    pub reason: Reason,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Its path, as `spec.rules[0].backendRefs[1]`.
    pub field: Box<str>,
    /// Where it is in the object's file.
    pub mark: Mark,
}
