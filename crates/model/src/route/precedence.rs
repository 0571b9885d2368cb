//! Precedence among several matches of a request, exactly as in Gateway API.
//!
//! The first difference in these lists decides which match wins:
//!
//! - HTTPRoutes: an exact path before a pattern, and a pattern before a prefix; then the longer path; then a match with
//!   a method; then more headers; then more query parameters.
//! - GRPCRoutes: the longer service; then the longer method; then more headers.
//! - TLSRoutes: a whole name before a wildcard; then the longer name.
//! - After that, for all kinds: the older route; then the first by namespace and name; then the first rule.
//!
//! Gateway API defines all of this except the position of patterns.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{Entry, Match, PathMatch, Rule, ValueMatch};

/// A rule with everything that determines its precedence.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// When the route was created, in seconds since 1970. A route without a known time sorts as the newest.
    pub created: Option<i64>,
    /// The rule's index in its route.
    pub index: usize,
    /// The matches of the rule; one of them must match a request.
    pub matches: Vec<Arc<Match>>,
    pub rule: Arc<Rule>,
}

/// Precedence of routes with equally specific matches: the older route first, then the first route by `namespace/name`.
/// Smaller values win.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority {
    /// Sorts routes without a known time last.
    is_undated: bool,
    created: Option<i64>,
    name: String,
}

impl Seniority {
    /// Creates the seniority of a route. `created` is the time of its creation in seconds since 1970, if known.
    pub fn new(created: Option<i64>, namespace: &str, name: &str) -> Self {
        Self { is_undated: created.is_none(), created, name: format!("{namespace}/{name}") }
    }
}

/// Returns one entry for each match, in order of precedence.
pub(super) fn sorted(candidates: Vec<Candidate>) -> Vec<Entry> {
    let mut keyed = Vec::new();
    for Candidate { created, index, matches, rule } in candidates {
        let seniority = Seniority::new(created, &rule.route.namespace, &rule.route.name);
        for matches in matches {
            let key = (specificity(&matches), seniority.clone(), index);
            keyed.push((key, Entry { matches, rule: Arc::clone(&rule) }));
        }
    }
    // The sort is stable: among equal matches of one rule, the first stays first.
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.into_iter().map(|(_, entry)| entry).collect()
}

/// The sort key of a match; a smaller key is more specific. Its parts, in order: the kind of the path or server name,
/// its lengths, whether the match has no method, the number of headers, and the number of query parameters.
type Specificity = (u8, Reverse<usize>, Reverse<usize>, bool, Reverse<usize>, Reverse<usize>);

fn specificity(matches: &Match) -> Specificity {
    let (kind, length, second_length) = match (&matches.server_name, &matches.path) {
        (Some(name), _) => (u8::from(name.is_wildcard()), name.as_str().len(), 0),
        (None, PathMatch::Exact(path)) => (0, path.chars().count(), 0),
        (None, PathMatch::Pattern(pattern)) => (1, pattern.as_str().chars().count(), 0),
        (None, PathMatch::Prefix(path)) => (2, path.chars().count(), 0),
        (None, PathMatch::Grpc(grpc)) => (0, characters(grpc.service.as_ref()), characters(grpc.method.as_ref())),
    };
    (
        kind,
        Reverse(length),
        Reverse(second_length),
        matches.method.is_none(),
        Reverse(matches.headers.len()),
        Reverse(matches.query.len()),
    )
}

fn characters(value: Option<&ValueMatch>) -> usize {
    value.map_or(0, |value| match value {
        ValueMatch::Exact(exact) => exact.chars().count(),
        ValueMatch::Pattern(pattern) => pattern.as_str().chars().count(),
    })
}

#[cfg(test)]
#[path = "precedence_tests.rs"]
mod tests;
