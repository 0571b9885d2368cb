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

use super::load::{Load, METHOD, PAYLOAD, in_client};
use super::user::{
    PATIENCE, cluster_with_images, example_servers, install_a_meshed_pair, nothing_is_left, rolled_out, scrape, state,
};

#[path = "neighbours/manifests.rs"]
mod manifests;

/// How long the good clients are measured alone, then beside attacks on another workload, and then beside attacks on their servers.
const CALM_SECONDS: u32 = 15;
const DECOY_SECONDS: u32 = 25;
const ATTACK_SECONDS: u32 = 60;
/// How much longer the attacks last than the measurements beside them: kubectl and ghz take a while to start.
const SPARE_SECONDS: u32 = 5;
const CALLS_PER_SECOND: u32 = 500;

/// What an attack on the servers may make of the p99 beside the same attack on others. Two cores carry both nodes, the control
/// plane, the attackers, the servers and the clients, some 25 programs that wait for one another, and so an attack on any workload
/// slows down every call. Both nodes of a real cluster have processors of their own.
const P99_FACTOR: u32 = 3;
/// What the same attack on others may make of the p99: some five times what it is on a machine that does nothing else.
const DECOY_P99_MAX: Duration = Duration::from_millis(150);

/// The workload that is measured, and one like it.
const WORKLOAD: &str = "shop";
const DECOY: &str = "decoy";

/// What the attacked containers are owed of a processor, as in any cluster that is not to let its neighbours have it: about
/// what they use while they are attacked. The attackers are owed nothing.
const CLIENT_CPU: &str = "300m";
const SERVER_CPU: &str = "100m";
const PROXY_CPU: &str = "200m";
const CONTROL_CPU: &str = "200m";
/// What the control plane has while it is attacked.
const CONTROL_MEMORY: &str = "256Mi";

/// Heavy HTTPRoutes, and as many GRPCRoutes.
const HEAVY_ROUTES: u32 = 4;
/// How often the policy changes during the attack, and how long each version is in force.
const POLICY_CHANGES: u32 = 8;
const POLICY_PAUSE: Duration = Duration::from_secs(2);
/// Whom the policy lets in and shuts out again: the member, and the insider.
const NEIGHBOURS: [&str; 2] = ["ns/neighbours/sa/default", "ns/neighbours/sa/insider"];
const ATTACKERS: [&str; 3] = ["stranger", "member", "insider"];
const PROBER: &str = "prober";
/// What the median probe of what is attacked may take, and one of how many may go without an answer: a kubelet asks three times
/// before it acts.
const PROBE_MAX: Duration = Duration::from_millis(100);
const PROBES_PER_UNANSWERED: u64 = 100;
/// How many probes of the kubelets may fail: one in 100 of what they send to seven Pods in a minute and a half.
const FAILED_PROBES_MAX: u64 = 3;

/// How often its supervisor has started a proxy again.
const RESTARTS: &str = "leno_proxy_restarts_total";

/// None of it loses a call, slows calls down much, restarts a container, fails a probe or keeps a Pod from its proxy.
#[test]
fn neighbours_attacks_cost_nothing() {
    if given().is_some() {
        return skipped("neighbours attack only clusters of tests/kube");
    }
    let Some(cluster) = cluster_with_images() else { return };
    let cluster = &cluster;
    install_a_meshed_pair(cluster);
    cluster.apply(&example_servers(DECOY));
    for namespace in [WORKLOAD, DECOY] {
        let memory = format!("leno.dev/proxy-memory-limit={}", manifests::PROXY_MEMORY);
        let cpu = format!("leno.dev/proxy-cpu-request={PROXY_CPU}");
        cluster.kubectl(&["annotate", "namespace", namespace, &memory, &cpu]);
        let requests = format!("--requests=cpu={SERVER_CPU}");
        cluster.kubectl(&["-n", namespace, "set", "resources", "deploy/echo", "-c", "echo", &requests]);
        cluster.kubectl(&["-n", namespace, "patch", "deploy/echo", "--type=json", "-p", &manifests::second_port()]);
        cluster.kubectl(&["-n", namespace, "rollout", "restart", "deploy/echo"]);
        cluster.apply(&manifests::policy(namespace, &[]));
    }
    let requests = format!("--requests=cpu={CLIENT_CPU}");
    cluster.kubectl(&["-n", WORKLOAD, "set", "resources", "deploy/web", "-c", "web", &requests]);
    cluster.kubectl(&["-n", WORKLOAD, "rollout", "restart", "deploy/web"]);
    let (limits, requests) = (format!("--limits=memory={CONTROL_MEMORY}"), format!("--requests=cpu={CONTROL_CPU}"));
    let set = ["-n", "leno", "set", "resources", "deploy/leno-control", "-c", "leno-control"];
    cluster.kubectl(&[&set[..], &[&limits, &requests]].concat());
    cluster.install_gateway_api();
    for (namespace, deployment) in
        [("leno", "deploy/leno-control"), (WORKLOAD, "deploy/echo"), (WORKLOAD, "deploy/web"), (DECOY, "deploy/echo")]
    {
        rolled_out(cluster, namespace, deployment);
    }
    cluster.namespace("neighbours");
    cluster.apply(manifests::NEIGHBOURHOOD);

    let calm = load_for(cluster, CALM_SECONDS).end();
    calm.assert_well(enough(CALM_SECONDS));
    let before = containers(cluster);

    let attack = Attack::begin(cluster, DECOY, DECOY_SECONDS + SPARE_SECONDS);
    let decoy = load_for(cluster, DECOY_SECONDS).end();
    attack.end(cluster);
    decoy.assert_well(enough(DECOY_SECONDS));
    cluster.kubectl(&["delete", "namespace", DECOY, "--timeout=120s"]);

    let attack = Attack::begin(cluster, WORKLOAD, ATTACK_SECONDS + SPARE_SECONDS);
    let load = load_for(cluster, ATTACK_SECONDS);
    make_heavy_routes(cluster);
    change_the_policy(cluster);
    have_a_new_pod(cluster, &before);
    let beside = load.end();
    attack.end(cluster);
    println!(
        "good calls beside attacks on their servers: {} answered, p99 {:?}; beside attacks on others {:?}, calm {:?}",
        beside.calls, beside.p99, decoy.p99, calm.p99
    );
    beside.assert_well(enough(ATTACK_SECONDS));
    assert!(decoy.p99 <= DECOY_P99_MAX, "{calm:?} calm, {decoy:?} decoy");
    assert!(beside.p99 <= decoy.p99.max(calm.p99) * P99_FACTOR, "{calm:?} calm, {decoy:?} decoy, {beside:?} beside");

    let after = containers(cluster);
    for (name, container) in &before {
        assert_eq!(after.get(name), Some(container), "{name} restarted, or is not ready\n{}", state(cluster));
    }
    let probes = failed_probes(cluster, &before);
    let failed: u64 = probes.iter().map(|(_, count)| count).sum();
    assert!(failed <= FAILED_PROBES_MAX, "probes failed: {probes:?}\n{}", state(cluster));
    cluster.kubectl(&["delete", "namespace", "neighbours", "--timeout=120s"]);
    nothing_is_left(cluster);
}

fn load_for(cluster: &Cluster, seconds: u32) -> Load {
    Load::at_rate(cluster, seconds, CALLS_PER_SECOND)
}

/// Half of the calls that a load wants to make: a load generator on a busy machine makes fewer.
fn enough(seconds: u32) -> u64 {
    u64::from(seconds * CALLS_PER_SECOND) / 2
}

/// The attackers' Pods, while they attack.
struct Attack {
    /// It holds the attackers' program. The kubelets of this cluster run on this machine, so the Pods can mount it.
    _directory: tempfile::TempDir,
}

impl Attack {
    /// Attacks the servers of a namespace, and the control plane.
    fn begin(cluster: &Cluster, namespace: &str, seconds: u32) -> Self {
        let ips = |namespace: &str, app: &str| -> Vec<String> {
            let pods = living_pods(cluster, namespace).into_iter();
            let of_app = pods.filter(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(app)));
            of_app.map(|pod| pod["status"]["podIP"].as_str().expect("it runs").to_owned()).collect()
        };
        let (proxies, controls) = (ips(namespace, "echo-"), ips("leno", "leno-control-"));
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        std::fs::copy(env!("CARGO_BIN_EXE_neighbour"), directory.path().join("neighbour")).expect("it is copied");
        let roles = ATTACKERS.into_iter().chain([PROBER]);
        for role in roles.clone() {
            let mut words: Vec<String> =
                ["/attack/neighbour", role, &seconds.to_string(), "--proxy"].map(str::to_owned).into();
            words.extend(proxies.iter().cloned());
            words.push("--control".to_owned());
            words.extend(controls.iter().cloned());
            let directory = directory.path().to_str().expect("UTF-8");
            cluster.apply(&manifests::attacker(role, directory, &words).to_string());
        }
        for role in roles {
            let pod = format!("pod/{role}");
            cluster.kubectl(&["-n", "neighbours", "wait", "--for=condition=Ready", "--timeout=120s", &pod]);
        }
        std::fs::write(directory.path().join("go"), "").expect("there is room");
        Self { _directory: directory }
    }

    /// Waits for its end, and sees that every attack was made, and every probe answered.
    fn end(self, cluster: &Cluster) {
        // What the member's application dials must not kill its own proxy either.
        let restarts = "jsonpath={.status.initContainerStatuses[?(@.name==\"leno-proxy\")].restartCount}";
        let restarts = cluster.kubectl(&["-n", "neighbours", "get", "pod", "member", "-o", restarts]);
        let supervised = scrape(cluster, "neighbours", "member").sum(RESTARTS, &[]);
        assert_eq!((&*restarts, supervised), ("0", 0.0), "the member's own proxy restarted");
        for who in ATTACKERS {
            let made = Self::printed(cluster, who);
            println!("attacks of a {who}:\n{made}");
            let counts: Vec<&str> = made.lines().collect();
            assert!(
                !counts.is_empty() && counts.iter().all(|line| !line.ends_with(" 0")),
                "an attack was never made: {made}"
            );
        }
        let probes = Self::printed(cluster, PROBER);
        println!("probes: {probes}");
        let probes: Value = serde_json::from_str(&probes).unwrap_or_else(|error| panic!("{error}: {probes}"));
        let told = |name: &str| probes[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {probes}"));
        assert!(told("asked") >= 100 && told("unanswered") <= told("asked") / PROBES_PER_UNANSWERED, "{probes}");
        assert!(Duration::from_micros(told("median_us")) <= PROBE_MAX, "{probes}");
    }

    /// What a Pod has printed when it ends, which is then deleted.
    fn printed(cluster: &Cluster, who: &str) -> String {
        let printed = wait_for("the attacks end", PATIENCE, || {
            let pod = ["-n", "neighbours", "get", "pod", who, "-o", "jsonpath={.status.phase}"];
            let has_ended = matches!(cluster.kubectl(&pod).as_str(), "Succeeded" | "Failed");
            has_ended.then(|| cluster.kubectl(&["-n", "neighbours", "logs", who, "-c", "neighbour"]))
        });
        cluster.kubectl(&["-n", "neighbours", "delete", "pod", who, "--timeout=60s"]);
        printed
    }
}

/// A Pod that starts during the attack has its proxy.
fn have_a_new_pod(cluster: &Cluster, before: &BTreeMap<String, Value>) {
    let is_server = |name: &&String| name.starts_with("shop/echo") && name.ends_with("/leno-proxy");
    let servers = before.keys().filter(is_server).count();
    cluster.kubectl(&["-n", WORKLOAD, "scale", "deploy/echo", "--replicas", &(servers + 1).to_string()]);
    rolled_out(cluster, WORKLOAD, "deploy/echo");
    let now = containers(cluster);
    assert!(now.keys().filter(is_server).any(|name| !before.contains_key(name)), "{now:?}");
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
        cluster.apply(&manifests::policy(WORKLOAD, more));
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

/// Each container of the workload and of the control plane: how often it was started again, whether it is ready, and since when
/// its Pod is. Each proxy: how often its supervisor started it again.
fn containers(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for namespace in [WORKLOAD, "leno"] {
        for pod in living_pods(cluster, namespace) {
            let conditions = pod["status"]["conditions"].as_array();
            let is_ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
            let since = is_ready.map(|condition| &condition["lastTransitionTime"]);
            for kind in ["initContainerStatuses", "containerStatuses"] {
                for status in pod["status"][kind].as_array().into_iter().flatten() {
                    let [pod, name] =
                        [&pod["metadata"]["name"], &status["name"]].map(|name| name.as_str().expect("text"));
                    let told = serde_json::json!([status["restartCount"], status["ready"], since]);
                    all.insert(format!("{namespace}/{pod}/{name}"), told);
                    if name == "leno-proxy" {
                        let restarts = scrape(cluster, namespace, pod).sum(RESTARTS, &[]);
                        all.insert(format!("{namespace}/{pod}/{name}, by its supervisor"), restarts.into());
                    }
                }
            }
        }
    }
    all
}

/// Events of probes that failed, of the Pods that were ready before, and how often each happened.
fn failed_probes(cluster: &Cluster, before: &BTreeMap<String, Value>) -> Vec<(String, u64)> {
    let mut failed = Vec::new();
    for namespace in [WORKLOAD, "leno"] {
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
                let what = format!("{} {pod}: {}", event["lastTimestamp"], event["message"]);
                failed.push((what, event["count"].as_u64().unwrap_or(1)));
            }
        }
    }
    failed
}
