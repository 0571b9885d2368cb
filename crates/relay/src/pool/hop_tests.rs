use super::*;

/// The `:authority` and the `host` of a request with these fields, after it was dressed for an HTTP/2 server.
fn dressed(fields: &[(&str, &str)]) -> [Option<String>; 2] {
    let mut request = FieldSection::new();
    fields.iter().for_each(|(name, value)| request.push(name.as_bytes(), value.as_bytes()));
    let endpoint = "10.0.0.9:80".parse().expect("an address");
    Hop::Plain(Protocol::Http2).dress(&mut request, Protocol::Http2, endpoint);
    [Known::Authority, Known::Host]
        .map(|known| request.get(known).map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[test]
fn an_authority_that_some_servers_reject_is_replaced_by_the_address_of_the_server() {
    let (address, none) = (Some("10.0.0.9:80".to_owned()), None);
    for unusual in ["extension/auth|server", "%2Ftmp%2Fsocket", ""] {
        assert_eq!(dressed(&[(":authority", unusual)]), [address.clone(), none.clone()]);
        assert_eq!(dressed(&[(":authority", "a"), ("host", unusual)]), [address.clone(), none.clone()]);
        assert_eq!(dressed(&[("host", unusual)]), [address.clone(), none.clone()]);
    }
    let usual = [Some("cart.shop:80".to_owned()), Some("b".to_owned())];
    assert_eq!(dressed(&[(":authority", "cart.shop:80"), ("host", "b")]), usual);
}
