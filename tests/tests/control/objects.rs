//! Applied objects take effect, and a mistake affects only its own object.

use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::webhooks::PATIENCE;

/// Returns a Service without a selector, and an EndpointSlice. Each of `endpoints` is an address, optionally with the
/// name of its Pod.
pub(crate) fn echo(namespace: &str, endpoints: &[(&str, Option<&str>)]) -> String {
    let listed: Vec<String> = endpoints
        .iter()
        .map(|(address, pod)| match pod {
            Some(pod) => {
                format!("{{addresses: [{address}], targetRef: {{kind: Pod, name: {pod}, namespace: {namespace}}}}}")
            }
            None => format!("{{addresses: [{address}]}}"),
        })
        .collect();
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: echo, namespace: {namespace}}}
spec: {{ports: [{{name: grpc, port: 50051}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: echo-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: echo}}}}
addressType: IPv4
ports: [{{name: grpc, port: 50061, protocol: TCP}}]
endpoints: [{}]
",
        listed.join(", ")
    )
}

/// Returns a Pod, and the Node object that the Pod names. So the Pod needs no scheduler. No kubelet runs the Pod.
fn pod(namespace: &str, name: &str, labels: &str, is_meshed: bool) -> String {
    let proxy = "[{name: leno-proxy, image: leno-proxy, restartPolicy: Always}]";
    let init_containers = if is_meshed { proxy } else { "[]" };
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: nowhere}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}
spec: {{nodeName: nowhere, initContainers: {init_containers}, containers: [{{name: app, image: app}}]}}
"
    )
}

/// Sets the status that a kubelet would report for a Pod that runs and is ready.
fn has_started(cluster: &Cluster, namespace: &str, name: &str, ip: &str) {
    let status = format!(
        "{{\"status\": {{\"phase\": \"Running\", \"podIP\": \"{ip}\", \"podIPs\": [{{\"ip\": \"{ip}\"}}], \
         \"conditions\": [{{\"type\": \"Ready\", \"status\": \"True\"}}]}}}}"
    );
    cluster.kubectl(&["-n", namespace, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", &status]);
}

fn problems(config: &Value) -> Vec<&Value> {
    config["problems"].as_array().map(|problems| problems.iter().collect()).unwrap_or_default()
}

#[test]
fn pods_that_the_controllers_make_endpoints_of_are_reached_by_their_identity() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("real");
    let control = Control::start(&cluster);
    cluster.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: real},
          spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}",
    );
    // Pod web-b has no proxy; its label, which claims that it has one, has no effect.
    for (name, labels, is_meshed, ip) in [
        ("web-a", "app: web", true, "10.244.1.7"),
        ("web-b", "app: web, leno.dev/injected: \"true\"", false, "10.244.1.8"),
    ] {
        cluster.apply(&pod("real", name, labels, is_meshed));
        has_started(&cluster, "real", name, ip);
    }
    control.wait_for_endpoints("web.real:80", &["10.244.1.7:8080 ns/real/sa/default", "10.244.1.8:8080"]);
    cluster.kubectl(&["-n", "real", "delete", "pod", "web-a", "--force", "--grace-period=0"]);
    control.wait_for_endpoints("web.real:80", &["10.244.1.8:8080"]);
    cluster.kubectl(&["-n", "real", "delete", "service", "web"]);
    control.wait_until("the Service is gone", |_| control.endpoints("web.real:80").is_none());
}

#[test]
fn an_endpoint_names_the_deployment_of_its_pod() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("owned");
    let control = Control::start(&cluster);
    for object in [
        "{apiVersion: v1, kind: Node, metadata: {name: nowhere}}",
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: owned},
          spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}",
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: my-web, namespace: owned},
          spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}},
            spec: {nodeName: nowhere, containers: [{name: app, image: app}]}}}}",
    ] {
        cluster.apply(object);
    }
    let pods = ["-n", "owned", "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"];
    let pod = wait_for("the Pod", PATIENCE, || Some(cluster.kubectl(&pods)).filter(|pod| !pod.is_empty()));
    has_started(&cluster, "owned", &pod, "10.244.6.1");
    control.wait_until("the endpoint names the Deployment", |config| {
        let mut clusters = config["mesh"]["clusters"].as_array().into_iter().flatten();
        let found = clusters.find(|cluster| cluster["key"] == "web.owned:80");
        found.is_some_and(|cluster| cluster["endpoints"][0]["controller"] == "deployment/my-web")
    });
    cluster.kubectl(&["-n", "owned", "delete", "deployment", "my-web"]);
}

#[test]
fn an_endpoint_waits_for_its_pod_to_have_its_address() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("held");
    let control = Control::start(&cluster);
    cluster.apply(&echo("held", &[("10.244.2.1", None), ("10.244.2.2", Some("echo-a"))]));
    control.wait_for_endpoints("echo.held:50051", &["10.244.2.1:50061"]);
    cluster.apply(&pod("held", "echo-a", "", true));
    control.wait_until("it is told", |config| {
        let notices = config["notices"].as_array().map_or(&[][..], Vec::as_slice);
        notices.iter().any(|notice| notice["what"] == "10.244.2.2 is not used before Pod echo-a has that address")
    });
    has_started(&cluster, "held", "echo-a", "10.244.2.2");
    control.wait_for_endpoints("echo.held:50051", &["10.244.2.1:50061", "10.244.2.2:50061 ns/held/sa/default"]);
}

#[test]
fn an_endpoint_of_a_leaving_pod_is_unused_while_another_pod_has_its_address() {
    let Some(cluster) = Cluster::get() else { return };
    for namespace in ["leaving", "arriving"] {
        cluster.namespace(namespace);
    }
    let control = Control::start(&cluster);
    cluster.apply(&pod("leaving", "echo-a", "", false));
    has_started(&cluster, "leaving", "echo-a", "10.244.9.1");
    cluster.apply(&echo("leaving", &[("10.244.9.1", Some("echo-a")), ("10.244.9.2", None)]));
    // No kubelet confirms the deletion, so the Pod stays.
    cluster.kubectl(&["-n", "leaving", "delete", "pod", "echo-a", "--wait=false"]);
    control.wait_for_endpoints("echo.leaving:50051", &["10.244.9.1:50061", "10.244.9.2:50061"]);

    cluster.apply(&pod("arriving", "pay", "", true));
    has_started(&cluster, "arriving", "pay", "10.244.9.1");
    control.wait_for_endpoints("echo.leaving:50051", &["10.244.9.2:50061"]);
    cluster.kubectl(&["-n", "arriving", "delete", "pod", "pay", "--force", "--grace-period=0"]);
    control.wait_for_endpoints("echo.leaving:50051", &["10.244.9.1:50061", "10.244.9.2:50061"]);
    cluster.kubectl(&["-n", "leaving", "delete", "pod", "echo-a", "--force", "--grace-period=0"]);
    control.wait_for_endpoints("echo.leaving:50051", &["10.244.9.2:50061"]);
}

#[test]
fn endpoints_are_followed_while_they_change() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("changing");
    let control = Control::start(&cluster);
    for round in 1..=5 {
        let address = format!("10.244.3.{round}");
        cluster.apply(&echo("changing", &[(&address, None)]));
        control.wait_for_endpoints("echo.changing:50051", &[&format!("{address}:50061")]);
    }
}

#[test]
fn a_mistake_keeps_what_was_right_before_and_touches_nobody_else() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("careless");
    cluster.namespace("careful");
    cluster.apply(&echo("careless", &[("10.244.4.1", None)]));
    cluster.apply(&echo("careful", &[("10.244.4.2", None)]));
    let control = Control::start(&cluster);
    control.wait_for_endpoints("echo.careless:50051", &["10.244.4.1:50061"]);

    cluster.kubectl(&["-n", "careless", "annotate", "service", "echo", "leno.dev/balancer=best"]);
    let line = control.wait_for_log(&["Service careless/echo", "\"best\" is not a balancer"]);
    assert!(line.contains("its last valid annotations, ports and addresses stay in force"), "{line}");
    cluster.apply(&echo("careful", &[("10.244.4.3", None)]));
    control.wait_for_endpoints("echo.careful:50051", &["10.244.4.3:50061"]);
    assert_eq!(control.endpoints("echo.careless:50051"), Some(vec!["10.244.4.1:50061".to_owned()]));
    let config = control.config();
    assert!(problems(&config).iter().any(|problem| problem["object"] == "Service careless/echo"), "{config}");
    let metrics = control.get("/metrics").expect("the admin listener answers").1;
    assert!(metrics.contains("\nleno_control_problems 1\n"), "{metrics}");

    cluster.kubectl(&["-n", "careless", "annotate", "service", "echo", "leno.dev/balancer-"]);
    control.wait_until("the mistake is mended", |config| problems(config).is_empty());
}

#[test]
fn kinds_are_followed_from_when_they_are_installed_until_they_are_removed() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("custom");
    cluster.apply(&echo("custom", &[("10.244.5.1", None)]));
    let control = Control::start(&cluster);
    let is_installed = |config: &Value, kind: &str| config["kinds"][kind]["installed"] == true;
    assert!(!is_installed(&control.config(), "HTTPRoute"), "{}", control.config()["kinds"]);

    cluster.install_gateway_api();
    let route = |backend: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: echo, namespace: custom}},
              spec: {{parentRefs: [{{group: '', kind: Service, name: echo}}],
                rules: [{{backendRefs: [{{name: {backend}, port: 50051}}]}}]}}}}"
        )
    };
    cluster.apply(&route("echo"));
    let routes = |config: &Value| config["mesh"]["routes"].as_array().map_or(0, Vec::len);
    control.wait_until("the route is attached", |config| routes(config) == 1 && is_installed(config, "HTTPRoute"));
    cluster.kubectl(&["delete", "crd", "httproutes.gateway.networking.k8s.io"]);
    control.wait_until("the route is gone", |config| routes(config) == 0 && !is_installed(config, "HTTPRoute"));
    cluster.install_gateway_api();
    cluster.apply(&route("echo"));
    control.wait_until("the route is back", |config| routes(config) == 1);
}
