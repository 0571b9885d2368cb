use leno_install::chart::{default_values, objects, set_value};
use serde_json::{Value, json};

use super::*;
use crate::cluster::connect::tests::with_api_server;

/// Reads the options in a cluster whose API server answers the request for the ConfigMap leno-config with this answer.
fn read(status: u16, answer: &Value) -> Options {
    let reply = |path: &str| {
        assert_eq!(path, "/api/v1/namespaces/leno/configmaps/leno-config");
        (status, answer.clone())
    };
    let config = with_api_server(reply, async |cluster| config_map(&cluster, CONTROL_NAMESPACE, CONFIG).await);
    config.as_ref().and_then(options_of).unwrap_or_default()
}

#[test]
fn the_injectors_options_are_those_that_the_chart_has_written() {
    let mut values = default_values(false).expect("the chart's values");
    for set in ["webhook.namespaceOnly=[leno.dev/inject]", "proxy.adminPort=9191"] {
        set_value(&mut values, set).expect("a value");
    }
    let rendered = objects(&values).expect("it renders");
    let config = rendered.iter().find(|object| object["metadata"]["name"] == CONFIG).expect("the ConfigMap");
    let options = read(200, config);
    assert_eq!(options.namespace_only, ["leno.dev/inject"]);
    assert_eq!(options.proxy.admin_port, 9191);
}

#[test]
fn the_configuration_of_cilium_is_none_without_cilium_or_the_right_to_read_it() {
    let read = |status: u16, answer: &Value| {
        let reply = |path: &str| {
            assert_eq!(path, "/api/v1/namespaces/kube-system/configmaps/cilium-config");
            (status, answer.clone())
        };
        with_api_server(reply, async |cluster| cilium_config(&cluster).await)
    };
    for status in [403, 404] {
        let refusal = json!({"kind": "Status", "status": "Failure", "message": "no", "code": status});
        assert_eq!(read(status, &refusal), None, "{status}");
    }
    let data = json!({"kube-proxy-replacement": "true"});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config"}, "data": data});
    let found = read(200, &config).and_then(|config| config.data).expect("data");
    assert_eq!(found.get("kube-proxy-replacement").map(String::as_str), Some("true"));
}

#[test]
fn options_that_cannot_be_read_are_the_default_ones() {
    for status in [403, 404, 500] {
        let refusal = json!({"kind": "Status", "status": "Failure", "message": "no", "code": status});
        assert_eq!(read(status, &refusal), Options::default(), "{status}");
    }
    for data in [json!({}), json!({"inject.yaml": "{trustDomain: A B}"}), json!({"inject.yaml": "{"})] {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}, "data": data});
        assert_eq!(read(200, &config), Options::default(), "{data}");
    }
    let newer = json!({"metadata": {"name": CONFIG}, "data": {"inject.yaml": "{new: 1, trustDomain: corp}"}});
    assert_eq!(read(200, &newer).trust_domain, "corp");
}

#[test]
fn kinds_that_the_user_may_not_list_do_not_hide_the_other_kinds() {
    let set = json!({
        "metadata": {"name": "web-5f", "namespace": "shop"}, "spec": {"selector": {}}, "status": {"replicas": 0},
    });
    let reply = |path: &str| match path.rsplit('/').next() {
        Some("replicasets") => {
            (200, json!({"apiVersion": "apps/v1", "kind": "ReplicaSetList", "metadata": {}, "items": [set]}))
        }
        Some("daemonsets") => {
            (200, json!({"apiVersion": "apps/v1", "kind": "DaemonSetList", "metadata": {}, "items": []}))
        }
        _ => (403, json!({"kind": "Status", "status": "Failure", "message": "no", "code": 403})),
    };
    let read = with_api_server(reply, async |cluster| creators(&cluster, Some("shop")).await).expect("the creators");
    assert_eq!(read.replica_sets.len(), 1);
    assert_eq!(read.unread, ["statefulsets", "jobs", "events"]);
    assert!(read.is_of_one_namespace && !read.has_more_events);
    let reply = |_: &str| (500, json!({"kind": "Status", "status": "Failure", "message": "no", "code": 500}));
    assert!(with_api_server(reply, async |cluster| creators(&cluster, None).await).is_err());
}
