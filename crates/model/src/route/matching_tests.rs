use super::{HeaderMatch, Match, QueryMatch, ValueMatch};
use crate::route::fixtures::{Head, get};
use crate::route::{PathMatch, Pattern};

fn exact(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.into())
}

fn pattern(text: &str) -> ValueMatch {
    ValueMatch::Pattern(Pattern::new(text).expect("a pattern"))
}

fn with_headers(headers: &[(&str, ValueMatch)]) -> Match {
    let headers = headers.iter().map(|(name, value)| HeaderMatch { name: (*name).into(), value: value.clone() });
    Match { headers: headers.collect(), ..Match::any() }
}

fn with_query(query: &[(&str, ValueMatch)]) -> Match {
    let query = query.iter().map(|(name, value)| QueryMatch { name: (*name).into(), value: value.clone() });
    Match { query: query.collect(), ..Match::any() }
}

#[test]
fn a_match_of_nothing_matches_everything() {
    assert!(Match::any().is_match(&get("/")));
    assert!(Match::any().is_match(&Head { method: "OPTIONS", path: "*", ..get("/") }));
}

#[test]
fn everything_that_is_listed_has_to_match() {
    let all = Match {
        path: PathMatch::prefix("/cart"),
        method: Some("POST".into()),
        ..with_headers(&[("version", exact("2")), ("env", exact("canary"))])
    };
    let good = Head { method: "POST", path: "/cart/7", headers: &[("env", "canary"), ("version", "2")], ..get("/") };
    assert!(all.is_match(&good));
    assert!(!all.is_match(&Head { method: "GET", ..good }));
    assert!(!all.is_match(&Head { path: "/carts", ..good }));
    assert!(!all.is_match(&Head { headers: &[("version", "2")], ..good }));
}

#[test]
fn a_path_is_matched_without_its_query() {
    let exact = Match { path: PathMatch::Exact("/a".into()), ..Match::any() };
    assert!(exact.is_match(&get("/a?b")));
    assert!(!exact.is_match(&get("/a/?b")));
}

#[test]
fn of_several_fields_of_a_name_one_has_to_match() {
    let canary = with_headers(&[("env", exact("canary"))]);
    assert!(canary.is_match(&Head { headers: &[("env", "prod"), ("env", "canary")], ..get("/") }));
    assert!(!canary.is_match(&Head { headers: &[("env", "Canary")], ..get("/") }));
    assert!(!canary.is_match(&get("/")));
}

#[test]
fn a_header_may_be_a_pattern() {
    let canary = with_headers(&[("user", pattern("(alice|bob)@.+"))]);
    assert!(canary.is_match(&Head { headers: &[("user", "bob@example.com")], ..get("/") }));
    assert!(!canary.is_match(&Head { headers: &[("user", "bob")], ..get("/") }));
}

#[test]
fn the_header_host_is_the_authority() {
    let host = with_headers(&[("host", exact("cart.shop:80"))]);
    assert!(host.is_match(&Head { authority: "cart.shop:80", ..get("/") }));
    assert!(!host.is_match(&Head { authority: "cart.shop", headers: &[("host", "cart.shop:80")], ..get("/") }));
}

#[test]
fn of_several_parameters_of_a_name_the_first_counts() {
    let animal = with_query(&[("animal", exact("whale"))]);
    for (path, is_match) in [
        ("/?animal=whale", true),
        ("/?a=b&animal=whale&c", true),
        ("/?animal=dolphin&animal=whale", false),
        ("/?animal=whale&animal=dolphin", true),
        ("/?Animal=whale", false),
        ("/?animal=whale#", false),
        ("/?animal", false),
        ("/?animal=", false),
        ("/", false),
        ("/animal=whale", false),
    ] {
        assert_eq!(animal.is_match(&get(path)), is_match, "{path}");
    }
}

#[test]
fn parameters_are_decoded() {
    let spaced = with_query(&[("a b", exact("c d&e=%"))]);
    assert!(spaced.is_match(&get("/?a+b=c%20d%26e%3d%25")));
    assert!(spaced.is_match(&get("/?a%20b=c+d%26e=%")));
    let pattern = with_query(&[("q", pattern("a b|ab"))]);
    assert!(pattern.is_match(&get("/?q=a+b")));
    assert!(pattern.is_match(&get("/?q=ab")));
    assert!(!pattern.is_match(&get("/?q=a%zzb")));
}
