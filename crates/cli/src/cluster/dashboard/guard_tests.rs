use super::*;

fn guard() -> Guard {
    guard_at("127.0.0.1:4195")
}

fn guard_at(address: &str) -> Guard {
    Guard::new(address.parse().expect("an address"), "secret".to_owned())
}

/// Returns the status of the guard's answer to a request with these header fields.
fn status(method: Method, path: &str, fields: &[(&str, &str)]) -> u16 {
    status_at(&guard(), method, path, fields)
}

fn status_at(guard: &Guard, method: Method, path: &str, fields: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let checked = guard.check(&request.body(()).expect("a request"));
    checked.map_or_else(|answer| answer.status().as_u16(), |()| 200)
}

const HOST: (&str, &str) = ("host", "127.0.0.1:4195");
const COOKIE: (&str, &str) = ("cookie", "other=1; leno-dashboard-4195=secret");

#[test]
fn a_request_with_the_cookie_sees_the_pages_under_each_name_of_loopback() {
    for host in ["127.0.0.1:4195", "localhost:4195", "[::1]:4195"] {
        assert_eq!(status(Method::GET, "/", &[("host", host), COOKIE]), 200, "{host}");
    }
}

#[test]
fn a_request_under_another_name_is_refused_even_with_the_cookie() {
    for host in ["evil.example:4195", "127.0.0.1", "127.0.0.1:4196", "localhost", "LOCALHOST.evil:4195", ""] {
        assert_eq!(status(Method::GET, "/", &[("host", host), COOKIE]), 421, "{host}");
    }
    assert_eq!(status(Method::GET, "/", &[COOKIE]), 421);
    assert_eq!(status(Method::GET, "/", &[HOST, ("host", "evil.example"), COOKIE]), 421);
}

#[test]
fn the_printed_url_works_at_every_loopback_address_and_port() {
    for (address, host) in [
        ("127.0.0.2:4195", "127.0.0.2:4195"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("127.0.0.2:80", "127.0.0.2"),
        ("127.0.0.1:80", "localhost"),
        ("[::1]:80", "[::1]"),
        ("127.0.0.1:80", "127.0.0.1:80"),
    ] {
        let origin = format!("http://{host}");
        let cookie = "leno-dashboard-4195=secret; leno-dashboard-80=secret";
        let fields = [("host", host), ("origin", &*origin), ("cookie", cookie)];
        assert_eq!(status_at(&guard_at(address), Method::GET, "/", &fields), 200, "{address} as {host}");
    }
    for (address, host) in
        [("127.0.0.2:4195", "127.0.0.3:4195"), ("127.0.0.1:80", "evil.example"), ("127.0.0.1:8080", "127.0.0.1:80")]
    {
        assert_eq!(status_at(&guard_at(address), Method::GET, "/", &[("host", host)]), 421, "{address} as {host}");
    }
}

#[test]
fn a_request_from_another_origin_is_refused_even_with_the_cookie() {
    for field in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:4196"),
        ("origin", "http://localhost:4195"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(status(Method::GET, "/api/mesh", &[HOST, COOKIE, field]), 403, "{field:?}");
    }
    assert_eq!(status(Method::GET, "/api/mesh", &[HOST, COOKIE, ("origin", "http://127.0.0.1:4195")]), 200);
}

#[test]
fn the_token_is_needed_and_moves_into_a_cookie_that_scripts_cannot_read() {
    assert_eq!(status(Method::GET, "/", &[HOST]), 401);
    assert_eq!(status(Method::GET, "/?token=wrong", &[HOST]), 401);
    assert_eq!(status(Method::GET, "/?token=", &[HOST]), 401);
    assert_eq!(status(Method::GET, "/", &[HOST, ("cookie", "leno-dashboard-4195=wrong")]), 401);
    assert_eq!(status(Method::POST, "/", &[HOST, COOKIE]), 405);
    let request = Request::get("/?token=secret").header(HOST.0, HOST.1).body(()).expect("a request");
    let answer = guard().check(&request).expect_err("a redirect");
    let cookie = answer.headers()[SET_COOKIE].to_str().expect("text");
    assert_eq!(
        (answer.status(), cookie),
        (StatusCode::SEE_OTHER, "leno-dashboard-4195=secret; HttpOnly; SameSite=Strict; Path=/")
    );
}

#[test]
fn tokens_differ() {
    let (one, other) = (new_token().expect("a token"), new_token().expect("a token"));
    assert!(one.len() == 2 * TOKEN_BYTES && one != other);
}
