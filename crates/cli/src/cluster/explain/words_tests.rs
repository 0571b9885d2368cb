use super::*;

#[test]
fn a_method_is_grpc_or_http() {
    let head = |text: &str| text.parse::<CalledMethod>().map(|method| method.head());
    let grpc = ("POST".to_owned(), "/shop.v1.Cart/Get".to_owned(), true);
    assert_eq!((head("shop.v1.Cart/Get"), head("/shop.v1.Cart/Get")), (Ok(grpc.clone()), Ok(grpc)));
    assert_eq!(head("GET /items?page=2"), Ok(("GET".to_owned(), "/items?page=2".to_owned(), false)));
    for wrong in ["Get", "GET items", "a/b/c", "/", ""] {
        assert!(head(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_caller_has_a_short_and_a_long_name() {
    let identity = |text: &str| text.parse::<From>().map(|from| from.identity("example.org"));
    let web = Some("spiffe://example.org/ns/shop/sa/web".to_owned());
    assert_eq!((identity("shop/web"), identity("ns/shop/sa/web")), (Ok(web.clone()), Ok(web)));
    assert_eq!(identity("spiffe://a/ns/b/sa/c"), Ok(Some("spiffe://a/ns/b/sa/c".to_owned())));
    assert_eq!(identity("none"), Ok(None));
    let account = |text: &str| text.parse::<From>().map(|from| from.account());
    for (text, wanted) in [
        ("shop/web", Some("shop/web")),
        ("spiffe://a/ns/shop/sa/web", Some("shop/web")),
        ("shop/cart", Some("shop/cart")),
        ("none", None),
    ] {
        assert_eq!(account(text), Ok(wanted.map(str::to_owned)), "{text}");
    }
    let namespace = |text: &str| text.parse::<From>().map(|from| from.namespace());
    let shop = Ok(Some("shop".to_owned()));
    assert_eq!((namespace("shop/web"), namespace("spiffe://a/ns/shop/sa/web")), (shop.clone(), shop));
    assert_eq!(namespace("none"), Ok(None));
    assert!(identity("web").is_err() && identity("a/b/c").is_err());
}

#[test]
fn a_field_has_a_name_in_lower_case() {
    let field = "X-Canary: a:b".parse::<Field>();
    assert_eq!(field, Ok(Field { name: "x-canary".to_owned(), value: "a:b".to_owned() }));
    assert!("x-canary".parse::<Field>().is_err());
}
