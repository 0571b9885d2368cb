use super::{Redirect, Scheme};
use crate::route::fixtures::{Head, get};
use crate::route::{PathMatch, PathRewrite};

const NOTHING: Redirect = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };

/// Returns the location for an unencrypted request `GET /a/b?q` to `cart.shop:8080`, sent to the Service's port `port`.
fn location(redirect: &Redirect, port: u16) -> String {
    located(redirect, &Head { authority: "cart.shop:8080", ..get("/a/b?q") }, Scheme::Http, port)
}

fn located(redirect: &Redirect, head: &Head<'_>, scheme: Scheme, port: u16) -> String {
    let (status, location) = redirect.location(head, scheme, port, &PathMatch::prefix("/a"));
    assert_eq!(status, redirect.status);
    String::from_utf8(location).expect("UTF-8")
}

#[test]
fn what_is_not_given_stays_as_it_is() {
    assert_eq!(location(&NOTHING, 8080), "http://cart.shop:8080/a/b?q");
}

#[test]
fn without_a_scheme_the_port_is_the_one_that_the_request_came_for() {
    let host = Redirect { hostname: Some("example.org".into()), ..NOTHING };
    assert_eq!(location(&host, 8080), "http://example.org:8080/a/b?q");
    assert_eq!(location(&host, 80), "http://example.org/a/b?q");
    assert_eq!(location(&host, 443), "http://example.org:443/a/b?q");
    assert_eq!(located(&host, &get("/"), Scheme::Https, 443), "https://example.org/");
}

#[test]
fn with_a_scheme_the_port_is_the_schemes_own() {
    let https = Redirect { scheme: Some(Scheme::Https), ..NOTHING };
    assert_eq!(location(&https, 8080), "https://cart.shop/a/b?q");
    let http = Redirect { scheme: Some(Scheme::Http), ..NOTHING };
    assert_eq!(location(&http, 8080), "http://cart.shop/a/b?q");
}

#[test]
fn a_port_that_is_given_is_written_unless_it_is_the_schemes_own() {
    for (scheme, port, start) in [
        (None, 8083, "http://cart.shop:8083"),
        (None, 80, "http://cart.shop"),
        (Some(Scheme::Http), 80, "http://cart.shop"),
        (Some(Scheme::Http), 443, "http://cart.shop:443"),
        (Some(Scheme::Https), 443, "https://cart.shop"),
        (Some(Scheme::Https), 8443, "https://cart.shop:8443"),
    ] {
        let redirect = Redirect { scheme, port: Some(port), ..NOTHING };
        assert_eq!(location(&redirect, 8080), format!("{start}/a/b?q"));
    }
}

#[test]
fn the_path_is_replaced_as_in_a_rewrite() {
    let path = |path| Redirect { path: Some(path), status: 301, ..NOTHING };
    assert_eq!(location(&path(PathRewrite::Prefix("/c".into())), 80), "http://cart.shop/c/b?q");
    assert_eq!(location(&path(PathRewrite::Full("/c".into())), 80), "http://cart.shop/c?q");
}

#[test]
fn an_address_keeps_its_brackets() {
    for (authority, host) in
        [("[fd00::1]:8080", "[fd00::1]"), ("[fd00::1]", "[fd00::1]"), ("10.0.0.1:80", "10.0.0.1"), ("", "")]
    {
        assert_eq!(located(&NOTHING, &Head { authority, ..get("/") }, Scheme::Http, 80), format!("http://{host}/"));
    }
}

#[test]
fn a_target_that_is_no_path_stays_behind_the_host() {
    assert_eq!(located(&NOTHING, &get("*"), Scheme::Http, 80), "http://echo/*");
    assert_eq!(located(&NOTHING, &get(""), Scheme::Http, 80), "http://echo/");
}
