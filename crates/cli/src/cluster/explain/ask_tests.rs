use serde_json::json;

use super::*;

/// Pods of the namespace `shop`, each named after its service account.
fn pods_of(accounts: &[&str]) -> Vec<Pod> {
    let pod = |account: &&str| {
        let pod = json!({"metadata": {"name": format!("{account}-1"), "namespace": "shop"},
                         "spec": {"serviceAccountName": account, "containers": []}});
        serde_json::from_value(pod).expect("a Pod")
    };
    accounts.iter().map(pod).collect()
}

#[test]
fn the_named_caller_is_asked_and_without_a_name_the_others_are_listed() {
    let found = pods_of(&["cart", "db", "web"]);
    let choose = |has_via, from: Option<&str>| {
        let from = from.map(|from| from.parse::<From>().expect("a caller"));
        choose(&found, has_via, from.as_ref()).expect("a caller")
    };
    let web = choose(false, Some("shop/web"));
    assert_eq!((&*web.asked, web.others.len()), ("Pod shop/web-1", 0));
    let any = choose(false, None);
    assert_eq!((&*any.asked, any.others), ("Pod shop/cart-1", ["shop/db", "shop/web"].map(str::to_owned).into()));
    assert!(choose(true, None).others.is_empty());
    assert_eq!(choose(false, Some("none")).asked, "Pod shop/cart-1");
    assert!(choose(false, Some("shop/mail")).asked.starts_with("Pod shop/cart-1 (no Pod here has"));
    assert!(super::choose(&[], false, None).is_none());
}
