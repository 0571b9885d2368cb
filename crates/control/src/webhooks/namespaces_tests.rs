use super::*;
use crate::webhooks::fixtures::ApiServer;

/// [`Namespaces`] after the watch has reported `shop`, and an API server that knows one more namespace.
fn namespaces() -> (ApiServer, Namespaces) {
    let shop = Namespace::new([("leno.dev/proxy-workers".to_owned(), "2".to_owned())].into());
    let (_, known) = watch::channel(Arc::new(BTreeMap::from([("shop".into(), shop)])));
    let server = ApiServer::default();
    let namespaces = Namespaces::new(known, server.client());
    (server, namespaces)
}

fn here() -> Source {
    Source::of([127, 0, 0, 1].into())
}

#[tokio::test]
async fn a_namespace_that_the_watch_has_not_told_yet_is_asked_for() {
    let (server, namespaces) = namespaces();
    let young = namespaces.find("young", here()).await.expect("it is there");
    assert!(young.injects());
    assert_eq!(server.asked(), ["/api/v1/namespaces/young"]);
}

#[tokio::test]
async fn a_namespace_that_is_known_is_not_asked_for() {
    let (server, namespaces) = namespaces();
    let shop = namespaces.find("shop", here()).await.expect("it is known");
    assert_eq!(shop.annotations().get("leno.dev/proxy-workers").map(String::as_str), Some("2"));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_namespace_that_nobody_knows_is_an_error() {
    let (_, namespaces) = namespaces();
    let error = namespaces.find("gone", here()).await.expect_err("there is none");
    assert!(matches!(&error, NoNamespace::Api { name, .. } if name == "gone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_busy_is_asked_again() {
    let (server, namespaces) = namespaces();
    assert!(!namespaces.find("late", here()).await.expect("it is there").injects());
    assert_eq!(server.asked().len(), 3);
    namespaces.find("gone", here()).await.expect_err("there is none");
    assert_eq!(server.asked().len(), 4, "there is no use in asking again");
}

#[tokio::test]
async fn nothing_but_a_name_gets_into_a_question_to_the_api_server() {
    let (server, namespaces) = namespaces();
    let long = "a".repeat(64);
    for name in ["", "shop/pods/web", "..", "shop?watch=1", "Shop", "shop%2f", "sh\u{f6}p", &long] {
        let error = namespaces.find(name, here()).await.expect_err(name);
        assert!(matches!(error, NoNamespace::Name(_)), "{name:?}: {error}");
    }
    assert!(server.asked().is_empty());
}
