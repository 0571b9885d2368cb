use leno_model::route::Redirect;

use super::*;
use crate::fixtures::fields;

/// Returns the `location` of a redirect for a request with this authority to the Service `cart` on port 8080. The
/// redirect changes only the scheme, so that the `location` has no port.
fn location(authority: &str) -> String {
    let request = fields(&[(":method", "GET"), (":path", "/a?b"), (":authority", authority)]);
    let redirect_to = Redirect { scheme: Some(Scheme::Https), hostname: None, port: None, path: None, status: 301 };
    let filters = Filters { redirect: Some(redirect_to), ..Filters::default() };
    let cart = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 8080 };
    let (status, location) = redirect(&request, &filters, &PathMatch::prefix("/"), &cart).expect("a redirect");
    assert_eq!(status, 301);
    String::from_utf8(location).expect("UTF-8")
}

#[test]
fn a_redirect_without_a_hostname_keeps_the_requests_host() {
    for (authority, host) in [("web:80", "web"), ("10.0.0.1", "10.0.0.1"), ("[fd00::1]:8080", "[fd00::1]")] {
        assert_eq!(location(authority), format!("https://{host}/a?b"));
    }
}

#[test]
fn a_redirect_without_a_hostname_leads_to_the_service_if_the_authority_is_not_a_host() {
    for authority in ["good.example@evil.example", "a|b", "a/b", "a,b", "%2Ftmp%2Fsocket", ":8080", ""] {
        assert_eq!(location(authority), "https://cart.shop.svc.cluster.local/a?b", "{authority}");
    }
}
