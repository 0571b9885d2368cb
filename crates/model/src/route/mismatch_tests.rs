use super::*;
use crate::route::fixtures::{Head, get};
use crate::route::{Pattern, RouteKind, RouteTable};

fn exact(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.into())
}

fn why(matches: Match, head: &Head<'_>) -> Option<String> {
    let rule = crate::route::fixtures::rule(RouteKind::Http, "shop/cart", "one");
    RouteTable::new(RouteKind::Http, vec![crate::route::Entry { matches: matches.into(), rule }]).why_not(0, head)
}

#[test]
fn the_first_condition_that_fails_is_named_with_what_the_call_has() {
    let canary = || Match {
        path: PathMatch::prefix("/items"),
        method: Some("GET".into()),
        headers: [HeaderMatch { name: "x-canary".into(), value: exact("yes") }].into(),
        query: [QueryMatch { name: "page".into(), value: ValueMatch::Pattern(Pattern::new("[0-9]+").expect("one")) }]
            .into(),
        ..Match::any()
    };
    let head = |method, path, headers| Head { method, headers, ..get(path) };
    let yes: &[(&str, &str)] = &[("x-canary", "yes")];
    let cases = [
        (head("GET", "/other", yes), Some(r#"path prefix "/items": the call has "/other""#)),
        (head("PUT", "/items", yes), Some(r#"method GET: the call has "PUT""#)),
        (head("GET", "/items", &[]), Some(r#"header x-canary = "yes": the call has none"#)),
        (head("GET", "/items", &[("x-canary", "no\u{7}")]), Some(r#"header x-canary = "yes": the call has "no\u{7}""#)),
        (head("GET", "/items", yes), Some(r#"query parameter page matches "[0-9]+": the call has "/items""#)),
        (head("GET", "/items?page=2", yes), None),
    ];
    for (head, expected) in cases {
        assert_eq!(why(canary(), &head).as_deref(), expected);
        assert_eq!(canary().is_match(&head), expected.is_none(), "both use the same decision");
    }
}

#[test]
fn conditions_are_written_in_words() {
    assert_eq!(Match::any().to_string(), "every call");
    let method = GrpcMethod { service: Some(exact("shop.v1.Cart")), method: None };
    let matches = Match { path: PathMatch::Grpc(method), ..Match::any() };
    assert_eq!(matches.to_string(), "gRPC method shop.v1.Cart/*");
    let matches = Match { path: PathMatch::Exact("/a".into()), method: Some("PUT".into()), ..Match::any() };
    assert_eq!(matches.to_string(), r#"path "/a", method PUT"#);
}
