use super::{GrpcMethod, PathMatch, split_query};
use crate::route::{Pattern, ValueMatch};

#[test]
fn an_exact_path_has_case_and_its_last_slash() {
    let exact = PathMatch::Exact("/a/B".into());
    for (path, is_match) in [("/a/B", true), ("/a/b", false), ("/a/B/", false), ("/a/B/c", false), ("", false)] {
        assert_eq!(exact.is_match(path.as_bytes()), is_match, "{path}");
    }
}

#[test]
fn a_prefix_is_made_of_whole_elements() {
    for prefix in ["/abc", "/abc/"] {
        for (path, is_match) in
            [("/abc", true), ("/abc/", true), ("/abc/def", true), ("/abcd", false), ("/ab", false), ("/ABC", false)]
        {
            assert_eq!(PathMatch::prefix(prefix).is_match(path.as_bytes()), is_match, "{prefix} {path}");
        }
    }
}

#[test]
fn the_root_is_a_prefix_of_everything() {
    for path in ["/", "/a", "*", ""] {
        assert!(PathMatch::prefix("/").is_match(path.as_bytes()), "{path:?}");
    }
}

#[test]
fn a_pattern_is_tried_on_the_whole_path() {
    let pattern = PathMatch::Pattern(Pattern::new("/v[0-9]+/users").expect("a pattern"));
    assert!(pattern.is_match(b"/v12/users"));
    assert!(!pattern.is_match(b"/v12/users/7"));
}

#[test]
fn a_grpc_method_is_told_by_service_method_or_both() {
    let exact = |text: &str| Some(ValueMatch::Exact(text.into()));
    let pattern = |text: &str| Some(ValueMatch::Pattern(Pattern::new(text).expect("a pattern")));
    for (service, method, path, is_match) in [
        (exact("shop.Cart"), exact("Add"), "/shop.Cart/Add", true),
        (exact("shop.Cart"), exact("Add"), "/shop.Cart/Addition", false),
        (exact("shop.Cart"), exact("Add"), "/other/shop.Cart/Add", false),
        (exact("shop.Cart"), None, "/shop.Cart/Remove", true),
        (exact("shop.Cart"), None, "/shop.Cart2/Remove", false),
        (exact("shop.Cart"), None, "/shop.Cart/", false),
        (exact("shop.Cart"), None, "/shop.Cart", false),
        (None, exact("Add"), "/any.Service/Add", true),
        (None, exact("Add"), "/any.Service/add", false),
        (None, None, "/any.Service/add", true),
        (None, None, "/healthz", true),
        (pattern(r"shop\..*"), None, "/shop.Cart/Add", true),
        (pattern("shop"), None, "/shop.Cart/Add", false),
        (pattern(".*"), pattern("Get.*"), "/shop.Cart/GetAll", true),
        (pattern(".*"), None, "/a/b/c", false),
    ] {
        let matches = PathMatch::Grpc(GrpcMethod { service, method });
        assert_eq!(matches.is_match(path.as_bytes()), is_match, "{matches:?} {path}");
    }
}

#[test]
fn the_query_begins_at_the_first_question_mark() {
    assert_eq!(split_query(b"/a?b=c?d"), (&b"/a"[..], &b"?b=c?d"[..]));
    assert_eq!(split_query(b"/a"), (&b"/a"[..], &b""[..]));
}
