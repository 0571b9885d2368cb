//! TrafficPolicies and XBackendTrafficPolicies in a cluster: the API server refuses invalid policies, the statuses
//! report whether policies are in force, and the policies reach proxies.

use std::fs;
use std::time::Duration;

use leno_tests::client::{Call, Client};
use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::programs::text;
use leno_tests::proxy::{Proxy, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::identity::{bundle, token};
use super::proxies;

/// Longest time until a change takes effect, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The target of most policies, as a field of a policy's spec.
const CART: &str = "{group: '', kind: Service, name: cart}";

/// Installs the custom resource definition of TrafficPolicy, and creates a namespace with the Service `cart`.
fn with_cart(cluster: &Cluster, namespace: &str) {
    cluster.namespace(namespace);
    cluster.apply(include_str!("../../../charts/leno/crds/trafficpolicies.yaml"));
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/trafficpolicies.leno.dev"]);
    cluster.apply(&format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: cart, namespace: {namespace}}},
          spec: {{clusterIP: None, ports: [{{name: grpc, port: 50051}}]}}}}"
    ));
}

fn policy(namespace: &str, name: &str, targets: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: leno.dev/v1alpha1, kind: TrafficPolicy, metadata: {{name: {name}, namespace: {namespace}}},
          spec: {{targetRefs: [{targets}], {spec}}}}}"
    )
}

/// An XBackendTrafficPolicy for the Service `cart`. `spec` has the fields that follow the target.
fn backend_policy(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XBackendTrafficPolicy,
          metadata: {{name: {name}, namespace: {namespace}}}, spec: {{targetRefs: [{CART}], {spec}}}}}"
    )
}

/// Waits until the status of a TrafficPolicy's current generation has exactly the `expected` entries. An entry has the
/// name of a target, and the reason of its condition `Accepted`. Returns the messages of the conditions.
fn wait_for_status(cluster: &Cluster, namespace: &str, name: &str, expected: &[(&str, &str)]) -> Vec<String> {
    wait_for_status_of(cluster, "trafficpolicy", namespace, name, expected)
}

/// Does the same as [`wait_for_status`] for a policy of the kind `resource`.
fn wait_for_status_of(
    cluster: &Cluster,
    resource: &str,
    namespace: &str,
    name: &str,
    expected: &[(&str, &str)],
) -> Vec<String> {
    wait_for(&format!("{name} is {expected:?}"), PATIENCE, || {
        let found = cluster.kubectl(&["-n", namespace, "get", resource, name, "-o", "json"]);
        let found: Value = serde_json::from_str(&found).expect("JSON");
        let ancestors = found["status"]["ancestors"].as_array()?;
        let ours = ancestors.iter().filter(|entry| entry["controllerName"] == "leno.dev/mesh");
        let (mut said, mut messages) = (Vec::new(), Vec::new());
        for entry in ours {
            let condition = &entry["conditions"][0];
            let is_true = condition["reason"] == "Accepted";
            assert_eq!(condition["status"], if is_true { "True" } else { "False" }, "{condition}");
            if condition["observedGeneration"] != found["metadata"]["generation"] {
                return None;
            }
            said.push((entry["ancestorRef"]["name"].as_str()?.to_owned(), condition["reason"].as_str()?.to_owned()));
            messages.push(condition["message"].as_str()?.to_owned());
        }
        let said: Vec<(&str, &str)> = said.iter().map(|(name, reason)| (&**name, &**reason)).collect();
        (said == expected).then_some(messages)
    })
}

#[test]
fn a_policy_is_told_at_each_target_whether_it_is_in_force() {
    let Some(cluster) = Cluster::get() else { return };
    // The control plane starts before the kind's definition is installed.
    cluster.kubectl(&["delete", "crd", "trafficpolicies.leno.dev", "--ignore-not-found"]);
    let control = Control::start(&cluster);
    assert_eq!(control.config()["kinds"]["TrafficPolicy"]["installed"], false);
    with_cart(&cluster, "limited");
    cluster.apply(&policy("limited", "older", CART, "budget: {percent: 5}"));
    let [message] = &wait_for_status(&cluster, "limited", "older", &[("cart", "Accepted")])[..] else { panic!("one") };
    assert!(message.contains("gRPC clients without a proxy ignore: budget"), "{message}");
    // Wait, so that the next policy is newer: Kubernetes stores creation times in whole seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    let two = format!("{CART}, {{group: '', kind: Service, name: nobody}}");
    cluster.apply(&policy("limited", "newer", &two, "retry: {}"));
    let messages =
        wait_for_status(&cluster, "limited", "newer", &[("cart", "Conflicted"), ("nobody", "TargetNotFound")]);
    assert!(messages[0].contains("the older TrafficPolicy limited/older has the same target"), "{messages:?}");
    assert!(messages[1].contains("there is no Service"), "{messages:?}");
    let shown = cluster.kubectl(&["-n", "limited", "get", "tp", "--no-headers"]);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    let newer = ["newer", "Service", "cart", "False", "Conflicted"];
    assert_eq!(rows, [&newer, &["older", "Service", "cart", "True", "Accepted"]], "{shown}");

    // Another controller's entry must stay unchanged.
    let theirs = json!({ "ancestorRef": { "name": "a-gateway" }, "controllerName": "example.com/gateway", "conditions": [{
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let patch = json!([{ "op": "add", "path": "/status/ancestors/0", "value": theirs }]).to_string();
    cluster.kubectl(&[
        "-n",
        "limited",
        "patch",
        "trafficpolicy",
        "newer",
        "--subresource=status",
        "--type=json",
        "-p",
        &patch,
    ]);
    cluster.kubectl(&["-n", "limited", "delete", "trafficpolicy", "older"]);
    wait_for_status(&cluster, "limited", "newer", &[("nobody", "TargetNotFound"), ("cart", "Accepted")]);
    let controllers = "jsonpath={.status.ancestors[*].controllerName}";
    let controllers = cluster.kubectl(&["-n", "limited", "get", "trafficpolicy", "newer", "-o", controllers]);
    assert_eq!(controllers, "example.com/gateway leno.dev/mesh leno.dev/mesh");
    control.wait_until("only the missing target is a problem", |config| {
        let problems = config["problems"].as_array().into_iter().flatten();
        problems.filter(|problem| problem["object"] == "TrafficPolicy limited/newer").count() == 1
    });
    cluster.kubectl(&["delete", "namespace", "limited", "--wait=false"]);
}

#[test]
fn the_api_server_refuses_an_invalid_policy_and_says_what_to_write() {
    let Some(cluster) = Cluster::get() else { return };
    with_cart(&cluster, "strict");
    let route = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}";
    for (targets, spec, message) in [
        (CART, "retry: {attempts: 0}", "spec.retry.attempts in body should be greater than or equal to 1"),
        (CART, "retry: {grpcCodes: [Unavailable]}", r#"Unsupported value: "Unavailable""#),
        (CART, "retry: {mode: sometimes}", r#"supported values: "Enforce", "Audit", "Off""#),
        (CART, "hedge: {delay: p101, methods: [GET]}", "spec.hedge.delay in body should match"),
        (CART, "retry: {backoff: 11s}", "use at most 10s for backoff"),
        (CART, "timeouts: {}", "add request, backendRequest or streamIdle"),
        (CART, "timeouts: {request: 1s, backendRequest: 1001ms}", "make it shorter than request"),
        (CART, "hedge: {delay: p95}", "lacks methods"),
        (CART, "hedge: {methods: [GET]}", "lacks delay"),
        (CART, "hedge: {delay: 2h, methods: [GET]}", "write a duration from 1ms to 1h"),
        (CART, "budget: {interval: 61s}", "use 1s to 60s"),
        (route, "budget: {}", "move it to a policy for the Service"),
        (&format!("{CART}, {CART}"), "retry: {}", "names a target twice"),
        ("{kind: HTTPRoute, name: cart}", "retry: {}", "a route needs the group gateway.networking.k8s.io"),
        ("{group: gateway.networking.k8s.io, kind: Service, name: cart}", "retry: {}", "a Service has no group"),
    ] {
        let refused = cluster.try_apply(&policy("strict", "wrong", targets, spec));
        assert!(!refused.status.success(), "it was stored: {spec}");
        assert!(text(&refused).contains(message), "{spec}: {}", text(&refused));
    }
    for (targets, spec) in [
        (CART, "timeouts: {request: 0s, backendRequest: 2s, streamIdle: 5m}"),
        (CART, "timeouts: {mode: 'Off'}"),
        (CART, "retry: {}"),
        (CART, "hedge: {delay: p99.9, methods: [shop.v1.Cart/GetItem, 'shop.v1.Cart/*']}"),
        (CART, "budget: {mode: Audit}"),
        (&format!("{CART}, {{kind: Service, name: cart, sectionName: grpc}}, {route}"), "retry: {mode: 'Off'}"),
    ] {
        cluster.apply(&policy("strict", "right", targets, spec));
    }
    cluster.kubectl(&["delete", "namespace", "strict", "--wait=false"]);
}

#[test]
fn a_policy_that_becomes_invalid_says_so_and_keeps_its_last_valid_version() {
    let Some(cluster) = Cluster::get() else { return };
    with_cart(&cluster, "kept");
    let control = Control::start(&cluster);
    cluster.apply(&policy("kept", "cart", CART, "timeouts: {request: 1500ms}"));
    wait_for_status(&cluster, "kept", "cart", &[("cart", "Accepted")]);
    // Remove the checks from the custom resource definition. The API server then stores an invalid policy, as it might
    // under an older definition.
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let patch = json!([{ "op": "replace", "path": path, "value": open }]).to_string();
    cluster.kubectl(&["patch", "crd", "trafficpolicies.leno.dev", "--type=json", "-p", &patch]);
    wait_for("the API server stores the invalid policy", PATIENCE, || {
        let stored = cluster.try_apply(&policy("kept", "cart", CART, "timeouts: {request: 1 second}"));
        stored.status.success().then_some(())
    });
    let messages = wait_for_status(&cluster, "kept", "cart", &[("cart", "Invalid")]);
    assert!(messages[0].contains("spec.timeouts.request: \"1 second\" is not a duration"), "{messages:?}");
    assert!(messages[0].ends_with("The last valid version stays in force."), "{messages:?}");
    let limit = |config: &Value| {
        let tables = config["mesh"]["routes"].as_array().into_iter().flatten().map(ToString::to_string);
        tables.filter(|table| table.contains("TrafficPolicy kept/cart") && table.contains("1500")).count() == 1
    };
    control.wait_until("the last valid version stays in force", limit);
    cluster.apply(include_str!("../../../charts/leno/crds/trafficpolicies.yaml"));
    cluster.kubectl(&["-n", "kept", "delete", "trafficpolicy", "cart"]);
    control.wait_until("the policy is gone", |config| !limit(config));
    cluster.kubectl(&["delete", "namespace", "kept", "--wait=false"]);
}

/// Starts a proxy of the service account `default` of a namespace. The proxy reads its trust bundle and its token from
/// `directory`.
fn proxy_of(cluster: &Cluster, control: &Control, namespace: &str, directory: &TempDir) -> Proxy {
    let file = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    file("ca.crt", &bundle(cluster, namespace));
    file("token", &token(cluster, namespace, "default", "leno.dev"));
    let mut proxy = proxies::start(control, &format!("ns/{namespace}/sa/default"), directory.path());
    proxy.wait_until_ready();
    proxy
}

/// Waits until the configuration of a proxy contains all `words`.
fn wait_for_config(proxy: &Proxy, words: &[&str]) {
    wait_for(&format!("the proxy knows {words:?}"), PATIENCE, || {
        let config = proxy.get("/config").expect("the admin listener answers").1;
        let config: Value = serde_json::from_str(&config).expect("JSON");
        let config = config.to_string();
        words.iter().all(|words| config.contains(words)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_reaches_the_proxies_that_use_its_service() {
    let Some(cluster) = Cluster::get() else { return };
    with_cart(&cluster, "reached");
    cluster.kubectl(&["annotate", "namespace", "reached", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let directory = TempDir::new().expect("a directory");
    let proxy = proxy_of(&cluster, &control, "reached", &directory);
    let config = || proxy.get("/config").expect("the admin listener answers").1;

    cluster.apply(&policy("reached", "cart", CART, "retry: {attempts: 3}, budget: {percent: 7}"));
    wait_for_status(&cluster, "reached", "cart", &[("cart", "Accepted")]);
    assert!(!config().contains("TrafficPolicy"), "the proxy does not use the Service: {}", config());
    let client = Client::connect(proxy.outbound(), "cart.reached:50051").await;
    // The Service has no endpoint, so the call fails. The call makes the proxy request the Service.
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_ne!(answer.grpc_status(), Some(0), "{answer:?}");
    let has = |words: &[&str]| wait_for_config(&proxy, words);
    has(&["TrafficPolicy reached/cart", r#""attempts":3"#, r#""percent":7"#]);
    cluster.apply(&policy("reached", "cart", CART, "retry: {attempts: 2}, budget: {percent: 8}"));
    has(&["TrafficPolicy reached/cart", r#""attempts":2"#, r#""percent":8"#]);
    cluster.kubectl(&["-n", "reached", "delete", "trafficpolicy", "cart"]);
    wait_for("the proxy forgets the policy", PATIENCE, || (!config().contains("TrafficPolicy")).then_some(()));
    cluster.kubectl(&["delete", "namespace", "reached", "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_constraint_of_gateway_api_goes_before_a_budget_and_reaches_proxies() {
    const DEFINITION: &str = "xbackendtrafficpolicies.gateway.networking.x-k8s.io";
    let Some(cluster) = Cluster::get() else { return };
    // The control plane starts before the kind's definition is installed.
    cluster.kubectl(&["delete", "crd", DEFINITION, "--ignore-not-found"]);
    let namespace = "constrained";
    with_cart(&cluster, namespace);
    cluster.kubectl(&["annotate", "namespace", namespace, "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    assert_eq!(control.config()["kinds"]["XBackendTrafficPolicy"]["installed"], false);
    let directory = TempDir::new().expect("a directory");
    let proxy = proxy_of(&cluster, &control, namespace, &directory);
    cluster.apply(&policy(namespace, "cart", CART, "budget: {percent: 7}"));
    wait_for_status(&cluster, namespace, "cart", &[("cart", "Accepted")]);
    let client = Client::connect(proxy.outbound(), "cart.constrained:50051").await;
    // The Service has no endpoint, so the call fails. The call makes the proxy request the Service.
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_ne!(answer.grpc_status(), Some(0), "{answer:?}");
    wait_for_config(&proxy, &["TrafficPolicy constrained/cart", r#""percent":7"#]);

    let status = |name: &str, reason: &str| {
        let resource = "xbackendtrafficpolicy";
        wait_for_status_of(&cluster, resource, namespace, name, &[("cart", reason)]).remove(0)
    };
    let apply = |name: &str, budget: &str| {
        let rest = "minRetryRate: {count: 3, interval: 2s}}, sessionPersistence: {sessionName: cart}";
        cluster.apply(&backend_policy(namespace, name, &format!("retryConstraint: {{budget: {{{budget}}}, {rest}")));
    };
    cluster.install_backend_traffic_policies();
    apply("older", "percent: 3");
    let message = status("older", "Accepted");
    assert_eq!(
        message,
        "in force for proxies; sessionPersistence is not supported; minRetryRate is rounded up to 2 per \
         second; gRPC clients without a proxy ignore: budget; Envoy ignores: budget.interval, budget.minPerSecond"
    );
    wait_for_config(&proxy, &["XBackendTrafficPolicy constrained/older", r#""percent":3"#, r#""min_per_second":2"#]);
    // Wait, so that the next policy is newer: Kubernetes stores creation times in whole seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    apply("newer", "percent: 4");
    let message = status("newer", "Conflicted");
    assert!(message.contains("the older XBackendTrafficPolicy constrained/older has the same target"), "{message}");

    // Gateway API's definition allows an interval of up to one hour, so the API server stores this policy.
    apply("older", "percent: 5, interval: 2m");
    let message = status("older", "Invalid");
    let expected = "spec.retryConstraint.budget.interval: too short or too long; use 1s to 60s. The last valid version \
                    stays in force.";
    assert_eq!(message, expected);
    let config = proxy.get("/config").expect("the admin listener answers").1;
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert!(config.to_string().contains(r#""percent":3"#), "{config}");

    cluster.kubectl(&["-n", namespace, "delete", "xbackendtrafficpolicy", "older"]);
    status("newer", "Accepted");
    wait_for_config(&proxy, &["XBackendTrafficPolicy constrained/newer", r#""percent":4"#]);
    // Deleting the definition of a kind also deletes all objects of the kind.
    cluster.kubectl(&["delete", "crd", DEFINITION]);
    wait_for_config(&proxy, &["\"TrafficPolicy constrained/cart", r#""percent":7"#]);
    assert_eq!(control.config()["kinds"]["XBackendTrafficPolicy"]["installed"], false);
    cluster.kubectl(&["delete", "namespace", namespace, "--wait=false"]);
}
