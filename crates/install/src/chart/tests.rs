use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::inject::{Asked, Options, Outcome, Settings, inject, uninject};
use crate::patch::apply;

fn chart_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/leno")
}

pub(super) fn rendered(sets: &[&str], is_ha: bool) -> Result<Vec<Value>, String> {
    let mut values = default_values(is_ha).expect("the chart is fine");
    for set in sets {
        set_value(&mut values, set).map_err(|error| error.to_string())?;
    }
    objects(&values).map_err(|error| error.to_string())
}

pub(super) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

pub(super) fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "");
    objects.iter().map(name).collect()
}

#[test]
fn every_file_of_the_chart_is_in_the_program() {
    let listed = |dir: &str| {
        let files = std::fs::read_dir(chart_dir().join(dir)).expect("the chart is there");
        let mut names: Vec<_> =
            files.map(|file| file.expect("it is readable").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    };
    let mut templates = TEMPLATES.map(|(name, _)| name.to_owned());
    templates.sort();
    assert_eq!(listed("templates"), templates);
    assert_eq!(listed("crds"), CRDS.map(|(name, _)| name.to_owned()));
    let mut files = listed("files/dashboards");
    files.push("rules.yaml".to_owned());
    let mut included = FILES.map(|(name, _)| name.rsplit('/').next().unwrap_or(name).to_owned());
    files.sort();
    included.sort();
    assert_eq!(files, included);
}

#[test]
fn an_installation_is_these_objects_in_an_order_that_a_cluster_can_take() {
    let expected = [
        "Namespace leno",
        "CustomResourceDefinition authorizationpolicies.leno.dev",
        "CustomResourceDefinition trafficpolicies.leno.dev",
        "ServiceAccount leno-control",
        "ClusterRole leno-control",
        "ClusterRoleBinding leno-control",
        "Role leno-control",
        "RoleBinding leno-control",
        "ConfigMap leno-config",
        "Service leno-control",
        "Deployment leno-control",
        "PodDisruptionBudget leno-control",
        "MutatingWebhookConfiguration leno-injector",
        "ValidatingWebhookConfiguration leno-validator",
        "ValidatingAdmissionPolicy leno-guard",
        "ValidatingAdmissionPolicyBinding leno-guard",
    ];
    assert_eq!(names(&rendered(&[], false).expect("it renders")), expected);
}

#[test]
fn an_installation_runs_apart_on_two_nodes_and_high_availability_on_three() {
    for (is_ha, replicas) in [(false, 2), (true, 3)] {
        let objects = rendered(&[], is_ha).expect("it renders");
        let deployment = find(&objects, "Deployment", "leno-control");
        assert_eq!(deployment["spec"]["replicas"], replicas);
        assert!(deployment.pointer("/spec/template/spec/affinity/podAntiAffinity").is_some());
        let budget = &find(&objects, "PodDisruptionBudget", "leno-control")["spec"];
        assert_eq!(budget["maxUnavailable"], 1);
        assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow", "an unready replica must not stop a drain");
        let injector = find(&objects, "MutatingWebhookConfiguration", "leno-injector");
        assert_eq!(injector["webhooks"][0]["failurePolicy"], "Ignore");
        assert_eq!(find(&objects, "ValidatingAdmissionPolicy", "leno-guard")["spec"]["failurePolicy"], "Fail");
    }
}

#[test]
fn a_critical_priority_class_gets_its_quota_before_the_deployment() {
    let critical: [(&[&str], bool, &str); 2] = [
        (&[], true, "system-cluster-critical"),
        (&["control.priorityClassName=system-node-critical"], false, "system-node-critical"),
    ];
    for (sets, is_ha, class) in critical {
        let objects = rendered(sets, is_ha).expect("it renders");
        let names = names(&objects);
        let position = |name: &str| names.iter().position(|one| one == name).unwrap_or_else(|| panic!("{name}"));
        assert!(position("ResourceQuota leno-control") < position("Deployment leno-control"), "{names:?}");
        let quota = find(&objects, "ResourceQuota", "leno-control");
        assert_eq!(quota["metadata"]["namespace"], "leno");
        let scope = json!({"scopeName": "PriorityClass", "operator": "In", "values": [class]});
        let expected = json!({"hard": {"pods": "1G"}, "scopeSelector": {"matchExpressions": [scope]}});
        assert_eq!(quota["spec"], expected);
        let template = &find(&objects, "Deployment", "leno-control")["spec"]["template"];
        assert_eq!(template["spec"]["priorityClassName"], class);
    }
    let others: [(&[&str], bool); 4] = [
        (&[], false),
        (&["control.priorityClassName=own"], false),
        (&["control.priorityClassName=own"], true),
        (&["control.priorityClassName="], true),
    ];
    for (sets, is_ha) in others {
        let names = names(&rendered(sets, is_ha).expect("it renders"));
        assert!(!names.iter().any(|name| name.starts_with("ResourceQuota")), "{sets:?}: {names:?}");
    }
}

#[test]
fn a_replica_that_waits_is_not_restarted_and_serves_a_second_after_it_is_ready() {
    let objects = rendered(&[], false).expect("it renders");
    let template = &find(&objects, "Deployment", "leno-control")["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    // Kubernetes restarts a container whose startup or liveness probe fails. A replica that cannot reach the API
    // server, or has no issuing authority yet, must wait and not be restarted. So it is live, and not ready.
    let restarting = ["startupProbe", "livenessProbe"].map(|probe| &container[probe]["httpGet"]["path"]);
    assert_eq!(restarting, [&Value::Null, &json!("/live")]);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
    assert_eq!(container["readinessProbe"]["periodSeconds"], 1);
}

#[test]
fn a_control_plane_with_an_external_authority_cannot_write_its_secret() {
    let secrets = |sets: &[&str]| {
        let objects = rendered(sets, false).expect("it renders");
        let container = &find(&objects, "Deployment", "leno-control")["spec"]["template"]["spec"]["containers"][0];
        let is_external = container["args"].as_array().expect("arguments").contains(&json!("--external-authority"));
        let rules = find(&objects, "Role", "leno-control")["rules"].as_array().expect("rules").clone();
        let rules = rules.into_iter().filter(|rule| rule["resources"] == json!(["secrets"]));
        (is_external, rules.map(|rule| (rule["resourceNames"].clone(), rule["verbs"].clone())).collect::<Vec<_>>())
    };
    let named = json!(["leno-identity-issuer"]);
    let own = vec![(Value::Null, json!(["create"])), (named.clone(), json!(["list", "watch", "update"]))];
    assert_eq!(secrets(&[]), (false, own));
    let external = vec![(named, json!(["list", "watch"]))];
    assert_eq!(secrets(&["control.externalAuthority=true"]), (true, external));
}

#[test]
fn the_guard_leaves_out_the_namespaces_that_the_injector_leaves_out() {
    for sets in [&[][..], &["webhook.excludedNamespaces=[ci, build]"]] {
        let objects = rendered(sets, false).expect("it renders");
        let injector = find(&objects, "MutatingWebhookConfiguration", "leno-injector");
        let guard = find(&objects, "ValidatingAdmissionPolicy", "leno-guard");
        assert_eq!(
            guard["spec"]["matchConstraints"]["namespaceSelector"],
            injector["webhooks"][0]["namespaceSelector"]
        );
    }
    let none = rendered(&["guard.enabled=false"], false).expect("it renders");
    assert!(!names(&none).iter().any(|name| name.ends_with("leno-guard")));
}

#[test]
fn the_guard_knows_a_windows_pod_by_the_fields_that_the_injector_reads() {
    let objects = rendered(&[], false).expect("it renders");
    let variables = find(&objects, "ValidatingAdmissionPolicy", "leno-guard")["spec"]["variables"].clone();
    let exempt = variables.as_array().expect("variables").iter().find(|variable| variable["name"] == "isExempt");
    let expression = exempt.expect("the variable")["expression"].as_str().expect("CEL");
    for condition in [
        "object.spec.os.name == 'windows'",
        "'kubernetes.io/os' in object.spec.nodeSelector && object.spec.nodeSelector['kubernetes.io/os'] == 'windows'",
    ] {
        assert!(expression.contains(condition), "{expression}");
    }
}

#[test]
fn the_guard_keeps_the_image_of_a_running_proxy_if_only_namespaces_choose_the_image() {
    let guard = |reserved: &str| {
        let objects = rendered(&[&format!("webhook.namespaceOnly=[{reserved}]")], false).expect("it renders");
        let spec = &find(&objects, "ValidatingAdmissionPolicy", "leno-guard")["spec"];
        let validations = spec["validations"].as_array().expect("a list").iter();
        let expressions: Vec<String> =
            validations.map(|one| one["expression"].as_str().expect("text").to_owned()).collect();
        (spec["matchConstraints"]["resourceRules"][0]["operations"].clone(), expressions)
    };
    let (operations, without) = guard("leno.dev/inject");
    assert_eq!((operations, without.len()), (json!(["CREATE"]), 1));
    let (operations, with) = guard("leno.dev/inject, leno.dev/proxy-image");
    assert_eq!(operations, json!(["CREATE", "UPDATE"]));
    // A running Pod without a proxy can still change.
    assert_eq!(with[0], format!("request.operation == 'UPDATE' || {}", without[0]));
    assert!(
        with[1].starts_with("request.operation != 'UPDATE' || !has(object.spec.initContainers) || "),
        "{}",
        with[1]
    );
    // Controllers remove finalizers of ended Pods, also while another webhook rewrites images.
    assert!(with[1].contains(" || (has(oldObject.status) && has(oldObject.status.phase) && "), "{}", with[1]);
    assert!(with[1].contains("oldObject.status.phase in ['Succeeded', 'Failed']) || "), "{}", with[1]);
    assert_eq!(with.len(), 2);
}

#[test]
fn neither_the_injector_nor_the_guard_looks_at_static_pods() {
    for sets in [&[][..], &["webhook.namespaceOnly=[leno.dev/inject]"]] {
        let objects = rendered(sets, false).expect("it renders");
        let injector = &find(&objects, "MutatingWebhookConfiguration", "leno-injector")["webhooks"][0];
        let guard = &find(&objects, "ValidatingAdmissionPolicy", "leno-guard")["spec"];
        for conditions in [&injector["matchConditions"], &guard["matchConditions"]] {
            let conditions = conditions.as_array().expect("conditions");
            let condition = conditions.iter().find(|condition| condition["name"] == "not-static").expect("it is there");
            let expression = condition["expression"].as_str().expect("CEL");
            assert!(expression.contains(&format!("!('{}' in", crate::annotations::MIRROR_POD)), "{expression}");
        }
    }
}

#[test]
fn where_only_namespaces_decide_no_pod_can_leave_the_mesh() {
    let objects = rendered(&["webhook.namespaceOnly=[leno.dev/inject]"], false).expect("it renders");
    let injector = &find(&objects, "MutatingWebhookConfiguration", "leno-injector")["webhooks"][0];
    let conditions = injector["matchConditions"].as_array().expect("conditions");
    assert!(conditions.iter().all(|condition| condition["name"] != "not-disabled"), "a disabled Pod is reviewed too");
    let variables = find(&objects, "ValidatingAdmissionPolicy", "leno-guard")["spec"]["variables"].clone();
    let exempt = variables.as_array().expect("variables").iter().find(|variable| variable["name"] == "isExempt");
    assert_eq!(exempt.expect("the variable")["expression"], "false");
    assert_eq!(injector_options(&objects).namespace_only, ["leno.dev/inject"]);
}

#[test]
fn every_annotation_of_pods_can_be_kept_to_namespaces() {
    let schema = read("values.schema.json", SCHEMA).expect("it is JSON");
    let allowed = schema.pointer("/properties/webhook/properties/namespaceOnly/items/enum").expect("a list");
    assert_eq!(*allowed, json!(crate::annotations::ALL.map(|(name, ..)| name)));
}

#[test]
fn a_network_policy_needs_the_api_servers_and_opens_the_webhooks_to_them_alone() {
    let refused = rendered(&["networkPolicy.enabled=true"], false).expect_err("no API server could ask");
    assert!(refused.contains("networkPolicy.apiServers is empty"), "{refused}");
    let sets = ["networkPolicy.enabled=true", "networkPolicy.apiServers=[{ipBlock: {cidr: 10.0.0.10/32}}]"];
    let objects = rendered(&sets, false).expect("it renders");
    let rules = find(&objects, "NetworkPolicy", "leno-control")["spec"]["ingress"].as_array().expect("rules").clone();
    let callers = |port: u16| -> Vec<&Value> {
        let opens =
            |rule: &&Value| rule["ports"].as_array().is_some_and(|all| all.iter().any(|one| one["port"] == port));
        rules.iter().filter(opens).map(|rule| &rule["from"]).collect()
    };
    assert_eq!(callers(15_017), [&json!([{"ipBlock": {"cidr": "10.0.0.10/32"}}])]);
    assert!(callers(15_021).is_empty(), "Kubernetes lets a node reach its own Pods");
    assert!(callers(4_190).is_empty(), "no caller taps the control plane's own proxy");
    for port in [15_010, 15_012, 15_014, 15_008, 4_191] {
        assert_eq!(callers(port), [&json!([{"namespaceSelector": {}}])], "{port}");
    }
    let names = names(&rendered(&[], false).expect("it renders"));
    assert!(!names.iter().any(|name| name.starts_with("NetworkPolicy")));
}

/// Reads the table in docs/control-plane.md: API group, resource, scope, and verb.
fn documented_rights() -> std::collections::BTreeSet<(String, String, bool, String)> {
    let page = include_str!("../../../../docs/control-plane.md");
    let (_, section) = page.split_once("## What it may do").expect("the section is there");
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut rights = std::collections::BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [group, resources, verbs, place] = cells[..] else { panic!("{row}") };
        let group = if group == "core" { "" } else { group };
        for (resource, verb) in
            resources.split(", ").flat_map(|resource| verbs.split(", ").map(move |verb| (resource, verb)))
        {
            rights.insert((
                group.to_owned(),
                resource.to_owned(),
                place.contains("its own namespace"),
                verb.to_owned(),
            ));
        }
    }
    rights
}

#[test]
fn the_control_plane_may_do_what_its_page_says_and_nothing_else() {
    let objects = rendered(&[], false).expect("it renders");
    let mut rights = std::collections::BTreeSet::new();
    for (kind, is_own) in [("ClusterRole", false), ("Role", true)] {
        for rule in find(&objects, kind, "leno-control")["rules"].as_array().expect("rules") {
            let words = |key: &str| {
                let all = rule[key].as_array().into_iter().flatten();
                all.map(|word| word.as_str().expect("text").to_owned()).collect::<Vec<_>>()
            };
            for group in words("apiGroups") {
                for resource in words("resources") {
                    rights
                        .extend(words("verbs").into_iter().map(|verb| (group.clone(), resource.clone(), is_own, verb)));
                }
            }
        }
    }
    assert_eq!(rights, documented_rights());
}

/// Turns floating-point numbers that are whole into integers: Kubernetes' types read limits in schemas as
/// floating-point numbers.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            yaml::read(number.to_string().trim_end_matches(".0")).expect("a number")
        }
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, whole_numbers(value))).collect(),
        other => other,
    }
}

#[test]
fn kubernetes_types_read_what_is_rendered() {
    use k8s_openapi::api::{admissionregistration, apps, core, networking, policy, rbac};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
    use serde::de::DeserializeOwned;

    fn same<T: DeserializeOwned + serde::Serialize>(object: &Value) {
        let read: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object:#}"));
        // The comparison finds fields that the Kubernetes type does not have: parsing drops them.
        assert_eq!(whole_numbers(serde_json::to_value(read).expect("it is JSON")), *object);
    }
    let everything = [
        "image.pullSecrets=[{name: a}]",
        "control.nodeSelector={a: b}",
        "control.tolerations=[{operator: Exists}]",
        "webhook.excludedNamespaces=[ci, build]",
        "webhook.namespaceOnly=[leno.dev/inject]",
        "networkPolicy.enabled=true",
        "networkPolicy.apiServers=[{ipBlock: {cidr: 10.0.0.10/32}}]",
        "networkPolicy.nodes=[{ipBlock: {cidr: 10.0.0.0/24}}]",
        "proxy.cpuLimit=1",
    ];
    for object in rendered(&everything, true).expect("it renders") {
        match object["kind"].as_str().expect("it has a kind") {
            "Namespace" => same::<core::v1::Namespace>(&object),
            "CustomResourceDefinition" => same::<apiextensions::v1::CustomResourceDefinition>(&object),
            "ServiceAccount" => same::<core::v1::ServiceAccount>(&object),
            "ClusterRole" => same::<rbac::v1::ClusterRole>(&object),
            "ClusterRoleBinding" => same::<rbac::v1::ClusterRoleBinding>(&object),
            "Role" => same::<rbac::v1::Role>(&object),
            "RoleBinding" => same::<rbac::v1::RoleBinding>(&object),
            "ConfigMap" => same::<core::v1::ConfigMap>(&object),
            "Service" => same::<core::v1::Service>(&object),
            "ResourceQuota" => same::<core::v1::ResourceQuota>(&object),
            "Deployment" => same::<apps::v1::Deployment>(&object),
            "PodDisruptionBudget" => same::<policy::v1::PodDisruptionBudget>(&object),
            "MutatingWebhookConfiguration" => same::<admissionregistration::v1::MutatingWebhookConfiguration>(&object),
            "ValidatingWebhookConfiguration" => {
                same::<admissionregistration::v1::ValidatingWebhookConfiguration>(&object);
            }
            "NetworkPolicy" => same::<networking::v1::NetworkPolicy>(&object),
            "ValidatingAdmissionPolicy" => same::<admissionregistration::v1::ValidatingAdmissionPolicy>(&object),
            "ValidatingAdmissionPolicyBinding" => {
                same::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>(&object);
            }
            other => panic!("nobody checks a {other}"),
        }
    }
}

/// The injector's options in an installation.
fn injector_options(objects: &[Value]) -> Options {
    let text = find(objects, "ConfigMap", "leno-config")["data"]["inject.yaml"].as_str().expect("text");
    Options::read(text).expect("the injector takes it")
}

#[test]
fn the_injectors_configuration_is_what_the_injector_reads() {
    let options = |sets: &[&str]| injector_options(&rendered(sets, false).expect("it renders"));
    assert_eq!(options(&[]), Options::default());
    let sets = [
        "image.registry=registry.example/mesh",
        "image.version=9",
        "proxy.cpuLimit=1",
        "proxy.accessLog=off",
        "clusterDomain=c.local",
        "trustDomain=example.org",
        "webhook.excludedNamespaces=[ci, build]",
    ];
    let settings = Settings {
        image: "registry.example/mesh/leno-proxy".to_owned(),
        version: "9".to_owned(),
        cpu_limit: "1".to_owned(),
        ..Settings::default()
    };
    let (cluster_domain, trust_domain) = ("c.local".to_owned(), "example.org".to_owned());
    let excluded_namespaces = vec!["ci".to_owned(), "build".to_owned()];
    let expected = Options { cluster_domain, trust_domain, excluded_namespaces, proxy: settings, ..Options::default() };
    assert_eq!(options(&sets), expected);
}

#[test]
fn the_injectors_configuration_is_a_part_of_the_control_planes_revision() {
    let sets = ["image.version=9", "proxy.cpuLimit=1", "webhook.excludedNamespaces=[ci]"];
    let template = |sets: &[&str]| {
        let objects = rendered(sets, false).expect("it renders");
        let template = find(&objects, "Deployment", "leno-control")["spec"]["template"].clone();
        let own = template["metadata"]["annotations"]["control.leno.dev/inject.yaml"].as_str().expect("text");
        assert_eq!(Options::read(own).expect("the injector takes it"), injector_options(&objects));
        assert_eq!(own, find(&objects, "ConfigMap", "leno-config")["data"]["inject.yaml"], "leno check reads this one");
        template
    };
    let (usual, changed) = (template(&[]), template(&sets));
    assert_ne!(usual["metadata"], changed["metadata"], "a changed setting makes new Pods");
    // No volume is an object that changes for the Pods of the old revision too.
    let volumes = usual["spec"]["volumes"].as_array().expect("volumes");
    assert!(volumes.iter().all(|volume| volume.get("configMap").is_none()), "{volumes:?}");
    let config = volumes.iter().find(|volume| volume["name"] == "config").expect("the options");
    let field = json!({"fieldPath": "metadata.annotations['control.leno.dev/inject.yaml']"});
    assert_eq!(config["downwardAPI"], json!({"items": [{"path": "inject.yaml", "fieldRef": field}]}));
}

#[test]
fn a_setting_that_would_stop_every_new_pod_is_refused_before_it_is_rendered() {
    let refused = |set: &str| rendered(&[set], false).expect_err(set);
    assert!(
        refused("proxy.skipInboundPorts=22;80").starts_with("proxy.skipInboundPorts: \"22;80\" is not of the form ")
    );
    assert_eq!(
        refused("proxy.skipInboundPorts=22,70000"),
        "proxy.skipInboundPorts: \"22,70000\" does not work; use ports and ranges, for example 22,1000-2000"
    );
    assert!(refused("proxy.logLevel=loud").starts_with("proxy.logLevel: \"loud\" does not work; use off, error"));
    for (set, fix) in [
        ("trustDomain=Corp.Example", "1 to 255 lower-case letters"),
        ("clusterDomain=Cluster.Local.", "a DNS name of lower-case letters"),
        ("control.logLevel=bogus", "off, error, warn"),
        ("proxy.outboundPort=4143", "a port that the proxy does not use for something else"),
        ("proxy.inboundPort=4191", "a port that the proxy does not use for something else"),
        ("image.version=0.1.0@sha256:0123", "a tag that can be a label too"),
        ("image.version=_1", "a tag that can be a label too"),
        ("image.version=1.", "a tag that can be a label too"),
    ] {
        let refused = refused(set);
        assert!(!refused.contains('\n') && refused.contains(&format!(" does not work; use {fix}")), "{refused}");
    }
    let spaced = injector_options(&rendered(&["proxy.skipInboundPorts=22, 80"], false).expect("it renders"));
    assert_eq!(spaced.proxy.skip_inbound_ports, "22,80");
}

/// Helm checks values only with the schema. So the schema must allow every value that the injector accepts, and reject
/// the values whose form the injector rejects.
#[test]
fn the_schema_has_the_form_of_what_proxies_parse() {
    let schema = read("values.schema.json", SCHEMA).expect("it is JSON");
    let is_allowed = |name: &str, value: &str| {
        let field = schema.pointer(&format!("/properties/proxy/properties/{name}")).expect("a field");
        schema::check(field, &json!(value)).is_empty()
    };
    for (field, allowed, refused) in [
        ("trustDomain", vec!["cluster.local", "corp_1"], vec!["", "Corp.Example", "a b"]),
        (
            "clusterDomain",
            vec!["cluster.local", "c"],
            vec!["", "Cluster.Local", "cluster.local.", "a..b", "-a", "a-.b"],
        ),
        (
            "image/properties/version",
            vec!["", "0.1.0", "v1_2-x"],
            vec!["0.1.0@sha256:0123", "_1", "1.", &"1".repeat(64)],
        ),
        (
            "control/properties/logLevel",
            vec!["INFO", "3", "warn,leno_control=Debug,h2=0"],
            vec!["", "bogus", "info,", "6", "=info"],
        ),
        ("proxy/properties/logLevel", vec!["off", "info,leno_proxy::worker=debug"], vec!["loud", "leno_proxy", "a=b"]),
    ] {
        let field = schema.pointer(&format!("/properties/{field}")).expect("a field");
        let is_allowed = |value: &&&str| schema::check(field, &json!(value)).is_empty();
        assert_eq!(allowed.iter().filter(is_allowed).count(), allowed.len(), "{field}: {allowed:?}");
        assert_eq!(refused.iter().find(is_allowed), None, "{field}");
    }
    let ports = ["opaquePorts", "httpPorts", "skipInboundPorts", "skipOutboundPorts"];
    for name in ports {
        for value in ["", "22", "22,80", " 22 , 80-90 ", "1-65535"] {
            assert!(is_allowed(name, value), "{name}: {value:?}");
        }
        for value in [",", "22,", "22 80", "22;80", "22-", "-22", "http", "+22", "100000"] {
            assert!(!is_allowed(name, value), "{name}: {value:?}");
        }
    }
    for name in ["skipSubnets", "clusterNetworks"] {
        for value in ["", "10.0.0.0/8", "10.0.0.0/8,fd00::/8", "0.0.0.0/0,::/0", "::ffff:10.0.0.0/104"] {
            assert!(is_allowed(name, value), "{name}: {value:?}");
        }
        for value in ["10.0.0.1", "10.0.0.0/8,", "10.0.0.0/8 fd00::/8", "office/8"] {
            assert!(!is_allowed(name, value), "{name}: {value:?}");
        }
    }
    assert!(is_allowed("skipSubnets", "10.0.0.0/8, fd00::/8"));
    // The chart copies this value unchanged to the control plane's proxy, which accepts no spaces.
    assert!(!is_allowed("clusterNetworks", "10.0.0.0/8, fd00::/8"));
    for minutes in 0..70 {
        for (value, unit_ms) in [(minutes, 60_000), (minutes * 60, 1_000), (minutes * 60_000 + 1, 1)] {
            let unit = match unit_ms {
                1 => "ms",
                1_000 => "s",
                _ => "m",
            };
            let grace = format!("{value}{unit}");
            let is_parsed = leno_model::proxy::parse_grace(&grace).is_some();
            assert_eq!(is_allowed("shutdownGrace", &grace), is_parsed, "{grace}");
        }
    }
    for value in ["3600000ms", "3600s", "60m", "0s", "999ms"] {
        assert!(is_allowed("shutdownGrace", value), "{value:?}");
    }
    for value in ["", "30", "s", "1h", "3600001ms", "3601s", "61m", "30 s"] {
        assert!(!is_allowed("shutdownGrace", value), "{value:?}");
    }
}

/// Injects a proxy into the control plane's Pod template as if leno-control were an application. Then changes the proxy
/// in the same ways as the chart does, and returns the template.
fn injected_control(template: &Value, options: &Options) -> Value {
    let mut pod = template.clone();
    apply(&mut pod, &uninject(template)).expect("it fits");
    let own_annotations = pod["metadata"]["annotations"].take();
    pod["metadata"]["annotations"] = json!({
        "leno.dev/skip-inbound-ports": "15010,15012,15017,15021",
        "leno.dev/skip-outbound-ports": "1-65535",
    });
    let decision = inject(&pod, &Default::default(), Asked::ByName, options).expect("no mistakes");
    let Outcome::Injected { patch, .. } = decision.outcome else { panic!("{decision:?}") };
    apply(&mut pod, &patch).expect("it fits");
    pod["metadata"]["annotations"] = own_annotations;

    let proxy = pod.pointer_mut("/spec/initContainers/1").and_then(Value::as_object_mut).expect("the proxy");
    // Remove the proxy's postStart hook: it would delay leno-control until the proxy is ready, but the proxy needs a
    // certificate from leno-control. Remove the proxy's readiness probe: it would remove leno-control from its Service
    // while the proxy is not ready.
    assert!(proxy.shift_remove("lifecycle").is_some() && proxy.shift_remove("readinessProbe").is_some());
    for argument in proxy["args"].as_array_mut().expect("arguments") {
        let text = argument.as_str().expect("text");
        let other = match text.split_once('=').map_or(text, |(name, _)| name) {
            "--control" => "--control=127.0.0.1:15010",
            "--issuer" => "--issuer=127.0.0.1:15012",
            "--trust-bundle" => "--trust-bundle=/var/run/leno/ca.crt",
            _ => text,
        };
        *argument = other.into();
    }
    let mount = json!({"mountPath": "/var/run/leno", "name": "trust-bundle", "readOnly": true});
    proxy["volumeMounts"].as_array_mut().expect("mounts").push(mount);
    let volumes = pod["spec"]["volumes"].as_array_mut().expect("volumes");
    let identity = volumes.iter_mut().find(|volume| volume["name"] == "leno-identity").expect("the token");
    let sources = identity["projected"]["sources"].as_array_mut().expect("sources");
    sources.retain(|source| source.get("configMap").is_none());
    pod
}

/// Sorts, by name, the lists whose order does not matter.
fn by_name(mut pod: Value) -> Value {
    let volumes = pod["spec"]["volumes"].as_array_mut().expect("volumes");
    volumes.sort_by_key(|volume| volume["name"].to_string());
    pod
}

#[test]
fn the_control_planes_proxy_is_as_the_injector_would_make_it() {
    let cases: [(&[&str], bool); 3] = [
        (&[], false),
        (&[], true),
        (
            &[
                "image.registry=registry.example/mesh",
                "image.version=9",
                "trustDomain=example.org",
                "proxy.cpuLimit=1",
                "proxy.memoryRequest=",
                "proxy.accessLog=json",
                "proxy.traceCollector=otel-collector.observability:4317",
                "proxy.traceRatio=0.1",
                "proxy.traceSlowerThan=500ms",
                "proxy.traceFailed=true",
                "proxy.adminPort=9191",
                "proxy.inboundPort=9143",
                "proxy.outboundPort=9140",
                "proxy.workers=2",
                "proxy.shutdownGrace=5s",
                "proxy.egressConnectTimeout=3s",
                "proxy.clusterNetworks=10.0.0.0/8,2001:db8::/32",
                "proxy.defaultInboundPolicy=deny",
                "proxy.logLevel=debug",
                "proxy.logFormat=json",
            ],
            false,
        ),
    ];
    for (sets, is_ha) in cases {
        let objects = rendered(sets, is_ha).expect("it renders");
        let template = &find(&objects, "Deployment", "leno-control")["spec"]["template"];
        let injected = injected_control(template, &injector_options(&objects));
        assert_eq!(by_name(template.clone()), by_name(injected), "{sets:?}");
    }
}

#[test]
fn a_control_plane_without_a_proxy_needs_no_more_than_the_strictest_pod_security() {
    let level = |objects: &[Value]| {
        find(objects, "Namespace", "leno")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
    };
    let meshed = rendered(&[], false).expect("it renders");
    assert_eq!(level(&meshed), "privileged");
    let plain = rendered(&["control.meshed=false"], false).expect("it renders");
    assert_eq!(level(&plain), "restricted");
    let mut template = find(&plain, "Deployment", "leno-control")["spec"]["template"].clone();
    assert_eq!(uninject(&template), []);
    // The annotation has the options for the proxies of other Pods.
    template["metadata"]["annotations"].take();
    let written = yaml::write(&template);
    assert!(!written.contains("leno-proxy") && !written.contains("/var/run/leno"), "{written}");
}

#[test]
fn a_wrong_value_is_told_in_one_line() {
    let wrong = [
        ("control.replica=3", "control.replica: there is no such field; did you mean control.replicas?"),
        ("control.replicas=many", "control.replicas: \"many\" is not a whole number"),
        ("control.externalAuthority=cert-manager", "control.externalAuthority: \"cert-manager\" is not true or false"),
        ("webhook.failurePolicy=Panic", "webhook.failurePolicy: \"Panic\" is not one of \"Ignore\", \"Fail\""),
        ("proxy=1", "proxy: 1 is not a mapping"),
        ("proxy.adminPort=15014", "proxy.adminPort: 15014 is one of 15008, 15010, "),
        ("=1", "\"=1\" sets nothing; write NAME=VALUE"),
        ("control", "\"control\" sets nothing"),
    ];
    for (set, expected) in wrong {
        let error = rendered(&[set], false).expect_err(set);
        assert!(error.starts_with(expected) && !error.contains('\n'), "{set}: {error}");
    }
    // The values of --ha request more CPU than this limit.
    let error = rendered(&["proxy.cpuLimit=50m"], true).expect_err("the request is above the limit");
    let expected = "proxy.cpuRequest: \"100m\" does not work; use at most the value of proxy.cpuLimit";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn the_control_plane_never_writes_what_it_only_reads() {
    let objects = rendered(&[], false).expect("it renders");
    let writes = ["create", "update", "patch", "delete", "deletecollection", "*"];
    let may_write = [
        "httproutes/status",
        "grpcroutes/status",
        "tlsroutes/status",
        "tcproutes/status",
        "authorizationpolicies/status",
        "trafficpolicies/status",
        "xbackendtrafficpolicies/status",
        "tokenreviews",
        "events",
        "configmaps",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ];
    let rules = find(&objects, "ClusterRole", "leno-control")["rules"].as_array().expect("rules");
    for rule in rules {
        let words =
            |key: &str| -> Vec<&str> { rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect() };
        assert!(!words("resources").contains(&"*") && !words("resources").contains(&"secrets"), "{rule}");
        if words("verbs").iter().any(|verb| writes.contains(verb)) {
            assert!(words("resources").iter().all(|resource| may_write.contains(resource)), "{rule}");
        }
    }
}

/// Finds Helm: the file that LENO_HELM names, else the first helm on the PATH, else the helm that `./test install`
/// installed.
fn helm() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("LENO_HELM") {
        return Some(chosen.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin");
    std::env::split_paths(&path).chain([installed]).map(|place| place.join("helm")).find(|helm| helm.is_file())
}

#[test]
fn helm_renders_the_same_objects() {
    let Some(helm) = helm() else {
        return leno_testing::skipped("there is no helm to compare the chart's rendering with; type: ./test install");
    };
    let cases: [(&[&str], bool); 7] = [
        (&[], false),
        (&[], true),
        (&["control.externalAuthority=true"], false),
        (&[r#"monitoring.labels={"release":"prom"}"#, "monitoring.enabled=true"], false),
        (&["image.registry=r.example/m", "image.version=2.0", "control.replicas=3", "proxy.accessLog=json"], false),
        (&[r#"webhook.namespaceOnly=["leno.dev/inject","leno.dev/proxy-image"]"#, "guard.enabled=true"], false),
        (&[r#"webhook.excludedNamespaces=["ci","build"]"#, "proxy.shutdownGrace=60m"], false),
    ];
    for (sets, is_ha) in cases {
        let mut command = Command::new(&helm);
        command.args(["template", "leno"]).arg(chart_dir()).args([
            "--namespace",
            "leno",
            "--include-crds",
            "--kube-version",
            "1.34.0",
        ]);
        if is_ha {
            command.arg("--values").arg(chart_dir().join("values-ha.yaml"));
        }
        // Helm's --set has its own notation for lists, {a,b}. So pass lists and mappings as JSON, which Helm and our
        // renderer both read.
        let flag = |set: &str| if set.contains("=[") || set.contains("={") { "--set-json" } else { "--set" };
        command.args(sets.iter().flat_map(|set| [flag(set), set]));
        let output = command.output().expect("helm runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("it is text");
        let documents = yaml::split(&text).expect("it is YAML").into_iter().map(|document| document.value);
        let mut theirs: Vec<_> = documents.filter(|value| !value.is_null()).collect();
        // Helm creates the namespace itself, so leave out our first object, the namespace.
        let mut ours: Vec<_> = rendered(sets, is_ha).expect("it renders").split_off(1);
        for objects in [&mut theirs, &mut ours] {
            objects.sort_by_key(|object| names(std::slice::from_ref(object)));
        }
        assert_eq!(names(&theirs), names(&ours));
        for (their, our) in theirs.iter().zip(&ours) {
            assert_eq!(comparable(their), comparable(our));
        }
    }
}

/// Parses the YAML texts within an object, because Helm and our renderer order keys differently.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    for path in ["/data/inject.yaml", "/spec/template/metadata/annotations/control.leno.dev~1inject.yaml"] {
        if let Some(text) = object.pointer_mut(path) {
            *text = yaml::read(text.as_str().expect("text")).expect("it is YAML");
        }
    }
    object
}
