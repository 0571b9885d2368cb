//! The chart's guard: the API server rejects Pods that should have a proxy and have none, whether or not a control
//! plane runs.

use std::process::{Command, Stdio};

use leno_install::inject::{Asked, Namespace, Options, Outcome, inject};
use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{program, text};
use leno_tests::proxy::wait_for;
use serde_json::{Map, Value, json};

use super::webhooks::{Installed, PATIENCE, chart_objects, get, init_containers, pod};

/// The guard's admission policy in the cluster. Dropping this value removes the policy.
struct Guard<'a>(&'a Cluster);

impl<'a> Guard<'a> {
    fn new(cluster: &'a Cluster, sets: &[&str]) -> Self {
        cluster.namespace("guarded");
        let asks = json!({"metadata": {"annotations": {"leno.dev/inject": "enabled"}}});
        // The API server notices changed policies only once a second, so the guard of an earlier test, which has other
        // settings, may still be in force.
        wait_for("no earlier guard is in force", PATIENCE, || try_pod(cluster, &asks, "guarded").ok());
        let guard = Self(cluster);
        let kinds = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
        for object in chart_objects(sets).iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)) {
            cluster.apply(&object.to_string());
        }
        wait_for("the guard is in force", PATIENCE, || {
            let refused = try_pod(cluster, &asks, "guarded");
            refused.err().is_some_and(|why| why.contains("leno-guard")).then_some(())
        });
        guard
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        for object in ["validatingadmissionpolicybinding/leno-guard", "validatingadmissionpolicy/leno-guard"] {
            self.0.try_kubectl(&["delete", object, "--ignore-not-found"]);
        }
    }
}

/// Checks whether the API server accepts a Pod with these fields, without storing the Pod.
fn try_pod(cluster: &Cluster, template: &Value, namespace: &str) -> Result<(), String> {
    let mut object = template.clone();
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    object["metadata"]["name"] = json!("asked");
    object["metadata"]["namespace"] = json!(namespace);
    if !object["spec"]["containers"].is_array() {
        object["spec"]["containers"] = json!([{"name": "app", "image": "app"}]);
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), object.to_string()).expect("it is written");
    let output = cluster.try_kubectl(&["create", "--dry-run=server", "-f", file.path().to_str().expect("text")]);
    if output.status.success() { Ok(()) } else { Err(text(&output)) }
}

/// Creates five namespaces: one without the annotation `leno.dev/inject`, one for each valid value, and one with an
/// invalid value.
fn namespaces(cluster: &Cluster) -> [(&'static str, Option<&'static str>); 5] {
    let all = [
        ("guarded-not", None),
        ("guarded-yes", Some("enabled")),
        ("guarded-no", Some("disabled")),
        ("guarded-odd", Some("on")),
        ("guarded-grpc", Some("grpc")),
    ];
    for (name, word) in all {
        cluster.namespace(name);
        if let Some(word) = word {
            cluster.kubectl(&["annotate", "namespace", name, "--overwrite", &format!("leno.dev/inject={word}")]);
        }
    }
    all
}

fn annotations(word: Option<&str>) -> Map<String, Value> {
    word.map(|word| ("leno.dev/inject".to_owned(), json!(word))).into_iter().collect()
}

/// Returns whether the injector would leave the Pod without a proxy.
fn is_left_alone(template: &Value, namespace: &str, word: Option<&str>) -> bool {
    let namespace = Namespace { name: namespace.to_owned(), annotations: annotations(word) };
    let decision = inject(template, &namespace, Asked::ByAnnotation, &Options::default());
    decision.is_ok_and(|decision| matches!(decision.outcome, Outcome::Skipped(_)))
}

#[test]
fn the_api_server_refuses_what_the_injector_would_have_given_a_proxy_and_nothing_else() {
    let Some(cluster) = Cluster::get() else { return };
    let _guard = Guard::new(&cluster, &[]);
    let specs = [
        json!({}),
        json!({"hostNetwork": true}),
        json!({"os": {"name": "windows"}}),
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
        json!({"containers": [{"name": "app", "image": "app"}, {"name": "istio-proxy", "image": "i"}]}),
        json!({"initContainers": [{"name": "linkerd-proxy", "image": "i", "restartPolicy": "Always"}]}),
        json!({"initContainers": [{"name": "migrate", "image": "i"}]}),
        json!({"initContainers": [{"name": "leno-init", "image": "i"}, {"name": "leno-proxy", "image": "i"}]}),
        json!({"initContainers": [{"name": "leno-grpc", "image": "i"}]}),
    ];
    for (namespace, word) in namespaces(&cluster) {
        for (own, spec) in [None, Some("enabled"), Some("disabled"), Some(" disabled "), Some(""), Some("grpc")]
            .into_iter()
            .flat_map(|own| specs.iter().map(move |spec| (own, spec)))
        {
            let template = json!({"metadata": {"annotations": annotations(own)}, "spec": spec});
            let has_proxy = spec["initContainers"][0]["name"] == "leno-init";
            let is_for_grpc = own.or(word) == Some("grpc");
            let has_identity = is_for_grpc && spec["initContainers"][0]["name"] == "leno-grpc";
            let expected = has_proxy || has_identity || is_left_alone(&template, namespace, word);
            let taken = try_pod(&cluster, &template, namespace);
            assert_eq!(taken.is_ok(), expected, "{own:?} {spec} in {word:?}: {taken:?}");
        }
    }
    let annotations = json!({"kubernetes.io/config.mirror": "7"});
    let mirror = json!({"metadata": {"annotations": annotations}, "spec": {"nodeName": "node-1"}});
    assert_eq!(try_pod(&cluster, &mirror, "guarded-yes"), Ok(()), "its kubelet runs it anyway");
    let refused = try_pod(&cluster, &json!({"metadata": {}}), "guarded-yes").expect_err("it has no proxy");
    assert!(refused.contains("Type leno check to see why"), "{refused}");
}

#[test]
fn where_only_namespaces_decide_nothing_runs_in_a_meshed_one_without_a_proxy() {
    let Some(cluster) = Cluster::get() else { return };
    let _guard = Guard::new(&cluster, &["webhook.namespaceOnly=[leno.dev/inject]"]);
    namespaces(&cluster);
    let disabled = json!({"metadata": {"annotations": {"leno.dev/inject": "disabled"}}});
    let host = json!({"metadata": {}, "spec": {"hostNetwork": true}});
    let other = json!({"metadata": {}, "spec": {"containers": [{"name": "istio-proxy", "image": "i"}]}});
    for template in [disabled, host, other] {
        assert!(try_pod(&cluster, &template, "guarded-yes").is_err(), "{template}");
        assert_eq!(try_pod(&cluster, &template, "guarded-not"), Ok(()), "{template}");
    }
}

#[test]
fn where_only_namespaces_choose_the_proxys_image_no_user_changes_it_in_a_running_pod() {
    let Some(cluster) = Cluster::get() else { return };
    let _guard = Guard::new(&cluster, &["webhook.namespaceOnly=[leno.dev/proxy-image]"]);
    cluster.namespace("guarded-image");
    cluster.kubectl(&["annotate", "namespace", "guarded-image", "--overwrite", "leno.dev/inject=enabled"]);
    let init_containers = json!([{"name": "leno-init", "image": "i"}, {"name": "leno-proxy", "image": "i"}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "namespace": "guarded-image"},
        "spec": {"initContainers": init_containers, "containers": [{"name": "app", "image": "app"}]},
    });
    cluster.apply(&pod.to_string());
    let change = |container: &str| {
        let image = format!("{container}=mine");
        cluster.try_kubectl(&["-n", "guarded-image", "set", "image", "pod/own", &image])
    };
    for container in ["leno-init", "leno-proxy"] {
        let refused = change(container);
        let why = text(&refused);
        assert!(
            !refused.status.success() && why.contains("the image of the proxy in a running Pod cannot change"),
            "{why}"
        );
    }
    let changed = change("app");
    assert!(changed.status.success(), "{}", text(&changed));
    // A webhook that rewrites images must not keep controllers from removing the finalizers of an ended Pod.
    let status = ["--subresource=status", "--type=merge", "-p", r#"{"status": {"phase": "Succeeded"}}"#];
    cluster.kubectl(&[&["-n", "guarded-image", "patch", "pod", "own"], &status[..]].concat());
    let changed = change("leno-proxy");
    assert!(changed.status.success(), "{}", text(&changed));
    cluster.kubectl(&["-n", "guarded-image", "delete", "pod", "own", "--force", "--grace-period=0"]);
}

fn deployment(namespace: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: {namespace}}}, spec: {{
            replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}},
            spec: {{containers: [{{name: app, image: app}}]}}}}}}}}"
    )
}

const STATEFUL_SET: &str = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: closed}, spec: {
    serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}},
    spec: {containers: [{name: app, image: app}]}}}}";

fn pods(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let names = cluster.kubectl(&["-n", namespace, "get", "pods", "-o", "name"]);
    names.lines().map(|name| name.trim_start_matches("pod/").to_owned()).collect()
}

/// Returns the output of `leno check`, even if a check fails.
fn check(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut command = Command::new(program("leno"));
    command.arg("check").args(arguments).env("KUBECONFIG", cluster.kubeconfig()).stdin(Stdio::null());
    text(&command.output().expect("leno runs"))
}

#[test]
fn without_a_control_plane_meshed_namespaces_get_no_pod_and_others_do() {
    let Some(cluster) = Cluster::get() else { return };
    for namespace in ["closed", "open"] {
        cluster.namespace(namespace);
    }
    cluster.kubectl(&["annotate", "namespace", "closed", "leno.dev/inject=enabled", "--overwrite"]);
    // Create the guard before the webhook, because `Guard::new` waits until the guard rejects a Pod. Once the webhook
    // is in force, every Pod gets a proxy, and the guard rejects no Pod.
    let guard = Guard::new(&cluster, &[]);
    let control = Control::start(&cluster);
    let installed = Installed::with_failure_policy(&cluster, &control, "Ignore");
    drop(control);

    for namespace in ["closed", "open"] {
        cluster.apply(&deployment(namespace));
    }
    cluster.apply(STATEFUL_SET);
    wait_for("the other namespace has its Pods", PATIENCE, || (pods(&cluster, "open").len() == 2).then_some(()));
    wait_for("the refusal is an Event", PATIENCE, || {
        let events = cluster.kubectl(&["-n", "closed", "get", "events", "--field-selector=reason=FailedCreate"]);
        let is_told = ["replicaset/web-", "statefulset/db", "leno-guard"].iter().all(|words| events.contains(words));
        is_told.then_some(())
    });
    assert_eq!(pods(&cluster, "closed"), [""; 0]);
    let told = check(&cluster, &["--proxy"]);
    assert!(told.contains("ValidatingAdmissionPolicy leno-guard refuses Pods of meshed namespaces"), "{told}");
    assert!(told.contains("kubectl delete validatingadmissionpolicybinding leno-guard"), "{told}");
    assert!(told.contains("Pods of deployment closed/web are refused: pods "), "{told}");
    assert!(told.contains("Pods of statefulset closed/db are refused: pods "), "{told}");
    cluster.kubectl(&["-n", "closed", "delete", "statefulset", "db"]);

    drop(installed);
    let control = Control::start(&cluster);
    let _installed = Installed::with_failure_policy(&cluster, &control, "Ignore");
    cluster.kubectl(&["-n", "closed", "rollout", "restart", "deployment/web"]);
    let made = wait_for("the Pods come", PATIENCE, || Some(pods(&cluster, "closed")).filter(|all| all.len() >= 2));
    for name in made {
        assert_eq!(init_containers(&cluster, "closed", &name), ["leno-init", "leno-proxy"]);
    }

    // If no control plane runs, it must suffice to delete the guard's objects: then Pods start without a proxy.
    drop(guard);
    drop(control);
    wait_for("a Pod starts without a proxy", PATIENCE, || {
        cluster.try_apply(&pod("closed", "bare", "")).status.success().then_some(())
    });
    for namespace in ["closed", "open"] {
        cluster.kubectl(&["-n", namespace, "delete", "deployment", "web"]);
    }
}

#[test]
fn a_pod_without_a_proxy_in_a_meshed_namespace_is_an_event_a_number_and_a_finding() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("noticed");
    cluster.apply(&pod("noticed", "older", ""));
    let control = Control::start(&cluster);
    let _installed = Installed::with_failure_policy(&cluster, &control, "Ignore");
    let number = |expected: &str| {
        let line = format!("leno_control_unmeshed_pods{{namespace=\"noticed\"}} {expected}\n");
        control
            .wait_until("the Pod is counted", |_| control.get("/metrics").is_ok_and(|(_, page)| page.contains(&line)));
    };
    cluster.apply(&pod("noticed", "disabled", "leno.dev/inject: disabled"));
    next_second();
    cluster.kubectl(&["annotate", "namespace", "noticed", "leno.dev/inject=enabled"]);
    number("1");
    wait_for("the Event", PATIENCE, || {
        let events = get(&cluster, &["-n", "noticed", "events", "--field-selector=reason=WithoutProxy"]);
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let [event] = &events[..] else { return None };
        (event["involvedObject"]["name"] == "older" && event["type"] == "Warning").then_some(())
    });
    control.wait_for_log(&["Pods of namespace noticed that run without the proxy", ": 1"]);
    let told = check(&cluster, &["--proxy", "-n", "noticed"]);
    assert!(told.contains("noticed/older has none: it was created at "), "{told}");

    drop(control);
    next_second();
    cluster.apply(&pod("noticed", "away", ""));
    let told = check(&cluster, &["--proxy", "-n", "noticed"]);
    let away = told.lines().find(|line| line.contains("noticed/away has none")).unwrap_or_default();
    assert!(away.contains("the webhook leno-injector was not asked or did not answer"), "{told}");
    let control = Control::start(&cluster);
    cluster.kubectl(&["-n", "noticed", "delete", "pod", "older", "away", "--force", "--grace-period=0"]);
    let line = "leno_control_unmeshed_pods{namespace=\"noticed\"} 0\n";
    control.wait_until("both are gone", |_| control.get("/metrics").is_ok_and(|(_, page)| page.contains(line)));
}

/// Waits for more than a second, so that new objects have a later timestamp than existing objects: timestamps are whole
/// seconds.
fn next_second() {
    std::thread::sleep(std::time::Duration::from_millis(1_100));
}
