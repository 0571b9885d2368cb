//! The statuses of routes and policies, as kubectl shows them, report whether the objects have an effect.

use std::time::Duration;

use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::proxy::wait_for;
use serde_json::Value;

/// Longest time until a status is written, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn get(cluster: &Cluster, kind: &str, name: &str) -> Value {
    serde_json::from_str(&cluster.kubectl(&["-n", "told", "get", kind, name, "-o", "json"])).expect("JSON")
}

/// Returns a condition of the first entry that our control plane has written in a route's status.
fn of_route(route: &Value, kind: &str) -> Option<Value> {
    let parents = route["status"]["parents"].as_array()?;
    let ours = parents.iter().find(|entry| entry["controllerName"] == "leno.dev/mesh")?;
    ours["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Waits until a condition of the route's current generation has this status and reason.
fn wait_for_route(cluster: &Cluster, kind: &str, status: &str, reason: &str) -> Value {
    wait_for(&format!("{kind} is {status}: {reason}"), PATIENCE, || {
        let route = get(cluster, "httproute", "canary");
        let condition = of_route(&route, kind)?;
        let is_so = condition["status"] == status && condition["reason"] == reason;
        (is_so && condition["observedGeneration"] == route["metadata"]["generation"]).then_some(condition)
    })
}

fn route(service: &str, backend: &str, timeout: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: canary, namespace: told}}, spec: {{
          parentRefs: [{{group: '', kind: Service, name: {service}, port: 80}}],
          rules: [{{backendRefs: [{{name: {backend}, port: 80}}], timeouts: {{request: {timeout}}}}}]}}}}"
    )
}

#[test]
fn a_route_says_whether_it_is_in_force_and_what_it_lacks() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("told");
    cluster.install_gateway_api();
    let _control = Control::start(&cluster);
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: echo, namespace: told}, spec: {ports: [{port: 80}]}}";
    cluster.apply(service);

    cluster.apply(&route("echo", "echo", "1s"));
    wait_for_route(&cluster, "Accepted", "True", "Accepted");
    wait_for_route(&cluster, "ResolvedRefs", "True", "ResolvedRefs");
    cluster.apply(&route("echo", "nobody", "1s"));
    let lacking = wait_for_route(&cluster, "ResolvedRefs", "False", "BackendNotFound");
    assert!(lacking["message"].as_str().is_some_and(|message| message.contains("nobody")), "{lacking}");

    // Another controller's entry must stay unchanged.
    let condition = r#"{"type":"Accepted","status":"True","reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
    let theirs = r#"{"parentRef":{"name":"a-gateway"},"controllerName":"example.com/gateway""#;
    let patch =
        format!(r#"[{{"op": "add", "path": "/status/parents/0", "value": {theirs},"conditions":[{condition}]}}}}]"#);
    let kubectl = ["-n", "told", "patch", "httproute", "canary", "--subresource=status", "--type=json", "-p", &patch];
    cluster.kubectl(&kubectl);
    cluster.apply(&route("echo", "echo", "2s"));
    wait_for_route(&cluster, "ResolvedRefs", "True", "ResolvedRefs");
    let parents = get(&cluster, "httproute", "canary")["status"]["parents"].clone();
    assert_eq!(parents[0]["controllerName"], "example.com/gateway", "{parents}");

    cluster.apply(&route("somebody", "echo", "2s"));
    let lost = wait_for_route(&cluster, "Accepted", "False", "NoMatchingParent");
    assert!(lost["message"].as_str().is_some_and(|message| message.contains("somebody")), "{lost}");
    cluster.kubectl(&["delete", "namespace", "told", "--wait=false"]);
}

/// This cluster has the kinds TCPRoute and TLSRoute. The control plane watches these kinds only if they are installed.
#[test]
fn routes_of_connections_are_told_too_which_of_them_count() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("dialled");
    cluster.install_gateway_api();
    let control = Control::start(&cluster);
    let route = |kind: &str, name: &str, names: &str| {
        format!(
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}, namespace: dialled}}
spec: {{parentRefs: [{{group: '', kind: Service, name: db}}], {names} rules: [{{backendRefs: [{{name: db, port: 443}}]}}]}}
"
        )
    };
    cluster.apply(&format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: db, namespace: dialled}}, spec: {{ports: [{{port: 443}}]}}}}\n{}{}",
        route("TLSRoute", "by-name", "hostnames: [db.example.org],"),
        route("TCPRoute", "all", ""),
    ));
    let said = |kind: &str, name: &str, reason: &str| {
        wait_for(&format!("{kind} {name} is told {reason}"), PATIENCE, || {
            let route = cluster.kubectl(&["-n", "dialled", "get", kind, name, "-o", "json"]);
            let accepted = of_route(&serde_json::from_str(&route).expect("JSON"), "Accepted")?;
            (accepted["reason"] == reason).then_some(())
        });
    };
    said("tlsroute", "by-name", "Accepted");
    said("tcproute", "all", "Conflicted");
    let kind_of = |config: &Value| {
        let tables = config["mesh"]["routes"].as_array().into_iter().flatten();
        let of_db = tables.filter(|table| table["namespace"] == "dialled").map(|table| table["table"]["kind"].clone());
        of_db.collect::<Vec<_>>()
    };
    control.wait_until("the TLSRoute is in force", |config| kind_of(config) == ["TLSRoute"]);
    cluster.kubectl(&["-n", "dialled", "delete", "tlsroute", "by-name"]);
    said("tcproute", "all", "Accepted");
    control.wait_until("the TCPRoute is in force", |config| kind_of(config) == ["TCPRoute"]);
    cluster.kubectl(&["delete", "namespace", "dialled", "--wait=false"]);
}

#[test]
fn a_policy_says_that_it_counts() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("guarded");
    cluster.apply(include_str!("../../../charts/leno/crds/authorizationpolicies.yaml"));
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/authorizationpolicies.leno.dev"]);
    let _control = Control::start(&cluster);
    cluster.apply(
        "{apiVersion: leno.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: web, namespace: guarded},
          spec: {allow: [{identities: ['ns/guarded/sa/web']}]}}",
    );
    let accepted = ["-n", "guarded", "wait", "--for=condition=Accepted", "authorizationpolicy/web", "--timeout=30s"];
    cluster.kubectl(&accepted);
    let shown = cluster.kubectl(&["-n", "guarded", "get", "authz"]);
    assert!(shown.contains("True"), "{shown}");
    cluster.kubectl(&["delete", "namespace", "guarded", "--wait=false"]);
}

#[test]
fn a_policy_that_never_could_be_read_denies_and_says_so_and_one_about_nothing_says_that() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("shut");
    cluster.apply(include_str!("../../../charts/leno/crds/authorizationpolicies.yaml"));
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/authorizationpolicies.leno.dev"]);
    let policy = |name: &str, account: &str, rule: &str| {
        format!(
            "{{apiVersion: leno.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {{name: {name}, namespace: shut}},
              spec: {{targetRef: {{kind: ServiceAccount, name: {account}}}, ports: [8080], allow: [{rule}]}}}}"
        )
    };
    // The schema rejects the mistakes that it can detect. It cannot detect that an address has bits after its prefix,
    // so the API server stores this policy.
    cluster.apply(&policy("wrong", "default", "{networks: [10.0.0.1/8]}"));
    let control = Control::start(&cluster);
    control
        .wait_for_log(&["AuthorizationPolicy shut/wrong", "allows no caller on port 8080 of service account default"]);
    let mode = |config: &Value| {
        let policies = config["mesh"]["policies"].as_array().into_iter().flatten();
        policies.clone().find(|policy| policy["name"] == "wrong").map(|policy| policy["mode"].clone())
    };
    control.wait_until("it denies", |config| mode(config) == Some("Unreadable".into()));
    cluster.apply(&policy("misspelt", "defualt", "{identities: ['*']}"));
    let wait_for_condition = |name: &str, condition: &str| {
        let of = format!("authorizationpolicy/{name}");
        cluster.kubectl(&["-n", "shut", "wait", &format!("--for=condition={condition}"), &of, "--timeout=30s"]);
    };
    wait_for_condition("wrong", "Accepted=False");
    wait_for_condition("misspelt", "Accepted=True");
    wait_for_condition("misspelt", "ResolvedRefs=False");
    let told = cluster.kubectl(&["-n", "shut", "get", "authorizationpolicy", "misspelt", "-o", "yaml"]);
    assert!(told.contains("there is no service account shut/defualt"), "{told}");

    cluster.apply(&policy("wrong", "default", "{networks: [10.0.0.0/8]}"));
    control.wait_until("it is mended", |config| mode(config) == Some("Enforce".into()));
    wait_for_condition("wrong", "Accepted=True");
    cluster.kubectl(&["delete", "namespace", "shut", "--wait=false"]);
}
