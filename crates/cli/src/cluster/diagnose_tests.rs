use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::mesh::{Cluster as Known, ClusterKey, Endpoint, EndpointProxy, Mesh};
use leno_model::policy::{AuthorizationPolicy, Mode, Rule};
use leno_model::proxy;
use serde_json::json;

use super::*;

/// The `/config` page of a control plane with one Service and one policy.
fn config() -> Value {
    let key = ClusterKey { namespace: "shop".into(), service: "web".into(), port: 80 };
    let identity = "ns/shop/sa/web".parse().expect("a workload");
    let proxy = EndpointProxy { identity, inbound_port: None, tunnel_port: proxy::TUNNEL_PORT };
    let endpoint = |address: &str, proxy| Endpoint {
        address: address.parse::<SocketAddr>().expect("an address"),
        zone: None,
        hostname: None,
        pod: Some("web-1".into()),
        controller: None,
        proxy,
    };
    let cluster = Known {
        key,
        balancer: Default::default(),
        protocol: Default::default(),
        retry_budget: None,
        objectives: None,
        settings: Default::default(),
        cluster_ips: Box::default(),
        endpoints: vec![endpoint("10.0.0.1:8080", Some(proxy))],
        unready_endpoints: vec![endpoint("10.0.0.2:8080", None)],
    };
    let rule = Rule {
        identities: Some(Box::new(["ns/shop/sa/*".parse().expect("identities")])),
        networks: Some(Box::new(["10.0.0.0/8".parse().expect("a network")])),
    };
    let policy = AuthorizationPolicy {
        namespace: "shop".into(),
        name: "web".into(),
        service_account: None,
        ports: Some(Box::new([8080])),
        mode: Mode::Enforce,
        allow: vec![rule].into(),
        health_checks: Box::default(),
    };
    json!({"mesh": Mesh::new("default", vec![Arc::new(cluster)], [], vec![Arc::new(policy)], Vec::new())})
}

#[test]
fn endpoints_are_shown_with_the_identity_that_they_must_have() {
    let config = config();
    let (key, cluster) = cluster_of(&config, "web", "shop", &Knower::Control).expect("it is known");
    assert_eq!(key, "web.shop:80");
    let text = endpoints(cluster);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "10.0.0.1:8080   web-1   -      yes     ns/shop/sa/web");
    assert_eq!(lines[2], "10.0.0.2:8080   web-1   -      no      -");
    assert!(lines[4].starts_with("balanced by latency, spoken as "), "{text}");
}

#[test]
fn a_service_that_is_not_known_is_told_with_the_ports_that_are() {
    let config = config();
    let refused = |authority: &str, knower: &Knower<'_>| {
        cluster_of(&config, authority, "shop", knower).expect_err(authority).to_string()
    };
    assert_eq!(refused("web:81", &Knower::Control), "Service web.shop has no port 81; write web.shop:80");
    assert_eq!(
        refused("wbe:80", &Knower::Control),
        "the control plane knows no Service wbe.shop; list Services with kubectl get services -A"
    );
    let by_proxy = refused("wbe.shop:80", &Knower::ProxyOf("web-1"));
    assert!(by_proxy.starts_with("the proxy of Pod web-1 knows no Service wbe.shop; "), "{by_proxy}");
}

#[test]
fn policies_are_shown_with_whom_they_allow() {
    let config = config();
    let policies: Vec<&Value> = config["mesh"]["policies"].as_array().expect("policies").iter().collect();
    let text = policy_table(&policies);
    assert_eq!(
        text.lines().nth(1),
        Some("shop        web    all               8080    Enforce   ns/shop/sa/* from 10.0.0.0/8"),
        "{text}"
    );
    assert!(policy_table(&[]).contains("default inbound policies decide"));
}

#[test]
fn a_pod_without_a_proxy_has_nothing_to_ask() {
    let asked = |pod: Option<&Pod>, name| asked_port(pod, name, &Installer::Leno, proxys_port);
    let plain: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}})).expect("a Pod");
    let error = asked(Some(&plain), ("shop", "web-1")).expect_err("it has none").to_string();
    assert!(
        error.starts_with("Pod shop/web-1 has no proxy; annotate its namespace, and kubectl delete pod"),
        "{error}"
    );
    assert!(asked(None, ("shop", "web-1")).is_err());
    let labels = json!({"app.kubernetes.io/name": "leno-control"});
    let control = json!({"metadata": {"name": "leno-control-1", "namespace": "leno", "labels": labels}});
    let control: Pod = serde_json::from_value(control).expect("a Pod");
    let error = asked(Some(&control), ("leno", "leno-control-1")).expect_err("it has none").to_string();
    assert!(error.contains("has no proxy; leno upgrade --set control.meshed=true"), "{error}");
    let helm = Installer::Helm("mesh".to_owned());
    let error = asked_port(Some(&control), ("leno", "leno-control-1"), &helm, proxys_port).expect_err("it has none");
    assert!(error.fix.starts_with("helm upgrade mesh ") && error.fix.ends_with("--set control.meshed=true"), "{error}");
}

#[test]
fn the_second_address_of_a_pod_is_shown_as_such() {
    let endpoint = |address: &str| json!({"address": address, "pod": "web-1"});
    let cluster = json!({
        "endpoints": [endpoint("10.0.0.1:8080")],
        "unready_endpoints": [endpoint("10.0.0.9:8080"), endpoint("[fd00::1]:8080")],
    });
    let text = endpoints(&cluster);
    let ready: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(3)).take(4).collect();
    assert_eq!(ready, ["READY", "yes", "no", "second"], "{text}");
}
