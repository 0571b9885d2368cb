use std::time::Duration;

use super::service::PORTS_MAX;
use super::{Object, Readiness, Service, is_dns_label, is_dns_subdomain, is_hostname};
use crate::balance::Policy;
use crate::fixtures::{ECHO, echo_with, notices, objects, problems};

fn service(text: &str) -> Service {
    match objects(text).remove(0) {
        Object::Service(service) => Service::clone(&service),
        other => panic!("{other:?}"),
    }
}

fn annotated(annotation: &str) -> String {
    echo_with("  name: echo\n", &format!("  name: echo\n  annotations:\n    {annotation}\n"))
}

fn slice_annotated(annotations: &str) -> String {
    let labels = "  labels: {kubernetes.io/service-name: echo}\n";
    echo_with(labels, &format!("{labels}  annotations: {annotations}\n"))
}

#[test]
fn annotations_set_balancer_and_settings() {
    let text = annotated(
        "{leno.dev/balancer: least-request, leno.dev/connect-timeout: 250ms, leno.dev/idle-timeout: 1h,
     leno.dev/max-connections-per-endpoint: '2', leno.dev/max-connection-age: 1h30m, other.dev/x: y}",
    );
    let Service { balancer, settings, .. } = service(&text);
    assert_eq!(balancer, Policy::LeastRequest);
    assert_eq!(settings.connect_timeout, Duration::from_millis(250));
    assert_eq!(settings.idle_timeout, Duration::from_secs(3600));
    assert_eq!(settings.max_connections_per_endpoint, 2);
    assert_eq!(settings.max_connection_age, Some(Duration::from_secs(5400)));
}

#[test]
fn an_objective_has_a_line_for_each_method() {
    let text = "leno.dev/objective: |\n      shop.v1.Cart/Get: success 99.9 %, p99 50ms\n      *: success 99%";
    let objectives = service(&annotated(text)).objectives.expect("objectives");
    assert_eq!(objectives.to_string(), "shop.v1.Cart/Get: success 99.9 %, p99 50ms\n*: success 99 %");
    assert_eq!(&*objectives.set_by, "Service default/echo");
}

#[test]
fn the_example_of_an_objective_in_the_documentation_is_read() {
    let page = include_str!("../../../../docs/observability.md");
    let mut examples = page.split("```").filter_map(|block| block.strip_prefix("yaml\n"));
    let example = examples.find(|example| example.contains("leno.dev/objective")).expect("an example");
    let objectives = service(example).objectives.expect("objectives");
    let of = |path: &str| objectives.of(true, path.as_bytes()).map(ToString::to_string);
    assert_eq!(of("/shop.v1.Cart/Get").as_deref(), Some("success 99.9 %, p99 50ms"));
    assert_eq!(of("/shop.v1.Cart/Watch").as_deref(), Some("success 99 %"));
    assert_eq!(of("/shop.v1.Cart/Add").as_deref(), Some("success 99.5 %"));
}

#[test]
fn a_bad_annotation_says_what_is_allowed() {
    for (annotation, fault) in [
        (
            "leno.dev/balancer: fastest",
            "\"fastest\" is not a balancer; use one of latency, least-request, round-robin, random",
        ),
        ("leno.dev/connect-timeout: soon", "\"soon\" is not a duration such as 1m30s or 500ms; use 10ms to 1m"),
        ("leno.dev/connect-timeout: 2m", "2m is out of range; use 10ms to 1m"),
        ("leno.dev/idle-timeout: 25h", "25h is out of range; use 1s to 24h"),
        ("leno.dev/max-connection-age: 0s", "0s is out of range; use 1s to 168h"),
        ("leno.dev/max-connections-per-endpoint: '0'", "\"0\" is not a number of connections; use 1 to 1024"),
        ("leno.dev/max-connections-per-endpoint: '1025'", "\"1025\" is not a number of connections; use 1 to 1024"),
        (
            "leno.dev/opaque-ports: '9010-9000'",
            "\"9010-9000\" is not a list of ports; use 1 to 65535 and ranges, for example 3306,9000-9010",
        ),
        (
            "leno.dev/objective: success 100 %",
            "\"100 %\" is not a share of successful calls; write 1 % to 99.999 %, with at most three digits after the dot, as \
             success 99.9 %",
        ),
        ("leno.dev/balancr: random", "there is no such annotation; did you mean leno.dev/balancer?"),
        (
            "leno.dev/weight: '3'",
            "there is no such annotation; use one of leno.dev/balancer, leno.dev/connect-timeout, leno.dev/max-connections-per-endpoint, leno.dev/idle-timeout, leno.dev/max-connection-age, leno.dev/opaque-ports, leno.dev/objective, leno.dev/headless",
        ),
    ] {
        let (key, _) = annotation.split_once(':').expect("key");
        let line = format!("echo.yaml:6: metadata.annotations[\"{key}\"] of Service default/echo: {fault}");
        assert_eq!(problems(&annotated(annotation)), [line]);
    }
}

#[test]
fn each_bad_field_of_a_service_is_named_with_its_line() {
    let ports = "  - name: grpc\n    port: 50051\n---";
    let second = |port: &str| format!("  - name: grpc\n    port: 50051\n  {port}\n---");
    for (from, to, line) in [
        ("  name: echo\n", "  labels: {}\n", "3: metadata.name of Service: missing; give the object a name"),
        (
            "  name: echo\n",
            "  name: Echo\n",
            "4: metadata.name of Service default/Echo: \"Echo\" is not a name; use at most 63 lower-case letters, digits and dashes, with no dash first or last",
        ),
        (
            "  name: echo\n",
            "  name: echo\n  namespace: a.b\n",
            "5: metadata.namespace of Service a.b/echo: \"a.b\" is not a name; use at most 63 lower-case letters, digits and dashes, with no dash first or last",
        ),
        (
            "  clusterIP: 10.96.0.10\n",
            "  type: ExternalName\n",
            "6: spec.type of Service default/echo: ExternalName is an alias in DNS and has no endpoints; use ClusterIP and an EndpointSlice with the addresses",
        ),
        (
            "  clusterIP: 10.96.0.10\n",
            "  type: Virtual\n",
            "6: spec.type of Service default/echo: \"Virtual\" is not a type of Service; use ClusterIP, NodePort or LoadBalancer",
        ),
        (
            "10.96.0.10",
            "10.96.0.256",
            "6: spec.clusterIP of Service default/echo: \"10.96.0.256\" is not an IP address; write one such as 10.96.0.10, or None",
        ),
        (
            "10.96.0.10\n",
            "10.96.0.10\n  clusterIPs:\n  - 10.96.0.10\n  - fd00::g\n",
            "9: spec.clusterIPs[1] of Service default/echo: \"fd00::g\" is not an IP address; write one such as 10.96.0.10, or None",
        ),
        (
            "10.96.0.10\n",
            "10.96.0.10\n  clusterIPs: [10.96.0.11]\n",
            "7: spec.clusterIPs[0] of Service default/echo: \"10.96.0.11\" is not clusterIP, which is \"10.96.0.10\"; write the same address in both, or in one of them",
        ),
        (
            "  ports:\n  - name: grpc\n    port: 50051\n",
            "  ports: []\n",
            "7: spec.ports of Service default/echo: no ports; list at least one port",
        ),
        (
            "port: 50051",
            "port: 70000",
            "9: spec.ports[0].port of Service default/echo: 70000 is not a port; use 1 to 65535",
        ),
        (
            "    port: 50051\n",
            "    protocol: TCP\n",
            "8: spec.ports[0].port of Service default/echo: 0 is not a port; use 1 to 65535",
        ),
        (
            "    port: 50051\n",
            "    port: 50051\n    protocol: tcp\n",
            "10: spec.ports[0].protocol of Service default/echo: \"tcp\" is not a protocol; use TCP, UDP or SCTP",
        ),
        (
            ports,
            &second("- port: 80"),
            "10: spec.ports[1].name of Service default/echo: missing, and there are several ports; name each port",
        ),
        (
            ports,
            &second("- {name: web, port: 50051}"),
            "10: spec.ports[1].port of Service default/echo: 50051 is the port of spec.ports[0] already; use another number",
        ),
        (
            ports,
            &second("- {name: grpc, port: 80}"),
            "10: spec.ports[1].name of Service default/echo: \"grpc\" is the name of spec.ports[0] already; use another name",
        ),
        (
            "  ports:\n  - name: grpc\n    port: 50051\n",
            "  prots:\n  - name: grpc\n    port: 50051\n",
            "7: spec.prots of Service default/echo: ServiceSpec has no such field; did you mean ports?",
        ),
    ] {
        assert_eq!(problems(&echo_with(from, to)), [format!("echo.yaml:{line}")], "{from:?} to {to:?}");
    }
}

#[test]
fn each_bad_field_of_a_slice_is_named_with_its_line() {
    for (from, to, line) in [
        (
            "name: echo-1",
            "name: echo_1",
            "14: metadata.name of EndpointSlice default/echo_1: \"echo_1\" is not a name; use at most 253 lower-case letters, digits, dashes and dots",
        ),
        (
            "addressType: IPv4",
            "addressType: FQDN",
            "16: addressType of EndpointSlice default/echo-1: addresses of type FQDN are names, and the mesh does not resolve names; use IPv4 or IPv6 and write addresses",
        ),
        (
            "addressType: IPv4",
            "addressType: ipv4",
            "16: addressType of EndpointSlice default/echo-1: \"ipv4\" is not a type of address; use IPv4 or IPv6",
        ),
        ("addressType: IPv4\n", "", "11: addressType of EndpointSlice default/echo-1: missing; use IPv4 or IPv6"),
        (
            "port: 50061",
            "port: 65536",
            "19: ports[0].port of EndpointSlice default/echo-1: 65536 is not a port; use 1 to 65535",
        ),
        ("  port: 50061\n", "", "18: ports[0].port of EndpointSlice default/echo-1: missing; use 1 to 65535"),
        (
            "  port: 50061\n",
            "  port: 50061\n- name: grpc\n  port: 50062\n",
            "20: ports[1].name of EndpointSlice default/echo-1: \"grpc\" is the name of another port already; give each port a name of its own",
        ),
        (
            "[127.0.0.1]",
            "[localhost]",
            "22: endpoints[1].addresses[0] of EndpointSlice default/echo-1: \"localhost\" is not an IPv4 address; correct it, or list it in a slice of its own addressType",
        ),
        (
            "[127.0.0.1]",
            "['::1']",
            "22: endpoints[1].addresses[0] of EndpointSlice default/echo-1: \"::1\" is not an IPv4 address; correct it, or list it in a slice of its own addressType",
        ),
        ("[127.0.0.1]", "[]", "22: endpoints[1].addresses of EndpointSlice default/echo-1: no address; list one"),
        (
            "[127.0.0.1]",
            "[127.0.0.1]\n  condition: {ready: false}",
            "23: endpoints[1].condition of EndpointSlice default/echo-1: Endpoint has no such field; did you mean conditions?",
        ),
    ] {
        assert_eq!(problems(&echo_with(from, to)), [format!("echo.yaml:{line}")], "{from:?} to {to:?}");
    }
}

#[test]
fn a_part_of_a_name_may_be_longer_than_a_dns_label_unless_it_is_a_hostname() {
    let (label, part) = ("a".repeat(63), "a".repeat(64));
    let (hostname, name) = (format!("{label}.b-1"), format!("{part}.b-1"));
    let longest = format!("{part}.{}", "b".repeat(188));
    assert!(is_dns_label(&label) && is_hostname(&hostname));
    for name in [&label, &part, &hostname, &name, &longest] {
        assert!(is_dns_subdomain(name), "{name}");
    }
    for name in [&part, &name, &longest] {
        assert!(!is_dns_label(name) && !is_hostname(name), "{name}");
    }
    for text in ["", "a..b", ".a", "a.", "-a", "a-.b", "a.-b", "a_b", "A", &format!("{longest}b")] {
        assert!(!is_dns_subdomain(text) && !is_hostname(text) && !is_dns_label(text), "{text}");
    }
}

#[test]
fn all_mistakes_of_an_object_are_told_at_once() {
    let text = echo_with("port: 50051", "port: 0").replace("10.96.0.10", "here").replace("name: echo\n", "name: '-'\n");
    assert_eq!(problems(&text).len(), 3, "{:?}", problems(&text));
}

#[test]
fn a_port_that_is_not_tcp_is_told_and_left_out() {
    let text = echo_with("    port: 50051\n", "    port: 50051\n  - {name: dns, port: 50051, protocol: UDP}\n");
    assert_eq!(service(&text).ports.len(), 1);
    assert_eq!(
        notices(&text),
        ["echo.yaml:10: spec.ports[1] of Service default/echo: not TCP: calls are not sent to this port"]
    );
}

#[test]
fn the_mesh_serves_as_many_ports_of_a_service_as_the_limit_allows() {
    let with_ports = |count: usize| {
        let more: String = (1..count).map(|port| format!("  - {{name: p{port}, port: {port}}}\n")).collect();
        let udp = "  - {name: dns, port: 53, protocol: UDP}\n";
        service(&echo_with("    port: 50051\n", &format!("    port: 50051\n{udp}{more}")))
    };
    let (full, wide) = (with_ports(PORTS_MAX), with_ports(PORTS_MAX + 2));
    assert_eq!((full.ports.len(), full.ports_left_out), (PORTS_MAX, 0));
    assert_eq!((wide.ports.len(), wide.ports_left_out), (PORTS_MAX, 2));
    assert_eq!(wide.ports.last().map(|port| &*port.name), Some("p1023"));
}

#[test]
fn a_slice_without_the_service_label_and_an_endpoint_with_two_addresses_are_told() {
    let text = echo_with("  labels: {kubernetes.io/service-name: echo}\n", "")
        .replace("[127.0.0.3]", "[127.0.0.3, 127.0.0.4]");
    assert_eq!(objects(&text).len(), 1);
    assert_eq!(
        notices(&text),
        [
            "echo.yaml:20: endpoints[0].addresses of EndpointSlice default/echo-1: only the first address is used: give each of the others an endpoint of its own",
            "echo.yaml:13: metadata.labels of EndpointSlice default/echo-1: belongs to no Service: add the label kubernetes.io/service-name with the Service's name",
        ]
    );
}

#[test]
fn a_headless_service_has_no_cluster_ip_and_a_dual_stack_one_has_two() {
    let headless = service(&echo_with("10.96.0.10", "None"));
    assert!(headless.headless && headless.cluster_ips.is_empty());
    let unknown = service(&echo_with("  clusterIP: 10.96.0.10\n", ""));
    assert!(!unknown.headless && unknown.cluster_ips.is_empty());
    let dual = service(&echo_with("10.96.0.10", "10.96.0.10\n  clusterIPs: [10.96.0.10, 'fd00::10']"));
    assert_eq!(dual.cluster_ips.len(), 2);
}

#[test]
fn fields_of_a_service_that_only_kube_proxy_follows_are_told() {
    let kept = "clusterIP: 10.96.0.10\n  sessionAffinity: None\n  internalTrafficPolicy: Cluster";
    assert!(notices(&echo_with("clusterIP: 10.96.0.10", kept)).is_empty());
    let lost = kept.replace("None", "ClientIP").replace("Policy: Cluster", "Policy: Local");
    let any = "has no effect: calls from meshed Pods go to any ready endpoint";
    let told = notices(&echo_with("clusterIP: 10.96.0.10", &lost));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with(&format!("spec.sessionAffinity of Service default/echo: ClientIP {any}")), "{told:?}");
    assert!(
        told[1].ends_with(&format!("spec.internalTrafficPolicy of Service default/echo: Local {any}, on all nodes")),
        "{told:?}"
    );
}

#[test]
fn conditions_that_are_missing_mean_ready() {
    let cases = [
        ("{}", Readiness::Ready),
        ("{ready: null}", Readiness::Ready),
        ("{ready: true, terminating: true}", Readiness::Ready),
        ("{ready: false}", Readiness::Unready),
        ("{ready: false, serving: true, terminating: false}", Readiness::Unready),
        ("{ready: false, serving: true, terminating: true}", Readiness::Draining),
        ("{ready: false, terminating: true}", Readiness::Draining),
        ("{ready: false, serving: false, terminating: true}", Readiness::Unready),
    ];
    for (conditions, readiness) in cases {
        let text = echo_with("[127.0.0.3]", &format!("[127.0.0.3]\n  conditions: {conditions}"));
        let Some(Object::EndpointSlice(slice)) = objects(&text).pop() else {
            panic!("no slice");
        };
        assert_eq!(slice.addresses[0].readiness, readiness, "{conditions}");
        assert_eq!(slice.addresses[1].readiness, Readiness::Ready, "no conditions at all");
    }
}

#[test]
fn objects_know_where_they_were_defined() {
    let slice = &objects(ECHO)[1];
    assert_eq!((&*slice.identity().file, slice.identity().mark.line), ("echo.yaml", 14));
}

#[test]
fn a_slice_may_say_that_a_proxy_stands_before_its_endpoints() {
    let proxy = |annotations: &str| match objects(&slice_annotated(annotations)).pop() {
        Some(Object::EndpointSlice(slice)) => slice.proxy.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(proxy("{other.dev/identity: x}"), None);
    let plain = proxy("{leno.dev/identity: ns/shop/sa/cart}").expect("a proxy");
    assert_eq!((plain.inbound_port, plain.tunnel_port), (None, 15_008));
    assert_eq!(plain.identity.to_string(), "ns/shop/sa/cart");
    let ports = "{leno.dev/identity: ns/shop/sa/cart, leno.dev/inbound-port: '4143', leno.dev/tunnel-port: '4145'}";
    let with_ports = proxy(ports).expect("a proxy");
    assert_eq!((with_ports.inbound_port, with_ports.tunnel_port), (Some(4143), 4145));
}

#[test]
fn a_bad_annotation_of_a_slice_says_what_is_allowed() {
    for (annotations, key, fault) in [
        (
            "{leno.dev/identity: cart}",
            "identity",
            "\"cart\" is not a workload; write ns/<namespace>/sa/<service-account>",
        ),
        (
            "{leno.dev/identity: ns/a/sa/b, leno.dev/inbound-port: '0'}",
            "inbound-port",
            "\"0\" is not a port; use 1 to 65535",
        ),
        (
            "{leno.dev/identity: ns/a/sa/b, leno.dev/tunnel-port: hbone}",
            "tunnel-port",
            "\"hbone\" is not a port; use 1 to 65535",
        ),
        (
            "{leno.dev/inbound-port: '4143'}",
            "inbound-port",
            "a port of proxies without their identity; add leno.dev/identity, the identity of the workload behind the proxies",
        ),
        (
            "{leno.dev/controller: cart}",
            "controller",
            "\"cart\" is not the controller of Pods; write a kind and a name, as deployment/cart",
        ),
        ("{leno.dev/idenity: ns/a/sa/b}", "idenity", "there is no such annotation; did you mean leno.dev/identity?"),
        (
            "{leno.dev/balancer: random}",
            "balancer",
            "there is no such annotation; use one of leno.dev/identity, leno.dev/inbound-port, leno.dev/tunnel-port, leno.dev/controller",
        ),
    ] {
        let place = format!("echo.yaml:16: metadata.annotations[\"leno.dev/{key}\"] of EndpointSlice default/echo-1");
        assert_eq!(problems(&slice_annotated(annotations)), [format!("{place}: {fault}")]);
    }
}

#[test]
fn a_protocol_that_is_not_known_is_told_and_detected() {
    let text = echo_with("    port: 50051\n", "    port: 50051\n    appProtocol: mysql\n");
    assert_eq!(service(&text).ports[0].protocol, None);
    assert_eq!(
        notices(&text),
        [
            "echo.yaml:10: spec.ports[0].appProtocol of Service default/echo: Leno does not know the protocol \"mysql\": it detects the protocol from the first bytes, as without appProtocol"
        ]
    );
}
