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
}

#[test]
fn a_pod_that_ambient_does_not_redirect_is_refused_by_name() {
    let mut pod = pod(&serde_json::json!({"containers": [{"name": "leno"}]}));
    let error = ensure_meshed(&pod, Mesh::Ambient).expect_err("an error").to_string();
    let expected = "the Pod leno-lab-ambient/backend-0 has no annotation ambient.istio.io/redirection: enabled: ";
    assert!(error.starts_with(expected), "{error}");
    pod.annotations_mut().insert("ambient.istio.io/redirection".to_owned(), "enabled".to_owned());
    assert!(ensure_meshed(&pod, Mesh::Ambient).is_ok());
}

#[test]
fn a_proxy_may_be_a_container_or_an_init_container() {
    let native =
        pod(&serde_json::json!({"initContainers": [{"name": "leno-proxy"}], "containers": [{"name": "leno"}]}));
    assert!(ensure_meshed(&native, Mesh::Leno).is_ok());
    let classic = pod(&serde_json::json!({"containers": [{"name": "leno"}, {"name": "istio-proxy"}]}));
    assert!(ensure_meshed(&classic, Mesh::Istio).is_ok());
}

#[test]
fn the_proxies_of_load_pods_without_a_connection_do_not_count() {
    let container = |pod: &str| ContainerName {
        namespace: "leno-lab-leno".to_owned(),
        pod: pod.to_owned(),
        container: "leno-proxy".to_owned(),
    };
    let containers = Containers {
        clients: vec![container("load-0"), container("load-1"), container("load-2")],
        servers: vec![container("backend-0")],
        ..Containers::default()
    };
    let pods = |loads| containers.of_loads(loads).proxies().into_iter().map(|it| it.pod).collect::<Vec<_>>();
    assert_eq!(pods(1), ["load-0", "backend-0"]);
    assert_eq!(pods(2), ["load-0", "load-1", "backend-0"]);
    assert_eq!(pods(9).len(), 4);
}
