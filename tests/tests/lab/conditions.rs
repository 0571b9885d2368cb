//! Runs of the lab with the systems that published comparisons measured: service meshes, shared proxies, and netfilter
//! rules.

use super::*;

/// Targets whose calls pass two proxies or more.
const MESHES: [&str; 4] = ["istio", "consul", "kuma", "ambient"];
/// Targets with one proxy for the whole node.
const SHARED: [&str; 2] = ["cilium-l7", "nginx"];
/// Targets that forward connections with netfilter rules, without a proxy.
const NETFILTER: [&str; 2] = ["vanilla", "cilium-l4"];

#[test]
fn every_mesh_of_a_publication_serves_calls_and_counts_the_cost_of_all_its_proxies() {
    for target in MESHES {
        let Some(run) = run_if_ready(target) else { continue };
        assert_costs_of_both_sides(&run);
    }
}

#[test]
fn every_shared_proxy_of_a_publication_serves_calls() {
    for target in SHARED {
        let Some(run) = run_if_ready(target) else { continue };
        assert_one_proxy(&run);
    }
}

// This test is separate from the test of the other shared proxies, because few machines have Traefik.
#[test]
fn traefik_serves_calls() {
    if let Some(run) = run_if_ready("traefik") {
        assert_one_proxy(&run);
    }
}

// This test is separate from the test of the other meshes, because few machines have linkerd2-proxy. The run fails if a
// connection between the proxies has no mutual TLS.
#[test]
fn linkerd_serves_calls_and_counts_the_cost_of_all_its_proxies() {
    if let Some(run) = run_if_ready("linkerd") {
        assert_costs_of_both_sides(&run);
    }
}

// This test is separate from the test of the other meshes, because few machines have ztunnel. The run fails if a
// connection between the proxies has no HBONE.
#[test]
fn ambient_serves_calls_through_ztunnel_and_counts_the_cost_of_all_its_proxies() {
    if !page("ambient").contains(" with ztunnel ") {
        leno_testing::skipped("ambient has no ztunnel here: docs/lab.md says how to build it");
        return;
    }
    for protocol in ["grpc", "http1"] {
        let words = format!("--protocol {protocol} --connections 4");
        let Some(run) = run_with_if_ready("ambient", &words) else { return };
        assert_costs_of_both_sides(&run);
    }
}

#[test]
fn a_named_ztunnel_that_does_not_exist_is_reported() {
    let mut command = Command::new(programs::program("leno"));
    command.args(["lab", "list", "ambient", "--ztunnel", "/nowhere/ztunnel"]);
    let said = programs::text(&command.output().expect("leno starts"));
    assert!(said.contains("not here: --ztunnel /nowhere/ztunnel: there is no such file"), "{said}");
}

#[test]
fn conditions_without_a_proxy_balance_connections() {
    for target in NETFILTER {
        let Some(run) = run_if_ready(target) else { continue };
        let share = number(&run, "slow_share");
        assert!(share == 0.0 || share == 1.0, "one connection is with one backend: {run}");
    }
}

#[test]
fn the_page_of_a_target_says_what_it_is_and_what_it_does_not_show() {
    let page = page("istio");
    for words in ["Data plane", "github.com/istio/istio", "LEAST_REQUEST", "Not shown", "istio.stats"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

fn assert_costs_of_both_sides(run: &Value) {
    let (all, servers) = (number(run, "proxy_cpu_us_per_call"), number(run, "server_proxy_cpu_us_per_call"));
    assert!(0.0 < servers && servers < all, "{run}");
}

fn assert_one_proxy(run: &Value) {
    assert!(number(run, "proxy_cpu_us_per_call") > 0.0, "{run}");
    assert!(run["server_proxy_rss_peak_bytes"].is_null(), "no proxy in front of a server: {run}");
}

/// Makes calls through a target. Returns the only run, or reports that the target's program is not here.
fn run_if_ready(target: &str) -> Option<Value> {
    run_with_if_ready(target, "")
}

/// Does the same as [`run_if_ready`], with more options of `leno lab run`.
fn run_with_if_ready(target: &str, options: &str) -> Option<Value> {
    let page = page(target);
    if !page.contains("ready: ") {
        leno_testing::skipped(page.lines().nth(1).unwrap_or(target).trim());
        return None;
    }
    let out = new_dir();
    let words =
        format!("slow-pod --targets {target} --skew-ms 0 --rate 500 --duration-s 1 --warm-up-s 0 --repeat 1 {options}");
    let runs = run_well(words.trim_end(), out.path());
    let [run] = &runs[..] else { panic!("{target}: {}", experiment(out.path())["skipped"]) };
    assert!(number(run, "calls") > 0.0 && number(run, "errors") == 0.0, "{run}");
    Some(run.clone())
}

/// Returns what `leno lab list TARGET` prints.
fn page(target: &str) -> String {
    let output = Command::new(programs::program("leno")).args(["lab", "list", target]).output().expect("leno starts");
    assert!(output.status.success(), "{target}: {}", programs::text(&output));
    programs::text(&output)
}
