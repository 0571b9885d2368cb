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

#[test]
fn an_endpoint_that_the_client_dials_is_a_pod_of_its_service() {
    let backend = json!({
        "to": "10.0.0.2:50051",
        "choice": {"address": "10.0.0.2:50051", "why": "the only one", "pod": "cart-0"},
        "endpoints": [{
            "address": "10.0.0.2:50051", "state": "ready", "weight": 1.0, "in_flight": 0, "reason": "new", "waiting": 0,
        }],
    });
    let answer = |outbound: serde_json::Value| {
        let answer = json!({"outcome": "sent", "outbound": outbound});
        serde_json::from_value::<CallAnswer>(answer).expect("an answer")
    };
    let dialled =
        answer(json!({"destination": "10.0.0.2:50051", "endpoint_of": "cart.shop:80", "backends": [backend]}));
    assert_eq!(first_endpoint(&dialled), Some("10.0.0.2:50051".parse().expect("an address")));
    let backend = &dialled.outbound.as_ref().expect("the way").backends[0];
    assert_eq!(namespace(&dialled, backend), Some("shop"));
    assert_eq!(namespace(&answer(json!({"destination": "10.0.0.2:50051"})), backend), None);
    let of_service = BackendChoice { to: "web.bank:80".to_owned(), ..BackendChoice::default() };
    let balanced = answer(json!({"is_service": true, "endpoint_of": "cart.shop:80"}));
    assert_eq!(namespace(&balanced, &of_service), Some("bank"));
}
