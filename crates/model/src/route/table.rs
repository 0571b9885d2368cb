//! Every rule that calls to one cluster can meet.

use std::sync::Arc;

use serde::Serialize;

use super::path::split_query;
use super::{Candidate, Match, PathMatch, RequestHead, RouteKind, Rule, precedence};

/// The rules that calls to one cluster can meet, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteTable {
    kind: RouteKind,
    entries: Box<[Entry]>,
}

/// A match with its rule. A rule with several matches has an entry for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Which requests or connections the rule is about.
    pub matches: Match,
    /// What is done with them.
    pub rule: Arc<Rule>,
}

/// The rule that a request or a connection meets.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// What is done with it.
    pub rule: &'a Arc<Rule>,
    /// What its path matched, which rewrites and redirects of a prefix need.
    pub path: &'a PathMatch,
}

impl RouteTable {
    /// A table of entries that are in order of precedence.
    pub fn new(kind: RouteKind, entries: Vec<Entry>) -> Self {
        Self { kind, entries: entries.into() }
    }

    /// A table of rules of the routes of one kind, in any order.
    pub fn of_candidates(kind: RouteKind, candidates: Vec<Candidate>) -> Self {
        Self::new(kind, precedence::sorted(candidates))
    }

    /// The rule that the request meets, or `None` if it meets none: it is answered with 404, or UNIMPLEMENTED where
    /// the routes are GRPCRoutes.
    ///
    /// One scan, up to the first match; what one match costs, [`Match::is_match`] says.
    pub fn find(&self, head: &impl RequestHead) -> Option<Found<'_>> {
        let (path, query) = split_query(head.path());
        let entry = self.entries.iter().find(|entry| entry.matches.is_match_of(head, path, query))?;
        Some(Found { rule: &entry.rule, path: &entry.matches.path })
    }

    /// The rule that a TLS connection meets whose ClientHello names that server, or none; `None` if it meets no rule.
    pub fn find_server(&self, name: Option<&str>) -> Option<Found<'_>> {
        let entry = self.entries.iter().find(|entry| entry.matches.is_match_of_server(name))?;
        Some(Found { rule: &entry.rule, path: &entry.matches.path })
    }

    /// The kind of all its routes.
    pub fn kind(&self) -> RouteKind {
        self.kind
    }

    /// All that it holds, in order of precedence.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
