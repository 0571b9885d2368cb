use serde_json::json;

use super::*;

fn templates(document: &Value) -> Vec<(String, String)> {
    workloads(document).iter().map(|workload| (workload.to_string(), workload.template.clone())).collect()
}

#[test]
fn every_kind_that_runs_pods_has_its_template_found() {
    for (api_version, kind, path) in KINDS {
        let mut object = json!({"spec": {}});
        for step in path.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
            object = json!({ step: object });
        }
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "x", "namespace": "shop"});
        assert_eq!(templates(&object), [(format!("{kind} shop/x"), path.to_owned())]);
    }
}

#[test]
fn the_items_of_a_list_are_found_where_they_are() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [config, pod]});
    assert_eq!(templates(&list), [("Pod p-".to_owned(), "/items/1".to_owned())]);
}

#[test]
fn other_kinds_and_other_groups_are_none_of_ours() {
    for (api_version, kind) in [("v1", "Service"), ("apps/v1", "Pod"), ("example.org/v1", "Deployment"), ("", "")] {
        let object = json!({"apiVersion": api_version, "kind": kind, "spec": {"template": {"spec": {}}}});
        assert_eq!(templates(&object), []);
    }
    for broken in [json!(null), json!([1]), json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": []})] {
        assert_eq!(templates(&broken), []);
    }
}

#[test]
fn lists_within_lists_are_followed_only_so_deep() {
    let mut list = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deep"}});
    for _ in 0..=LISTS_MAX {
        list = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    }
    assert_eq!(templates(&list), []);
    assert_eq!(templates(&list["items"][0]).len(), 1);
}
