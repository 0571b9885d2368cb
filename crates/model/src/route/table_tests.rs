use std::sync::Arc;

use super::{Entry, RouteTable};
use crate::mesh::ClusterKey;
use crate::route::fixtures::{get, rule};
use crate::route::{
    Backend, BackendTarget, Candidate, Filters, Match, PathMatch, Rewrite, RouteKind, Rule, ServerName,
};

#[test]
fn the_first_entry_that_matches_is_found() {
    let entry = |name: &str, path: &str| {
        let matches = Match { path: PathMatch::prefix(path), ..Match::any() };
        Entry { matches: matches.into(), rule: rule(RouteKind::Http, "default/a", name) }
    };
    let table = RouteTable::new(RouteKind::Http, vec![entry("a", "/a"), entry("b", "/a/b"), entry("c", "/c")]);
    let found = |path| table.find(&get(path)).map(|found| (found.rule.name.as_deref(), found.path.clone()));
    assert_eq!(found("/a/b"), Some((Some("a"), PathMatch::prefix("/a"))));
    assert_eq!(found("/c/d?e"), Some((Some("c"), PathMatch::prefix("/c"))));
    assert_eq!(found("/d"), None);
}

#[test]
fn the_match_that_counts_is_given_with_the_rule() {
    let exact = Match { path: PathMatch::Exact("/a/b".into()), ..Match::any() };
    let prefix = Match { path: PathMatch::prefix("/a"), ..Match::any() };
    let rule = rule(RouteKind::Http, "default/a", "");
    let candidate = Candidate { created: None, index: 0, matches: vec![prefix.into(), exact.clone().into()], rule };
    let table = RouteTable::of_candidates(RouteKind::Http, vec![candidate]);
    assert_eq!(table.find(&get("/a/b")).map(|found| found.path), Some(&exact.path));
    assert_eq!(table.entries().len(), 2);
    assert_eq!(table.kind(), RouteKind::Http);
}

#[test]
fn a_rule_is_plain_if_it_sends_everything_to_one_backend_and_changes_nothing() {
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let backend = Backend { to: BackendTarget::Cluster(key), weight: 1, filters: Filters::default() };
    let with = |kind, matches: Match, change: &dyn Fn(&mut Rule)| {
        let mut only = Rule::clone(&rule(kind, "shop/cart", "only"));
        only.backends = [backend.clone()].into();
        change(&mut only);
        RouteTable::new(kind, vec![Entry { matches: matches.into(), rule: only.into() }]).is_plain()
    };
    let unchanged = |_: &mut Rule| {};
    assert!(with(RouteKind::Http, Match::any(), &unchanged) && with(RouteKind::Service, Match::any(), &unchanged));
    assert!(!with(RouteKind::Tcp, Match::any(), &unchanged), "it has no requests");
    let some = Match { path: PathMatch::prefix("/a"), ..Match::any() };
    assert!(!with(RouteKind::Http, some, &unchanged));
    let filters =
        || Filters { rewrite: Some(Rewrite { hostname: Some("a".into()), path: None }), ..Filters::default() };
    let changes: [&dyn Fn(&mut Rule); 5] = [
        &|rule| rule.filters = filters().into(),
        &|rule| rule.backends = [Backend { filters: filters(), ..backend.clone() }].into(),
        &|rule| rule.backends = [Backend { weight: 0, ..backend.clone() }].into(),
        &|rule| {
            let to = BackendTarget::Invalid("why".into());
            rule.backends = [Backend { to, ..backend.clone() }].into();
        },
        &|rule| rule.backends = Arc::default(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert!(!with(RouteKind::Http, Match::any(), change), "change {number}");
    }
}

/// The most specific name wins, in any order of the routes.
#[test]
fn a_tls_connection_is_found_by_the_name_of_its_server() {
    let candidate = |name: &str, created| {
        let matches = match ServerName::parse(name) {
            Some(name) => Match::server(name),
            None => Match::any(),
        };
        let rule = rule(RouteKind::Tls, "default/a", name);
        Candidate { created: Some(created), index: 0, matches: vec![matches.into()], rule }
    };
    let names = ["any of them", "*.org", "*.example.org", "*.cart.example.org", "cart.example.org"];
    let mut candidates: Vec<_> = names.iter().zip(0..).map(|(name, created)| candidate(name, created)).collect();
    let found = |table: &RouteTable, name: Option<&str>| {
        table.find_server(name).and_then(|found| found.rule.name.as_deref().map(str::to_owned))
    };
    let table = RouteTable::of_candidates(RouteKind::Tls, candidates.clone());
    let cases = [
        (Some("cart.example.org"), "cart.example.org"),
        (Some("a.cart.example.org"), "*.cart.example.org"),
        (Some("a.example.org"), "*.example.org"),
        (Some("a.b.org"), "*.org"),
        (Some("a.com"), "any of them"),
        (None, "any of them"),
    ];
    for (name, wanted) in cases {
        assert_eq!(found(&table, name).as_deref(), Some(wanted), "{name:?}");
    }
    candidates.remove(0);
    let table = RouteTable::of_candidates(RouteKind::Tls, candidates);
    assert_eq!(found(&table, Some("a.com")), None);
    assert_eq!(found(&table, None), None);
    assert!(table.find(&get("/")).is_none(), "no request is a connection to a server");
}

#[test]
fn nothing_is_found_in_an_empty_table() {
    assert!(RouteTable::new(RouteKind::Grpc, Vec::new()).find(&get("/")).is_none());
}
