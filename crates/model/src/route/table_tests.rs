use super::{Entry, RouteTable};
use crate::route::fixtures::{get, rule};
use crate::route::{Candidate, Match, PathMatch, RouteKind};

#[test]
fn the_first_entry_that_matches_is_found() {
    let entry = |name: &str, path: &str| {
        let matches = Match { path: PathMatch::prefix(path), ..Match::any() };
        Entry { matches, rule: rule(RouteKind::Http, "default/a", name) }
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
    let candidate = Candidate { created: None, index: 0, matches: vec![prefix, exact.clone()], rule };
    let table = RouteTable::of_candidates(RouteKind::Http, vec![candidate]);
    assert_eq!(table.find(&get("/a/b")).map(|found| found.path), Some(&exact.path));
    assert_eq!(table.entries().len(), 2);
    assert_eq!(table.kind(), RouteKind::Http);
}

#[test]
fn nothing_is_found_in_an_empty_table() {
    assert!(RouteTable::new(RouteKind::Grpc, Vec::new()).find(&get("/")).is_none());
}
