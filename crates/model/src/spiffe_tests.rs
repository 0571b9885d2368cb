use super::{BadName, ID_MAX_BYTES, SpiffeId, TrustDomain, Workload};

const CART: &str = "spiffe://example.org/ns/shop/sa/cart";

#[test]
fn an_id_is_read_and_written_as_it_was() {
    let id: SpiffeId = CART.parse().expect("an id");
    assert_eq!(id.trust_domain.as_str(), "example.org");
    assert_eq!((&*id.workload.namespace, &*id.workload.service_account), ("shop", "cart"));
    assert_eq!(id.to_string(), CART);
    assert_eq!(id.workload.to_string(), "ns/shop/sa/cart");
}

#[test]
fn names_of_another_form_are_refused_with_the_form_to_write() {
    for text in [
        "",
        "spiffe://",
        "spiffe://example.org",
        "spiffe://example.org/",
        "spiffe://example.org/ns/shop",
        "spiffe://example.org/ns/shop/sa/",
        "spiffe://example.org/ns/shop/sa/cart/",
        "spiffe://example.org/ns/shop/sa/cart/x",
        "spiffe://example.org/ns/../sa/cart",
        "spiffe://example.org/ns/shop/sa/-cart",
        "spiffe://example.org/ns/Shop/sa/cart",
        "spiffe://Example.org/ns/shop/sa/cart",
        "spiffe://example.org:443/ns/shop/sa/cart",
        "spiffe://user@example.org/ns/shop/sa/cart",
        "spiffe:///ns/shop/sa/cart",
        "SPIFFE://example.org/ns/shop/sa/cart",
        "https://example.org/ns/shop/sa/cart",
        "spiffe://example.org/sa/cart/ns/shop",
    ] {
        let error = text.parse::<SpiffeId>().expect_err(text);
        assert_eq!(error, BadName::Id(text.to_owned()));
        assert!(error.to_string().contains("write spiffe://<trust-domain>/ns/"));
    }
}

#[test]
fn a_text_that_is_too_long_is_refused_and_shown_in_part() {
    let long = format!("spiffe://example.org/ns/shop/sa/{}", "a".repeat(ID_MAX_BYTES));
    assert!(long.parse::<SpiffeId>().expect_err("too long").to_string().len() < 400);
    assert!("a".repeat(256).parse::<TrustDomain>().is_err());
    assert!(format!("ns/shop/sa/{}", "a".repeat(254)).parse::<Workload>().is_err());
}
