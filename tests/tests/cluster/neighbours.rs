//! A namespace that attacks another one and the control plane, with everything that a Pod can do, beside a workload's good calls.
//!
//! The clusters of `tests/kube` have IPv4 alone, so nothing comes over IPv6. `crates/accept` tests how its addresses count.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use leno_tests::kubernetes::{Cluster, given};
use leno_tests::mesh::skipped;
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::{Load, METHOD, PAYLOAD, Report, in_client};
use super::user::{PATIENCE, cluster_with_images, install_a_meshed_pair, nothing_is_left, rolled_out, state};

#[path = "neighbours/manifests.rs"]
mod manifests;

/// How long the good clients are measured alone, and then beside the attacks.
const CALM_SECONDS: u32 = 15;
const ATTACK_SECONDS: u32 = 60;
const CALLS_PER_SECOND: u32 = 500;

/// A calm p99 below this counts as this. Two cores carry both nodes, the control plane, the attackers, the servers and the
/// clients, some 25 programs that wait for one another: each scheduler slice before a call's turn is 3 ms.
const CALM_FLOOR: Duration = Duration::from_millis(20);
const P99_FACTOR: u32 = 5;

/// What the workload's containers are owed of a processor, as in any cluster that is not to let its neighbours have it: about
/// what they use while they are attacked. The attackers are owed nothing.
const CLIENT_CPU: &str = "300m";
const SERVER_CPU: &str = "100m";
const PROXY_CPU: &str = "200m";
/// What the control plane has while it is attacked.
const CONTROL_MEMORY: &str = "256Mi";

/// Heavy HTTPRoutes, and as many GRPCRoutes.
const HEAVY_ROUTES: u32 = 4;
/// How often the policy changes during the attack, and how long each version is in force.
const POLICY_CHANGES: u32 = 8;
const POLICY_PAUSE: Duration = Duration::from_secs(2);
/// Whom the policy lets in and shuts out again: the member, and the insider.
const NEIGHBOURS: [&str; 2] = ["ns/neighbours/sa/default", "ns/neighbours/sa/insider"];
const ROLES: [&str; 3] = ["stranger", "member", "insider"];

/// None of it loses a call, slows calls down much, restarts a container, fails a probe or keeps a Pod from its proxy.
#[test]
fn neighbours_attacks_cost_nothing() {
    if given().is_some() {
        return skipped("neighbours attack only clusters of tests/kube");
    }
    let Some(cluster) = cluster_with_images() else { return };
    let cluster = &cluster;
    install_a_meshed_pair(cluster);
    let memory = format!("leno.dev/proxy-memory-limit={}", manifests::PROXY_MEMORY);
    let cpu = format!("leno.dev/proxy-cpu-request={PROXY_CPU}");
    cluster.kubectl(&["annotate", "namespace", "shop", &memory, &cpu]);
    for (deployment, container, cpu) in [("deploy/web", "web", CLIENT_CPU), ("deploy/echo", "echo", SERVER_CPU)] {
        let requests = format!("--requests=cpu={cpu}");
        cluster.kubectl(&["-n", "shop", "set", "resources", deployment, "-c", container, &requests]);
    }
    cluster.kubectl(&["-n", "shop", "patch", "deploy/echo", "--type=json", "-p", &manifests::second_port()]);
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo", "deploy/web"]);
    let limits = format!("--limits=memory={CONTROL_MEMORY}");
    cluster.kubectl(&["-n", "leno", "set", "resources", "deploy/leno-control", "-c", "leno-control", &limits]);
    cluster.install_gateway_api();
    cluster.apply(&manifests::policy(&[]));
    for (namespace, deployment) in [("leno", "deploy/leno-control"), ("shop", "deploy/echo"), ("shop", "deploy/web")] {
        rolled_out(cluster, namespace, deployment);
    }

    let calm = Load::at_rate(cluster, CALM_SECONDS, CALLS_PER_SECOND).end();
    calm.assert_well(u64::from(CALM_SECONDS * CALLS_PER_SECOND) / 2);
    let before = containers(cluster);
    let beside = attack(cluster, &before);
    println!(
        "good calls beside neighbours' attacks: {} answered, p99 {:?}; calm {:?}",
        beside.calls, beside.p99, calm.p99
    );
    beside.assert_well(u64::from(ATTACK_SECONDS * CALLS_PER_SECOND) / 2);
    assert!(beside.p99 <= calm.p99.max(CALM_FLOOR) * P99_FACTOR, "{calm:?} calm, {beside:?} beside");

    let after = containers(cluster);
    for (name, container) in &before {
        assert_eq!(after.get(name), Some(container), "{name} restarted, or is not ready\n{}", state(cluster));
    }
    let probes = failed_probes(cluster, &before);
    assert!(probes.is_empty(), "probes failed: {probes:?}\n{}", state(cluster));
    cluster.kubectl(&["delete", "namespace", "neighbours", "--timeout=120s"]);
    nothing_is_left(cluster);
}

/// Attacks all that there is, and has one more Pod made meanwhile.
fn attack(cluster: &Cluster, victims: &BTreeMap<String, Value>) -> Report {
    let ips = |namespace: &str, app: &str| -> Vec<String> {
        let pods = living_pods(cluster, namespace).into_iter();
        let of_app = pods.filter(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(app)));
        of_app.map(|pod| pod["status"]["podIP"].as_str().expect("it runs").to_owned()).collect()
    };
    let (proxies, controls) = (ips("shop", "echo-"), ips("leno", "leno-control-"));
    // The kubelets of this cluster have this machine's files.
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    std::fs::copy(env!("CARGO_BIN_EXE_neighbour"), directory.path().join("neighbour")).expect("it is copied");
    cluster.namespace("neighbours");
    let seconds = ATTACK_SECONDS.to_string();
    let words = |who: &str| {
        let mut words: Vec<String> = ["/attack/neighbour", who, &seconds, "--proxy"].map(str::to_owned).into();
        words.extend(proxies.iter().cloned());
        words.push("--control".to_owned());
        words.extend(controls.iter().cloned());
        words
    };
    cluster.apply(manifests::NEIGHBOURHOOD);
    for role in ROLES {
        let directory = directory.path().to_str().expect("UTF-8");
        cluster.apply(&manifests::attacker(role, directory, &words(role)).to_string());
    }
    let ready = ["-n", "neighbours", "wait", "--for=condition=Ready", "--timeout=120s"];
    cluster.kubectl(&[&ready[..], &["pod/stranger", "pod/member", "pod/insider"]].concat());

    let load = Load::at_rate(cluster, ATTACK_SECONDS, CALLS_PER_SECOND);
    make_heavy_routes(cluster);
    change_the_policy(cluster);
    cluster.kubectl(&["-n", "shop", "scale", "deploy/echo", "--replicas", &(proxies.len() + 1).to_string()]);
    rolled_out(cluster, "shop", "deploy/echo");
    let meshed = containers(cluster);
    let new = |name: &&String| name.starts_with("shop/echo") && !victims.contains_key(*name);
    assert!(meshed.keys().filter(new).any(|name| name.ends_with("/leno-proxy")), "{meshed:?}");

    let report = load.end();
    // What the member's application dials must not kill its own proxy either.
    let restarts = "jsonpath={.status.initContainerStatuses[?(@.name==\"leno-proxy\")].restartCount}";
    let restarts = cluster.kubectl(&["-n", "neighbours", "get", "pod", "member", "-o", restarts]);
    assert_eq!(restarts, "0", "the member's own proxy restarted");
    for who in ROLES {
        let made = wait_for("the attacks end", PATIENCE, || {
            let pod = ["-n", "neighbours", "get", "pod", who, "-o", "jsonpath={.status.phase}"];
            let has_ended = matches!(cluster.kubectl(&pod).as_str(), "Succeeded" | "Failed");
            has_ended.then(|| cluster.kubectl(&["-n", "neighbours", "logs", who, "-c", "neighbour"]))
        });
        println!("attacks of a {who}:\n{made}");
        let counts: Vec<&str> = made.lines().collect();
        assert!(
            !counts.is_empty() && counts.iter().all(|line| !line.ends_with(" 0")),
            "an attack was never made: {made}"
        );
    }
    report
}

/// As a user who may write objects of the namespace. The client's proxy then hears of the routes, since it calls their Service.
fn make_heavy_routes(cluster: &Cluster) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(manifests::heavy_routes(HEAVY_ROUTES).to_string().as_bytes()).expect("there is room");
    // The API server validates them anyway, and kubectl would have to load all schemas for it.
    let made = cluster.kubectl(&["create", "--validate=false", "-f", file.path().to_str().expect("UTF-8")]);
    println!("{} heavy routes are there", made.lines().count());
    let what = ["/grpcurl", "-plaintext", "-max-time", "2", "-d", PAYLOAD, "heavy.neighbours:80", METHOD];
    let called = cluster.try_kubectl(&in_client(&what));
    assert!(!called.status.success(), "there is no server, and no match: {}", text(&called));
}

/// Lets the attackers in, and shuts them out again.
fn change_the_policy(cluster: &Cluster) {
    for change in 0..POLICY_CHANGES {
        let more = if change % 2 == 0 { &NEIGHBOURS[..] } else { &[] };
        cluster.apply(&manifests::policy(more));
        std::thread::sleep(POLICY_PAUSE);
    }
    println!("the policy changed {POLICY_CHANGES} times");
}

/// The Pods of a namespace that nobody has deleted.
fn living_pods(cluster: &Cluster, namespace: &str) -> Vec<Value> {
    let pods = cluster.kubectl(&["-n", namespace, "get", "pods", "-o", "json"]);
    let mut pods: Value = serde_json::from_str(&pods).expect("JSON");
    let all = pods["items"].as_array_mut().expect("Pods");
    all.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    std::mem::take(all)
}

/// Each container of the workload and of the control plane: how often it was started again, and whether it is ready.
fn containers(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for namespace in ["shop", "leno"] {
        for pod in living_pods(cluster, namespace) {
            for kind in ["initContainerStatuses", "containerStatuses"] {
                for status in pod["status"][kind].as_array().into_iter().flatten() {
                    let [pod, name] =
                        [&pod["metadata"]["name"], &status["name"]].map(|name| name.as_str().expect("text"));
                    let told = serde_json::json!([status["restartCount"], status["ready"]]);
                    all.insert(format!("{namespace}/{pod}/{name}"), told);
                }
            }
        }
    }
    all
}

/// Events of probes that failed, of the Pods that were ready before.
fn failed_probes(cluster: &Cluster, before: &BTreeMap<String, Value>) -> Vec<String> {
    let mut failed = Vec::new();
    for namespace in ["shop", "leno"] {
        let output =
            cluster.try_kubectl(&["-n", namespace, "get", "events", "--field-selector=reason=Unhealthy", "-o", "json"]);
        let events: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        for event in events["items"].as_array().expect("Events") {
            let pod = event["involvedObject"]["name"].as_str().unwrap_or_default();
            // These end before a Pod is ready.
            if event["message"].as_str().is_some_and(|message| message.starts_with("Startup probe")) {
                continue;
            }
            if before.keys().any(|name| name.starts_with(&format!("{namespace}/{pod}/"))) {
                failed.push(format!("{} {pod}: {}", event["lastTimestamp"], event["message"]));
            }
        }
    }
    failed
}
