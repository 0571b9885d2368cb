use serde_json::{Value, json};

use super::*;

fn pod(namespace: &str, name: &str, deployment: Option<&str>, phase: &str) -> Pod {
    match deployment {
        Some(deployment) => pod_of(namespace, name, ("ReplicaSet", &format!("{deployment}-5f")), phase),
        None => a_pod(namespace, name, &json!([]), phase),
    }
}

fn pod_of(namespace: &str, name: &str, (kind, owner): (&str, &str), phase: &str) -> Pod {
    let owner = json!({"apiVersion": "v1", "kind": kind, "name": owner, "uid": "1", "controller": true});
    a_pod(namespace, name, &json!([owner]), phase)
}

fn a_pod(namespace: &str, name: &str, owners: &Value, phase: &str) -> Pod {
    let labels = json!({"pod-template-hash": "5f"});
    let metadata = json!({"namespace": namespace, "name": name, "labels": labels, "ownerReferences": owners});
    serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).expect("a Pod")
}

/// The Pod with a proxy.
fn meshed(mut pod: Pod) -> Pod {
    let spec = json!({"containers": [{"name": "leno-proxy", "image": "leno-proxy:1"}]});
    pod.spec = Some(serde_json::from_value(spec).expect("a spec"));
    pod
}

/// The printed rows of groups, each with its number of Pods.
fn shown(groups: &[Group]) -> Vec<String> {
    groups.iter().map(|group| format!("{} {} {}", group.namespace, group.shown, group.pods.len())).collect()
}

fn grouped(text: &str) -> Vec<String> {
    let pods = vec![
        pod("shop", "web-2", Some("web"), "Running"),
        pod("shop", "web-1", Some("web"), "Pending"),
        pod("shop", "job", None, "Succeeded"),
        pod("shop", "debug", None, "Running"),
        pod("bank", "web-9", Some("web"), "Running"),
    ];
    let groups = text.parse::<Selection>().expect("it selects").group(pods);
    groups.iter().map(|group| format!("{}/{} {}", group.namespace, group.name, group.pods.len())).collect()
}

#[test]
fn pods_are_gathered_by_deployment_by_namespace_or_not_at_all() {
    assert_eq!(grouped("deploy"), ["bank/web 1", "shop/web 2"]);
    assert_eq!(grouped("ns"), ["bank/bank 1", "shop/shop 3"]);
    assert_eq!(grouped("pods"), ["bank/web-9 1", "shop/debug 1", "shop/web-1 1", "shop/web-2 1"]);
}

#[test]
fn whatever_makes_pods_gathers_its_own() {
    let pods = ["StatefulSet", "DaemonSet", "Job"].map(|kind| pod_of("shop", kind, (kind, "db"), "Running"));
    for text in ["sts", "statefulset/db", "ds", "daemonsets", "job", "jobs/db"] {
        let groups = text.parse::<Selection>().expect("it selects").group(pods.to_vec());
        let [group] = &groups[..] else { panic!("{text}: {groups:?}") };
        assert_eq!((&*group.name, group.pods.len()), ("db", 1), "{text}");
    }
    assert!("deploy".parse::<Selection>().expect("it selects").group(pods.to_vec()).is_empty());
}

#[test]
fn all_workloads_are_gathered_whatever_made_their_pods() {
    let pods = vec![
        pod("shop", "web-2", Some("web"), "Running"),
        pod_of("shop", "db-0", ("StatefulSet", "db"), "Running"),
        pod("shop", "debug", None, "Running"),
    ];
    let groups = Selection { kind: Kind::Workloads, name: None }.group(pods);
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["db", "debug", "web"]);
}

#[test]
fn workloads_of_the_same_name_and_namespace_are_printed_with_their_kind() {
    let pods = vec![
        meshed(pod("shop", "web-2", Some("web"), "Running")),
        meshed(pod_of("shop", "web-0", ("StatefulSet", "web"), "Running")),
        meshed(pod_of("shop", "web-x", ("Rollout", "web"), "Running")),
        pod("shop", "web", None, "Running"),
        pod("shop", "web-1", Some("web"), "Running"),
        pod("shop", "cart-1", Some("cart"), "Running"),
        meshed(pod_of("bank", "web-0", ("StatefulSet", "web"), "Running")),
    ];
    let printed = |selection: &Selection| shown(&selection.group(pods.clone()));
    let all = Selection { kind: Kind::Workloads, name: None };
    let expected =
        ["bank web 1", "shop cart 1", "shop deploy/web 2", "shop pod/web 1", "shop rollout/web 1", "shop sts/web 1"];
    assert_eq!(printed(&all), expected);
    let names = all.group(pods.clone()).into_iter().map(|group| group.name).collect::<Vec<_>>();
    assert_eq!(names, ["web", "cart", "web", "web", "web", "web"], "a Service finds its proxies by this name");
    for (one, expected) in [("deploy/web", "shop web 2"), ("pod/web", "shop web 1")] {
        assert_eq!(printed(&one.parse().expect("a name in the table selects its row")), [expected]);
    }
    assert_eq!(printed(&"sts/web".parse().expect("it selects")), ["bank web 1", "shop web 1"]);
}

#[test]
fn a_workload_without_proxies_does_not_change_the_printed_name_of_another() {
    let of = |debug: Pod| {
        let pods = vec![meshed(pod("shop", "web-1", Some("web"), "Running")), debug];
        shown(&Selection { kind: Kind::Workloads, name: None }.group(pods))
    };
    let debug = pod("shop", "web", None, "Running");
    assert_eq!(of(debug.clone()), ["shop web 1", "shop pod/web 1"]);
    assert_eq!(of(meshed(debug)), ["shop deploy/web 1", "shop pod/web 1"]);
}

#[test]
fn a_name_selects_those_of_it() {
    assert_eq!(grouped("po/debug"), ["shop/debug 1"]);
    assert_eq!(grouped("namespace/shop"), ["shop/shop 3"]);
    assert!(grouped("deployment/wbe").is_empty());
}

#[test]
fn what_selects_nothing_says_what_does() {
    for text in ["service", "deploy/", "", "web"] {
        text.parse::<Selection>().expect_err(text);
    }
    let named: Selection = "deploy/web".parse().expect("it selects");
    assert_eq!(named.with_name(None), Ok(named.clone()));
    assert!(named.with_name(Some(&"cart".to_owned())).is_err());
    let all: Selection = "deploy".parse().expect("it selects");
    assert_eq!(all.with_name(Some(&"web".to_owned())), Ok(named));
}
