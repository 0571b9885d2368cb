//! The objects for the Prometheus Operator and for Grafana.

use super::tests::{find, names, rendered};
use super::*;
use crate::annotations::INJECTED_LABEL;
use crate::inject::{Asked, Options, Outcome, inject};
use crate::names::NAME_LABEL;
use crate::patch::apply;

const ON: &str = "monitoring.enabled=true";
const MONITORS: [&str; 3] = ["PodMonitor leno-proxy", "PodMonitor leno-control", "PrometheusRule leno"];

/// Returns the objects of the template for monitoring, which is the last template.
fn monitoring(sets: &[&str]) -> Vec<Value> {
    let before = rendered(&[], false).expect("it renders").len();
    rendered(sets, false).expect("it renders").split_off(before)
}

#[test]
fn monitoring_is_off_until_a_value_switches_it_on() {
    assert!(monitoring(&[]).is_empty() && monitoring(&["monitoring.dashboards=true"]).is_empty());
    let dashboards = ["workloads", "methods", "control"].map(|name| format!("ConfigMap leno-dashboard-{name}"));
    assert_eq!(names(&monitoring(&[ON])), [&MONITORS.map(str::to_owned)[..], &dashboards].concat());
    assert_eq!(names(&monitoring(&[ON, "monitoring.dashboards=false"])), MONITORS);
}

#[test]
fn the_monitors_and_rules_get_the_labels_that_a_prometheus_selects() {
    let objects = monitoring(&[ON, "monitoring.labels={release: prom, team: mesh}"]);
    let labels = json!({"app.kubernetes.io/part-of": "leno", "release": "prom", "team": "mesh"});
    for object in &objects[..MONITORS.len()] {
        assert_eq!(object["metadata"]["labels"], labels, "{object}");
    }
    let dashboard = json!({"app.kubernetes.io/part-of": "leno", "grafana_dashboard": "1"});
    for object in &objects[MONITORS.len()..] {
        assert_eq!(object["metadata"]["labels"], dashboard, "{object}");
    }
    assert!(rendered(&[ON, "monitoring.label={}"], false).expect_err("no such value").contains("monitoring.labels"));
}

#[test]
fn rules_and_dashboards_are_those_of_the_files() {
    let objects = monitoring(&[ON]);
    let file = |name: &str| {
        let (_, text) = FILES.iter().find(|(of, _)| *of == name).expect("the chart has it");
        read(name, text).expect("YAML or JSON")
    };
    assert_eq!(find(&objects, "PrometheusRule", "leno")["spec"], file("files/rules.yaml"));
    for name in ["workloads", "methods", "control"] {
        let data = &find(&objects, "ConfigMap", &format!("leno-dashboard-{name}"))["data"];
        let dashboard: Value =
            serde_json::from_str(data[format!("leno-{name}.json")].as_str().expect("text")).expect("JSON");
        assert_eq!(dashboard, file(&format!("files/dashboards/{name}.json")));
        assert_eq!(dashboard["uid"], format!("leno-{name}"));
        let title = dashboard["title"].as_str().expect("a title");
        assert!(title.starts_with("Leno: "), "{title}");
    }
}

/// Returns whether a container has a port of this name.
fn has_port(container: &Value, name: &str) -> bool {
    container["ports"].as_array().into_iter().flatten().any(|port| port["name"] == name)
}

#[test]
fn the_monitors_find_the_ports_of_injected_pods_and_of_the_control_plane() {
    let objects = rendered(&[ON], false).expect("it renders");
    let endpoint = |monitor: &str| find(&objects, "PodMonitor", monitor)["spec"]["podMetricsEndpoints"][0].clone();
    let selector = |monitor: &str| find(&objects, "PodMonitor", monitor)["spec"]["selector"].clone();
    let (proxies, control) = (endpoint("leno-proxy"), endpoint("leno-control"));

    let mut pod = json!({"spec": {"containers": [{"name": "web", "image": "web"}]}});
    let decision = inject(&pod, &Default::default(), Asked::ByName, &Options::default()).expect("no mistakes");
    let Outcome::Injected { patch, .. } = decision.outcome else { panic!("{decision:?}") };
    apply(&mut pod, &patch).expect("it fits");
    let port = proxies["port"].as_str().expect("a name");
    let template = &find(&objects, "Deployment", "leno-control")["spec"]["template"];
    for pod in [&pod, template] {
        let containers = pod["spec"]["initContainers"].as_array().expect("containers");
        assert!(containers.iter().any(|container| has_port(container, port)), "{pod}");
        assert!(pod["metadata"]["labels"].get(INJECTED_LABEL).is_some(), "{pod}");
    }
    assert_eq!(selector("leno-proxy"), json!({"matchExpressions": [{"key": INJECTED_LABEL, "operator": "Exists"}]}));

    assert!(has_port(&template["spec"]["containers"][0], control["port"].as_str().expect("a name")));
    let label = &template["metadata"]["labels"][NAME_LABEL];
    assert_eq!(selector("leno-control"), json!({"matchLabels": {NAME_LABEL: label}}));
}

/// Renames the fields of Prometheus' relabeling rules to the names that the Prometheus Operator uses.
fn as_the_operator_says(rule: &Value) -> Value {
    let rename = |name: &str| match name {
        "source_labels" => "sourceLabels".to_owned(),
        "target_label" => "targetLabel".to_owned(),
        other => other.to_owned(),
    };
    rule.as_object().expect("a rule").iter().map(|(name, value)| (rename(name), value.clone())).collect()
}

#[test]
fn the_configuration_without_the_operator_labels_targets_in_the_same_way() {
    let page = include_str!("../../../../docs/monitoring/prometheus.yml");
    let configuration = read("prometheus.yml", page).expect("YAML");
    let objects = monitoring(&[ON]);
    for job in configuration["scrape_configs"].as_array().expect("a list") {
        let name = job["job_name"].as_str().expect("a name");
        let monitor = find(&objects, "PodMonitor", name);
        let rules: Vec<_> =
            job["relabel_configs"].as_array().expect("rules").iter().map(as_the_operator_says).collect();
        // Compare only the rules from `job` on. The rules before `job` select the targets and set their labels, so the
        // PodMonitor lacks them: the Prometheus Operator does both itself.
        let own = rules.iter().position(|rule| rule["targetLabel"] == "job").expect("the job");
        assert_eq!(
            rules[own..],
            monitor["spec"]["podMetricsEndpoints"][0]["relabelings"].as_array().expect("rules")[..]
        );
        // The Prometheus Operator drops the targets of Pods that have ended, unless a PodMonitor sets filterRunning.
        let drops_ended =
            json!({"sourceLabels": ["__meta_kubernetes_pod_phase"], "regex": "Failed|Succeeded", "action": "drop"});
        assert!(rules[..own].contains(&drops_ended), "{name}");
        let first: Vec<_> = rules[..own].iter().filter_map(|rule| rule["targetLabel"].as_str()).collect();
        assert_eq!(first, ["namespace", "pod", "container"]);
    }
}
