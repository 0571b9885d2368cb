use super::Identities;
use crate::spiffe::{SpiffeId, TrustDomain};

#[test]
fn identities_are_those_that_have_all_that_is_written() {
    let own: TrustDomain = "example.org".parse().expect("a trust domain");
    let contain = |text: &str, id: &str| {
        let id: SpiffeId = format!("spiffe://{id}").parse().expect("an id");
        text.parse::<Identities>().expect("identities").contain(&id, &own)
    };
    for (text, id, expected) in [
        ("*", "example.org/ns/shop/sa/web", true),
        ("*", "other.org/ns/shop/sa/web", true),
        ("ns/shop/sa/web", "example.org/ns/shop/sa/web", true),
        ("ns/shop/sa/web", "other.org/ns/shop/sa/web", false),
        ("ns/shop/sa/web", "example.org/ns/shop/sa/web2", false),
        ("ns/shop/sa/web", "example.org/ns/shop2/sa/web", false),
        ("ns/shop/sa/*", "example.org/ns/shop/sa/any", true),
        ("ns/shop/sa/*", "example.org/ns/other/sa/any", false),
        ("ns/shop/sa/*", "other.org/ns/shop/sa/any", false),
        ("ns/*/sa/prometheus", "example.org/ns/any/sa/prometheus", true),
        ("ns/*/sa/prometheus", "example.org/ns/any/sa/other", false),
        ("ns/*/sa/*", "example.org/ns/any/sa/any", true),
        ("ns/*/sa/*", "other.org/ns/any/sa/any", false),
        ("spiffe://other.org/ns/shop/sa/web", "other.org/ns/shop/sa/web", true),
        ("spiffe://other.org/ns/shop/sa/web", "example.org/ns/shop/sa/web", false),
        ("spiffe://other.org/ns/*/sa/*", "other.org/ns/any/sa/any", true),
        ("spiffe://other.org/ns/*/sa/*", "example.org/ns/any/sa/any", false),
    ] {
        assert_eq!(contain(text, id), expected, "{text} {id}");
    }
}

#[test]
fn what_is_no_identity_is_refused_and_what_is_one_is_shown_as_written() {
    for text in [
        "",
        "**",
        "web",
        "shop/web",
        "ns/shop",
        "ns/shop/sa/",
        "ns//sa/web",
        "ns/shop/sa/web/",
        "ns/shop/sa/web/sa/x",
        "ns/sh*/sa/web",
        "ns/shop/sa/we*",
        "ns/Shop/sa/web",
        "spiffe://",
        "spiffe://*",
        "spiffe://a",
        "spiffe://a/*",
        "spiffe://*/ns/a/sa/b",
        "spiffe:///ns/a/sa/b",
        "spiffe://A/ns/a/sa/b",
        "example.org/ns/a/sa/b",
        "https://a/ns/a/sa/b",
        " ns/a/sa/b",
    ] {
        assert!(text.parse::<Identities>().is_err(), "{text:?}");
    }
    for text in ["*", "ns/a/sa/b", "ns/a/sa/*", "ns/*/sa/*", "spiffe://a.b/ns/a/sa/*"] {
        assert_eq!(text.parse::<Identities>().map(|identities| identities.to_string()).as_deref(), Ok(text));
    }
}
