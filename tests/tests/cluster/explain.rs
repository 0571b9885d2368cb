//! `leno explain` and `leno dashboard` through the API server's port-forward, for a user with rights in one namespace
//! only.

use std::thread;
use std::time::{Duration, Instant};

use leno_tests::dashboard::Dashboard;
use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{program, text};
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::METHOD;
use super::rights::Watcher;
use super::sight::json;
use super::user::{PATIENCE, leno, rolled_out, state};
use super::wire::{other_node, server, service};

/// Longest time until a Service's problem is on the page: a minute, and half a minute more for a busy machine.
const PROBLEM_MAX: Duration = Duration::from_secs(90);

/// A policy that denies the calls of the example's client.
const POLICY: &str = "\
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: only-batch, namespace: shop}
spec:
  allow: [{identities: [ns/shop/sa/batch]}]
";
/// A route that sends the example client's calls with this header field to a Service without endpoints.
const ROUTE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: nothing, namespace: shop}
spec: {ports: [{port: 50051}], selector: {app: nothing}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: canary, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: echo, port: 50051}]
  rules:
  - name: asked-for
    matches: [{headers: [{name: x-canary, value: 'yes'}]}]
    backendRefs: [{name: nothing, port: 50051}]
  - backendRefs: [{name: echo, port: 50051}]
";

/// Runs `leno explain` for a call of the example's client until the exit code is `code` and the answer begins with
/// `beginning` and contains each of `parts`.
fn wait_for_story(cluster: &Cluster, watcher: &Watcher, call: &[&str], code: i32, beginning: &str, parts: &[&str]) {
    let question = [&["explain", METHOD], call, &["--via", "deploy/web", "-n", "shop"]].concat();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (exit, story) = watcher.leno(&question);
        // The command breaks its lines between words, so replace each line break with a space.
        let story = story.split_whitespace().collect::<Vec<_>>().join(" ");
        if exit == Some(code) && story.starts_with(beginning) && parts.iter().all(|part| story.contains(part)) {
            return;
        }
        assert!(Instant::now() < deadline, "no {beginning} with {parts:?}: {exit:?} {story}\n{}", state(cluster));
        thread::sleep(Duration::from_millis(500));
    }
}

/// Runs `leno explain` for calls that would arrive and for calls that would not. The dashboard's page must show a
/// policy that denies calls as a problem.
pub(super) fn calls_are_explained_and_problems_are_found(cluster: &Cluster) {
    let watcher = Watcher::of_shop(cluster);
    let explained = |call: &[&str], code, beginning: &str, parts: &[&str]| {
        wait_for_story(cluster, &watcher, call, code, beginning, parts);
    };
    let dashboard = Dashboard::start(&["-n", "shop"], Some(watcher.kubeconfig.path()));
    the_page_shows_the_example(cluster, &dashboard);

    let allowed = "ns/shop/sa/web is allowed by the default inbound policy all-unauthenticated";
    explained(&["echo:50051"], 0, "would go to ", &["(echo.shop:50051)", "over mutual TLS", allowed]);
    explained(&["ghost:50051"], 3, "would fail with no-route: there is no Service ghost in namespace shop", &[]);
    the_port_may_be_left_out(cluster, &watcher);

    cluster.apply(&[server("bare", &other_node(cluster), "disabled"), service("bare")].concat());
    cluster.kubectl(&["-n", "shop", "wait", "--for=condition=Ready", "pod/bare", "--timeout=120s"]);
    explained(&["bare:50051"], 0, "would go to ", &["it has no proxy, so no policy is enforced there"]);

    if cluster.is_ours() {
        cluster.install_gateway_api();
        cluster.apply(ROUTE);
        let rule = "GRPCRoute shop/canary, rule asked-for";
        explained(&["echo:50051", "-H", "x-canary:yes"], 3, "would fail with no-endpoint: nothing.shop:50051", &[rule]);
        explained(&["echo:50051"], 0, "would go to ", &["GRPCRoute shop/canary", "x-canary"]);
    }

    cluster.apply(POLICY);
    let denied = "AuthorizationPolicy shop/only-batch, which allows only ns/shop/sa/batch";
    explained(&["echo:50051"], 3, "would be denied at ", &[denied]);
    explained(
        &["echo:50051", "--from", "shop/batch"],
        0,
        "would go to ",
        &["spec.allow[0].identities[0] (ns/shop/sa/batch)"],
    );
    let problem = wait_for("the denied calls are a problem on the page", PROBLEM_MAX, || {
        problems(&dashboard).into_iter().find(|problem| {
            let what = problem["what"].as_str().unwrap_or_default();
            // Compare the port, too: the page also shows a tap that the proxy of echo denied earlier, on another port.
            problem["kind"] == "denied calls" && what.contains("shop/web on port 50051")
        })
    });
    let what = problem["what"].as_str().unwrap_or_default();
    assert!(what.contains("because of AuthorizationPolicy shop/only-batch"), "{problem}");
    let (_, problems) = watcher.leno(&["problems", "-n", "shop"]);
    assert!(
        problems.contains("calls of shop/web on port 50051, because of AuthorizationPolicy shop/only-batch"),
        "{problems}"
    );
    let edges = json(cluster, &["stat", "edges", "--window", "3s"]);
    let edge =
        edges.as_array().into_iter().flatten().find(|edge| edge["client"] == "shop/web" && edge["name"] == "echo");
    assert!(edge.is_some_and(|edge| edge["denied_per_second"].as_f64() > Some(1.0)), "{edges}");
    cluster.kubectl(&["-n", "shop", "delete", "authorizationpolicy/only-batch", "pod/bare", "service/bare"]);
    explained(&["echo:50051"], 0, "would go to ", &[allowed]);

    a_pod_that_ends_is_no_problem(cluster, &dashboard);
}

/// If a Service has only one port, a user who may read Services can leave the port out. Other users must name it.
fn the_port_may_be_left_out(cluster: &Cluster, watcher: &Watcher) {
    let question = |service| ["explain", METHOD, service, "--via", "deploy/web", "-n", "shop"];
    let story = leno(cluster, &question("echo"));
    assert!(story.starts_with("would go to ") && story.contains("echo.shop:50051"), "{story}");
    let refused = |service: &'static str| {
        let mut command = std::process::Command::new(program("leno"));
        let output = command.args(question(service)).env("KUBECONFIG", cluster.kubeconfig()).output();
        text(&output.expect("leno runs"))
    };
    let [wrong, missing] = [refused("echo:80"), refused("ehco")];
    assert!(wrong.contains("Service echo.shop has no port 80; write echo.shop:50051"), "{wrong}");
    assert!(missing.contains("there is no Service ehco in namespace shop; the namespace has "), "{missing}");
    let (code, told) = watcher.leno(&question("echo"));
    assert!(code == Some(1) && told.contains("name the port of the Service, as echo.shop:PORT"), "{told}");
}

fn problems(dashboard: &Dashboard) -> Vec<Value> {
    dashboard.json("/api/mesh")["problems"].as_array().expect("problems").clone()
}

fn the_page_shows_the_example(cluster: &Cluster, dashboard: &Dashboard) {
    let row = wait_for("the Service is on the page", PROBLEM_MAX, || {
        let mesh = dashboard.json("/api/mesh");
        let row = mesh["services"].as_array()?.iter().find(|row| row["id"] == "shop/echo")?;
        row["success_rate"].is_number().then(|| row.clone())
    });
    assert!(row["calls_per_second"].as_f64().is_some_and(|rate| rate > 10.0), "{row}");
    assert_eq!(row["tls_share"], 1.0, "{row}\n{}", state(cluster));
    let detail = dashboard.json("/api/service?id=shop%2Fecho");
    assert_eq!(detail["callers"][0]["from"], "shop/web", "{detail}");
    let endpoints = dashboard.json("/api/endpoints?id=shop%2Fecho");
    let seen = endpoints["endpoints"].as_array().expect("endpoints");
    assert!(seen.len() >= 4 && seen.iter().all(|endpoint| endpoint["seen_by"] == "shop/web"), "{endpoints}");
}

/// Replaces the servers' Pods. The page must then count only the new proxies, and must not report the proxies of ended
/// Pods as silent.
fn a_pod_that_ends_is_no_problem(cluster: &Cluster, dashboard: &Dashboard) {
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo"]);
    rolled_out(cluster, "shop", "deploy/echo");
    wait_for("the page forgets the ended Pods", PROBLEM_MAX, || {
        let mesh = dashboard.json("/api/mesh");
        // There are three proxies of echo, one of echo-slow and one of web.
        (mesh["proxies"] == 5 && mesh["counted"] == 5 && mesh["silent"] == 0).then_some(())
    });
}
