use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use leno_install::inject::InboundPorts;
use leno_model::manifest::read_object;
use leno_model::mesh::{Controller, Endpoint};
use leno_model::policy::Mode;
use leno_model::protocol::Protocol;
use leno_model::typed;
use serde_json::{Value, json};

use super::*;

const IN_SHOP: &str = "shop";
/// The addresses that the tests' Pods have, unless a test sets others.
const IPS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 244, 1, 1)), IpAddr::V4(Ipv4Addr::new(10, 244, 1, 2))];

fn a_service(annotations: &Value) -> Content {
    a_service_at(80, annotations)
}

fn a_service_at(port: u16, annotations: &Value) -> Content {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "echo", "namespace": IN_SHOP, "annotations": annotations },
        "spec": { "clusterIP": "10.96.0.10", "ports": [{ "port": port }] },
    }))
    .expect("a Service");
    Content::Object(Revision::default(), typed::service(service))
}

/// An EndpointSlice with an endpoint for each name and address in `pods`. An endpoint with an empty name names no Pod.
/// The name of a Pod in another namespace is written `namespace/name`.
fn a_slice(pods: &[(&str, &str)]) -> Content {
    a_slice_with(&json!({}), pods)
}

fn a_slice_with(annotations: &Value, pods: &[(&str, &str)]) -> Content {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|(pod, ip)| match *pod {
            "" => json!({ "addresses": [ip] }),
            pod => {
                let (namespace, pod) = pod.split_once('/').unwrap_or((IN_SHOP, pod));
                json!({ "addresses": [ip], "targetRef": { "kind": "Pod", "namespace": namespace, "name": pod } })
            }
        })
        .collect();
    let labels = json!({ "kubernetes.io/service-name": "echo" });
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": { "name": "echo-1", "namespace": IN_SHOP, "labels": labels, "annotations": annotations },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": 8080 }],
        "endpoints": endpoints,
    }))
    .expect("an EndpointSlice");
    Content::Object(Revision::default(), typed::endpoint_slice(slice))
}

/// The revision of an object with this UID in its first generation.
fn first_of(uid: &str) -> Revision {
    Revision { uid: uid.into(), generation: 1 }
}

fn a_policy(spec: &Value) -> Content {
    a_policy_of(first_of("a"), spec)
}

fn a_policy_of(revision: Revision, spec: &Value) -> Content {
    Content::Custom(
        revision,
        read_object(json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "AuthorizationPolicy",
            "metadata": { "name": "web", "namespace": IN_SHOP },
            "spec": spec,
        })),
    )
}

fn a_pod() -> Pod {
    Pod {
        injected_as: None,
        bare: None,
        controller: None,
        ports: InboundPorts::default(),
        ips: IPS.into(),
        has_host_network: false,
        created_s: None,
        stage: Stage::Active,
    }
}

fn a_meshed_pod(service_account: &str) -> Pod {
    Pod { injected_as: Some(service_account.into()), ..a_pod() }
}

fn injected(service_account: &str) -> Content {
    Content::Pod(a_meshed_pod(service_account))
}

/// A Pod that has only this address.
fn at(ip: IpAddr, pod: Pod) -> Content {
    Content::Pod(Pod { ips: [ip].into(), ..pod })
}

fn bare() -> Content {
    Content::Pod(a_pod())
}

fn apply(index: &mut Index, kind: Kind, name: &str, content: Content) -> News {
    index.take(kind, Change::Applied(Name::new(IN_SHOP, name), content))
}

/// An index with the Service echo and a slice of these Pods.
fn with_echo(pods: &[(&str, &str)]) -> Index {
    let mut index = Index::new();
    apply(&mut index, Kind::Service, "echo", a_service(&json!({})));
    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(pods));
    index
}

/// The endpoints of the only cluster. Each is shown as its address, followed by the identity of its proxy if it has
/// one.
fn endpoints(index: &mut Index) -> Vec<String> {
    let mesh = index.translate().mesh;
    let clusters = mesh.clusters().to_vec();
    let [cluster] = &clusters[..] else { panic!("one cluster: {clusters:?}") };
    let shown = |endpoint: &Endpoint| match &endpoint.proxy {
        Some(proxy) => format!("{} {}", endpoint.address.ip(), proxy.identity),
        None => endpoint.address.ip().to_string(),
    };
    cluster.endpoints.iter().map(shown).collect()
}

#[test]
fn endpoints_have_the_proxies_of_their_pods() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-b", "10.244.1.2")]);
    apply(&mut index, Kind::Pod, "echo-a", at(IPS[0], a_meshed_pod("echo")));
    apply(&mut index, Kind::Pod, "echo-b", at(IPS[1], a_pod()));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo", "10.244.1.2"]);
}

#[test]
fn an_endpoint_is_held_back_while_its_pod_is_not_known() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-b", "10.244.1.2")]);
    apply(&mut index, Kind::Pod, "echo-a", at(IPS[0], a_pod()));
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    apply(&mut index, Kind::Pod, "echo-b", at(IPS[1], a_meshed_pod("echo")));
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "10.244.1.2 ns/shop/sa/echo"]);
    index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "echo-a")));
    assert_eq!(endpoints(&mut index), ["10.244.1.2 ns/shop/sa/echo"]);
}

#[test]
fn nobody_gets_another_pods_calls_by_naming_its_address() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-a", "10.244.9.9")]);
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);
    let notices: Vec<String> = index.notices().map(|notice| notice.to_string()).collect();
    let told = "endpoints of EndpointSlice shop/echo-1: 10.244.9.9 is not used before Pod echo-a has that address";
    assert_eq!(notices, [told]);
    let moved = Pod { ips: ["10.244.9.9".parse().expect("an address")].into(), ..a_pod() };
    apply(&mut index, Kind::Pod, "echo-a", Content::Pod(moved));
    assert_eq!(endpoints(&mut index), ["10.244.9.9"]);
}

#[test]
fn an_endpoint_that_is_no_pod_is_not_meant_by_who_dials_its_address() {
    let mut index = with_echo(&[("", "10.244.1.1")]);
    let at = SocketAddr::new(IPS[0], 8080);
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    assert!(index.translate().mesh.endpoint_by_address(at).is_none());

    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&[("echo-a", "10.244.1.1")]));
    apply(&mut index, Kind::Pod, "echo-a", bare());
    assert!(index.translate().mesh.endpoint_by_address(at).is_some());
}

#[test]
fn a_slice_sends_the_calls_to_an_address_to_no_proxy_of_its_authors_choice() {
    let annotations = json!({
        "leno.dev/identity": "ns/shop/sa/evil",
        "leno.dev/inbound-port": "30666",
        "leno.dev/tunnel-port": "30667",
    });
    let mut index = Index::new();
    apply(&mut index, Kind::Service, "echo", a_service(&json!({})));
    let pods = [("", "192.0.2.1"), ("echo-a", "10.244.1.1")];
    let news = apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice_with(&annotations, &pods));
    assert_eq!(news.problems.len(), 1, "{news:?}");
    apply(&mut index, Kind::Pod, "echo-a", bare());
    assert_eq!(endpoints(&mut index), ["10.244.1.1"], "the annotation has no effect on a Pod");

    // A slice without annotations may list the node's address, but only calls to the Service go there.
    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&pods));
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "192.0.2.1"]);
    let node = "192.0.2.1:8080".parse().expect("an address");
    assert!(index.translate().mesh.endpoint_by_address(node).is_none());
    // The last valid annotations stay in force: there are none.
    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice_with(&annotations, &pods));
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "192.0.2.1"]);
}

#[test]
fn a_port_that_passes_the_proxy_by_is_reached_in_clear_and_an_opaque_one_is_known_to_callers() {
    for (skipped, opaque, expected, protocol) in [
        ("1", "1", "10.244.1.1 ns/shop/sa/echo", Protocol::Detect),
        ("8000-9000", "1", "10.244.1.1", Protocol::Detect),
        ("1", "8080", "10.244.1.1 ns/shop/sa/echo", Protocol::Opaque),
    ] {
        let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
        let [skipped, opaque] = [skipped, opaque].map(|ports| ports.parse().expect("ports"));
        let ports = InboundPorts { skipped, opaque, ..InboundPorts::default() };
        let pod = Pod { injected_as: Some("echo".into()), ports, ..a_pod() };
        apply(&mut index, Kind::Pod, "echo-a", Content::Pod(pod));
        assert_eq!(endpoints(&mut index), [expected]);
        assert_eq!(index.translate().mesh.clusters()[0].protocol, protocol);
    }
}

#[test]
fn an_endpoint_has_the_controller_of_its_pod_in_its_service_and_at_its_own_address() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    let controller: Option<Controller> = "deployment/echo".parse().ok();
    let pod = Pod { injected_as: Some("echo".into()), controller: controller.clone(), ..a_pod() };
    apply(&mut index, Kind::Pod, "echo-a", Content::Pod(pod));
    let mesh = index.translate().mesh;
    assert_eq!(mesh.clusters()[0].endpoints[0].controller, controller);
    let own = mesh.pod_by_address(SocketAddr::new(IPS[0], 9102)).expect("its own cluster");
    assert_eq!(own.endpoints[0].controller, controller);
}

#[test]
fn a_meshed_pod_is_known_at_both_of_its_addresses() {
    let mut index = Index::new();
    let ips: [IpAddr; 2] = ["10.244.1.1", "fd00::1"].map(|ip| ip.parse().expect("an address"));
    let pod = Pod { injected_as: Some("echo".into()), ips: ips.into(), ..a_pod() };
    apply(&mut index, Kind::Pod, "echo-a", Content::Pod(pod));
    let mesh = index.translate().mesh;
    assert_eq!(ips.map(|ip| mesh.pods()[&ip].other_ip), [Some(ips[1]), Some(ips[0])]);
}

#[test]
fn a_meshed_pod_is_reached_at_any_port_by_its_own_address_without_a_service() {
    let mut index = Index::new();
    let told = |index: &mut Index, port: u16| {
        let cluster = index.translate().mesh.pod_by_address(SocketAddr::new(IPS[0], port))?;
        Some(cluster.endpoints[0].proxy.clone()?.identity.to_string())
    };
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    assert_eq!(told(&mut index, 9102).as_deref(), Some("ns/shop/sa/echo"));
    // The Pod is created again under the same name with another service account.
    apply(&mut index, Kind::Pod, "echo-a", injected("other"));
    assert_eq!(told(&mut index, 9102).as_deref(), Some("ns/shop/sa/other"));
    let ports = InboundPorts { skipped: "9102".parse().expect("a port"), ..InboundPorts::default() };
    let pod = Pod { injected_as: Some("echo".into()), ports, ..a_pod() };
    apply(&mut index, Kind::Pod, "echo-a", Content::Pod(pod));
    assert_eq!((told(&mut index, 9102), told(&mut index, 80).is_some()), (None, true));
    apply(&mut index, Kind::Pod, "echo-a", bare());
    assert_eq!(told(&mut index, 80), None);
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "echo-a")));
    assert_eq!(told(&mut index, 80), None);
}

#[test]
fn a_pod_of_another_namespace_is_not_the_endpoints_own() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    index.take(Kind::Pod, Change::Applied(Name::new("other", "echo-a"), injected("echo")));
    assert!(endpoints(&mut index).is_empty());
}

#[test]
fn a_pod_that_is_made_again_under_its_name_may_have_another_identity() {
    let mut index = with_echo(&[("echo-0", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-0", bare());
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    apply(&mut index, Kind::Pod, "echo-0", injected("other"));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/other"]);
}

#[test]
fn it_is_complete_when_every_kind_was_listed_or_is_not_installed() {
    let mut index = Index::new();
    for kind in Kind::ALL {
        assert!(!index.is_complete());
        let change =
            if kind == Kind::AuthorizationPolicy { Change::NotInstalled } else { Change::Listed(HashSet::new()) };
        index.take(kind, change);
    }
    assert!(index.is_complete());
    assert_eq!(index.absent().iter().collect::<Vec<_>>(), [&Kind::AuthorizationPolicy]);
}

#[test]
fn while_a_kind_is_listed_anew_what_was_known_holds() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-a", bare());
    // The new list has begun, but has not reached the slice of echo yet, so the slice stays in force.
    apply(&mut index, Kind::EndpointSlice, "other-1", a_slice(&[]));
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    index.take(Kind::EndpointSlice, Change::Listed(HashSet::from([Name::new(IN_SHOP, "other-1")])));
    assert!(endpoints(&mut index).is_empty());
    assert_eq!((index.count(Kind::EndpointSlice), index.count(Kind::Service)), (1, 1));
}

#[test]
fn a_kind_that_is_no_longer_installed_has_no_objects() {
    let mut index = Index::new();
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": [] })));
    assert_eq!(index.translate().mesh.policies().len(), 1);
    index.take(Kind::AuthorizationPolicy, Change::NotInstalled);
    assert!(index.translate().mesh.policies().is_empty());
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": [] })));
    assert!(index.absent().is_empty());
}

#[test]
fn an_object_that_became_wrong_counts_as_it_last_was_right() {
    let mut index = Index::new();
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": [] })));
    let before = index.translate().mesh;
    let wrong = || a_policy(&json!({ "allow": [{}] }));
    let news = apply(&mut index, Kind::AuthorizationPolicy, "web", wrong());
    assert_eq!(news.problems.len(), 1, "{news:?}");
    // The second time, the same error is not reported again.
    let again = apply(&mut index, Kind::AuthorizationPolicy, "web", wrong());
    assert!(again.problems.is_empty() && again.mended.is_none(), "{again:?}");
    assert_eq!(index.problems().count(), 1);
    assert_eq!(index.translate().mesh.policies(), before.policies());

    let news = apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": [] })));
    assert!(news.mended.is_some() && index.problems().count() == 0);
}

/// A policy for port 8080 with an identity that cannot be parsed.
fn a_wrong_policy() -> Content {
    let rules = json!([{ "identities": ["shop/web"] }]);
    a_policy(&json!({ "targetRef": { "kind": "ServiceAccount", "name": "echo" }, "ports": [8080], "allow": rules }))
}

#[test]
fn a_policy_that_never_was_right_denies_what_it_is_about() {
    let mut index = Index::new();
    let news = apply(&mut index, Kind::AuthorizationPolicy, "web", a_wrong_policy());
    assert_eq!(news.until_then, "it allows no caller on port 8080 of service account echo");
    let mesh = index.translate().mesh;
    let [policy] = mesh.policies() else { panic!("one policy: {:?}", mesh.policies()) };
    assert_eq!((policy.mode, &*policy.target()), (Mode::Unreadable, "port 8080 of service account echo"));
    let observed: Vec<_> = index.observed().into_values().filter_map(|observed| observed.problem).collect();
    assert!(
        observed[0].ends_with("Until then it allows no caller on port 8080 of service account echo."),
        "{observed:?}"
    );

    // The next version has another error and another target; the new target applies.
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": 7 })));
    assert_eq!(index.translate().mesh.policies()[0].target(), "every port in namespace shop");

    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "allow": [] })));
    assert_eq!(index.translate().mesh.policies()[0].mode, Mode::Enforce);
    let news = apply(&mut index, Kind::AuthorizationPolicy, "web", a_wrong_policy());
    assert_eq!(news.until_then, "its last valid version stays in force");
    assert_eq!(index.translate().mesh.policies()[0].mode, Mode::Enforce);
}

#[test]
fn an_invalid_object_has_nothing_of_a_deleted_object_of_its_name() {
    let wrong = |uid: &str| a_policy_of(first_of(uid), &json!({ "allow": 7 }));
    let mode = |index: &mut Index| index.translate().mesh.policies()[0].mode;
    let mut index = Index::new();
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy_of(first_of("a"), &json!({ "allow": [] })));
    apply(&mut index, Kind::AuthorizationPolicy, "web", wrong("a"));
    assert_eq!(mode(&mut index), Mode::Enforce, "its last valid version stays in force");
    // After a broken watch, the list has only the new object; no event reported the removal of the old one.
    let news = apply(&mut index, Kind::AuthorizationPolicy, "web", wrong("b"));
    assert_eq!(news.until_then, "it allows no caller on every port in namespace shop");
    assert_eq!(news.problems.len(), 1, "the errors of the new object are news");
    assert_eq!(mode(&mut index), Mode::Unreadable);

    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy_of(first_of("b"), &json!({ "allow": [] })));
    index.take(Kind::AuthorizationPolicy, Change::Removed(Name::new(IN_SHOP, "web")));
    apply(&mut index, Kind::AuthorizationPolicy, "web", wrong("c"));
    assert_eq!(mode(&mut index), Mode::Unreadable);
}

#[test]
fn a_policy_that_is_not_enforced_says_nothing_while_it_cannot_be_read() {
    let mut index = Index::new();
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&json!({ "mode": "Audit", "allow": 7 })));
    assert!(index.translate().mesh.policies().is_empty());
    assert_eq!(index.problems().count(), 1);
}

#[test]
fn a_policy_says_what_it_names_that_does_not_exist() {
    let mut index = Index::new();
    let missing = |index: &mut Index| {
        index.translate();
        index.observed().into_values().find_map(|observed| observed.missing)
    };
    apply_namespace(&mut index, IN_SHOP, "enabled");
    let target = json!({ "kind": "ServiceAccount", "name": "cart" });
    let identities =
        json!(["ns/shop/sa/web", "ns/bnak/sa/*", "ns/*/sa/prometheus", "spiffe://other.org/ns/x/sa/y", "*"]);
    let spec = json!({ "targetRef": target, "allow": [{ "identities": identities }] });
    apply(&mut index, Kind::AuthorizationPolicy, "web", a_policy(&spec));
    let all = "spec.targetRef: there is no service account shop/cart, so the policy selects no workload. spec.allow: there \
               is no namespace bnak. spec.allow: there is no service account shop/web";
    assert_eq!(missing(&mut index).as_deref(), Some(all));
    let notices: Vec<String> = index.notices().map(|notice| notice.to_string()).collect();
    assert_eq!(notices, [format!("AuthorizationPolicy shop/web: {all}")]);

    apply(&mut index, Kind::ServiceAccount, "cart", Content::ServiceAccount);
    apply(&mut index, Kind::ServiceAccount, "web", Content::ServiceAccount);
    assert_eq!(missing(&mut index).as_deref(), Some("spec.allow: there is no namespace bnak"));
    apply_namespace(&mut index, "bnak", "enabled");
    assert_eq!(missing(&mut index), None);
    index.take(Kind::ServiceAccount, Change::Listed(HashSet::from([Name::new(IN_SHOP, "web")])));
    assert!(missing(&mut index).is_some_and(|missing| missing.starts_with("spec.targetRef")));
}

#[test]
fn a_mistake_in_one_object_leaves_the_others_alone() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-a", bare());
    let wrong = a_service(&json!({ "leno.dev/balancer": "best" }));
    index.take(Kind::Service, Change::Applied(Name::new("other", "echo"), wrong));
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    assert_eq!(index.problems().count(), 1);
}

#[test]
fn a_service_that_never_was_right_stays_in_the_mesh_without_its_invalid_annotations() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    index.take(Kind::Service, Change::Removed(Name::new(IN_SHOP, "echo")));
    let wrong = || a_service(&json!({ "leno.dev/balancer": "best", "leno.dev/max-connections-per-endpoint": "7" }));
    let settings = |index: &mut Index| {
        let mesh = index.translate().mesh;
        let known = mesh.cluster_by_address(SocketAddr::from(([10, 96, 0, 10], 80)));
        known.map(|cluster| (cluster.balancer, cluster.settings.max_connections_per_endpoint))
    };
    let news = apply(&mut index, Kind::Service, "echo", wrong());
    assert_eq!((news.problems.len(), index.problems().count()), (1, 1));
    assert_eq!(news.until_then, "it is in force without the invalid annotations");
    assert_eq!(settings(&mut index), Some((Default::default(), 7)));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);
    // The next version is invalid too. There never was a valid version, so the valid annotations of this version apply.
    let next = json!({ "leno.dev/balancer": "best", "leno.dev/max-connections-per-endpoint": "8" });
    assert!(apply(&mut index, Kind::Service, "echo", a_service(&next)).is_change);
    assert_eq!(settings(&mut index), Some((Default::default(), 8)));

    let valid = json!({ "leno.dev/max-connections-per-endpoint": "9" });
    assert!(apply(&mut index, Kind::Service, "echo", a_service(&valid)).mended.is_some());
    let news = apply(&mut index, Kind::Service, "echo", wrong());
    assert_eq!(news.until_then, "its last valid annotations, ports and addresses stay in force");
    assert_eq!(settings(&mut index), Some((Default::default(), 9)));
}

#[test]
fn a_service_with_invalid_annotations_has_the_ports_that_it_has_now() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    let valid = json!({ "leno.dev/max-connections-per-endpoint": "9" });
    apply(&mut index, Kind::Service, "echo", a_service(&valid));
    let known = |index: &mut Index, port: u16| {
        let mesh = index.translate().mesh;
        let known = mesh.cluster_by_address(SocketAddr::from(([10, 96, 0, 10], port)));
        known.map(|cluster| cluster.settings.max_connections_per_endpoint)
    };
    assert_eq!((known(&mut index, 80), known(&mut index, 81)), (Some(9), None));
    let invalid = json!({ "leno.dev/balancer": "best" });
    apply(&mut index, Kind::Service, "echo", a_service_at(81, &invalid));
    assert_eq!((known(&mut index, 80), known(&mut index, 81)), (None, Some(9)));
    // If not only annotations but also a port is invalid, nothing changes.
    let news = apply(&mut index, Kind::Service, "echo", a_service_at(0, &invalid));
    assert_eq!(news.until_then, "its last valid annotations, ports and addresses stay in force");
    assert_eq!(known(&mut index, 81), Some(9));
}

#[test]
fn a_slice_that_never_was_right_has_the_endpoints_that_are_pods() {
    let mut index = Index::new();
    apply(&mut index, Kind::Service, "echo", a_service(&json!({})));
    let slice = |pods: &[(&str, &str)]| a_slice_with(&json!({ "leno.dev/balancer": "latency" }), pods);
    let news = apply(&mut index, Kind::EndpointSlice, "echo-1", slice(&[("echo-a", "10.244.1.1"), ("", "10.0.0.9")]));
    assert_eq!(
        news.until_then,
        "it is in force without the invalid annotations, and only for endpoints that name a Pod"
    );
    assert!(endpoints(&mut index).is_empty(), "its Pod is not known");
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);
    apply(&mut index, Kind::EndpointSlice, "echo-1", slice(&[("echo-a", "10.244.1.2")]));
    assert_eq!(endpoints(&mut index), ["10.244.1.2 ns/shop/sa/echo"]);
}

#[test]
fn a_slice_with_invalid_annotations_has_the_endpoints_that_it_has_now() {
    let mut index = Index::new();
    apply(&mut index, Kind::Service, "echo", a_service(&json!({})));
    // The addresses of the endpoints, each with its controller.
    let shown = |index: &mut Index| {
        let mesh = index.translate().mesh;
        let controller =
            |endpoint: &Endpoint| endpoint.controller.as_ref().map(ToString::to_string).unwrap_or_default();
        let shown = |endpoint: &Endpoint| format!("{} {}", endpoint.address.ip(), controller(endpoint));
        mesh.clusters()[0].endpoints.iter().map(shown).collect::<Vec<_>>()
    };
    let valid = json!({ "leno.dev/controller": "deployment/vm" });
    let slice = a_slice_with(&valid, &[("echo-a", "10.244.1.1"), ("", "10.0.0.8")]);
    apply(&mut index, Kind::EndpointSlice, "echo-1", slice);
    apply(&mut index, Kind::Pod, "echo-a", at(IPS[0], a_meshed_pod("echo")));
    assert_eq!(shown(&mut index), ["10.0.0.8 deployment/vm", "10.244.1.1 deployment/vm"]);
    for invalid in [json!({ "leno.dev/identity": "vm" }), json!({ "leno.dev/balancer": "latency" })] {
        let slice = |pods: &[(&str, &str)]| a_slice_with(&invalid, pods);
        let news =
            apply(&mut index, Kind::EndpointSlice, "echo-1", slice(&[("echo-b", "10.244.1.2"), ("", "10.0.0.9")]));
        assert_eq!(news.problems.len(), 1, "{news:?}");
        assert_eq!(news.until_then, "its last valid annotations, ports and addresses stay in force");
        assert_eq!(shown(&mut index), ["10.0.0.9 deployment/vm"], "the Pod is not known");
        apply(&mut index, Kind::Pod, "echo-b", at(IPS[1], a_meshed_pod("echo")));
        assert_eq!(shown(&mut index), ["10.0.0.9 deployment/vm", "10.244.1.2 deployment/vm"]);
        // The problems are the same as before, and only an address changes.
        let news = apply(&mut index, Kind::EndpointSlice, "echo-1", slice(&[("", "10.0.0.7")]));
        assert!(news.is_change && news.problems.is_empty(), "{news:?}");
        assert_eq!(shown(&mut index), ["10.0.0.7 deployment/vm"]);
        index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "echo-b")));
    }
    let valid = json!({ "leno.dev/controller": "deployment/other" });
    assert!(
        apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice_with(&valid, &[("", "10.0.0.7")])).mended.is_some()
    );
    assert_eq!(shown(&mut index), ["10.0.0.7 deployment/other"]);
}

#[test]
fn a_service_that_becomes_an_external_name_leaves_the_mesh_and_may_come_back() {
    let mut index = with_echo(&[("", "10.0.0.8")]);
    let alias: Service = serde_json::from_value(json!({
        "metadata": { "name": "echo", "namespace": IN_SHOP },
        "spec": { "type": "ExternalName", "externalName": "echo.example.org" },
    }))
    .expect("a Service");
    let alias = Content::Object(Revision::default(), typed::service(alias));
    assert!(apply(&mut index, Kind::Service, "echo", alias).is_change);
    assert!(index.translate().mesh.clusters().is_empty());
    apply(&mut index, Kind::Service, "echo", a_service(&json!({ "leno.dev/balancer": "best" })));
    assert_eq!(endpoints(&mut index), ["10.0.0.8"]);
}

#[test]
fn what_did_not_change_is_shared_with_the_mesh_before() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-a", at(IPS[0], a_pod()));
    let before = index.translate().mesh;
    apply(&mut index, Kind::Service, "echo", a_service(&json!({ "example.org/note": "changed" })));
    apply(&mut index, Kind::Pod, "other", at(IPS[1], a_pod()));
    let after = index.translate().mesh;
    assert!(Arc::ptr_eq(&before.clusters()[0], &after.clusters()[0]));
    assert!(Arc::ptr_eq(before.pods(), after.pods()), "no Pod with a proxy has changed");
    apply(&mut index, Kind::Pod, "another", at(IPS[1], a_meshed_pod("another")));
    let last = index.translate().mesh;
    assert!(Arc::ptr_eq(&before.clusters()[0], &last.clusters()[0]));
    assert_eq!(last.pods().len(), 1);
}

#[test]
fn of_routes_that_match_the_same_the_older_counts() {
    let mut index = with_echo(&[]);
    for (name, created) in [("a-newer", "2026-02-02T00:00:00Z"), ("b-older", "2026-01-01T00:00:00Z")] {
        let route = read_object(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": { "name": name, "namespace": IN_SHOP, "creationTimestamp": created },
            "spec": {
                "parentRefs": [{ "group": "", "kind": "Service", "name": "echo" }],
                "rules": [{ "backendRefs": [{ "name": "echo", "port": 80 }] }],
            },
        }));
        apply(&mut index, Kind::HttpRoute, name, Content::Custom(first_of("a"), route));
    }
    let joined = index.translate();
    let table = joined.mesh.routes(&joined.mesh.clusters()[0].key, IN_SHOP).expect("a table");
    assert_eq!(&*table.entries()[0].rule.route.name, "b-older");
    assert_eq!(joined.routes.len(), 2);
}

#[test]
fn namespaces_are_meshed_if_they_inject_or_have_an_injected_pod() {
    let mut index = Index::new();
    for (name, annotation) in [("shop", "disabled"), ("bank", "enabled"), ("quiet", "disabled"), ("next", "disabled")] {
        apply_namespace(&mut index, name, annotation);
    }
    apply(&mut index, Kind::Pod, "echo-a", injected("echo"));
    index.take(Kind::Pod, Change::Applied(Name::new("gone", "echo-a"), injected("echo")));
    index.take(Kind::Pod, Change::Applied(Name::new("quiet", "echo-a"), bare()));
    assert_eq!(meshed(&index), ["bank", "shop"]);
}

#[test]
fn a_namespace_is_meshed_from_when_a_pod_with_a_proxy_is_expected_until_it_is_gone() {
    let mut index = Index::new();
    index.take(Kind::Pod, Change::Expected("shop".into()));
    // The watch has not reported the namespace yet: its event may arrive after the review of its first Pod.
    assert!(meshed(&index).is_empty());
    apply_namespace(&mut index, "shop", "disabled");
    assert_eq!(meshed(&index), ["shop"]);
    index.take(Kind::Namespace, Change::Removed(Name::of_cluster("shop")));
    apply_namespace(&mut index, "shop", "disabled");
    assert!(meshed(&index).is_empty());
}

#[test]
fn of_namespaces_that_are_gone_no_expectation_stays() {
    let mut index = Index::new();
    apply_namespace(&mut index, "shop", "disabled");
    index.take(Kind::Pod, Change::Expected("shop".into()));
    // For many namespaces, the review of the last Pod arrives after the namespace was removed.
    for number in 0..10 * EXPECTED_UNKNOWN_MAX {
        let name = format!("ci-{number}");
        apply_namespace(&mut index, &name, "disabled");
        index.take(Kind::Namespace, Change::Removed(Name::of_cluster(&name)));
        index.take(Kind::Pod, Change::Expected(name.into()));
    }
    assert_eq!((index.expecting.len(), index.expecting_unknown.len()), (1, EXPECTED_UNKNOWN_MAX));
    index.take(Kind::Namespace, Change::Listed(HashSet::new()));
    assert_eq!(index.expecting.len(), 0, "a list without the namespace removes it too");
}

#[test]
fn pods_without_the_proxy_that_they_or_their_namespaces_ask_for_are_named() {
    let mut index = Index::new();
    for (name, annotation) in
        [("asking", "enabled"), ("whole", "enabled"), ("refusing", "disabled"), ("leno", "enabled"), ("ci", "enabled")]
    {
        apply_namespace(&mut index, name, annotation);
    }
    let bare = |wish| Content::Pod(Pod { bare: Some(Bare { wish, has_grpc: false, uid: "7".into() }), ..a_pod() });
    let with_grpc = |wish| Content::Pod(Pod { bare: Some(Bare { wish, has_grpc: true, uid: "7".into() }), ..a_pod() });
    for (namespace, name, content) in [
        ("asking", "b", bare(Wish::AsNamespace)),
        ("asking", "a", bare(Wish::Proxy)),
        ("asking", "disabled", bare(Wish::NoProxy)),
        ("asking", "meshed", injected("echo")),
        ("whole", "meshed", injected("echo")),
        ("refusing", "quiet", bare(Wish::AsNamespace)),
        ("refusing", "asks", bare(Wish::Proxy)),
        ("plain", "quiet", bare(Wish::AsNamespace)),
        ("leno", "control", bare(Wish::AsNamespace)),
        ("ci", "build", bare(Wish::Proxy)),
        ("plain", "grpc", with_grpc(Wish::Grpc)),
        ("asking", "c-grpc-without-asking", with_grpc(Wish::AsNamespace)),
        ("refusing", "b-grpc-without-sidecar", bare(Wish::Grpc)),
    ] {
        index.take(Kind::Pod, Change::Applied(Name::new(namespace, name), content));
    }
    let unmeshed = index.unmeshed(&["ci".to_owned()]);
    let names: Vec<_> = unmeshed
        .iter()
        .map(|(namespace, pods)| (&**namespace, pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>()))
        .collect();
    let expected = [
        ("asking", vec!["a", "b", "c-grpc-without-asking"]),
        ("refusing", vec!["asks", "b-grpc-without-sidecar"]),
        ("whole", vec![]),
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_namespace_with_a_grpc_program_gets_the_trust_bundle() {
    let mut index = Index::new();
    let none = Content::Namespace(Namespace::default());
    index.take(Kind::Namespace, Change::Applied(Name::of_cluster("plain"), none));
    assert_eq!(meshed(&index), [""; 0]);
    let bare = Some(Bare { wish: Wish::Grpc, has_grpc: true, uid: "7".into() });
    index.take(Kind::Pod, Change::Applied(Name::new("plain", "a"), Content::Pod(Pod { bare, ..a_pod() })));
    assert_eq!(meshed(&index), ["plain"]);
}

#[test]
fn of_a_namespace_our_annotations_are_kept() {
    let all = [("leno.dev/inject", "enabled"), ("leno.dev/proxy-workers", "2"), ("example.org/team", "shop")];
    let namespace = Namespace::new(all.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert!(namespace.injects());
    let names: Vec<_> = namespace.annotations().keys().collect();
    assert_eq!(names, ["leno.dev/inject", "leno.dev/proxy-workers"]);
}

fn apply_namespace(index: &mut Index, name: &str, inject: &str) {
    let content = Content::Namespace(Namespace::new([("leno.dev/inject".to_owned(), inject.to_owned())].into()));
    index.take(Kind::Namespace, Change::Applied(Name::of_cluster(name), content));
}

fn meshed(index: &Index) -> Vec<String> {
    index.meshed_namespaces().into_iter().map(String::from).collect()
}

#[test]
fn an_endpoint_that_names_no_pod_has_the_proxy_of_the_meshed_pod_at_its_address() {
    let mut index = with_echo(&[("", "10.244.1.1"), ("", "10.244.7.7")]);
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "10.244.7.7"]);
    let elsewhere = || Name::new("bank", "pay");
    index.take(Kind::Pod, Change::Applied(elsewhere(), injected("pay")));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/bank/sa/pay", "10.244.7.7"]);
    // The endpoint has the proxy even if the slice arrives after the Pod.
    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&[("", "10.244.1.2")]));
    assert_eq!(endpoints(&mut index), ["10.244.1.2 ns/bank/sa/pay"]);
    index.take(Kind::Pod, Change::Removed(elsewhere()));
    assert_eq!(endpoints(&mut index), ["10.244.1.2"]);
}

#[test]
fn an_endpoint_may_be_a_pod_of_another_namespace_and_then_serves_only_calls_to_the_service() {
    let mut index = with_echo(&[("bank/pay", "10.244.1.1")]);
    assert!(endpoints(&mut index).is_empty(), "its Pod is not known");
    index.take(Kind::Pod, Change::Applied(Name::new("bank", "pay"), injected("pay")));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/bank/sa/pay"]);
    let mesh = index.translate().mesh;
    assert!(mesh.endpoint_by_address(SocketAddr::new(IPS[0], 8080)).is_none());
}

#[test]
fn of_two_pods_at_one_address_the_one_in_the_earlier_stage_counts_and_then_the_newest() {
    let pod = |created_s, stage| Content::Pod(Pod { created_s: Some(created_s), stage, ..a_meshed_pod("echo") });
    for (a, b, wins) in [
        (pod(1, Stage::Active), pod(2, Stage::Active), "b"),
        (pod(2, Stage::Active), pod(1, Stage::Active), "a"),
        (pod(2, Stage::Terminating), pod(1, Stage::Active), "b"),
        (pod(2, Stage::Ended), pod(1, Stage::Active), "b"),
        // A Pod that is being deleted may still serve. The network has released the addresses of an ended Pod.
        (pod(2, Stage::Ended), pod(1, Stage::Terminating), "b"),
        (pod(1, Stage::Active), pod(1, Stage::Active), "a"),
    ] {
        let mut index = Index::new();
        apply(&mut index, Kind::Pod, "a", a);
        apply(&mut index, Kind::Pod, "b", b);
        assert_eq!(&*index.translate().mesh.pods()[&IPS[0]].name, wins);
    }
}

#[test]
fn a_pod_without_a_proxy_at_the_address_of_an_ended_meshed_pod_is_called_in_clear() {
    let meshed = || Pod { created_s: Some(1), ..a_meshed_pod("echo") };
    let bare = || Pod { created_s: Some(2), ..a_pod() };
    for (old, new, is_meshed) in [
        (meshed(), bare(), false),
        (Pod { stage: Stage::Terminating, created_s: Some(3), ..meshed() }, bare(), false),
        (Pod { stage: Stage::Ended, created_s: Some(3), ..meshed() }, bare(), false),
        // The address still belongs to the meshed Pod if the Pod without a proxy has ended or uses its node's network.
        (meshed(), Pod { stage: Stage::Ended, ..bare() }, true),
        (meshed(), Pod { has_host_network: true, ..bare() }, true),
        // If both Pods were created in the same second, the index assumes the one with a proxy: an unencrypted call
        // could reveal its content.
        (meshed(), Pod { created_s: Some(1), ..bare() }, true),
    ] {
        let mut index = with_echo(&[("", "10.244.1.1")]);
        apply(&mut index, Kind::Pod, "z", Content::Pod(old.clone()));
        apply(&mut index, Kind::Pod, "a", Content::Pod(new.clone()));
        let expected = if is_meshed { "10.244.1.1 ns/shop/sa/echo" } else { "10.244.1.1" };
        assert_eq!(endpoints(&mut index), [expected], "{old:?} {new:?}");
        assert_eq!(index.translate().mesh.pods().contains_key(&IPS[0]), is_meshed, "{old:?} {new:?}");
    }
}

/// Makes the Service echo headless: a client that dials the address of an endpoint then calls the Service.
fn make_headless(index: &mut Index) {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "echo", "namespace": IN_SHOP },
        "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] },
    }))
    .expect("a Service");
    apply(index, Kind::Service, "echo", Content::Object(Revision::default(), typed::service(service)));
}

#[test]
fn a_slice_that_names_a_leaving_pod_gets_no_calls_for_the_pod_that_has_its_address_now() {
    let dialled = SocketAddr::new(IPS[0], 8080);
    // Whether calls to the dialled address go to the Service, and the identity at this address if no Service has it.
    let led = |index: &mut Index| {
        let mesh = index.translate().mesh;
        let leads = (mesh.cluster_by_address(dialled).is_some(), mesh.endpoint_by_address(dialled).is_some());
        let own = mesh.pod_by_address(dialled).and_then(|cluster| cluster.endpoints[0].proxy.clone());
        (leads, own.map(|proxy| proxy.identity.to_string()))
    };
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-b", "10.244.1.2")]);
    make_headless(&mut index);
    // A finalizer keeps echo-a.
    let leaving = Pod { stage: Stage::Terminating, created_s: Some(3), ..a_pod() };
    apply(&mut index, Kind::Pod, "echo-a", at(IPS[0], leaving));
    apply(&mut index, Kind::Pod, "echo-b", at(IPS[1], a_pod()));
    // While no other Pod has the address, echo-a may still serve until its end.
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "10.244.1.2"]);
    assert_eq!(led(&mut index), ((true, true), None));

    let pay = || Name::new("bank", "pay");
    let new = at(IPS[0], Pod { created_s: Some(2), ..a_meshed_pod("pay") });
    index.take(Kind::Pod, Change::Applied(pay(), new));
    assert_eq!(endpoints(&mut index), ["10.244.1.2"]);
    assert_eq!(led(&mut index), ((false, false), Some("ns/bank/sa/pay".to_owned())));
    let notices: Vec<String> = index.notices().map(|notice| notice.to_string()).collect();
    let told = "10.244.1.1 is not used because another Pod has that address now, or Pod echo-a has ended";
    assert_eq!(notices, [format!("endpoints of EndpointSlice shop/echo-1: {told}")]);
    // A slice that arrives after the Pods gets no calls either.
    apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&[("echo-b", "10.244.1.2"), ("echo-a", "10.244.1.1")]));
    assert_eq!(endpoints(&mut index), ["10.244.1.2"]);

    index.take(Kind::Pod, Change::Removed(pay()));
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "10.244.1.2"]);
    assert_eq!(led(&mut index), ((true, true), None));
}

#[test]
fn an_endpoint_follows_the_owner_of_its_address() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-b", "10.244.1.1")]);
    let pod = |service_account, created_s, stage| {
        at(IPS[0], Pod { created_s: Some(created_s), stage, ..a_meshed_pod(service_account) })
    };
    apply(&mut index, Kind::Pod, "echo-a", pod("a", 1, Stage::Active));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/a"]);
    apply(&mut index, Kind::Pod, "echo-b", pod("b", 2, Stage::Active));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/b"]);
    apply(&mut index, Kind::Pod, "echo-b", pod("b", 2, Stage::Terminating));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/a"]);
    // The Pod gets another address.
    let moved = at(IPS[1], Pod { created_s: Some(1), ..a_meshed_pod("a") });
    apply(&mut index, Kind::Pod, "echo-a", moved);
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/b"]);
}

#[test]
fn a_pod_that_is_made_again_at_its_address_keeps_its_endpoint() {
    let mut index = with_echo(&[("echo-0", "10.244.1.1")]);
    let pod = |service_account, created_s, stage| {
        at(IPS[0], Pod { created_s: Some(created_s), stage, ..a_meshed_pod(service_account) })
    };
    apply(&mut index, Kind::Pod, "echo-0", pod("echo", 1, Stage::Terminating));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);
    apply(&mut index, Kind::Pod, "echo-0", pod("other", 2, Stage::Active));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/other"]);
    index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "echo-0")));
    assert!(endpoints(&mut index).is_empty());
    apply(&mut index, Kind::Pod, "echo-0", pod("echo", 3, Stage::Active));
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);
}

#[test]
fn a_pod_that_has_ended_is_no_endpoint() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    apply(&mut index, Kind::Pod, "echo-a", bare());
    assert_eq!(endpoints(&mut index), ["10.244.1.1"]);
    apply(&mut index, Kind::Pod, "echo-a", Content::Pod(Pod { stage: Stage::Ended, ..a_pod() }));
    assert!(endpoints(&mut index).is_empty());
}

#[test]
fn pods_on_their_nodes_network_share_its_address_until_it_is_given_to_a_pod() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1"), ("echo-b", "10.244.1.2")]);
    let on_node = |stage| Content::Pod(Pod { has_host_network: true, created_s: Some(2), stage, ..a_pod() });
    let other = |created_s, stage| at(IPS[0], Pod { created_s: Some(created_s), stage, ..a_pod() });
    apply(&mut index, Kind::Pod, "echo-a", on_node(Stage::Active));
    apply(&mut index, Kind::Pod, "echo-b", on_node(Stage::Active));
    // A Pod that had the address before the node still reports it.
    apply(&mut index, Kind::Pod, "old", other(1, Stage::Terminating));
    assert_eq!(endpoints(&mut index), ["10.244.1.1", "10.244.1.2"]);
    // The node is removed, and its first address is given to a Pod. A finalizer keeps the Pods of the node.
    apply(&mut index, Kind::Pod, "echo-a", on_node(Stage::Terminating));
    apply(&mut index, Kind::Pod, "echo-b", on_node(Stage::Terminating));
    apply(&mut index, Kind::Pod, "new", other(1, Stage::Active));
    assert_eq!(endpoints(&mut index), ["10.244.1.2"]);
}

#[test]
fn after_any_changes_the_index_equals_an_index_that_gets_only_the_last_objects() {
    const NAMES: [&str; 4] = ["a", "b", "c", "bank/pay"];
    const ADDRESSES: [&str; 3] = ["10.244.1.1", "10.244.1.2", "10.244.1.3"];
    fn name(pod: &str) -> Name {
        let (namespace, pod) = pod.split_once('/').unwrap_or((IN_SHOP, pod));
        Name::new(namespace, pod)
    }
    for seed in leno_testing::seeds(0..200) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pods: BTreeMap<&str, Pod> = BTreeMap::new();
        let mut listed: Vec<(&str, &str)> = Vec::new();
        let mut index = with_echo(&listed);
        for _ in 0..30 {
            for _ in 0..random.usize(1..4) {
                let chosen = NAMES[random.usize(..NAMES.len())];
                match random.u8(..6) {
                    0 | 1 => {
                        let endpoints = (0..random.usize(..5)).map(|_| {
                            let named = if random.u8(..4) == 0 { "" } else { NAMES[random.usize(..NAMES.len())] };
                            (named, ADDRESSES[random.usize(..ADDRESSES.len())])
                        });
                        listed = endpoints.collect();
                        apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&listed));
                    }
                    2 => {
                        pods.remove(chosen);
                        index.take(Kind::Pod, Change::Removed(name(chosen)));
                    }
                    _ => {
                        let ips = ADDRESSES.iter().filter(|_| random.bool());
                        let ips: Box<[IpAddr]> = ips.map(|ip| ip.parse().expect("an address")).collect();
                        let stages = [Stage::Active, Stage::Terminating, Stage::Ended];
                        let has_host_network = random.u8(..4) == 0;
                        let is_meshed = !has_host_network && random.bool();
                        let pod = Pod {
                            ips,
                            has_host_network,
                            injected_as: is_meshed.then(|| chosen.replace('/', "-").into()),
                            stage: stages[random.usize(..stages.len())],
                            created_s: Some(random.i64(0..3)),
                            ..a_pod()
                        };
                        pods.insert(chosen, pod.clone());
                        index.take(Kind::Pod, Change::Applied(name(chosen), Content::Pod(pod)));
                    }
                }
            }
            let mut fresh = Index::new();
            for (pod, content) in &pods {
                fresh.take(Kind::Pod, Change::Applied(name(pod), Content::Pod(content.clone())));
            }
            apply(&mut fresh, Kind::Service, "echo", a_service(&json!({})));
            apply(&mut fresh, Kind::EndpointSlice, "echo-1", a_slice(&listed));
            assert_eq!(endpoints(&mut index), endpoints(&mut fresh), "{pods:?} {listed:?}");
            assert_eq!(index.mesh.pods(), fresh.mesh.pods(), "{pods:?}");
        }
    }
}

#[test]
fn an_event_that_changes_nothing_that_is_read_is_no_change() {
    let mut index = with_echo(&[("echo-a", "10.244.1.1")]);
    let listed = || Change::Listed(HashSet::from([Name::new(IN_SHOP, "echo-a")]));
    let policy = || a_policy(&json!({ "allow": [{ "identities": ["ns/shop/sa/web"] }] }));
    let broken = || a_policy(&json!({ "allow": 7 }));
    assert!(apply(&mut index, Kind::Pod, "echo-a", injected("echo")).is_change);
    assert!(index.take(Kind::Pod, listed()).is_change, "the first list");
    assert!(apply(&mut index, Kind::AuthorizationPolicy, "web", policy()).is_change);
    let slice = || a_slice(&[("echo-a", "10.244.1.1")]);
    for (kind, name, content) in [
        (Kind::Service, "echo", a_service(&json!({}))),
        (Kind::EndpointSlice, "echo-1", slice()),
        (Kind::Pod, "echo-a", injected("echo")),
        (Kind::AuthorizationPolicy, "web", policy()),
    ] {
        assert!(!apply(&mut index, kind, name, content).is_change, "{kind}");
    }
    assert!(!index.take(Kind::Pod, listed()).is_change);
    assert!(!index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "gone"))).is_change);
    assert_eq!(endpoints(&mut index), ["10.244.1.1 ns/shop/sa/echo"]);

    assert!(apply(&mut index, Kind::Service, "echo", a_service(&json!({ "leno.dev/opaque-ports": "80" }))).is_change);
    assert!(apply(&mut index, Kind::EndpointSlice, "echo-1", a_slice(&[])).is_change);
    assert!(apply(&mut index, Kind::Pod, "echo-a", bare()).is_change);
    assert!(apply(&mut index, Kind::AuthorizationPolicy, "web", broken()).is_change);
    assert!(!apply(&mut index, Kind::AuthorizationPolicy, "web", broken()).is_change);
    // The next generation is a change even with the same content, because its status must be written.
    let next = a_policy_of(Revision { generation: 2, ..first_of("a") }, &json!({ "allow": 7 }));
    assert!(apply(&mut index, Kind::AuthorizationPolicy, "web", next).is_change);
    assert!(index.take(Kind::Pod, Change::Removed(Name::new(IN_SHOP, "echo-a"))).is_change);
}

/// An HTTPRoute with these parents, for example the Service echo.
fn a_route(generation: i64, parents: &Value, timeout: &str) -> Content {
    Content::Custom(
        Revision { generation, ..first_of("a") },
        read_object(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": { "name": "echo", "namespace": IN_SHOP },
            "spec": {
                "parentRefs": parents,
                "rules": [{ "backendRefs": [{ "name": "echo", "port": 80 }], "timeouts": { "request": timeout } }],
            },
        })),
    )
}

#[test]
fn a_route_whose_parents_were_removed_is_no_longer_in_force() {
    let mut index = with_echo(&[]);
    let parents = json!([{ "group": "", "kind": "Service", "name": "echo" }]);
    apply(&mut index, Kind::HttpRoute, "echo", a_route(1, &parents, "1s"));
    assert_eq!(index.translate().mesh.attached_routes().len(), 1);
    apply(&mut index, Kind::HttpRoute, "echo", a_route(2, &json!([]), "1s"));
    assert_eq!(index.translate().mesh.attached_routes().len(), 0);
    assert!(index.notices().any(|notice| notice.to_string().contains("a route without a parent")));
}

#[test]
fn an_invalid_route_tells_whether_an_earlier_version_is_in_force() {
    let mut index = with_echo(&[]);
    let parents = json!([{ "group": "", "kind": "Service", "name": "echo" }]);
    let told = |index: &Index| {
        let observed = index.observed();
        observed[&(Kind::HttpRoute, Name::new(IN_SHOP, "echo"))].problem.clone().expect("it is invalid")
    };
    apply(&mut index, Kind::HttpRoute, "echo", a_route(1, &parents, "soon"));
    assert!(told(&index).ends_with(". Until then it has no effect."), "{}", told(&index));
    apply(&mut index, Kind::HttpRoute, "echo", a_route(2, &parents, "1s"));
    apply(&mut index, Kind::HttpRoute, "echo", a_route(3, &parents, "soon"));
    assert!(told(&index).ends_with(". The last valid version stays in force."), "{}", told(&index));
}
