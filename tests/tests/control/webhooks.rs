//! The API server calls the webhooks of charts/leno: Pods get their proxies, and invalid objects are rejected.

use std::fs;
use std::process::Command;
use std::time::Duration;

use leno_install::chart;
use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{program, run_well, text};
use leno_tests::proxy::wait_for;
use serde_json::{Value, json};

/// Longest time until a change is in force at the API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The chart's webhooks in the cluster, served by a control plane. Dropping this value removes the webhooks.
pub(super) struct Installed<'a> {
    cluster: &'a Cluster,
}

impl<'a> Installed<'a> {
    /// Installs the webhooks, and waits until they are in force.
    pub(super) fn new(cluster: &'a Cluster, control: &Control) -> Self {
        Self::with_failure_policy(cluster, control, "Fail")
    }

    /// Installs the webhooks with this failure policy, and waits until they are in force. The failure policy applies
    /// while no control plane answers.
    pub(super) fn with_failure_policy(cluster: &'a Cluster, control: &Control, policy: &str) -> Self {
        let installed = Self { cluster };
        // Replace the chart's Service by an external name, so that the API server calls this machine. It still verifies
        // that the certificate has the name leno-control.leno.svc.
        cluster.apply(
            "{apiVersion: v1, kind: Service, metadata: {name: leno-control, namespace: leno},
              spec: {type: ExternalName, externalName: 127.0.0.1}}",
        );
        let kinds = ["CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
        for mut object in chart_objects(&[&format!("webhook.failurePolicy={policy}")])
            .into_iter()
            .filter(|object| kinds.iter().any(|kind| object["kind"] == *kind))
        {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["service"]["port"] = control.webhooks().port().into();
            }
            cluster.apply(&object.to_string());
        }
        // The webhook is the only check that rejects this object, so a rejection shows that the webhook is called.
        cluster.namespace("probed");
        wait_for("the webhooks are in force", PATIENCE, || {
            let refused =
                cluster.try_apply(&pod("probed", "probe", "leno.dev/inject: enabled, leno.dev/proxy-workers: many"));
            text(&refused).contains("leno.dev/proxy-workers").then_some(())
        });
        installed
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        for object in [
            "mutatingwebhookconfiguration/leno-injector",
            "validatingwebhookconfiguration/leno-validator",
            "customresourcedefinition/authorizationpolicies.leno.dev",
            "customresourcedefinition/trafficpolicies.leno.dev",
        ] {
            self.cluster.try_kubectl(&["delete", object, "--ignore-not-found"]);
        }
        self.cluster.try_kubectl(&["-n", "leno", "delete", "service", "leno-control", "--ignore-not-found"]);
    }
}

/// Returns the objects of an installation with these values.
pub(super) fn chart_objects(sets: &[&str]) -> Vec<Value> {
    let mut values = chart::default_values(false).expect("the chart's values");
    for set in sets {
        chart::set_value(&mut values, set).expect("a value");
    }
    chart::objects(&values).expect("the chart")
}

pub(super) fn pod(namespace: &str, name: &str, annotations: &str) -> String {
    pod_with(namespace, name, annotations, "")
}

pub(super) fn pod_with(namespace: &str, name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, annotations: {{{annotations}}}}},
          spec: {{containers: [{{name: app, image: app}}]{spec}}}}}"
    )
}

pub(super) fn get(cluster: &Cluster, arguments: &[&str]) -> Value {
    serde_json::from_str(&cluster.kubectl(&[&["get", "-o", "json"], arguments].concat())).expect("JSON")
}

/// Returns the names of a Pod's init containers.
pub(super) fn init_containers(cluster: &Cluster, namespace: &str, name: &str) -> Vec<String> {
    let pod = get(cluster, &["-n", namespace, "pod", name]);
    let containers = pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
    containers.iter().map(|container| container["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits for a namespace's trust bundle, and returns its anchors.
fn wait_for_trust_bundle(cluster: &Cluster, namespace: &str) -> String {
    wait_for("the trust bundle", PATIENCE, || {
        let found = cluster.try_kubectl(&["-n", namespace, "get", "configmap", "leno-trust-bundle", "-o", "json"]);
        let found: Value = serde_json::from_slice(&found.stdout).ok()?;
        found["data"]["ca.crt"].as_str().map(str::to_owned)
    })
}

pub(super) fn refusal(cluster: &Cluster, manifest: &str) -> String {
    let output = cluster.try_apply(manifest);
    assert!(!output.status.success(), "it was let through: {manifest}");
    text(&output)
}

#[test]
fn pods_get_a_proxy_where_it_is_asked_for_and_nowhere_else() {
    let Some(cluster) = Cluster::get() else { return };
    for namespace in ["injected", "plain"] {
        cluster.namespace(namespace);
    }
    cluster.kubectl(&["annotate", "namespace", "injected", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);

    cluster.apply(&pod("injected", "app", ""));
    assert_eq!(init_containers(&cluster, "injected", "app"), ["leno-init", "leno-proxy"]);
    let seen = get(&cluster, &["-n", "injected", "pod", "app"]);
    assert_eq!(seen["metadata"]["labels"]["leno.dev/injected"], "true");
    assert_eq!(seen["spec"]["initContainers"][1]["restartPolicy"], "Always");

    let none: [String; 0] = [];
    cluster.apply(&pod("plain", "app", ""));
    assert_eq!(init_containers(&cluster, "plain", "app"), none);
    cluster.apply(&pod("injected", "disabled", "leno.dev/inject: disabled"));
    assert_eq!(init_containers(&cluster, "injected", "disabled"), none);
    cluster.apply(&pod_with("injected", "host", "", ", hostNetwork: true"));
    assert_eq!(init_containers(&cluster, "injected", "host"), none);

    let refused = refusal(&cluster, &pod("injected", "wrong", "leno.dev/inject: yes-please"));
    assert!(refused.contains("annotation leno.dev/inject: \"yes-please\" does not work; use enabled"), "{refused}");

    let metrics = control.get("/metrics").expect("the admin listener answers").1;
    let counted = "leno_control_webhook_requests_total{webhook=\"inject\",answer=\"injected\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");

    control.write_inject_config("{clusterDomain: cluster.local, proxy: {version: the-next}}");
    control.wait_for_log(&["inject.yaml", "it has changed; new proxies get its options"]);
    cluster.apply(&pod("injected", "later", ""));
    let seen = get(&cluster, &["-n", "injected", "pod", "later"]);
    assert_eq!(seen["spec"]["initContainers"][1]["image"], "leno-proxy:the-next");
}

#[test]
fn the_first_pod_of_a_namespace_that_was_just_made_gets_its_proxy_and_a_trust_bundle() {
    let Some(cluster) = Cluster::get() else { return };
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);
    for (namespace, on_namespace, on_pod) in
        [("young-1", "leno.dev/inject: enabled", ""), ("young-2", "", "leno.dev/inject: enabled")]
    {
        // Use a separate service account, because the namespace's default service account does not exist at once.
        cluster.apply(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}, annotations: {{{on_namespace}}}}}}}
---
{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: app, namespace: {namespace}}}}}
---
{}",
            pod_with(namespace, "app", on_pod, ", serviceAccountName: app")
        ));
        assert_eq!(init_containers(&cluster, namespace, "app"), ["leno-init", "leno-proxy"]);
        wait_for_trust_bundle(&cluster, namespace);
    }
}

#[test]
fn what_the_mesh_cannot_read_is_refused_with_the_reason() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("reviewed");
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);

    let policy = |rule: &str| {
        format!(
            "{{apiVersion: leno.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {{name: web, namespace: reviewed}},
              spec: {{allow: [{{{rule}}}]}}}}"
        )
    };
    // The definition's pattern rejects most mistakes; the webhook rejects the mistakes that no pattern can express.
    let refused = refusal(&cluster, &policy("identities: [web]"));
    assert!(refused.contains("spec.allow[0].identities[0]: Invalid value: \"web\""), "{refused}");
    let refused = refusal(&cluster, &policy("networks: [10.0.0.300/8]"));
    assert!(refused.contains("spec.allow[0].networks[0]: \"10.0.0.300/8\" is not"), "{refused}");
    cluster.apply(&policy("identities: [ns/reviewed/sa/web]"));

    let service = |balancer: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: reviewed, annotations: {{leno.dev/balancer: {balancer}}}}},
              spec: {{ports: [{{port: 80}}]}}}}"
        )
    };
    let refused = refusal(&cluster, &service("best"));
    assert!(refused.contains("\"best\" is not a balancer"), "{refused}");
    cluster.apply(&service("round-robin"));

    // A mistake in a Namespace causes only a warning.
    let annotated = text(&cluster.try_kubectl(&["annotate", "namespace", "reviewed", "leno.dev/injct=enabled"]));
    assert!(annotated.contains("Warning: annotation leno.dev/injct") && annotated.contains("annotated"), "{annotated}");
}

#[test]
fn what_only_a_namespace_may_decide_is_refused_on_a_pod() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("reserved");
    cluster.kubectl(&["annotate", "namespace", "reserved", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);
    let skipping = pod("reserved", "app", "leno.dev/skip-inbound-ports: \"1-65535\"");
    let warned = text(&cluster.try_apply(&skipping));
    assert!(warned.contains("no policy protects the ports 1-65535 of this Pod"), "{warned}");
    cluster.kubectl(&["-n", "reserved", "delete", "pod", "app", "--force", "--grace-period=0"]);
    control.write_inject_config("{clusterDomain: cluster.local, namespaceOnly: [leno.dev/skip-inbound-ports]}");
    control.wait_for_log(&["inject.yaml", "it has changed; new proxies get its options"]);
    let refused = refusal(&cluster, &skipping);
    assert!(refused.contains("only a namespace may have it here"), "{refused}");
}

#[test]
fn the_api_servers_trust_in_the_webhooks_is_written_and_nothing_else_of_them() {
    let Some(cluster) = Cluster::get() else { return };
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);
    let configurations = [
        ("mutatingwebhookconfiguration/leno-injector", vec!["/webhooks/0"]),
        ("validatingwebhookconfiguration/leno-validator", vec!["/webhooks/0", "/webhooks/1"]),
    ];
    let encoded = base64(&wait_for_trust_bundle(&cluster, "leno"));
    let wait_for_bundles = || {
        for (configuration, webhooks) in &configurations {
            wait_for("caBundle", PATIENCE, || {
                let found = get(&cluster, &[configuration]);
                let is_written =
                    |webhook: &&str| found.pointer(webhook).expect("it")["clientConfig"]["caBundle"] == encoded;
                webhooks.iter().all(is_written).then_some(())
            });
        }
    };
    wait_for_bundles();
    for (configuration, webhooks) in &configurations {
        let patches: Vec<Value> = webhooks
            .iter()
            .flat_map(|webhook| {
                let remove = json!({ "op": "remove", "path": format!("{webhook}/clientConfig/caBundle") });
                [remove, json!({ "op": "replace", "path": format!("{webhook}/timeoutSeconds"), "value": 7 })]
            })
            .collect();
        cluster.kubectl(&["patch", configuration, "--type=json", "-p", &Value::from(patches).to_string()]);
    }
    wait_for_bundles();
    for (configuration, _) in &configurations {
        assert_eq!(get(&cluster, &[configuration])["webhooks"][0]["timeoutSeconds"], 7);
    }
}

#[test]
fn what_is_no_review_gets_a_clear_answer_and_a_large_one_is_read() {
    let Some(cluster) = Cluster::get() else { return };
    let control = Control::start(&cluster);
    let directory = tempfile::TempDir::new().expect("a directory");
    let anchors = directory.path().join("anchors.pem");
    fs::write(&anchors, wait_for_trust_bundle(&cluster, "leno")).expect("a file");

    let port = control.webhooks().port();
    let ask = |path: &str, more: &[&str]| {
        let arguments = [
            "--silent",
            "--cacert",
            anchors.to_str().expect("text"),
            "--resolve",
            &format!("leno-control.leno.svc:{port}:127.0.0.1"),
            "--write-out",
            "%{http_code}",
            "--header",
            "Content-Type: application/json",
            &format!("https://leno-control.leno.svc:{port}{path}"),
        ];
        run_well("curl", &[&arguments, more].concat(), PATIENCE)
    };
    for (path, more, expected) in [
        ("/nothing", &["--data", "{}"][..], "there is no such webhook; there are /inject and /validate\n404"),
        ("/inject", &[], "webhooks take POST\n405"),
        ("/inject", &["--data", "{}"], "column 2\n400"),
        ("/inject?timeout=5s", &["--data", "{"], "column 1\n400"),
    ] {
        let answer = ask(path, more);
        assert!(answer.ends_with(expected), "{path} {more:?}: {answer}");
    }
    let plain = ["--header", "Content-Type: text/plain", "--data", "{}"];
    let answer = run_well(
        "curl",
        &[
            &["--silent", "--insecure", "--write-out", "%{http_code}"],
            &plain[..],
            &[&format!("https://127.0.0.1:{port}/inject")],
        ]
        .concat(),
        PATIENCE,
    );
    assert_eq!(answer, "send the review as application/json\n415");

    let large = "x".repeat(1 << 20);
    let review = |padding: &str| {
        let object = json!({ "kind": "Pod", "metadata": {}, "spec": { "containers": [] }, "padding": padding });
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": { "uid": "7", "operation": "CREATE", "namespace": "leno", "object": object, "oldObject": object },
        })
    };
    let body = directory.path().join("review.json");
    let data = format!("@{}", body.display());
    fs::write(&body, review(&large).to_string()).expect("a file");
    let answer = ask("/inject", &["--data-binary", &data]);
    assert!(answer.contains("\"uid\":\"7\",\"allowed\":true") && answer.ends_with("200"), "{answer}");
    fs::write(&body, review(&large.repeat(4)).to_string()).expect("a file");
    let answer = ask("/inject", &["--data-binary", &data]);
    assert!(answer.ends_with("send reviews of at most 4194304 bytes\n413"), "{answer}");
    let metrics = control.get("/metrics").expect("the admin listener answers").1;
    assert!(metrics.contains("{webhook=\"inject\",answer=\"error\"} 5\n"), "{metrics}");
}

#[test]
fn the_control_plane_needs_no_more_than_the_chart_allows() {
    let Some(cluster) = Cluster::get() else { return };
    let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    for object in chart_objects(&[]).iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)) {
        cluster.apply(&object.to_string());
    }
    let token = cluster.kubectl(&["-n", "leno", "create", "token", "leno-control"]);
    let view = cluster.kubectl(&["config", "view", "--raw", "--minify", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&view).expect("JSON");
    config["users"][0]["user"] = json!({ "token": token.trim() });
    let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
    fs::write(kubeconfig.path(), config.to_string()).expect("a file");

    cluster.install_backend_traffic_policies();
    let control = Control::start_as(kubeconfig.path());
    control.wait_until_ready();
    let _installed = Installed::new(&cluster, &control);
    cluster.namespace("allowed");
    cluster.apply(&pod("allowed", "app", "leno.dev/inject: enabled"));
    assert_eq!(init_containers(&cluster, "allowed", "app"), ["leno-init", "leno-proxy"]);
    wait_for_trust_bundle(&cluster, "allowed");
    // Check that the control plane's role also allows it to write Events and statuses.
    cluster.apply(&pod("allowed", "refusing", "leno.dev/inject: disabled"));
    cluster.kubectl(&["-n", "allowed", "annotate", "pod", "refusing", "leno.dev/inject=enabled", "--overwrite"]);
    cluster.apply(
        "{apiVersion: leno.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: web, namespace: allowed},
          spec: {allow: [{identities: [ns/allowed/sa/web]}]}}",
    );
    cluster.apply(
        "{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XBackendTrafficPolicy,
          metadata: {name: web, namespace: allowed}, spec: {targetRefs: [{group: '', kind: Service, name: web}]}}",
    );
    wait_for("an Event and a status", PATIENCE, || {
        let event = cluster.kubectl(&["-n", "allowed", "get", "events", "--field-selector=reason=WithoutProxy"]);
        let policy = get(&cluster, &["-n", "allowed", "authorizationpolicy", "web"]);
        let budget = get(&cluster, &["-n", "allowed", "xbackendtrafficpolicy", "web"]);
        let has_statuses = policy["status"]["conditions"][0]["type"] == "Accepted"
            && budget["status"]["ancestors"][0]["conditions"][0]["type"] == "Accepted";
        (event.contains("pod/refusing") && has_statuses).then_some(())
    });
    assert!(!control.log().contains("forbidden"), "{}", control.log());
}

#[test]
fn webhooks_do_not_start_without_what_they_set_proxies_up_with() {
    let Some(cluster) = Cluster::get() else { return };
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = directory.path().join("inject.yaml");
    let run = || {
        let output = Command::new(program("leno-control"))
            .args(["--kubernetes", "--admin=127.0.0.1:0", "--xds=127.0.0.1:0", "--identity-service=127.0.0.1:0"])
            .args(["--webhooks=127.0.0.1:0", "--inject-config"])
            .arg(&path)
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        text(&output)
    };
    let named = format!("--inject-config {}: ", path.display());
    let printed = run();
    assert!(printed.contains(&named) && printed.contains("control.leno.dev/inject.yaml"), "{printed}");
    fs::write(&path, "{proxy: {workers: many}}").expect("a file");
    let printed = run();
    assert!(printed.contains(&named) && printed.contains("\"many\""), "{printed}");
}

fn base64(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("a file");
    run_well("base64", &["--wrap=0", file.path().to_str().expect("text")], PATIENCE)
}
