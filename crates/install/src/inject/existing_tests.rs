use serde_json::Map;

use super::super::{Asked, Decision, Namespace, inject};
use super::*;
use crate::annotations::{DEFAULT_INBOUND_POLICY, INJECT, PROXY_VERSION, PROXY_WORKERS, SKIP_INBOUND_PORTS};

const PROTECTING: [&str; 3] = [INJECT, SKIP_INBOUND_PORTS, DEFAULT_INBOUND_POLICY];

fn options(reserved: &[&str]) -> Options {
    Options { namespace_only: reserved.iter().map(|name| (*name).to_owned()).collect(), ..Options::default() }
}

fn plain() -> Value {
    json!({"metadata": {}, "spec": {"containers": [{"name": "web", "image": "web"}]}})
}

/// Runs the injector for a Pod in a meshed namespace, as a webhook request of the API server does.
fn decide(pod: &Value, options: &Options) -> Result<Decision, String> {
    let annotations = Map::from_iter([(INJECT.to_owned(), json!("enabled"))]);
    let namespace = Namespace { name: "shop".to_owned(), annotations };
    inject(pod, &namespace, Asked::ByAnnotation, options)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn patched(pod: &Value, options: &Options) -> Value {
    let decision = decide(pod, options).expect("no mistakes");
    let Outcome::Injected { patch, .. } = decision.outcome else { panic!("{decision:?}") };
    let mut patched = pod.clone();
    apply(&mut patched, &patch).expect("it fits");
    patched
}

/// A Pod with its proxy, after the API server and other webhooks have added their fields to each container.
fn stored() -> Value {
    let mut pod = patched(&plain(), &Options::default());
    for container in pod["spec"]["initContainers"].as_array_mut().expect("a list") {
        container["terminationMessagePath"] = json!("/dev/termination-log");
        container["resources"]["limits"]["cpu"] = json!("1");
        let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
        let token = json!({"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
        container["volumeMounts"] = mounts.into_iter().chain([token]).collect();
    }
    pod["spec"]["volumes"][0]["projected"]["defaultMode"] = json!(420);
    pod
}

fn init(pod: &mut Value) -> &mut Value {
    &mut pod["spec"]["initContainers"][0]
}

fn proxy(pod: &mut Value) -> &mut Value {
    &mut pod["spec"]["initContainers"][1]
}

fn args(container: &mut Value) -> &mut Vec<Value> {
    container["args"].as_array_mut().expect("arguments")
}

fn mounts(container: &mut Value) -> &mut Vec<Value> {
    container["volumeMounts"].as_array_mut().expect("a list")
}

fn mount(container: &mut Value, path: &str) {
    mounts(container).push(json!({"name": "programs", "mountPath": path}));
}

fn identity(pod: &mut Value) -> &mut Value {
    &mut pod["spec"]["volumes"][0]
}

#[test]
fn a_proxy_with_the_fields_that_an_api_server_adds_is_still_ours() {
    for reserved in [&[][..], &PROTECTING] {
        let decision = decide(&stored(), &options(reserved)).expect("it is ours");
        assert_eq!(decision.outcome, Outcome::Skipped(Skipped::HasProxy));
    }
}

#[test]
fn a_container_that_a_later_webhook_adds_gets_its_probes() {
    for reserved in [&[][..], &PROTECTING] {
        let mut pod = stored();
        let probe = json!({"httpGet": {"path": "/healthz", "port": 9000}});
        let agent = json!({"name": "agent", "image": "agent", "livenessProbe": probe});
        pod["spec"]["containers"].as_array_mut().expect("a list").push(agent);
        let mut changed = patched(&pod, &options(reserved));
        assert!(args(proxy(&mut changed)).contains(&json!("--probe=9000/healthz")), "{changed:#}");
        let again = decide(&changed, &options(reserved)).expect("no mistakes");
        assert_eq!(again.outcome, Outcome::Skipped(Skipped::HasProxy));
        // Nothing else changes: the fields that the API server and other webhooks have added stay as they are.
        args(proxy(&mut changed)).retain(|argument| argument != "--probe=9000/healthz");
        assert_eq!(changed, pod);
    }
}

#[test]
fn a_proxy_of_another_version_gets_missing_probes_and_nothing_else() {
    let mut pod = stored();
    proxy(&mut pod)["image"] = json!("leno-proxy:0.0.1");
    args(proxy(&mut pod)).extend([json!("--probe=8080/by-hand"), json!("--old-option=1")]);
    let probe = json!({"grpc": {"port": 9000}});
    let agent = json!({"name": "agent", "image": "agent", "readinessProbe": probe});
    pod["spec"]["containers"].as_array_mut().expect("a list").push(agent);
    assert!(decide(&pod, &options(&PROTECTING)).is_err());
    let mut changed = patched(&pod, &options(&[]));
    let again = decide(&changed, &options(&[])).expect("no mistakes");
    assert_eq!(again.outcome, Outcome::Skipped(Skipped::HasProxy));
    assert_eq!(args(proxy(&mut changed)).pop(), Some(json!("--probe=9000/grpc.health.v1.Health/Check")));
    assert_eq!(changed, pod);
    // A container of this name with another command may not have the option.
    proxy(&mut pod)["command"] = json!(["/other"]);
    let decision = decide(&pod, &options(&[])).expect("no mistakes");
    assert_eq!(decision.outcome, Outcome::Skipped(Skipped::HasProxy));
}

#[test]
fn a_probe_that_no_container_has_is_not_allowed() {
    let mut pod = stored();
    args(proxy(&mut pod)).push(json!("--probe=8080/orders"));
    assert_eq!(patched(&pod, &options(&PROTECTING)), stored());
}

#[test]
fn containers_that_a_user_wrote_cannot_evade_what_is_reserved() {
    type Change = fn(&mut Value);
    let evasions: [(&str, Change); 29] = [
        ("leno-proxy has another command", |pod| {
            proxy(pod)["command"] = json!(["/leno-proxy", "supervise", "--probe=8080/orders"]);
        }),
        ("leno-init has the mount \"/leno-init\"", |pod| mount(init(pod), "/leno-init")),
        ("leno-proxy has the mount \"//leno-proxy/\"", |pod| mount(proxy(pod), "//leno-proxy/")),
        ("leno-proxy has the mount \"/\"", |pod| mount(proxy(pod), "/")),
        ("leno-init has the mount \"/tmp/../leno-init\"", |pod| mount(init(pod), "/tmp/../leno-init")),
        ("leno-init has the mount \"leno-init\"", |pod| mount(init(pod), "leno-init")),
        ("leno-proxy has the mount \"/tmp/link/a\" within the mount \"/tmp\"", |pod| {
            mount(proxy(pod), "/tmp");
            mount(proxy(pod), "/tmp/link/a");
        }),
        ("volume leno-identity has other sources", |pod| {
            let name = identity(pod)["name"].clone();
            *identity(pod) = json!({"name": name, "configMap": {"name": "mine"}});
        }),
        ("volume leno-identity has other sources", |pod| {
            identity(pod)["projected"]["sources"][1]["configMap"]["name"] = json!("mine");
        }),
        ("volume leno-identity has other sources", |pod| {
            let mine = json!({"secret": {"name": "mine", "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
            identity(pod)["projected"]["sources"].as_array_mut().expect("a list").push(mine);
        }),
        ("leno-proxy has the mount \"/var/run/secrets/leno.dev\"", |pod| {
            mounts(proxy(pod))[0]["name"] = json!("programs");
        }),
        ("leno-proxy has the mount \"/var/run/secrets/leno.dev\"", |pod| {
            mounts(proxy(pod))[0]["subPath"] = json!("mine");
        }),
        ("leno-proxy has the mount \"/var/run/secrets/x/../leno.dev/ca.crt\"", |pod| {
            mount(proxy(pod), "/var/run/secrets/x/../leno.dev/ca.crt");
        }),
        ("leno-proxy has the mount \"/var/run/\"", |pod| mount(proxy(pod), "/var/run/")),
        ("leno-proxy has no mount at /var/run/secrets/leno.dev", |pod| drop(mounts(proxy(pod)).remove(0))),
        ("leno-init has other hooks", |pod| {
            init(pod)["lifecycle"] =
                json!({"postStart": {"exec": {"command": ["/leno-init", "--skip-inbound-ports=1"]}}});
        }),
        ("leno-init has another restartPolicy", |pod| init(pod)["restartPolicy"] = json!("Always")),
        ("leno-proxy has other hooks", |pod| drop(proxy(pod).as_object_mut().map(|fields| fields.remove("lifecycle")))),
        ("leno-init has other arguments", |pod| args(init(pod)).push(json!("--skip-inbound-ports=1-65535"))),
        ("leno-init has other arguments", |pod| {
            args(init(pod)).extend([json!("--skip-inbound-ports"), json!("1-65535")]);
        }),
        ("leno-init has other arguments", |pod| args(init(pod))[3] = json!("--admin-port=8080")),
        ("leno-init has other arguments", |pod| args(init(pod)).push(json!(7))),
        ("leno-init has another command", |pod| {
            init(pod)["command"] = json!(["/leno-init", "--skip-inbound-ports=1-65535"]);
        }),
        ("leno-init has the image \"busybox\"", |pod| init(pod)["image"] = json!("busybox")),
        ("leno-init has the image \"leno-proxy:0.0.1\"", |pod| init(pod)["image"] = json!("leno-proxy:0.0.1")),
        ("no init container leno-init", |pod| {
            drop(pod["spec"]["initContainers"].as_array_mut().map(|all| all.remove(0)));
        }),
        ("leno-proxy has other arguments", |pod| args(proxy(pod)).push(json!("--default-inbound-policy=audit"))),
        ("leno-proxy has other arguments", |pod| args(proxy(pod)).extend([json!("--probe"), json!("8080/orders")])),
        ("leno-proxy has another command", |pod| proxy(pod)["command"] = json!(["/leno-proxy"])),
    ];
    for (expected, change) in evasions {
        let mut pod = stored();
        change(&mut pod);
        for reserved in PROTECTING {
            let refused = decide(&pod, &options(&[reserved, PROXY_WORKERS])).expect_err(expected);
            assert!(refused.contains(expected), "{refused}");
            assert!(
                refused.ends_with(&format!(
                    "; remove leno-init and leno-proxy from the Pod, so that the injector adds its own: \
                     webhook.namespaceOnly lists {reserved}"
                )),
                "{refused}"
            );
        }
        // PROXY_WORKERS protects nothing. If only such annotations are reserved for namespaces, the injector keeps a
        // Pod's own proxy containers.
        let decision = decide(&pod, &options(&[PROXY_WORKERS])).expect("nothing that protects is reserved");
        assert_eq!(decision.outcome, Outcome::Skipped(Skipped::HasProxy), "{expected}");
    }
}

/// The names of a Pod's init containers.
fn init_names(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["initContainers"].as_array().expect("a list");
    containers.iter().map(|container| container["name"].as_str().expect("a name")).collect()
}

#[test]
fn no_init_container_runs_before_the_redirection() {
    for reserved in [&[][..], &PROTECTING] {
        let mut pod = stored();
        let own = pod["spec"]["initContainers"].clone();
        let probe = json!({"tcpSocket": {"port": 9000}});
        let server = json!({"name": "server", "image": "web", "restartPolicy": "Always", "livenessProbe": probe});
        let wait = json!({"name": "wait", "image": "web"});
        let mut containers = vec![server, wait.clone()];
        containers.extend(own.as_array().expect("a list").iter().cloned());
        pod["spec"]["initContainers"] = json!(containers);

        let changed = patched(&pod, &options(reserved));
        assert_eq!(init_names(&changed), ["leno-init", "leno-proxy", "server", "wait"]);
        let containers = &changed["spec"]["initContainers"];
        assert_eq!((&containers[0], &containers[3]), (&own[0], &wait), "no other field changes");
        assert_eq!(containers[1]["resources"], own[1]["resources"]);
        // The other corrections hold too, although they change the places that the containers had before.
        assert!(containers[1]["args"].as_array().expect("arguments").contains(&json!("--tcp-probe=9000/1s")));
        assert_eq!(containers[2]["livenessProbe"]["httpGet"]["path"], "/probe/tcp/9000");
        let again = decide(&changed, &options(reserved)).expect("no mistakes");
        assert_eq!(again.outcome, Outcome::Skipped(Skipped::HasProxy));
    }
    // The order of our two containers counts too.
    let mut pod = stored();
    pod["spec"]["initContainers"].as_array_mut().expect("a list").reverse();
    assert_eq!(patched(&pod, &options(&PROTECTING)), stored());
    // Containers of another version stay where they are.
    let wait = json!({"name": "wait", "image": "web"});
    pod["spec"]["initContainers"].as_array_mut().expect("a list").insert(0, wait);
    pod["spec"]["initContainers"][1]["image"] = json!("leno-proxy:0.0.1");
    let decision = decide(&pod, &options(&[])).expect("nothing that protects is reserved");
    assert_eq!(decision.outcome, Outcome::Skipped(Skipped::HasProxy));
}

#[test]
fn a_copy_without_labels_gets_the_label_of_injected_pods() {
    let changes: [fn(&mut Value); 2] = [|_| {}, |pod| proxy(pod)["image"] = json!("leno-proxy:0.0.1")];
    for change in changes {
        let mut pod = stored();
        change(&mut pod);
        let mut copy = pod.clone();
        copy["metadata"].as_object_mut().expect("metadata").remove("labels");
        assert_eq!(patched(&copy, &options(&[])), pod);
        copy["metadata"]["labels"] = json!({"leno.dev/injected": "grpc", "app": "web"});
        let changed = patched(&copy, &options(&[]));
        assert_eq!(changed["metadata"]["labels"], json!({"leno.dev/injected": "true", "app": "web"}));
    }
    let mut pod = plain();
    pod["metadata"]["annotations"] = json!({INJECT: "grpc"});
    let pod = patched(&pod, &options(&[]));
    let mut copy = pod.clone();
    copy["metadata"].as_object_mut().expect("metadata").remove("labels");
    assert_eq!(patched(&copy, &options(&[])), pod);
    // The label names the containers that the Pod has, not those that its annotation asks for.
    let mut pod = stored();
    pod["metadata"]["annotations"] = json!({INJECT: "grpc"});
    let decision = decide(&pod, &options(&[])).expect("no mistakes");
    assert_eq!(decision.outcome, Outcome::Skipped(Skipped::HasProxy));
    let mut copy = pod.clone();
    copy["metadata"].as_object_mut().expect("metadata").remove("labels");
    assert_eq!(patched(&copy, &options(&[])), pod);
}

#[test]
fn a_proxy_may_differ_from_others_by_the_pods_annotations_and_by_a_digest() {
    let mut pod = stored();
    for container in pod["spec"]["initContainers"].as_array_mut().expect("a list") {
        container["image"] = json!("leno-proxy:0.0.1@sha256:0123");
    }
    assert!(decide(&pod, &options(&PROTECTING)).is_err());
    pod["metadata"]["annotations"] = json!({PROXY_VERSION: "0.0.1"});
    assert!(decide(&pod, &options(&PROTECTING)).is_ok());
    assert!(decide(&pod, &options(&[INJECT, PROXY_VERSION])).is_err());
}
