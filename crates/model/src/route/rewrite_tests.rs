use super::{PathRewrite, Rewrite};
use crate::route::PathMatch;

fn rewritten(path: &str, change: PathRewrite, matched: &PathMatch) -> String {
    let rewrite = Rewrite { hostname: None, path: Some(change) };
    String::from_utf8(rewrite.path(path.as_bytes(), matched).into_owned()).expect("UTF-8")
}

/// The examples in the table of Gateway API's specification, and the rules in the specification's text.
#[test]
fn the_prefix_that_matched_is_replaced() {
    for (path, prefix, replacement, new) in [
        ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
        ("/foo", "/foo", "/xyz", "/xyz"),
        ("/foo/", "/foo", "/xyz", "/xyz/"),
        ("/foo/bar", "/foo", "", "/bar"),
        ("/foo/", "/foo", "", "/"),
        ("/foo", "/foo", "", "/"),
        ("/foo/", "/foo", "/", "/"),
        ("/foo", "/foo", "/", "/"),
        ("/foo/bar?a=/foo", "/foo", "/xyz", "/xyz/bar?a=/foo"),
        ("/foo?a", "/foo", "/", "/?a"),
        ("/bar", "/", "/xyz", "/xyz/bar"),
        ("/", "/", "/xyz", "/xyz/"),
    ] {
        let change = PathRewrite::Prefix(replacement.into());
        assert_eq!(rewritten(path, change, &PathMatch::prefix(prefix)), new, "{path} {prefix} {replacement}");
    }
}

#[test]
fn the_full_path_is_replaced_and_the_query_stays() {
    let full = || PathRewrite::Full("/new".into());
    for matched in [PathMatch::prefix("/old"), PathMatch::Exact("/old".into())] {
        assert_eq!(rewritten("/old/path?a=b", full(), &matched), "/new?a=b");
    }
    assert_eq!(rewritten("/old", PathRewrite::Full(Box::default()), &PathMatch::prefix("/")), "/");
}

#[test]
fn a_path_without_a_rewrite_is_not_copied() {
    let rewrite = Rewrite { hostname: Some("b".into()), path: None };
    assert!(matches!(rewrite.path(b"/a?b", &PathMatch::prefix("/")), std::borrow::Cow::Borrowed(b"/a?b")));
}
