//! All rules for calls to one cluster.

use std::sync::Arc;

use serde::Serialize;

use super::path::split_query;
use super::{Backend, BackendTarget, Candidate, Filters, Match, PathMatch, RequestHead, RouteKind, Rule, precedence};
use crate::mesh::ClusterKey;

/// The rules for calls to one cluster, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteTable {
    kind: RouteKind,
    entries: Box<[Entry]>,
    /// See [`RouteTable::is_plain`].
    #[serde(skip)]
    is_plain: bool,
}

/// A match with its rule. A rule with several matches has an entry for each match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Shared by the tables of all ports to which the route is attached.
    pub matches: Arc<Match>,
    pub rule: Arc<Rule>,
}

/// The rule found for a request or a connection.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    pub rule: &'a Arc<Rule>,
    /// The condition that the path matched. Rewrites and redirects need it to replace the matched prefix.
    pub path: &'a PathMatch,
    /// The index of the entry in [`RouteTable::entries`].
    pub place: usize,
}

impl<'a> Found<'a> {
    fn new((place, Entry { matches, rule }): (usize, &'a Entry)) -> Self {
        Self { rule, path: &matches.path, place }
    }
}

impl RouteTable {
    /// Creates a table of entries, which must be in order of precedence.
    pub fn new(kind: RouteKind, entries: Vec<Entry>) -> Self {
        let is_plain = matches!(kind, RouteKind::Http | RouteKind::Service) && is_plain(&entries);
        Self { kind, entries: entries.into(), is_plain }
    }

    /// Creates a table from rules of routes of one kind. The rules may be in any order.
    pub fn of_candidates(kind: RouteKind, candidates: Vec<Candidate>) -> Self {
        Self::new(kind, precedence::sorted(candidates))
    }

    /// Returns the rule for the request. `None` if no rule matches: the proxy then answers the request with 404, or
    /// with UNIMPLEMENTED for GRPCRoutes.
    ///
    /// Scans the entries up to the first match; [`Match::is_match`] documents the cost of one match.
    pub fn find(&self, head: &impl RequestHead) -> Option<Found<'_>> {
        let (path, query) = split_query(head.path());
        let mut entries = self.entries.iter().enumerate();
        entries.find(|(_, entry)| entry.matches.is_match_of(head, path, query)).map(Found::new)
    }

    /// Returns why a request does not match the entry at `place`, in words; `None` if it matches, or there is no such
    /// entry.
    pub fn why_not(&self, place: usize, head: &impl RequestHead) -> Option<String> {
        let (path, query) = split_query(head.path());
        Some(self.entries.get(place)?.matches.mismatch(head, path, query)?.explain(head))
    }

    /// Returns the rule for a TLS connection; `name` is the server name in its ClientHello, if any. `None` if no rule
    /// matches.
    pub fn find_server(&self, name: Option<&str>) -> Option<Found<'_>> {
        self.entries.iter().enumerate().find(|(_, entry)| entry.matches.is_match_of_server(name)).map(Found::new)
    }

    /// Returns whether one rule treats all requests alike: it is the table's only entry, matches every request, has one
    /// backend and changes nothing. Usually this is the rule of a Service without routes. For a plain table, the proxy
    /// need not call [`RouteTable::find`].
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the kind of all routes in the table.
    pub fn kind(&self) -> RouteKind {
        self.kind
    }

    /// All entries, in order of precedence.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Iterates over the clusters of all backends and mirrors. A cluster may appear several times.
    pub fn destinations(&self) -> impl Iterator<Item = &ClusterKey> {
        self.entries.iter().flat_map(|Entry { rule, .. }| {
            let backends = rule.backends.iter().filter_map(|backend| match &backend.to {
                BackendTarget::Cluster(key) => Some(key),
                BackendTarget::Invalid(_) => None,
            });
            let filters = rule.backends.iter().map(|backend| &backend.filters).chain([&*rule.filters]);
            backends.chain(filters.flat_map(|filters| &filters.mirrors).map(|mirror| &mirror.to))
        })
    }
}

/// Computes [`RouteTable::is_plain`] for a table of HTTP rules.
fn is_plain(entries: &[Entry]) -> bool {
    let [Entry { matches, rule }] = entries else { return false };
    let [Backend { to: BackendTarget::Cluster(_), weight: 1.., filters }] = &*rule.backends else { return false };
    **matches == Match::any() && *rule.filters == Filters::default() && *filters == Filters::default()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
