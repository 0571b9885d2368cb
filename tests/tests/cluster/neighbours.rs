//! Pods of one namespace attack another namespace and the control plane, with everything that a Pod can do, while
//! well-behaved clients make calls. The attackers are a `stranger`, which has no certificate, a `member` of the mesh,
//! which has a proxy, and an `insider`, which has a certificate and no proxy.
//!
//! The clusters of `tests/kube` have only IPv4, so no attack uses IPv6. The tests of `crates/accept` check how the
//! proxy counts connections by IPv6 address.

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
    PATIENCE, RESTARTS, cluster_with_images, example_servers, install_a_meshed_pair, nothing_is_left, proxy_restarts,
    rolled_out, scrape, state,
};

#[path = "neighbours/manifests.rs"]
mod manifests;

/// Time for which the well-behaved clients are measured without an attack.
const CALM_SECONDS: u32 = 15;
/// Time for which the well-behaved clients are measured during attacks on another workload, the decoy.
const DECOY_SECONDS: u32 = 25;
/// Time for which the well-behaved clients are measured during attacks on their own servers.
const ATTACK_SECONDS: u32 = 60;
/// Time by which the attacks last longer than the measurement. The measurement starts late, because kubectl and ghz
/// take a while to start.
const SPARE_SECONDS: u32 = 5;
const CALLS_PER_SECOND: u32 = 500;

/// Largest allowed ratio of two p99s of the well-behaved clients: during an attack on their servers, and during the
/// same attack on the decoy. A p99 up to [`P99_ALLOWED`] is always allowed.
///
/// The comparison with the decoy is necessary because two cores carry both nodes, the control plane, the attackers, the
/// servers and the clients. These are about 25 programs that wait for one another, so an attack on any workload slows
/// down every call. The nodes of a real cluster have processors of their own.
const P99_FACTOR: u32 = 3;
/// p99 up to which [`P99_FACTOR`] does not apply. Up to this value, the p99 depends more on the machine than on the
/// attack, because a call waits for a processor several times. On machines of different speed, the p99 was 89 to 120 ms
/// during the attack on the servers.
const P99_ALLOWED: Duration = Duration::from_millis(250);
/// Largest allowed p99 during the attack on the decoy. This p99 depends on the machine. It was 28 ms on one machine. On
/// a machine of half the speed, which drops packets between the nodes, it was 241 ms.
const DECOY_P99_MAX: Duration = Duration::from_millis(500);

/// Namespace of the measured workload.
const WORKLOAD: &str = "shop";
/// Namespace of another workload with the same servers.
const DECOY: &str = "decoy";

/// CPU requests of the attacked containers: about the CPU that each container uses during the attack. Without CPU
/// requests, neighbours can take the containers' CPU in any cluster. The attackers request almost no CPU.
const CLIENT_CPU: &str = "300m";
const SERVER_CPU: &str = "100m";
const PROXY_CPU: &str = "200m";
const CONTROL_CPU: &str = "200m";
/// Memory limit of the control plane.
const CONTROL_MEMORY: &str = "256Mi";

/// Number of heavy HTTPRoutes, and of heavy GRPCRoutes.
const HEAVY_ROUTES: u32 = 4;
/// Number of policy changes during the attack.
const POLICY_CHANGES: u32 = 8;
/// Time for which each version of the policy is in force.
const POLICY_PAUSE: Duration = Duration::from_secs(2);
/// The identities of the member and of the insider. During the attack, the policy alternately allows and denies both.
const NEIGHBOURS: [&str; 2] = ["ns/neighbours/sa/default", "ns/neighbours/sa/insider"];
const ATTACKERS: [&str; 3] = ["stranger", "member", "insider"];
const PROBER: &str = "prober";
/// Longest allowed median time of the probes of attacked Pods.
const PROBE_MAX: Duration = Duration::from_millis(100);
/// Maximum number of consecutive probes of one page without an answer. A kubelet probes every 5 s, and acts after three
/// failed probes, so after 15 s. The prober takes 1.5 s for a probe without an answer (1 s, and a pause of 0.5 s), so
/// it sends ten such probes in 15 s.
///
/// On a slow machine, an attack makes the kernel drop packets between the nodes. The probes of all Pods on the other
/// node then wait for TCP's retransmissions.
const IN_A_ROW_MAX: u64 = 9;
/// Smallest allowed ratio of all probes to the probes without an answer.
const PROBES_PER_UNANSWERED: u64 = 5;
/// Maximum number of the kubelets' probes that may fail. The kubelets send about 300 probes to seven Pods in a minute
/// and a half, so this is one probe in 30. No Pod may stop being ready because of failed probes.
const FAILED_PROBES_MAX: u64 = 10;

/// Under attack, no call is lost, calls slow down little, no container restarts, at most a few probes fail, and a new
/// Pod gets its proxy.
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
    let allowed = P99_ALLOWED.max(decoy.p99 * P99_FACTOR);
    assert!(beside.p99 <= allowed, "{calm:?} calm, {decoy:?} decoy, {beside:?} beside");

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

/// Returns the minimum number of calls that a load must make: half of the intended number, because a load generator on
/// a busy machine makes fewer.
fn enough(seconds: u32) -> u64 {
    u64::from(seconds * CALLS_PER_SECOND) / 2
}

/// The attackers' Pods, while they attack.
struct Attack {
    /// The directory with the attackers' program. The Pods can mount it, because the kubelets of this cluster run on
    /// this machine.
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

    /// Waits for the end of the attack. Asserts that each attack was made, and that the answers to the probes were
    /// within their limits.
    fn end(self, cluster: &Cluster) {
        // The member constantly calls new addresses through its own proxy, which must not restart because of these
        // calls.
        let restarts = proxy_restarts(cluster, "neighbours", "member");
        assert_eq!(restarts, ("0".to_owned(), 0.0), "the member's own proxy restarted");
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
        assert!(told("in_a_row") <= IN_A_ROW_MAX, "{probes}");
        assert!(Duration::from_micros(told("median_us")) <= PROBE_MAX, "{probes}");
    }

    /// Waits until a Pod ends, deletes it, and returns its output.
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

/// Starts a Pod during the attack, and asserts that it gets its proxy.
fn have_a_new_pod(cluster: &Cluster, before: &BTreeMap<String, Value>) {
    let is_server = |name: &&String| name.starts_with("shop/echo") && name.ends_with("/leno-proxy");
    let servers = before.keys().filter(is_server).count();
    cluster.kubectl(&["-n", WORKLOAD, "scale", "deploy/echo", "--replicas", &(servers + 1).to_string()]);
    rolled_out(cluster, WORKLOAD, "deploy/echo");
    let now = containers(cluster);
    assert!(now.keys().filter(is_server).any(|name| !before.contains_key(name)), "{now:?}");
}

/// Creates heavy routes, as any user with write access to the namespace can. Then calls the routes' Service, so that
/// the client's proxy receives the routes.
fn make_heavy_routes(cluster: &Cluster) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(manifests::heavy_routes(HEAVY_ROUTES).to_string().as_bytes()).expect("there is room");
    // kubectl need not validate the routes, because the API server does. For the validation, kubectl would have to load
    // all schemas.
    let made = cluster.kubectl(&["create", "--validate=false", "-f", file.path().to_str().expect("UTF-8")]);
    println!("{} heavy routes are there", made.lines().count());
    let what = ["/grpcurl", "-plaintext", "-max-time", "2", "-d", PAYLOAD, "heavy.neighbours:80", METHOD];
    let called = cluster.try_kubectl(&in_client(&what));
    assert!(!called.status.success(), "there is no server, and no match: {}", text(&called));
}

/// Allows the attackers' calls, and denies them again, several times.
fn change_the_policy(cluster: &Cluster) {
    for change in 0..POLICY_CHANGES {
        let more = if change % 2 == 0 { &NEIGHBOURS[..] } else { &[] };
        cluster.apply(&manifests::policy(WORKLOAD, more));
        std::thread::sleep(POLICY_PAUSE);
    }
    println!("the policy changed {POLICY_CHANGES} times");
}

/// Returns the Pods of a namespace whose deletion has not begun.
fn living_pods(cluster: &Cluster, namespace: &str) -> Vec<Value> {
    let pods = cluster.kubectl(&["-n", namespace, "get", "pods", "-o", "json"]);
    let mut pods: Value = serde_json::from_str(&pods).expect("JSON");
    let all = pods["items"].as_array_mut().expect("Pods");
    all.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    std::mem::take(all)
}

/// Returns, for each container of the workload and of the control plane: the number of its restarts, whether it is
/// ready, and the time since which its Pod has been ready. For each proxy, also returns the number of restarts by its
/// supervisor.
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

/// Returns the events of failed probes of the Pods in `before`, each with its count.
fn failed_probes(cluster: &Cluster, before: &BTreeMap<String, Value>) -> Vec<(String, u64)> {
    let mut failed = Vec::new();
    for namespace in [WORKLOAD, "leno"] {
        let output =
            cluster.try_kubectl(&["-n", namespace, "get", "events", "--field-selector=reason=Unhealthy", "-o", "json"]);
        let events: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        for event in events["items"].as_array().expect("Events") {
            let pod = event["involvedObject"]["name"].as_str().unwrap_or_default();
            // Ignore startup probes: they may fail, because they run before the Pod is ready.
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
