use super::{Candidate, sorted};
use crate::route::fixtures::rule;
use crate::route::{GrpcMethod, HeaderMatch, Match, PathMatch, Pattern, QueryMatch, RouteKind, ValueMatch};

/// Returns a rule of the route `default/a` with one match; the rule's index in the route is 0.
fn http(name: &str, matches: Match) -> Candidate {
    Candidate { created: None, index: 0, matches: vec![matches.into()], rule: rule(RouteKind::Http, "default/a", name) }
}

fn grpc(name: &str, service: &str, method: &str, headers: usize) -> Candidate {
    let value = |text: &str| (!text.is_empty()).then(|| ValueMatch::Exact(text.into()));
    let path = PathMatch::Grpc(GrpcMethod { service: value(service), method: value(method) });
    let matches = Match { path, ..with(headers, 0) };
    Candidate { created: None, index: 0, matches: vec![matches.into()], rule: rule(RouteKind::Grpc, "default/a", name) }
}

/// Returns a match for any path, with the given numbers of header conditions and query conditions.
fn with(headers: usize, query: usize) -> Match {
    let value = || ValueMatch::Exact("x".into());
    let headers = (0..headers).map(|n| HeaderMatch { name: format!("h{n}").into(), value: value() });
    let query = (0..query).map(|n| QueryMatch { name: format!("q{n}").into(), value: value() });
    Match { headers: headers.collect(), query: query.collect(), ..Match::any() }
}

/// Returns the rules' names in order of precedence, checked for every input order.
fn order(candidates: &[Candidate]) -> Vec<String> {
    let names = |candidates: Vec<Candidate>| -> Vec<String> {
        sorted(candidates).iter().map(|entry| entry.rule.name.as_deref().unwrap_or_default().to_owned()).collect()
    };
    let forward = names(candidates.to_vec());
    assert_eq!(names(candidates.iter().rev().cloned().collect()), forward, "the order of reading counts");
    forward
}

#[test]
fn an_exact_path_goes_before_a_pattern_and_a_pattern_before_a_prefix() {
    let path = |path| Match { path, ..Match::any() };
    let pattern = PathMatch::Pattern(Pattern::new("/long/pattern/.*").expect("a pattern"));
    assert_eq!(
        order(&[
            http("prefix", path(PathMatch::prefix("/long/prefix/of/a/path"))),
            http("exact", path(PathMatch::Exact("/a".into()))),
            http("pattern", path(pattern)),
        ]),
        ["exact", "pattern", "prefix"]
    );
}

#[test]
fn the_longer_prefix_goes_first_whatever_else_matches() {
    let path = |path: &str, more| Match { path: PathMatch::prefix(path), ..more };
    let method = Match { method: Some("GET".into()), ..with(16, 16) };
    assert_eq!(order(&[http("short", path("/a", method)), http("long", path("/a/b", with(0, 0)))]), ["long", "short"]);
}

#[test]
fn a_method_goes_before_any_number_of_headers() {
    let method = Match { method: Some("GET".into()), ..Match::any() };
    assert_eq!(order(&[http("headers", with(16, 16)), http("method", method)]), ["method", "headers"]);
}

#[test]
fn more_headers_go_before_any_number_of_parameters() {
    assert_eq!(
        order(&[http("one", with(1, 16)), http("two", with(2, 0)), http("none", with(0, 16))]),
        ["two", "one", "none"]
    );
}

#[test]
fn more_parameters_go_first() {
    assert_eq!(order(&[http("one", with(0, 1)), http("two", with(0, 2))]), ["two", "one"]);
}

#[test]
fn the_older_route_goes_first_and_one_of_unknown_age_last() {
    let created = |name: &str, route: &str, created| Candidate {
        created,
        rule: rule(RouteKind::Http, route, name),
        ..http(name, Match::any())
    };
    assert_eq!(
        order(&[
            created("unknown", "default/a", None),
            created("new", "default/b", Some(200)),
            created("old", "default/c", Some(100)),
        ]),
        ["old", "new", "unknown"]
    );
}

#[test]
fn of_equal_age_the_first_by_the_text_namespace_slash_name_goes_first() {
    let of = |route: &str| Candidate { rule: rule(RouteKind::Http, route, route), ..http("", Match::any()) };
    // `a-b/z` is first, because `-` sorts before `/` in the text `namespace/name`.
    assert_eq!(order(&[of("b/a"), of("a/b"), of("a/a"), of("a-b/z")]), ["a-b/z", "a/a", "a/b", "b/a"]);
}

#[test]
fn within_a_route_the_first_rule_goes_first() {
    let at = |index, name: &str| Candidate { index, ..http(name, Match::any()) };
    assert_eq!(order(&[at(2, "third"), at(0, "first"), at(1, "second")]), ["first", "second", "third"]);
}

#[test]
fn what_is_more_specific_goes_before_what_is_older() {
    let old = Candidate { created: Some(1), ..http("old", Match::any()) };
    let specific = Candidate { created: Some(2), index: 9, ..http("specific", with(1, 0)) };
    assert_eq!(order(&[old, specific]), ["specific", "old"]);
}

#[test]
fn each_match_of_a_rule_has_its_own_place() {
    let exact = Match { path: PathMatch::Exact("/a".into()), ..Match::any() };
    let both = Candidate { matches: vec![Match::any().into(), exact.into()], ..http("both", Match::any()) };
    let middle = Match { path: PathMatch::prefix("/a"), ..Match::any() };
    assert_eq!(order(&[both, http("middle", middle)]), ["both", "middle", "both"]);
}

#[test]
fn of_grpc_the_longer_service_goes_first_then_the_longer_method_then_more_headers() {
    assert_eq!(
        order(&[
            grpc("any", "", "", 0),
            grpc("headers", "", "", 2),
            grpc("method", "", "LongMethodName", 16),
            grpc("service", "shop.Cart", "", 0),
            grpc("both", "shop.Cart", "Add", 0),
            grpc("both and a header", "shop.Cart", "Add", 1),
            grpc("longer service", "shop.Carts", "", 0),
        ]),
        ["longer service", "both and a header", "both", "service", "method", "headers", "any"]
    );
}
