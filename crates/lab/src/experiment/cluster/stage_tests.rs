use super::*;

fn pod(spec: &serde_json::Value) -> Pod {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "backend-0"}, "spec": spec})).expect("a Pod")
}

#[test]
fn a_pod_without_the_proxy_of_its_mesh_is_refused_by_name() {
    let bare = pod(&serde_json::json!({"containers": [{"name": "leno"}]}));
    let error = ensure_meshed(&bare, Mesh::Leno).expect_err("an error").to_string();
    assert!(error.starts_with("the Pod leno-lab-leno/backend-0 has no container leno-proxy: "), "{error}");
    assert!(ensure_meshed(&bare, Mesh::None).is_ok());
    assert!(ensure_meshed(&bare, Mesh::Ambient).is_ok());
}

#[test]
fn a_proxy_may_be_a_container_or_an_init_container() {
    let native =
        pod(&serde_json::json!({"initContainers": [{"name": "leno-proxy"}], "containers": [{"name": "leno"}]}));
    assert!(ensure_meshed(&native, Mesh::Leno).is_ok());
    let classic = pod(&serde_json::json!({"containers": [{"name": "leno"}, {"name": "istio-proxy"}]}));
    assert!(ensure_meshed(&classic, Mesh::Istio).is_ok());
}
