use super::{NAME_MAX_BYTES, Repeatable};

#[test]
fn a_method_is_one_of_grpc_or_a_safe_one_of_http() {
    let read = |text: &str| text.parse::<Repeatable>();
    assert_eq!(read("shop.v1.Cart/Get"), Ok(Repeatable::Grpc("shop.v1.Cart/Get".into())));
    assert_eq!(read("shop.v1.Cart/*"), Ok(Repeatable::GrpcService("shop.v1.Cart".into())));
    assert_eq!(read("HEAD"), Ok(Repeatable::Http("HEAD".into())));
    for text in [
        "*",
        "*/*",
        "POST",
        "get",
        "/shop.v1.Cart/Get",
        "shop.v1.Cart",
        "shop..Cart/Get",
        "shop.Cart/",
        "a/b/c",
        "1a/B",
        "",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
    assert!(read(&format!("a/{}", "b".repeat(NAME_MAX_BYTES))).is_err());
}

#[test]
fn a_method_is_written_as_it_is_read() {
    for text in ["shop.v1.Cart/Get", "shop.v1.Cart/*", "GET"] {
        assert_eq!(text.parse::<Repeatable>().expect("a method").to_string(), text);
    }
}
