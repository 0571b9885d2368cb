//! Decides which requests the dashboard answers. A request to its loopback address may come from a foreign page: any
//! page in the user's browser can send requests to loopback, and any name can resolve to loopback.
//!
//! A request must name the dashboard as its host (against DNS rebinding), must not come from another origin, and must
//! carry the token. The first request has the token in the URL. All later requests have it in a cookie that no script
//! can read.

use std::net::SocketAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use hyper::header::{CACHE_CONTROL, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use leno_admin::answer::{Answer, text, wrong_method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Content-Security-Policy: the browser must not run inline scripts or styles, nor load anything from other origins.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TOKEN_BYTES: usize = 24;

/// Makes a random token, which is valid until the dashboard ends.
///
/// # Errors
/// If the system has no random bytes.
pub(super) fn new_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_BYTES];
    rand::fill(&mut bytes).map_err(|_| "the system gave no random bytes for the token; try again".to_owned())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The conditions that a request must meet.
pub(super) struct Guard {
    /// The names under which a browser on this machine reaches the dashboard.
    hosts: Vec<String>,
    /// Name of the cookie. It contains the port, so that two dashboards do not share a cookie: browsers send a cookie
    /// to every port of a host.
    cookie: String,
    token: String,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, token: String) -> Self {
        let port = address.port();
        let mut hosts = vec![address.to_string()];
        hosts.extend(["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{port}")));
        // Allow a `Host` without a port too: browsers leave out port 80, the default of HTTP.
        let without_port = hosts.iter().filter_map(|host| host.strip_suffix(":80")).map(str::to_owned);
        let without_port: Vec<_> = without_port.collect();
        hosts.extend(without_port);
        Self { hosts, cookie: format!("leno-dashboard-{port}"), token }
    }

    /// Checks whether the dashboard may answer a request with a page.
    ///
    /// # Errors
    /// The answer to send instead of a page: a refusal, or the redirect that sets the cookie.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Box<Answer>> {
        let headers = request.headers();
        let refused = |status, why: &'static str| Err(Box::new(text(status, why)));
        let Some(host) = only(headers, &HOST).filter(|host| self.hosts.iter().any(|own| own == host)) else {
            return refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this is no name of the dashboard; open the URL that leno dashboard printed\n",
            );
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Box::new(wrong_method("GET, HEAD")));
        }
        let has_foreign_origin =
            headers.contains_key(ORIGIN) && only(headers, &ORIGIN) != Some(&format!("http://{host}"));
        let is_foreign_site = headers.contains_key(SEC_FETCH_SITE)
            && !matches!(only(headers, &SEC_FETCH_SITE), Some("same-origin" | "none"));
        if has_foreign_origin || is_foreign_site {
            return refused(
                StatusCode::FORBIDDEN,
                "the request comes from another site; type the URL into the address bar\n",
            );
        }
        if let Some(token) = request.uri().query().and_then(token_in) {
            return Err(Box::new(if self.is_token(token) { self.exchange() } else { unknown() }));
        }
        if self.cookies(headers).any(|token| self.is_token(token)) { Ok(()) } else { Err(Box::new(unknown())) }
    }

    fn is_token(&self, token: &str) -> bool {
        verify_slices_are_equal(token.as_bytes(), self.token.as_bytes()).is_ok()
    }

    fn cookies<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value)
    }

    /// Moves the token from the URL into the cookie, so that the token stays neither in the address bar nor in the
    /// browser's history.
    fn exchange(&self) -> Answer {
        let mut answer = text(StatusCode::SEE_OTHER, "");
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token);
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
        answer
    }
}

fn unknown() -> Answer {
    let why = "the token is missing or old; open the URL that leno dashboard printed at its start\n";
    text(StatusCode::UNAUTHORIZED, why)
}

/// Adds the security header fields that every answer needs.
pub(super) fn seal(answer: &mut Answer) {
    let fields = [
        ("content-security-policy", CONTENT_SECURITY_POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fields {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Returns the value of a header field; `None` if the request lacks the field or repeats it, or if the value is not
/// ASCII text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn token_in(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
