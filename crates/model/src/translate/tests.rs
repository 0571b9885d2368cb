use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fixtures::{self, ECHO, echo_with, lines, objects, translated};
use crate::manifest::read_object;
use crate::mesh::{Cluster, Dialled, EndpointProxy};
use crate::object::Object;
use crate::object::service::PORTS_MAX;
use crate::protocol::Protocol;
use crate::translate::{Memo, Translation, translate, translate_again};

/// Another slice of the Service of [`ECHO`].
const SECOND_SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: echo-2
  labels: {kubernetes.io/service-name: echo}
  annotations: {leno.dev/controller: statefulset/echo}
addressType: IPv6
ports: [{name: grpc, port: 50062}]
endpoints:
- addresses: ['::1']
  zone: west
  hostname: echo-0
  targetRef: {kind: Pod, name: echo-0}
- addresses: ['::2']
  conditions: {ready: false}
  targetRef: {kind: Node, name: n1}
";

fn addresses(cluster: &Cluster) -> Vec<String> {
    cluster.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect()
}

fn only(translation: &Translation) -> &Cluster {
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    assert_eq!(translation.mesh.clusters().len(), 1, "{:?}", translation.mesh);
    &translation.mesh.clusters()[0]
}

#[test]
fn of_objects_in_no_file_the_first_by_name_has_an_address() {
    let service = |name: &str| {
        let metadata = serde_json::json!({"name": name, "namespace": "shop"});
        let spec = serde_json::json!({"clusterIP": "10.96.0.10", "ports": [{"port": 80}]});
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        read_object(object).expect("no mistake").objects.remove(0)
    };
    for names in [["a", "b"], ["b", "a"]] {
        let mesh = translate(&names.map(service), "shop").mesh;
        let found = mesh.cluster_by_address(([10, 96, 0, 10], 80).into()).expect("a cluster");
        assert_eq!(&*found.key.service, "a");
    }
}

/// The mesh serves only the first ports of a Service, but reads all of them. If the time grew with the square of their
/// number, one Service would delay the updates of all others.
#[test]
fn sixteen_times_as_many_ports_take_about_sixteen_times_as_long() {
    let took = |count: u16| -> Duration {
        let port = |number: u16| serde_json::json!({"name": format!("p{number}"), "port": number});
        let object = |kind: &str, version: &str, more: serde_json::Value| {
            let labels = serde_json::json!({"kubernetes.io/service-name": "wide"});
            let metadata = serde_json::json!({"name": "wide", "namespace": "shop", "labels": labels});
            let mut object = serde_json::json!({"apiVersion": version, "kind": kind, "metadata": metadata});
            object.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
            object
        };
        let ports: Vec<_> = (1..=count).map(port).collect();
        // No endpoint serves the first half of the ports.
        let served: Vec<_> = (count / 2 + 1..=count).map(port).collect();
        let endpoints = serde_json::json!([{"addresses": ["127.0.0.1"]}]);
        let service = object("Service", "v1", serde_json::json!({"spec": {"ports": ports}}));
        let slice = serde_json::json!({"addressType": "IPv4", "ports": served, "endpoints": endpoints});
        let slice = object("EndpointSlice", "discovery.k8s.io/v1", slice);
        let begun = Instant::now();
        let objects = [service, slice].map(|object| read_object(object).expect("no mistake").objects.remove(0));
        let translation = translate(&objects, "shop");
        let took = begun.elapsed();
        let unserved = PORTS_MAX.min(usize::from(count / 2));
        let of_limit = usize::from(usize::from(count) > PORTS_MAX);
        assert_eq!(translation.problems.len(), unserved + of_limit);
        assert_eq!(translation.mesh.clusters().len(), PORTS_MAX.min(usize::from(count)));
        took
    };
    // The shortest of three times: a busy machine can only make a time longer.
    let shortest = |count| (0..3).map(|_| took(count)).min().unwrap_or_default();
    // With a search through all ports for each port, the second time was more than 100 times the first.
    let (few, many) = (shortest(1_000), shortest(16_000));
    assert!(many < few * 64, "{few:?}, then {many:?}");
}

#[test]
fn a_port_above_the_limit_is_unknown_to_the_mesh() {
    let more: String = (1..=PORTS_MAX).map(|port| format!("  - {{name: p{port}, port: {port}}}\n")).collect();
    let text = echo_with("    port: 50051\n", &format!("    port: 50051\n{more}"));
    let Translation { mesh, problems, .. } = translated(&[("a.yaml", &text)]);
    let what = "spec.ports of Service default/echo: the mesh serves the first 1024 TCP ports of a Service: redirected \
                connections to the further ports (1) leave the mesh, without encryption and balancing; routes and policies \
                find no such port; distribute the ports over several Services";
    assert_eq!(lines(&problems).iter().filter(|line| line.ends_with(what)).count(), 1, "{:?}", problems.first());
    assert_eq!(mesh.clusters().len(), PORTS_MAX);
    assert!(mesh.cluster_by_address(([10, 96, 0, 10], 1_023).into()).is_some());
    assert!(mesh.cluster_by_address(([10, 96, 0, 10], 1_024).into()).is_none());
    assert!(mesh.cluster_by_authority(b"echo:1024").is_err());
}

#[test]
fn the_endpoints_of_all_slices_are_joined_and_sorted() {
    let translation = translated(&[("b.yaml", SECOND_SLICE), ("a.yaml", ECHO)]);
    let cluster = only(&translation);
    assert_eq!(addresses(cluster), ["127.0.0.1:50061", "127.0.0.2:50061", "127.0.0.3:50061", "[::1]:50062"]);
    assert_eq!(cluster.unready_endpoints.len(), 1);
    let named = &cluster.endpoints[3];
    assert_eq!(named.zone.as_deref(), Some("west"));
    assert_eq!(named.hostname.as_deref(), Some("echo-0"));
    assert_eq!(named.pod.as_deref(), Some("echo-0"));
    assert_eq!(named.controller, "statefulset/echo".parse().ok());
    assert_eq!(cluster.endpoints[0].controller, None, "its slice names no controller");
    assert!(translation.notices.is_empty(), "{:?}", translation.notices);
}

#[test]
fn each_port_has_the_endpoints_of_the_slices_port_of_its_name() {
    let text = echo_with("    port: 50051\n", "    port: 50051\n  - {name: web, port: 80, appProtocol: http}\n")
        .replace("  port: 50061\n", "  port: 50061\n- {name: web, port: 8080}\n- {name: other, port: 1}\n- {name: grpc, port: 2, protocol: UDP}\n");
    let mesh = translated(&[("a.yaml", &text)]).mesh;
    let of = |authority: &[u8]| addresses(mesh.cluster_by_authority(authority).expect("known"));
    assert_eq!(of(b"echo:50051")[0], "127.0.0.1:50061");
    assert_eq!(of(b"echo:80"), ["127.0.0.1:8080", "127.0.0.2:8080", "127.0.0.3:8080"]);
    let web = mesh.cluster_by_authority(b"echo:80").expect("known");
    assert_eq!(web.protocol, Protocol::Http1);
}

#[test]
fn a_port_without_a_name_has_the_slices_port_without_a_name() {
    let text = ECHO.replace("- name: grpc\n    port", "- port").replace("- name: grpc\n  port", "- port");
    assert_eq!(only(&translated(&[("a.yaml", &text)])).endpoints.len(), 3);
}

#[test]
fn terminating_endpoints_that_serve_are_used_only_when_none_is_ready() {
    let draining = "conditions: {ready: false, serving: true, terminating: true}";
    let text = echo_with("[127.0.0.3]", &format!("[127.0.0.3]\n  {draining}"));
    let translation = translated(&[("a.yaml", &text)]);
    assert_eq!(addresses(only(&translation)), ["127.0.0.1:50061", "127.0.0.2:50061"]);
    assert_eq!(only(&translation).unready_endpoints.len(), 1);

    let text = text
        .replace("[127.0.0.1]", "[127.0.0.1]\n  conditions: {ready: false}")
        .replace("[127.0.0.2]", &format!("[127.0.0.2]\n  {draining}"));
    let translation = translated(&[("a.yaml", &text)]);
    assert_eq!(addresses(only(&translation)), ["127.0.0.2:50061", "127.0.0.3:50061"]);

    let text = text.replace("serving: true", "serving: false");
    let translation = translated(&[("a.yaml", &text)]);
    assert!(only(&translation).endpoints.is_empty());
    assert_eq!(only(&translation).unready_endpoints.len(), 3);
}

#[test]
fn a_pod_with_two_addresses_is_one_endpoint_in_the_family_of_the_services_first_address() {
    let slice = |family: &str, addresses: [&str; 2]| {
        let endpoint = |(pod, address): (usize, &str)| {
            format!("- {{addresses: ['{address}'], targetRef: {{kind: Pod, name: echo-{pod}}}}}\n")
        };
        let endpoints: String = addresses.into_iter().enumerate().map(endpoint).collect();
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: echo-{}\n  \
             labels: {{kubernetes.io/service-name: echo}}\naddressType: {family}\nports: [{{name: grpc, port: 80}}]\n\
             endpoints:\n{endpoints}",
            family.to_lowercase()
        )
    };
    let service = |cluster_ips: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: echo}}\n\
             spec: {{{cluster_ips}, ports: [{{name: grpc, port: 80}}]}}\n"
        )
    };
    let (v4, v6) = (slice("IPv4", ["10.0.0.1", "10.0.0.2"]), slice("IPv6", ["fd00::1", "fd00::9"]));
    // The last Pod has no IPv4 address.
    let v6 = v6.replace("name: echo-1}", "name: echo-9}");
    for (cluster_ips, endpoints, others) in [
        ("clusterIPs: [10.96.0.10, 'fd00::10']", &["10.0.0.1:80", "10.0.0.2:80", "[fd00::9]:80"][..], 1),
        ("clusterIPs: ['fd00::10', 10.96.0.10]", &["10.0.0.2:80", "[fd00::1]:80", "[fd00::9]:80"], 1),
        ("clusterIP: None", &["10.0.0.1:80", "10.0.0.2:80", "[fd00::9]:80"], 1),
    ] {
        let translation = translated(&[("a.yaml", &(service(cluster_ips) + &v4 + &v6))]);
        assert_eq!(addresses(only(&translation)), endpoints, "{cluster_ips}");
        assert_eq!(only(&translation).unready_endpoints.len(), others);
        assert_eq!(only(&translation).second_addresses().count(), others);
        // A client of a headless Service may dial either address of a Pod.
        if cluster_ips.ends_with("None") {
            for address in ["10.0.0.1:80", "[fd00::1]:80"] {
                let address = address.parse().expect("an address");
                assert!(translation.mesh.cluster_by_address(address).is_some(), "{address}");
            }
        }
    }
}

/// Returns whether the own addresses of two Pods lead to the headless Service `echo`. `annotation` belongs to this
/// Service, and `hostname` to the first Pod in another Service of the same Pods.
fn balanced(annotation: &str, hostname: &str) -> [bool; 2] {
    let service = |name: &str, annotations: &str, port: u16, hostname: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
             spec: {{clusterIP: None, ports: [{{port: {port}}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-1\n  \
             labels: {{kubernetes.io/service-name: {name}}}\naddressType: IPv4\nports: [{{port: {port}}}]\n\
             endpoints: [{{addresses: [10.0.0.1]{hostname}}}, {{addresses: [10.0.0.2]}}]\n"
        )
    };
    let manifests = service("echo", annotation, 80, "") + &service("metrics", "", 9090, hostname);
    let mesh = translated(&[("a.yaml", &manifests)]).mesh;
    let leads = |address: &str| {
        let cluster = mesh.cluster_by_address(address.parse().expect("an address"));
        cluster.is_some_and(|cluster| &*cluster.key.service == "echo")
    };
    ["10.0.0.1:80", "10.0.0.2:80"].map(leads)
}

#[test]
fn calls_to_the_endpoints_of_a_headless_service_are_balanced_unless_the_client_selects_an_endpoint() {
    assert_eq!(balanced("", ""), [true, true]);
    assert_eq!(balanced("leno.dev/headless: balanced", ""), [true, true]);
    assert_eq!(balanced("leno.dev/headless: direct", ""), [false, false]);
    // A Pod has a hostname in one of its Services only.
    assert_eq!(balanced("", ", hostname: db-0"), [false, true]);
    assert_eq!(balanced("leno.dev/headless: balanced", ", hostname: db-0"), [true, true]);
}

#[test]
fn an_endpoint_in_two_slices_is_one_endpoint_and_its_better_condition_counts() {
    for (first, second) in [("true", "false"), ("false", "true")] {
        let a = echo_with("[127.0.0.1]", &format!("[127.0.0.1]\n  conditions: {{ready: {first}}}"));
        let (_, slice) = ECHO.split_once("---\n").expect("two documents");
        let b = slice
            .replace("echo-1", "echo-2")
            .replace("[127.0.0.1]", &format!("[127.0.0.1]\n  conditions: {{ready: {second}}}"));
        let translation = translated(&[("a.yaml", &a), ("b.yaml", &b)]);
        assert_eq!(only(&translation).endpoints.len(), 3, "{first} {second}");
        assert_eq!(only(&translation).unready_endpoints.len(), 0);
    }
}

#[test]
fn an_endpoint_in_two_slices_keeps_the_proxy_that_one_of_them_knows_of() {
    let (_, slice) = ECHO.split_once("---\n").expect("two documents");
    let labels = "labels: {kubernetes.io/service-name: echo}";
    let known = format!("{labels}\n  annotations: {{leno.dev/identity: ns/shop/sa/cart}}");
    let b = slice.replace("echo-1", "echo-2").replace(labels, &known);
    let translation = translated(&[("a.yaml", ECHO), ("b.yaml", &b)]);
    for endpoint in &only(&translation).endpoints {
        let proxy = endpoint.proxy.as_ref().expect("a proxy");
        assert_eq!(proxy.identity.to_string(), "ns/shop/sa/cart");
    }
    assert_eq!(only(&translated(&[("a.yaml", ECHO)])).endpoints[0].proxy, None);
}

#[test]
fn the_protocol_is_what_the_annotation_says_then_app_protocol_then_what_is_usual_for_either_port() {
    let protocol = |port: &str, target: &str, app: &str, opaque: &str| {
        let text = echo_with("port: 50051", &format!("port: {port}{app}"))
            .replace("port: 50061", &format!("port: {target}"))
            .replace("  name: echo\n", &format!("  name: echo\n{opaque}"));
        only(&translated(&[("a.yaml", &text)])).protocol
    };
    let (http2, tcp, unknown) = ("\n    appProtocol: grpc", "\n    appProtocol: tcp", "\n    appProtocol: acme.org/x");
    let opaque = "  annotations: {leno.dev/opaque-ports: '90,9000-9010'}\n";
    for (port, target, app, annotations, expected) in [
        ("80", "8080", "", "", Protocol::Detect),
        ("80", "8080", unknown, "", Protocol::Detect),
        ("80", "8080", http2, "", Protocol::Http2),
        ("80", "8080", tcp, "", Protocol::Opaque),
        ("3306", "8080", "", "", Protocol::Opaque),
        ("80", "3306", "", "", Protocol::Opaque),
        ("80", "3306", unknown, "", Protocol::Opaque),
        ("3306", "3306", http2, "", Protocol::Http2),
        ("90", "8080", "", opaque, Protocol::Opaque),
        ("80", "9005", http2, opaque, Protocol::Opaque),
        ("80", "8080", "", opaque, Protocol::Detect),
        ("3306", "8080", "", opaque, Protocol::Opaque),
    ] {
        assert_eq!(protocol(port, target, app, annotations), expected, "{port} {target} {app:?} {annotations:?}");
    }
}

#[test]
fn namespaces_keep_services_of_one_name_apart() {
    let shop = ECHO
        .replace("metadata:\n", "metadata:\n  namespace: shop\n")
        .replace("127.0.0.", "127.0.1.")
        .replace("10.96", "10.97");
    let translation = translated(&[("a.yaml", ECHO), ("b.yaml", &shop)]);
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    let in_shop = translation.mesh.cluster_by_authority(b"echo.shop:50051").expect("known");
    assert_eq!(addresses(in_shop)[0], "127.0.1.1:50061");
    let in_default = translation.mesh.cluster_by_authority(b"echo:50051").expect("known");
    assert_eq!(addresses(in_default)[0], "127.0.0.1:50061");
}

#[test]
fn of_two_objects_with_one_name_the_first_file_counts() {
    let other = ECHO
        .replace("127.0.0.", "127.0.9.")
        .replace("name: echo\n", "name: echo\n  annotations: {leno.dev/balancer: random}\n");
    for files in [[("a.yaml", ECHO), ("b.yaml", &other)], [("b.yaml", &other), ("a.yaml", ECHO)]] {
        let translation = translated(&files);
        assert_eq!(
            lines(&translation.problems),
            [
                "b.yaml:4: metadata.name of Service default/echo: already defined in a.yaml:4; that definition is used; remove or rename one of them",
                "b.yaml:15: metadata.name of EndpointSlice default/echo-1: already defined in a.yaml:14; that definition is used; remove or rename one of them",
            ]
        );
        let clusters = translation.mesh.clusters().to_vec();
        let [cluster] = &clusters[..] else { panic!("{:?}", translation.mesh) };
        assert_eq!((addresses(cluster)[0].as_str(), cluster.balancer.name()), ("127.0.0.1:50061", "latency"));
    }
}

#[test]
fn of_two_services_with_one_address_the_first_keeps_it_and_both_keep_their_names() {
    let other = ECHO
        .replace("name: echo\n", "name: other\n")
        .replace("service-name: echo", "service-name: other")
        .replace("echo-1", "other-1");
    let translation = translated(&[("a.yaml", ECHO), ("b.yaml", &other)]);
    assert_eq!(
        lines(&translation.problems),
        [
            "b.yaml:8: spec.ports[0] of Service default/other: 10.96.0.10:50051 already belongs to echo.default:50051, which keeps it; use another clusterIP or port"
        ]
    );
    let mesh = &translation.mesh;
    let by_address = mesh.cluster_by_authority(b"10.96.0.10:50051").expect("known");
    assert_eq!(by_address.key.to_string(), "echo.default:50051");
    assert!(mesh.cluster_by_authority(b"other:50051").is_ok());
}

#[test]
fn a_port_that_no_slice_names_is_a_problem_of_the_slice() {
    let text = echo_with("- name: grpc\n  port: 50061", "- name: grcp\n  port: 50061");
    let translation = translated(&[("a.yaml", &text)]);
    assert_eq!(
        lines(&translation.problems),
        [
            "a.yaml:17: ports of EndpointSlice default/echo-1: none of the ports (\"grcp\") has the name \"grpc\" of port 50051 of Service default/echo; give both the same name"
        ]
    );
    assert!(translation.mesh.clusters()[0].endpoints.is_empty());
}

#[test]
fn a_slice_without_endpoints_need_not_name_ports() {
    let (head, _) = ECHO.split_once("ports:\n- name").expect("ports of the slice");
    let translation = translated(&[("a.yaml", &format!("{head}endpoints: []\n"))]);
    assert!(only(&translation).endpoints.is_empty());
}

#[test]
fn services_and_slices_without_each_other_are_told() {
    let (service, slice) = ECHO.split_once("---\n").expect("two documents");
    let alone = translated(&[("a.yaml", service)]);
    assert_eq!(
        lines(&alone.notices),
        ["a.yaml:4: Service default/echo: no EndpointSlice has its label, so calls to it have no endpoint"]
    );
    assert_eq!(alone.mesh.clusters().len(), 1);
    let orphan = translated(&[("a.yaml", slice)]);
    assert_eq!(
        lines(&orphan.notices),
        ["a.yaml:4: EndpointSlice default/echo-1: there is no Service \"echo\" in its namespace"]
    );
    assert!(orphan.mesh.clusters().is_empty() && orphan.problems.is_empty());
}

#[test]
fn problems_are_shown_as_flat_json() {
    let text = echo_with("- name: grpc\n  port: 50061", "- port: 50061");
    let problems = translated(&[("a.yaml", &text)]).problems;
    let shown = serde_json::to_value(&problems[0]).expect("plain data");
    assert_eq!((&shown["file"], &shown["line"], &shown["column"]), (&"a.yaml".into(), &17.into(), &1.into()));
    assert_eq!((&shown["field"], &shown["object"]), (&"ports".into(), &"EndpointSlice default/echo-1".into()));
}

#[test]
fn the_order_of_the_objects_does_not_matter() {
    let mut shuffled = objects(ECHO);
    shuffled.extend(objects(SECOND_SLICE));
    let forward = translate(&shuffled, "default");
    shuffled.reverse();
    let backward = translate(&shuffled, "default");
    assert_eq!(forward.mesh.clusters(), backward.mesh.clusters());
    assert_eq!(forward.problems, backward.problems);
}

#[test]
fn only_what_changed_is_made_again() {
    let mut objects = objects(ECHO);
    objects.extend(fixtures::objects(&ECHO.replace("echo", "other").replace("10.96.0.10", "10.96.0.11")));
    let mut memo = Memo::default();
    let first = translate_again(&objects, "default", Dialled::Any, &mut memo).mesh;
    let Some(Object::EndpointSlice(slice)) = objects.get_mut(1) else { panic!("the second object is a slice") };
    Arc::make_mut(slice).addresses[0].ip = "127.0.0.9".parse().expect("an address");
    let second = translate_again(&objects, "default", Dialled::Any, &mut memo).mesh;
    let clusters = second.clusters().to_vec();
    let [echo, other] = &clusters[..] else { panic!("two clusters") };
    assert_eq!(addresses(echo), ["127.0.0.1:50061", "127.0.0.2:50061", "127.0.0.9:50061"]);
    assert!(Arc::ptr_eq(other, &first.clusters()[1]) && !Arc::ptr_eq(echo, &first.clusters()[0]));
}

#[test]
fn a_service_that_was_gone_for_a_while_is_joined_anew() {
    let objects = objects(ECHO);
    let mut memo = Memo::default();
    let first = translate_again(&objects, "default", Dialled::Any, &mut memo).mesh;
    assert!(translate_again(&[], "default", Dialled::Any, &mut memo).mesh.clusters().is_empty());
    let again = translate_again(&objects, "default", Dialled::Any, &mut memo).mesh;
    assert_eq!(again.clusters(), first.clusters());
    assert!(!Arc::ptr_eq(&again.clusters()[0], &first.clusters()[0]));
}

#[test]
fn the_proxy_of_an_address_comes_before_that_of_its_slice() {
    let mut objects =
        objects(&echo_with("  name: echo-1\n", "  name: echo-1\n  annotations: {leno.dev/identity: ns/a/sa/b}\n"));
    let Some(Object::EndpointSlice(slice)) = objects.get_mut(1) else { panic!("the second object is a slice") };
    let identity = "ns/default/sa/echo".parse().expect("a workload");
    let proxy = EndpointProxy { identity, inbound_port: None, tunnel_port: 15_008 };
    Arc::make_mut(slice).addresses[0].proxy = Some(proxy);
    let mesh = translate(&objects, "default").mesh;
    let identities: Vec<_> = mesh.clusters()[0]
        .endpoints
        .iter()
        .map(|endpoint| endpoint.proxy.as_ref().map(|proxy| proxy.identity.to_string()).unwrap_or_default())
        .collect();
    assert_eq!(identities, ["ns/a/sa/b", "ns/a/sa/b", "ns/default/sa/echo"]);
}

#[test]
fn the_example_has_five_endpoints_and_no_mistake() {
    let example = include_str!("../../../../examples/echo/echo.yaml");
    let translation = translated(&[("echo.yaml", example)]);
    assert_eq!(
        addresses(only(&translation)),
        ["127.0.0.1:50061", "127.0.0.2:50061", "127.0.0.3:50061", "127.0.0.4:50061", "127.0.0.5:50061"]
    );
    assert!(translation.notices.is_empty(), "{:?}", translation.notices);
}
