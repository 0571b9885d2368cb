//! The steps of one user, from the installation of the mesh to its removal. Each step needs the steps before it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use leno_tests::kubernetes::{Cluster, given};
use leno_tests::mesh::skipped;
use leno_tests::programs::{program, text};
use leno_tests::proxy::wait_for;
use leno_tests::scrape::Scrape;
use serde_json::Value;

use super::load::{Load, METHOD, PAYLOAD, in_client};
use super::{authority, closed, explain, lab, meshed, objectives, sight, traces, wire};

/// Longest time until Pods have started or ended, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// Longest time until the first call. The goal is 30 s on an idle machine; this limit only detects an installation that
/// never works.
const FIRST_CALL_MAX: Duration = Duration::from_secs(180);

/// Longest time during which calls may fail after a proxy was killed: from the start of the first failed call to the
/// start of the last. The limit allows for a debug build of the proxy on a busy machine.
const KILLED_PROXY_MAX: Duration = Duration::from_secs(3);

/// The metric that counts how often a proxy's supervisor has started the proxy again.
pub(super) const RESTARTS: &str = "leno_proxy_restarts_total";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the images of the mesh, and the image of the programs that make the tests' calls. Returns `None` if an image
/// was not built.
fn images() -> Option<Vec<PathBuf>> {
    let out = root().join("out/images");
    let images: Vec<PathBuf> =
        ["leno-proxy.tar", "leno-control.tar", "leno.tar", "leno-tools.tar"].map(|name| out.join(name)).into();
    images.iter().all(|image| image.is_file()).then_some(images)
}

/// Returns the name that `images/build` gave to an image.
pub(super) fn image(name: &str) -> String {
    match registry() {
        Some(registry) => format!("{registry}/{name}:0.1.0"),
        None => format!("{name}:0.1.0"),
    }
}

fn registry() -> Option<String> {
    std::env::var("IMAGE_PREFIX").ok().filter(|prefix| !prefix.is_empty())
}

/// Returns the example's manifest as users apply it, but with the images of this test.
fn example_as_it_is() -> String {
    let text = std::fs::read_to_string(root().join("examples/kubernetes/echo.yaml")).expect("the example is there");
    text.replace("image: leno:0.1.0", &format!("image: {}", image("leno")))
}

/// Returns the example with two changes, because the tests count calls: its client has ghz and grpcurl and makes no
/// calls of its own, and the slow server is left out.
fn example() -> String {
    let (leno, tools) = (image("leno"), image("leno-tools"));
    let client = format!("image: {leno}\n        args: [call, \"echo:50051\", --rate=50]");
    let text = example_as_it_is();
    assert!(text.contains(&client), "the example's client calls by itself");
    let quiet = format!("image: {tools}\n        command: [/leno]\n        args: [echo, --listen=127.0.0.1:50051]");
    let text = text.replace(&client, &quiet);
    text.split("---\n").filter(|object| !is_slow_server(object)).collect::<Vec<_>>().join("---\n")
}

/// The example's servers and their Service in another namespace.
pub(super) fn example_servers(namespace: &str) -> String {
    let text = example();
    let is_client = |object: &&str| object.contains("  name: web\n");
    let servers: Vec<&str> = text.split("---\n").filter(|object| !is_client(object)).collect();
    servers.join("---\n").replace("shop", namespace)
}

/// Returns the slow server of the example, made even slower.
fn slow_server() -> String {
    let text = example_as_it_is();
    let slow = text.split("---\n").find(|object| is_slow_server(object)).expect("the example has a slow server");
    slow.replace("--delay-ms=200", "--delay-ms=1000")
}

fn is_slow_server(object: &str) -> bool {
    object.contains("  name: echo-slow\n")
}

fn install(cluster: &Cluster) -> String {
    match registry() {
        Some(registry) => leno(cluster, &["install", "--set", &format!("image.registry={registry}")]),
        None => leno(cluster, &["install"]),
    }
}

/// Loads the images onto the nodes. The owner of an external cluster provides the images, and the namespaces that the
/// test removes must not exist in it yet.
fn prepare(cluster: &Cluster, images: &[PathBuf]) {
    if cluster.is_ours() {
        cluster.load(images);
        return;
    }
    let there = cluster.kubectl(&["get", "namespace", "leno", "shop", "--ignore-not-found", "-o", "name"]);
    assert_eq!(there, "", "this test makes these namespaces and removes them; use a cluster without them");
}

/// Runs `leno` for the cluster, and returns its output.
pub(super) fn leno(cluster: &Cluster, arguments: &[&str]) -> String {
    let kubeconfig = cluster.kubeconfig();
    let output = Command::new(program("leno"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("leno runs");
    assert!(output.status.success(), "leno {arguments:?}: {}{}", text(&output), state(cluster));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn rolled_out(cluster: &Cluster, namespace: &str, deployment: &str) {
    let seconds = format!("--timeout={}s", PATIENCE.as_secs());
    let status = cluster.try_kubectl(&["-n", namespace, "rollout", "status", deployment, &seconds]);
    assert!(status.status.success(), "{}{}", text(&status), state(cluster));
}

/// Returns the state of the cluster for an error message: Pods, events and logs.
pub(super) fn state(cluster: &Cluster) -> String {
    let pods = cluster.try_kubectl(&["get", "pods", "-A", "-o", "wide"]);
    let events = cluster.try_kubectl(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
    let control = cluster.try_kubectl(&["-n", "leno", "logs", "deploy/leno-control", "--tail=40"]);
    let proxies =
        cluster.try_kubectl(&["-n", "shop", "logs", "-l", "leno.dev/injected=true", "-c", "leno-proxy", "--tail=20"]);
    [pods, events, control, proxies].map(|output| text(&output)).join("\n---\n")
}

/// Makes one call from the client's Pod, and returns the server's answer.
pub(super) fn call(cluster: &Cluster) -> Option<Value> {
    let what = ["/grpcurl", "-plaintext", "-d", PAYLOAD, "echo:50051", METHOD];
    let output = cluster.try_kubectl(&in_client(&what));
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Returns the sum of a metric with these labels over the proxies of all Pods with the label `pods`.
pub(super) fn metric(cluster: &Cluster, pods: &str, name: &str, labels: &[&str]) -> f64 {
    let pods = cluster.kubectl(&["-n", "shop", "get", "pods", "-l", pods, "-o", "name"]);
    pods.lines().map(|pod| scrape(cluster, "shop", pod.trim_start_matches("pod/")).sum(name, labels)).sum()
}

/// Returns how often the kubelet has restarted the container of a Pod's proxy, and how often the proxy's supervisor has
/// started the proxy again.
pub(super) fn proxy_restarts(cluster: &Cluster, namespace: &str, pod: &str) -> (String, f64) {
    let path = "jsonpath={.status.initContainerStatuses[?(@.name=='leno-proxy')].restartCount}";
    let by_kubelet = cluster.kubectl(&["-n", namespace, "get", "pod", pod, "-o", path]);
    (by_kubelet, scrape(cluster, namespace, pod).sum(RESTARTS, &[]))
}

/// The metrics of a Pod's proxy.
pub(super) fn scrape(cluster: &Cluster, namespace: &str, pod: &str) -> Scrape {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:4191/proxy/metrics");
    Scrape::parse(&cluster.kubectl(&["get", "--raw", &path]))
}

/// Returns a cluster with the images on its nodes. Without a cluster or images, prints a message and returns `None`.
pub(super) fn cluster_with_images() -> Option<Cluster> {
    let images = match given() {
        Some(_) => Some(Vec::new()),
        None => images(),
    };
    let Some(images) = images else {
        skipped("there are no images; type images/build");
        return None;
    };
    let cluster = Cluster::with_nodes()?;
    prepare(&cluster, &images);
    Some(cluster)
}

/// Installs the mesh, and waits until `leno check` succeeds.
pub(super) fn install_mesh(cluster: &Cluster) {
    cluster.apply(&install(cluster));
    leno(cluster, &["check", "--wait", "120s"]);
}

/// Installs the mesh and the example, and waits until the example's client gets an answer.
pub(super) fn install_a_meshed_pair(cluster: &Cluster) {
    install_mesh(cluster);
    cluster.apply(&example());
    rolled_out(cluster, "shop", "deploy/echo");
    rolled_out(cluster, "shop", "deploy/web");
    wait_for("the first call", PATIENCE, || call(cluster));
}

#[test]
fn from_nothing_to_a_meshed_pair_and_back() {
    let Some(cluster) = cluster_with_images() else { return };
    let began = Instant::now();
    install_a_meshed_pair(&cluster);
    let took = began.elapsed();
    println!("from kubectl apply to the first meshed call: {:.1} s", took.as_secs_f64());
    assert!(took < FIRST_CALL_MAX, "{took:?}");

    meshed::the_control_plane_has_a_proxy(&cluster);
    calls_are_encrypted(&cluster);
    wire::nothing_crosses_in_clear(&cluster);
    a_slow_pod_gets_hardly_a_call(&cluster);
    a_killed_proxy_costs_only_the_calls_that_it_has(&cluster);
    a_rollout_loses_no_call(&cluster);
    servers_come_and_go_without_a_lost_call(&cluster);
    calls_go_on_without_a_control_plane(&cluster);
    closed::no_pod_starts_without_a_proxy_while_the_control_plane_is_away(&cluster);
    calls_go_on_without_an_api_server(&cluster);
    closed::without_the_control_planes_namespace_only_meshed_namespaces_refuse_pods(&cluster);
    lab::the_lab_measures_the_mesh_and_leaves_nothing(&cluster);
    traces::a_call_is_one_trace_at_a_collector_that_may_go_away(&cluster);
    objectives::calls_that_miss_an_objective_are_seen(&cluster);
    authority::an_authority_that_ends_soon_is_named(&cluster);
    the_example_carries_traffic_by_itself(&cluster);
    explain::calls_are_explained_and_problems_are_found(&cluster);
    nothing_is_left(&cluster);
}

fn calls_are_encrypted(cluster: &Cluster) {
    Load::start(cluster, 3).end().assert_well(300);
    let server = "server_id=\"spiffe://cluster.local/ns/shop/sa/default\"";
    let sent = metric(cluster, "app=web", "response_total", &["direction=\"outbound\"", "tls=\"true\"", server]);
    assert!(sent >= 300.0, "{sent} calls went out encrypted\n{}", state(cluster));
    let client = "client_id=\"spiffe://cluster.local/ns/shop/sa/web\"";
    let came = metric(cluster, "app=echo", "response_total", &["direction=\"inbound\"", "tls=\"true\"", client]);
    assert!(came >= 300.0, "{came} calls came in encrypted");
}

/// The slow Pod is much slower than the other Pods, even on a busy machine. If the proxy gave each Pod the same share
/// of the calls, the slow Pod would get a quarter.
fn a_slow_pod_gets_hardly_a_call(cluster: &Cluster) {
    cluster.apply(&slow_server());
    rolled_out(cluster, "shop", "deploy/echo-slow");
    Load::start(cluster, 20).end().assert_well(1_500);
    let came = |pods: &str| metric(cluster, pods, "response_total", &["direction=\"inbound\""]);
    let (slow, all) = (came("speed=slow"), came("app=echo"));
    assert!(slow > 0.0 && slow < all / 20.0, "the slow Pod got {slow} of {all} calls\n{}", state(cluster));
    cluster.kubectl(&["-n", "shop", "delete", "deploy", "echo-slow"]);
}

/// After the commands of the README, `leno stat` shows calls, and the slow server gets hardly any of them.
fn the_example_carries_traffic_by_itself(cluster: &Cluster) {
    cluster.apply(&example_as_it_is());
    for deployment in ["deploy/echo", "deploy/echo-slow", "deploy/web"] {
        rolled_out(cluster, "shop", deployment);
    }
    let rate = |rows: &Value, name: &str| {
        let row = rows.as_array().into_iter().flatten().find(|row| row["name"] == name);
        row.and_then(|row| row["calls_per_second"].as_f64()).unwrap_or_default()
    };
    wait_for("leno stat shows calls, and few at the slow server", PATIENCE, || {
        let rows: Value =
            serde_json::from_str(&leno(cluster, &["stat", "deploy", "-n", "shop", "-o", "json"])).expect("JSON");
        let (echo, slow) = (rate(&rows, "echo"), rate(&rows, "echo-slow"));
        (echo > 10.0 && slow < echo / 20.0).then_some(())
    });
    let rows = leno(cluster, &["stat", "deploy/web", "-n", "shop", "--to", "echo", "-o", "json"]);
    let rows: Value = serde_json::from_str(&rows).expect("JSON");
    assert!(rate(&rows, "web") > 10.0, "the client's view has its calls: {rows}");
    sight::the_example_can_be_watched(cluster);
}

/// Kills the client's own proxy under load. The supervisor starts the next proxy, so that calls fail only for a moment,
/// and the kubelet does not restart the container.
fn a_killed_proxy_costs_only_the_calls_that_it_has(cluster: &Cluster) {
    if !cluster.is_ours() {
        return skipped("the proxies on the nodes of LENO_KUBECONFIG's cluster cannot be killed from here");
    }
    let sent =
        || metric(cluster, "app=web", "response_total", &["direction=\"outbound\"", "classification=\"success\""]);
    let pod =
        cluster.kubectl(&["-n", "shop", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"]);
    let (before, load) = (sent(), Load::start(cluster, 20));
    wait_for("the load runs", PATIENCE, || (sent() > before + 200.0).then_some(()));
    cluster.kill_in_pod(&pod, "--supervised");
    let report = load.end();
    let lost = report.lost();
    let (calls, slowest) = (report.calls, report.slowest);
    println!(
        "a killed proxy: {} of {calls} calls failed within {:?}, the slowest took {slowest:?}",
        lost.calls, lost.within
    );
    // Calls in progress fail when the proxy dies: 20 at most, and sometimes none. Calls that begin before the client is
    // connected again may fail too.
    assert!(lost.calls <= 100 && lost.within < KILLED_PROXY_MAX, "{lost:?}\n{}", state(cluster));
    assert_eq!(
        proxy_restarts(cluster, "shop", &pod),
        ("0".to_owned(), 1.0),
        "the container has not been restarted, but the proxy"
    );
}

fn a_rollout_loses_no_call(cluster: &Cluster) {
    let load = Load::start(cluster, 40);
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo"]);
    rolled_out(cluster, "shop", "deploy/echo");
    load.end().assert_well(4_000);
}

fn servers_come_and_go_without_a_lost_call(cluster: &Cluster) {
    let load = Load::start(cluster, 60);
    for replicas in ["2", "10", "2"] {
        cluster.kubectl(&["-n", "shop", "scale", "deploy/echo", "--replicas", replicas]);
        rolled_out(cluster, "shop", "deploy/echo");
    }
    load.end().assert_well(6_000);
}

fn calls_go_on_without_a_control_plane(cluster: &Cluster) {
    let load = Load::start(cluster, 20);
    cluster.kubectl(&["-n", "leno", "delete", "pod", "-l", "app.kubernetes.io/name=leno-control", "--now"]);
    rolled_out(cluster, "leno", "deploy/leno-control");
    load.end().assert_well(2_000);
    // Check that the proxies receive new endpoints from the new control plane.
    let load = Load::start(cluster, 20);
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo"]);
    rolled_out(cluster, "shop", "deploy/echo");
    load.end().assert_well(2_000);
}

fn calls_go_on_without_an_api_server(cluster: &Cluster) {
    if !cluster.is_ours() {
        return skipped("the API server of LENO_KUBECONFIG's cluster is not ours to kill");
    }
    // ghz's output comes through the API server and is lost when the API server is killed, so read the proxy's metrics.
    let sent = |class: &str| metric(cluster, "app=web", "response_total", &["direction=\"outbound\"", class]);
    let (before, failed_before) = (sent("classification=\"success\""), sent("classification=\"failure\""));
    let load = Load::start(cluster, 10);
    wait_for("the load runs", PATIENCE, || (sent("classification=\"success\"") > before).then_some(()));
    cluster.kill("kube-apiserver");
    std::thread::sleep(Duration::from_secs(5));
    cluster.start();
    load.abandon();
    let failed = sent("classification=\"failure\"") - failed_before;
    assert_eq!(failed, 0.0, "calls failed while the API server was away\n{}", state(cluster));
}

/// Removes the mesh and the example, and asserts that nothing of the mesh is left.
pub(super) fn nothing_is_left(cluster: &Cluster) {
    cluster.kubectl(&["delete", "namespace", "shop", "--timeout=120s"]);
    let left = leno(cluster, &["uninstall"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), left).expect("a file");
    let path = file.path().to_str().expect("text");
    cluster.kubectl(&["delete", "--ignore-not-found", "--timeout=120s", "-f", path]);
    for kind in [
        "clusterroles",
        "clusterrolebindings",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "customresourcedefinitions",
        "namespaces",
    ] {
        let left = cluster.kubectl(&["get", kind, "-l", "app.kubernetes.io/part-of=leno", "-o", "name"]);
        assert_eq!(left, "", "{kind}");
    }
}
