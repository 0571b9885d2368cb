use serde_json::json;

use super::*;

/// A Pod whose containers have these resources.
fn pod(resources: &[Value]) -> Value {
    let containers: Vec<Value> = resources.iter().map(|one| json!({"name": "app", "resources": one})).collect();
    json!({"spec": {"containers": containers}})
}

fn guaranteed() -> Value {
    json!({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}})
}

fn warns(pod: &Value) -> bool {
    warning(pod, &Settings::default()).is_some()
}

#[test]
fn the_author_of_a_guaranteed_pod_is_warned_if_the_proxy_makes_it_burstable() {
    let limits = json!({"limits": {"cpu": "500m", "memory": "64Mi"}});
    let line = warning(&pod(&[guaranteed(), limits]), &Settings::default()).expect("a warning");
    assert!(
        line.contains("this Pod is Burstable instead of Guaranteed; to keep the class, give leno.dev/proxy-"),
        "{line}"
    );
    let equal = |quantity: &str| quantity.to_owned();
    let settings = Settings {
        cpu_request: equal("0.1"),
        cpu_limit: equal("100m"),
        memory_request: equal("128Mi"),
        memory_limit: equal("128Mi"),
        ..Settings::default()
    };
    assert_eq!(warning(&pod(&[guaranteed()]), &settings), None);
}

#[test]
fn another_pod_has_no_class_to_lose() {
    for other in [
        json!({}),
        json!({"limits": {"memory": "1Gi"}}),
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}),
    ] {
        assert!(!warns(&pod(&[guaranteed(), other.clone()])), "{other}");
    }
    assert!(!warns(&pod(&[])));
    let mut whole = pod(&[guaranteed()]);
    assert!(warns(&whole));
    whole["spec"]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    assert!(!warns(&whole));
    let mut starting = pod(&[guaranteed()]);
    starting["spec"]["initContainers"] = json!([{"name": "migrate"}]);
    assert!(!warns(&starting), "an init container without limits makes the Pod Burstable already");
    starting["spec"]["initContainers"] = json!([{"name": "leno-init"}, {"name": "leno-proxy"}]);
    assert!(warns(&starting), "the class of the application alone counts");
}
