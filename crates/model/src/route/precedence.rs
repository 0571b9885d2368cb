//! Which of several matches of a request counts, exactly as Gateway API has it.
//!
//! Among HTTPRoutes: an exact path, then a pattern, then a prefix; the longer path; a method; more headers; more query
//! parameters. Among GRPCRoutes: the longer service, the longer method, more headers. Among TLSRoutes: a whole name before
//! one with a wildcard, then the longer name. Then, for all: the older route, the first by namespace and name, the first
//! rule. Only the place of patterns is ours to choose.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{Entry, Match, PathMatch, Rule, ValueMatch};

/// A rule, and all that its precedence depends on.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// When the route was created, in seconds since 1970; one that is not known to have been is younger than all others.
    pub created: Option<i64>,
    /// The rule's place in its route.
    pub index: usize,
    /// Which requests it is about: those that one of these matches.
    pub matches: Vec<Match>,
    /// The rule itself.
    pub rule: Arc<Rule>,
}

/// Which of two routes counts where their matches do not tell: the older one, then the first by `namespace/name`. Less
/// goes before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority {
    /// So that a route goes last of which nothing is known.
    is_undated: bool,
    created: Option<i64>,
    name: String,
}

impl Seniority {
    /// That of a route that was created so many seconds after 1970 began, if that is known.
    pub fn new(created: Option<i64>, namespace: &str, name: &str) -> Self {
        Self { is_undated: created.is_none(), created, name: format!("{namespace}/{name}") }
    }
}

/// One entry for each match, the one that counts first in front.
pub(super) fn sorted(candidates: Vec<Candidate>) -> Vec<Entry> {
    let mut keyed = Vec::new();
    for Candidate { created, index, matches, rule } in candidates {
        let seniority = Seniority::new(created, &rule.route.namespace, &rule.route.name);
        for matches in matches {
            let key = (specificity(&matches), seniority.clone(), index);
            keyed.push((key, Entry { matches, rule: Arc::clone(&rule) }));
        }
    }
    // Stable: of two matches of one rule the first stays in front.
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.into_iter().map(|(_, entry)| entry).collect()
}

/// Less is more specific: the kind of the path or the name, then its lengths, then what else has to match.
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
