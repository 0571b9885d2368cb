use super::*;

/// The `:authority` and the `host` of a request with these fields, after [`use_usual_authority`].
fn made_usual(fields: &[(&str, &str)]) -> [Option<String>; 2] {
    let mut request = FieldSection::new();
    fields.iter().for_each(|(name, value)| request.push(name.as_bytes(), value.as_bytes()));
    use_usual_authority(&mut request, "cart");
    [Known::Authority, Known::Host]
        .map(|known| request.get(known).map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[test]
fn an_authority_that_some_servers_reject_is_replaced_and_such_a_host_is_removed() {
    let text = |value: &str| Some(value.to_owned());
    for unusual in ["extension/auth|server", "%2Ftmp%2Fsocket", ""] {
        assert_eq!(made_usual(&[(":authority", unusual)]), [text("cart"), None]);
        assert_eq!(made_usual(&[(":authority", unusual), ("host", "b")]), [text("cart"), text("b")]);
        assert_eq!(made_usual(&[(":authority", "a"), ("host", unusual)]), [text("a"), None]);
    }
    assert_eq!(made_usual(&[(":authority", "a:80"), ("host", "b")]), [text("a:80"), text("b")]);
}
