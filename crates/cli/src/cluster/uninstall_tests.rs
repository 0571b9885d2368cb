use leno_install::chart::{default_values, objects, set_value};

use super::*;
use crate::cluster::connect::tests::with_api_server;

fn found(kind: &str, namespace: Option<&str>, name: &str) -> Found {
    Found {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        is_helms: false,
    }
}

fn meshed(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}})).expect("a Pod")
}

#[test]
fn what_refuses_pods_goes_first_and_the_namespace_last() {
    let mut all = vec![
        found("Namespace", None, "leno"),
        found("ConfigMap", Some("shop"), "leno-trust-bundle"),
        found("Deployment", Some("leno"), "leno-control"),
        found("MutatingWebhookConfiguration", None, "leno-injector"),
    ];
    let text = text(&mut all);
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["MutatingWebhookConfiguration", "Deployment", "ConfigMap", "Namespace"]);
    assert!(
        text.starts_with(
            "---\napiVersion: v1\nkind: MutatingWebhookConfiguration\nmetadata:\n  name: leno-injector\n---\n"
        ),
        "{text}"
    );
    assert!(text.contains("metadata:\n  name: leno-trust-bundle\n  namespace: shop\n"), "{text}");
}

#[test]
fn every_kind_of_the_chart_has_its_place() {
    let mut values = default_values(true).expect("the chart's values");
    let everything =
        ["networkPolicy.enabled=true", "networkPolicy.apiServers=[{podSelector: {}}]", "monitoring.enabled=true"];
    for set in everything {
        set_value(&mut values, set).expect("a value");
    }
    for object in objects(&values).expect("it renders") {
        let kind = object["kind"].as_str().expect("a kind");
        assert!(ORDER.contains(&kind), "{kind}");
        assert!(
            LABELS[0].ends_with(object["metadata"]["labels"]["app.kubernetes.io/part-of"].as_str().expect("a label"))
        );
    }
}

#[test]
fn the_quota_of_the_control_planes_priority_class_is_found() {
    let reply = |path: &str| match path {
        "/api/v1/namespaces/leno/resourcequotas" => {
            (200, json!({"metadata": {}, "items": [{"metadata": {"namespace": "leno", "name": "leno-control"}}]}))
        }
        _ => (200, json!({"metadata": {}, "items": []})),
    };
    let inventory = with_api_server(reply, async |cluster| find(&cluster, &[CHART_LABEL]).await);
    let mut objects = inventory.expect("the API server answers").objects;
    assert_eq!(objects, [found("ResourceQuota", Some("leno"), "leno-control")]);
    let expected = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: leno-control\n  namespace: leno\n";
    assert_eq!(text(&mut objects), expected);
}

#[test]
fn pods_that_still_have_a_proxy_are_named_by_what_made_them() {
    let pods: Vec<Pod> = (1..=7).map(|number| meshed(&format!("debug-{number}"))).collect();
    let lines = warnings(&[found("Namespace", None, "leno")], &Bystanders { meshed: pods, policies: Vec::new() });
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("Pods whose leno-proxy or leno-grpc can no longer renew its certificate ")
            && lines[0].contains(": 7 (pod shop/debug-1, "),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains(
            "pod shop/debug-5 and 2 more); before you uninstall, run kubectl annotate namespace shop leno.dev/inject-"
        ),
        "{}",
        lines[0]
    );
}

#[test]
fn the_warning_names_the_place_of_the_annotation() {
    let line = |owners: Value| {
        let annotations = json!({"leno.dev/inject": "enabled"});
        let metadata =
            json!({"name": "web-1", "namespace": "shop", "annotations": annotations, "ownerReferences": owners});
        let pod = serde_json::from_value(json!({"metadata": metadata})).expect("a Pod");
        let bystanders = Bystanders { meshed: vec![pod], policies: Vec::new() };
        warnings(&[found("Namespace", None, "leno")], &bystanders).concat()
    };
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true});
    let of_set = line(json!([set]));
    assert!(
        of_set.ends_with(
            "before you uninstall, set the annotation leno.dev/inject to disabled in the Pod template of statefulset shop/web, \
             then kubectl rollout restart -n shop statefulset/web"
        ),
        "{of_set}"
    );
    let alone = line(json!([]));
    assert!(
        alone.contains(
            "set the annotation leno.dev/inject to disabled in the manifest of pod shop/web-1, then kubectl delete pod"
        ),
        "{alone}"
    );
}

#[test]
fn the_control_planes_own_pods_are_no_pods_that_stay_with_a_proxy() {
    let pod = |namespace: &str, name: &str, sidecar: &str| {
        let metadata = json!({"namespace": namespace, "labels": {"app.kubernetes.io/name": name}});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [{"name": sidecar}]}}))
            .expect("a Pod")
    };
    assert!(stays_with_a_proxy(&pod("shop", "web", "leno-proxy")));
    assert!(stays_with_a_proxy(&pod("shop", "web", "leno-grpc")));
    assert!(!stays_with_a_proxy(&pod("shop", "web", "app")));
    assert!(!stays_with_a_proxy(&pod("leno", "leno-control", "leno-proxy")));
}

#[test]
fn policies_are_mentioned_if_they_go() {
    let policies = vec![("AuthorizationPolicies", 3), ("TrafficPolicies", 2)];
    let bystanders = Bystanders { meshed: Vec::new(), policies };
    let lines = warnings(&[found("CustomResourceDefinition", None, "a")], &bystanders);
    assert_eq!(
        lines,
        [
            "AuthorizationPolicies that Kubernetes deletes with their definition: 3; --keep-crds keeps them",
            "TrafficPolicies that Kubernetes deletes with their definition: 2; --keep-crds keeps them"
        ]
    );
    let none = Bystanders { meshed: Vec::new(), policies: vec![("TrafficPolicies", 0)] };
    assert!(warnings(&[found("CustomResourceDefinition", None, "a")], &none).is_empty());
    assert!(warnings(&[found("Namespace", None, "leno")], &bystanders).is_empty());
}

#[test]
fn a_release_of_helm_is_helms_to_uninstall() {
    let helms = Found { is_helms: true, ..found("Deployment", Some("leno"), "leno-control") };
    assert!(warnings(&[helms], &Bystanders::default())[0].contains("helm uninstall leno --namespace leno"));
    assert_eq!(warnings(&[], &Bystanders::default()), ["this cluster has no object of Leno"]);
}

/// Runs [`find`] in a cluster with one ConfigMap of Leno, whose API server answers requests for the Prometheus
/// Operator's kinds with `status`.
fn found_with_monitoring(status: u16) -> Result<Inventory, ClusterError> {
    let reply = |path: &str| match path {
        _ if path.contains("/monitoring.coreos.com/") => {
            (status, json!({"kind": "Status", "status": "Failure", "message": "no", "code": status}))
        }
        "/api/v1/configmaps" => {
            (200, json!({"metadata": {}, "items": [{"metadata": {"namespace": "leno", "name": "leno-config"}}]}))
        }
        _ => (200, json!({"metadata": {}, "items": []})),
    };
    with_api_server(reply, async |cluster| find(&cluster, &[CHART_LABEL]).await)
}

#[test]
fn kinds_of_monitoring_that_the_user_may_not_list_are_named_and_the_rest_is_found() {
    let inventory = found_with_monitoring(403).expect("the other kinds are enough");
    assert_eq!(inventory.objects, [found("ConfigMap", Some("leno"), "leno-config")]);
    assert_eq!(
        inventory.unseen().as_deref(),
        Some("cannot tell whether namespace leno has a PodMonitor or PrometheusRule of Leno: you may not list them")
    );
    let unknown = found_with_monitoring(404).expect("the kinds need not exist");
    assert_eq!((unknown.objects.len(), unknown.unseen()), (1, None));
    found_with_monitoring(500).expect_err("the objects are unknown");
}

#[test]
fn objects_of_users_with_the_charts_label_stay_and_are_named() {
    let of_users = [
        found("Namespace", None, "leno-monitoring"),
        found("ConfigMap", Some("monitoring"), "dashboards"),
        found("ClusterRole", None, "grafana"),
        found("CustomResourceDefinition", None, "shops.example.com"),
    ];
    let of_leno = [
        found("Namespace", None, "leno"),
        found("ConfigMap", Some("shop"), "leno-trust-bundle"),
        found("ClusterRole", None, "leno-control"),
        found("CustomResourceDefinition", None, "trafficpolicies.leno.dev"),
        found("Secret", Some("leno"), "any"),
    ];
    assert!(of_leno.iter().all(Found::is_lenos) && !of_users.iter().any(Found::is_lenos));
    let line = kept(&of_users).expect("a line");
    assert!(line.contains("ConfigMap monitoring/dashboards") && line.contains("Namespace leno-monitoring"), "{line}");
    assert_eq!(kept(&[]), None);
}

#[test]
fn every_object_of_the_chart_is_lenos() {
    let values = default_values(true).expect("the chart's values");
    for object in objects(&values).expect("it renders") {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (kind, name) = (text("/kind").expect("a kind"), text("/metadata/name").expect("a name"));
        assert!(found(kind, text("/metadata/namespace"), name).is_lenos(), "{kind} {name}");
    }
}
