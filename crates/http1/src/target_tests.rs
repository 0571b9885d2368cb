use super::*;

fn read(method: &str, target: &str) -> Option<(Option<String>, String, bool)> {
    let target = parse(method, target.as_bytes()).ok()?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the tests send text");
    Some((target.authority.map(text), text(target.path), target.lacks_slash))
}

#[test]
fn the_four_forms_are_told_apart() {
    let some =
        |authority: Option<&str>, path: &str, lacks| Some((authority.map(str::to_owned), path.to_owned(), lacks));
    assert_eq!(read("GET", "/a/b?c=http://d"), some(None, "/a/b?c=http://d", false));
    assert_eq!(read("GET", "//a"), some(None, "//a", false));
    assert_eq!(read("GET", "http://a:80/b?c"), some(Some("a:80"), "/b?c", false));
    assert_eq!(read("GET", "HTTP://a"), some(Some("a"), "", true));
    assert_eq!(read("GET", "http://[::1]:8?b"), some(Some("[::1]:8"), "?b", true));
    assert_eq!(read("OPTIONS", "*"), some(None, "*", false));
    assert_eq!(read("OPTIONS", "http://a"), some(Some("a"), "*", false));
    assert_eq!(read("CONNECT", "a.b:443"), some(Some("a.b:443"), "", false));
}

#[test]
fn a_target_that_is_none_of_the_forms_is_refused() {
    for target in ["*", "a", "a:80", "http:///b", "http://", "http:/a", "?a", "", "/a#b"] {
        assert_eq!(read("GET", target), None, "{target}");
    }
    for target in ["ftp:/a", "1ftp://a/", "a_b://c/", "://a/"] {
        assert_eq!(read("GET", target), None, "{target}");
    }
    for target in ["http://user@a/", "http://a,b/", "http://a\\b/", "http://\u{e9}/", "http://a:1:2/", "http://%61/"] {
        assert_eq!(read("GET", target), None, "{target}");
    }
    for target in ["a", "a:", ":80", "a:b", "a:123456", "/", "http://a:80", "user@a:80", "*", "a:1:80", "::1:80"] {
        assert_eq!(read("CONNECT", target), None, "{target}");
    }
}

#[test]
fn only_an_absolute_uri_has_a_scheme() {
    for (target, scheme) in [
        ("http://a/b", Some(&b"http"[..])),
        ("HTTPS://a", Some(&b"HTTPS"[..])),
        ("coap+tcp://a/b", Some(&b"coap+tcp"[..])),
        ("/http://a", None),
    ] {
        assert_eq!(parse("GET", target.as_bytes()).expect("a target").scheme, scheme, "{target}");
    }
}

#[test]
fn characters_beyond_ascii_pass_in_a_path_and_spaces_do_not() {
    assert!(read("GET", "/caf\u{e9}?{}|\"<>`").is_some());
    for target in ["/a b", "/a\tb", "/a\rb", "/a\nb", "/a\0b", "/a\u{7f}b"] {
        assert_eq!(read("GET", target), None, "{target:?}");
    }
}
