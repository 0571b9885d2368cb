use super::{BadPath, HealthPath};
use crate::policy::Request;

fn matches(path: &str, method: &str, asked: &str, upgrade: bool) -> bool {
    let path: HealthPath = path.parse().expect("a path");
    path.matches(&Request { method: method.as_bytes(), path: asked.as_bytes(), upgrade, has_content: method == "POST" })
}

#[test]
fn a_path_is_asked_for_byte_for_byte_whatever_its_query() {
    for asked in ["/healthz", "/healthz?", "/healthz?verbose=1", "/healthz?a=/../b?c"] {
        assert!(matches("/healthz", "GET", asked, false), "{asked}");
    }
    for asked in [
        "",
        "/",
        "healthz",
        "/healthz/",
        "/Healthz",
        "/healthzz",
        "/health",
        "//healthz",
        "/healthz/..",
        "/./healthz",
        "/x/../healthz",
        "/%68ealthz",
        "/healthz%2f..%2fadmin",
        "/healthz/../admin",
        "/healthz%3f",
        "/healthz#admin",
        "/healthz;x",
        "/healthz\\..\\admin",
        "/admin?/healthz",
        "http://a/healthz",
        "*",
        "/healthz ",
        "/healthz\0",
    ] {
        assert!(!matches("/healthz", "GET", asked, false), "{asked:?}");
    }
}

#[test]
fn only_get_is_open_and_never_with_an_upgrade() {
    for method in ["POST", "HEAD", "get", "OPTIONS", "CONNECT", "PUT", "DELETE", ""] {
        assert!(!matches("/healthz", method, "/healthz", false), "{method:?}");
    }
    assert!(!matches("/healthz", "GET", "/healthz", true));
}

#[test]
fn a_get_whose_content_may_follow_is_no_health_check() {
    let path: HealthPath = "/healthz".parse().expect("a path");
    let request = |has_content| Request { method: b"GET", path: b"/healthz", upgrade: false, has_content };
    assert!(path.matches(&request(false)));
    assert!(!path.matches(&request(true)));
}

#[test]
fn grpcs_health_check_is_asked_for_by_post() {
    let check = "/grpc.health.v1.Health/Check";
    assert!(matches(check, "POST", check, false));
    assert!(!matches(check, "GET", check, false));
    assert!(!matches(check, "POST", "/grpc.health.v1.Health/Watch", false));
}

#[test]
fn a_path_that_is_not_in_normal_form_is_refused() {
    for (text, error) in [
        ("", BadPath::Form),
        ("healthz", BadPath::Form),
        ("//healthz", BadPath::Segment),
        ("/a//b", BadPath::Segment),
        ("/a//", BadPath::Segment),
        ("/.", BadPath::Segment),
        ("/..", BadPath::Segment),
        ("/a/../b", BadPath::Segment),
        ("/a/./b", BadPath::Segment),
        ("/a/..", BadPath::Segment),
        ("/a%2e", BadPath::Character),
        ("/a?b", BadPath::Query),
        ("/a#b", BadPath::Character),
        ("/a b", BadPath::Character),
        ("/a\\b", BadPath::Character),
        ("/\u{e4}", BadPath::Character),
    ] {
        assert_eq!(text.parse::<HealthPath>(), Err(error), "{text:?}");
    }
    assert_eq!(format!("/{}", "a".repeat(1024)).parse::<HealthPath>(), Err(BadPath::Form));
    for text in ["/", "/a/", "/...", "/.well-known/x", "/a/b.c:d@e~"] {
        assert_eq!(text.parse::<HealthPath>().map(|path| path.to_string()).as_deref(), Ok(text));
    }
}
