//! The objects that the neighbours' test applies to the cluster.

use serde_json::{Value, json};

use super::super::user::image;
use super::PROBER;

/// CPU limit of an attacker. It leaves most of the machine's CPU to the other programs, so that a lost call shows a
/// harmful attack, and not a lack of CPU.
const ATTACKER_CPU: &str = "300m";
/// CPU request of an attacker. If there is too little CPU, the CPU requests decide the containers' shares. This request
/// gives an attacker the same small share as a container without a request. The request must be explicit: otherwise
/// Kubernetes would use the limit as the request.
const ATTACKER_CPU_SHARE: &str = "1m";
/// CPU request of the prober: the CPU that it needs, so that it does not measure its own waiting for a processor.
const PROBER_CPU_SHARE: &str = "100m";

/// Memory limit of the attacked proxies, and of the member's own proxy.
pub(super) const PROXY_MEMORY: &str = "64Mi";

/// Returns a patch of the workload that adds a container with a second server, on another port. No policy denies calls
/// to this port, and the caller chooses the size of the server's answer.
pub(super) fn second_port() -> String {
    let container = json!({
        "name": "open",
        "image": image("leno"),
        "args": ["echo", "--listen=0.0.0.0:50052"],
        "resources": {"limits": {"cpu": "100m"}, "requests": {"cpu": "1m"}},
    });
    json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": container}]).to_string()
}

/// Returns the policy of the servers in `namespace`. It allows calls of the workload `web` and of the identities in
/// `more`, and health checks of every caller.
pub(super) fn policy(namespace: &str, more: &[&str]) -> String {
    let identities = [&["ns/shop/sa/web"], more].concat();
    let policy = json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "AuthorizationPolicy",
        "metadata": {"name": "echo", "namespace": namespace},
        "spec": {
            "ports": [50051],
            "allow": [{"identities": identities}],
            "healthChecks": ["/grpc.health.v1.Health/Check"],
        },
    });
    policy.to_string()
}

/// The insider's ServiceAccount, and the Service `heavy`. The Service has no servers. The test attaches the heavy
/// routes to it.
pub(super) const NEIGHBOURHOOD: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: insider, namespace: neighbours}
---
apiVersion: v1
kind: Service
metadata: {name: heavy, namespace: neighbours}
spec: {ports: [{name: http, port: 80}]}
";

/// Returns the Pod of an attacker or of the prober. Only the member has a proxy. The insider has a token for its
/// certificate request.
pub(super) fn attacker(role: &str, directory: &str, words: &[String]) -> Value {
    let is_insider = role == "insider";
    let mut mounts = vec![json!({"name": "attack", "mountPath": "/attack"})];
    let mut volumes = vec![json!({"name": "attack", "hostPath": {"path": directory}})];
    if is_insider {
        let token = json!({"serviceAccountToken": {"audience": "leno.dev", "path": "token"}});
        mounts.push(json!({"name": "token", "mountPath": "/token"}));
        volumes.push(json!({"name": "token", "projected": {"sources": [token]}}));
    }
    let share = if role == PROBER { PROBER_CPU_SHARE } else { ATTACKER_CPU_SHARE };
    let inject = if role == "member" { "enabled" } else { "disabled" };
    let annotations = json!({"leno.dev/inject": inject, "leno.dev/proxy-memory-limit": PROXY_MEMORY});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": role, "namespace": "neighbours", "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "serviceAccountName": if is_insider { "insider" } else { "default" },
            "containers": [{
                "name": "neighbour",
                "image": image("leno-tools"),
                "command": words,
                "resources": {"limits": {"cpu": ATTACKER_CPU}, "requests": {"cpu": share}},
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
}

/// Returns heavy routes. Each route has as many regular expressions as the API server stores in one object. Each
/// expression is short as text, but needs much memory when it is compiled.
pub(super) fn heavy_routes(count: u32) -> Value {
    let routes = (0..count).flat_map(|number| [http_route(number), grpc_route(number)]);
    json!({"apiVersion": "v1", "kind": "List", "items": routes.collect::<Vec<_>>()})
}

/// Returns an HTTPRoute with 128 matches of 33 patterns each.
fn http_route(number: u32) -> Value {
    let matches = |rule: u32| {
        let one = |index: u32| {
            json!({
                "path": {"type": "RegularExpression", "value": format!("/{number}/{rule}/{index}/[a-z]{{300}}")},
                "headers": patterns(),
                "queryParams": patterns(),
            })
        };
        (0..64).map(one).collect::<Vec<_>>()
    };
    let rules: Vec<Value> = (0..2).map(|rule| json!({"matches": matches(rule)})).collect();
    route("HTTPRoute", number, &rules)
}

/// Returns a GRPCRoute with 128 matches of 18 patterns each.
fn grpc_route(number: u32) -> Value {
    let matches = |rule: u32| {
        let one = |index: u32| {
            let service = format!("a{number}.{rule}.{index}.[a-z]{{300}}");
            json!({
                "method": {"type": "RegularExpression", "service": service, "method": "[a-z]{300}"},
                "headers": patterns(),
            })
        };
        (0..64).map(one).collect::<Vec<_>>()
    };
    let rules: Vec<Value> = (0..2).map(|rule| json!({"matches": matches(rule)})).collect();
    route("GRPCRoute", number, &rules)
}

fn patterns() -> Vec<Value> {
    (0..16)
        .map(|index| json!({"type": "RegularExpression", "name": format!("x{index}"), "value": "[a-z]{300}"}))
        .collect()
}

fn route(kind: &str, number: u32, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": format!("heavy-{number}"), "namespace": "neighbours"},
        "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": "heavy"}], "rules": rules},
    })
}
