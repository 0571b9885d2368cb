use serde_json::{Map, Value, json};

use super::super::{Asked, Decision, Namespace, Options, Outcome, Skipped, inject, uninject};
use super::{Obstacle, unreplaced};
use crate::annotations::{INJECT, PROXY_IMAGE, PROXY_VERSION};
use crate::patch::apply;

/// A Pod whose container `web` has these probes, and the port 8080 with the name `http`.
fn pod(probes: &Value) -> Value {
    let mut web = json!({"name": "web", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}]});
    for (field, probe) in probes.as_object().expect("probes") {
        web[field] = probe.clone();
    }
    json!({"metadata": {}, "spec": {"containers": [web]}})
}

fn decide(pod: &Value, asked: Asked) -> Decision {
    let annotations = Map::from_iter([(INJECT.to_owned(), json!("enabled"))]);
    inject(pod, &Namespace { name: "shop".to_owned(), annotations }, asked, &Options::default()).expect("no mistakes")
}

/// Injects the proxy; returns the Pod and the warnings.
fn injected(pod: &Value, asked: Asked) -> (Value, Vec<String>) {
    let Decision { outcome, warnings } = decide(pod, asked);
    let Outcome::Injected { patch, .. } = outcome else { panic!("{outcome:?}") };
    let mut injected = pod.clone();
    apply(&mut injected, &patch).expect("it fits");
    (injected, warnings)
}

/// The TCP probes in the arguments of the Pod's proxy.
fn told(pod: &Value) -> Vec<&str> {
    let args = pod["spec"]["initContainers"][1]["args"].as_array().expect("arguments");
    args.iter().filter_map(|argument| argument.as_str()?.strip_prefix("--tcp-probe=")).collect()
}

#[test]
fn a_tcp_probe_becomes_a_request_of_a_page_of_the_proxy() {
    let pod = pod(&json!({
        "startupProbe": {"tcpSocket": {"port": "http"}, "failureThreshold": 30},
        "readinessProbe": {"tcpSocket": {"port": 8080, "host": ""}, "timeoutSeconds": 3},
        "livenessProbe": {"tcpSocket": {"port": 9090}, "timeoutSeconds": 60},
    }));
    let (injected, warnings) = injected(&pod, Asked::ByName);
    let web = &injected["spec"]["containers"][0];
    let page = |path: &str| json!({"path": path, "port": 4191});
    let startup = json!({"httpGet": page("/probe/tcp/8080?name=http"), "failureThreshold": 30});
    assert_eq!(web["startupProbe"], startup);
    assert_eq!(web["readinessProbe"], json!({"httpGet": page("/probe/tcp/8080"), "timeoutSeconds": 3}));
    assert_eq!(web["livenessProbe"], json!({"httpGet": page("/probe/tcp/9090"), "timeoutSeconds": 60}));
    assert_eq!(told(&injected), ["8080/3s", "9090/10s"]);
    assert_eq!(warnings, [""; 0]);
    assert!(!injected.to_string().contains("--probe="), "the pages of the proxy are no pages of the application");
}

#[test]
fn the_page_is_on_the_admin_port_that_an_annotation_sets() {
    let mut pod = pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}}));
    pod["metadata"]["annotations"] = json!({"leno.dev/proxy-admin-port": "9191"});
    let (mut injected_once, _) = injected(&pod, Asked::ByName);
    assert_eq!(injected_once["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"], 9191);
    // A later injection with another port finds the probe, and moves it.
    injected_once["metadata"]["annotations"] = json!({"leno.dev/proxy-admin-port": "9292"});
    let (moved, _) = injected(&injected_once, Asked::ByName);
    let expected = json!({"httpGet": {"path": "/probe/tcp/8080", "port": 9292}});
    assert_eq!(moved["spec"]["containers"][0]["livenessProbe"], expected);
    assert_eq!(told(&moved), ["8080/1s"]);
}

#[test]
fn probes_of_the_applications_sidecars_are_replaced_too_and_restored() {
    let mut pod = pod(&json!({"livenessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 3}}));
    let probe = json!({"tcpSocket": {"port": 7000}});
    pod["spec"]["initContainers"] = json!([{"name": "logs", "restartPolicy": "Always", "startupProbe": probe}]);
    let (injected, _) = injected(&pod, Asked::ByName);
    assert_eq!(injected["spec"]["initContainers"][2]["startupProbe"]["httpGet"]["path"], "/probe/tcp/7000");
    assert_eq!(told(&injected), ["7000/1s", "8080/1s"]);
    assert_eq!(decide(&injected, Asked::ByName).outcome, Outcome::Skipped(Skipped::Unchanged));
    // The API server adds the default scheme.
    let mut back = injected.clone();
    back["spec"]["containers"][0]["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    let removal = uninject(&back);
    apply(&mut back, &removal).expect("it fits");
    assert_eq!(back["spec"], pod["spec"]);
}

#[test]
fn a_probe_that_does_not_pass_the_proxy_stays_as_it_is() {
    let mut pod = pod(&json!({"livenessProbe": {"tcpSocket": {"port": "http"}}}));
    pod["metadata"]["annotations"] = json!({"leno.dev/skip-inbound-ports": "8000-8999"});
    let (skipping, _) = injected(&pod, Asked::ByName);
    assert_eq!(skipping["spec"]["containers"], pod["spec"]["containers"]);
    pod["metadata"]["annotations"] = json!({"leno.dev/inject": "grpc"});
    let (for_grpc, _) = injected(&pod, Asked::ByName);
    assert_eq!(for_grpc["spec"]["containers"][0]["livenessProbe"], pod["spec"]["containers"][0]["livenessProbe"]);
}

#[test]
fn a_proxy_that_gives_way_to_an_identity_takes_its_pages_with_it() {
    let pod = pod(&json!({"livenessProbe": {"tcpSocket": {"port": "http"}}}));
    let (mut injected_once, _) = injected(&pod, Asked::ByName);
    injected_once["metadata"]["annotations"] = json!({"leno.dev/inject": "grpc"});
    let (for_grpc, _) = injected(&injected_once, Asked::ByName);
    assert_eq!(for_grpc["spec"]["containers"][0]["livenessProbe"], pod["spec"]["containers"][0]["livenessProbe"]);
}

#[test]
fn a_probe_that_cannot_be_replaced_is_told() {
    let warning = |tcp: Value| {
        let pod = pod(&json!({"livenessProbe": {"tcpSocket": tcp}}));
        let (injected, mut warnings) = injected(&pod, Asked::ByName);
        assert_eq!(injected["spec"]["containers"], pod["spec"]["containers"]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings.remove(0)
    };
    let host = warning(json!({"port": 8080, "host": "10.0.0.9"}));
    assert!(host.starts_with("the livenessProbe of container web names the host \"10.0.0.9\""), "{host}");
    let expected = "the livenessProbe of container web is not replaced: the container does not have its port; write the \
                    port's number";
    assert_eq!(warning(json!({"port": "grpc"})), expected);
}

#[test]
fn a_probe_of_a_container_that_a_later_webhook_adds_is_replaced() {
    let (mut stored, _) = injected(&pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}})), Asked::ByAnnotation);
    stored["spec"]["containers"][0]["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    assert_eq!(decide(&stored, Asked::ByAnnotation).outcome, Outcome::Skipped(Skipped::HasProxy));
    let agent = json!({"name": "agent", "image": "agent", "readinessProbe": {"tcpSocket": {"port": 9000}}});
    stored["spec"]["containers"].as_array_mut().expect("a list").push(agent);
    let (again, warnings) = injected(&stored, Asked::ByAnnotation);
    let expected = json!({"httpGet": {"path": "/probe/tcp/9000", "port": 4191}});
    assert_eq!(again["spec"]["containers"][1]["readinessProbe"], expected);
    assert_eq!(again["spec"]["containers"][0], stored["spec"]["containers"][0]);
    assert_eq!(told(&again), ["8080/1s", "9000/1s"]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn beside_a_proxy_of_another_version_a_probe_stays_and_its_author_is_warned() {
    let (mut stored, _) = injected(&pod(&json!({})), Asked::ByAnnotation);
    stored["spec"]["initContainers"][1]["image"] = json!("leno-proxy:0.0.1");
    stored["spec"]["containers"][0]["livenessProbe"] = json!({"tcpSocket": {"port": 8080}});
    let Decision { outcome, warnings } = decide(&stored, Asked::ByAnnotation);
    assert_eq!(outcome, Outcome::Skipped(Skipped::HasProxy));
    let expected = "the livenessProbe of container web reaches only the proxy and always succeeds";
    assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
}

#[test]
fn a_proxy_of_another_version_gets_no_option_that_it_may_not_know() {
    let plain = pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}}));
    for (annotation, value, image) in [
        (PROXY_VERSION, "0.0.1", "leno-proxy:0.0.1".to_owned()),
        (PROXY_IMAGE, "mine/proxy", format!("mine/proxy:{}", env!("CARGO_PKG_VERSION"))),
    ] {
        let mut pod = plain.clone();
        pod["metadata"]["annotations"] = json!({annotation: value});
        for asked in [Asked::ByName, Asked::ByAnnotation] {
            let (injected, warnings) = injected(&pod, asked);
            assert_eq!(injected["spec"]["containers"], pod["spec"]["containers"], "{asked:?}");
            assert_eq!(told(&injected), [""; 0], "{asked:?}");
            let why = format!("because the Pod's proxy has the image {image}, which may not support TCP probes");
            assert!(warnings.len() == 1 && warnings[0].contains(&why), "{warnings:?}");
        }
        // A later injection by name restores a probe that was replaced before.
        let (mut stored, _) = injected(&plain, Asked::ByName);
        stored["metadata"]["annotations"] = json!({annotation: value});
        let (again, _) = injected(&stored, Asked::ByName);
        assert_eq!(again["spec"]["containers"], plain["spec"]["containers"]);
    }
    let mut same = plain.clone();
    let version = format!("{}@sha256:0123", env!("CARGO_PKG_VERSION"));
    same["metadata"]["annotations"] = json!({PROXY_VERSION: version});
    assert_eq!(told(&injected(&same, Asked::ByAnnotation).0), ["8080/1s"]);
}

#[test]
fn the_version_that_leno_inject_gives_the_proxy_may_be_another_than_its_own() {
    let pod = pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}}));
    let replaces = |version: &str, image: &str| {
        let mut options = Options { injector_version: Some("0.1.0".to_owned()), ..Options::default() };
        options.proxy.version = version.to_owned();
        options.proxy.image = image.to_owned();
        let decision = inject(&pod, &Namespace::default(), Asked::ByName, &options).expect("no mistakes");
        let Outcome::Injected { patch, .. } = decision.outcome else { panic!("it is injected") };
        let mut injected = pod.clone();
        apply(&mut injected, &patch).expect("it fits");
        let is_replaced = injected["spec"]["containers"] != pod["spec"]["containers"];
        assert_eq!(decision.warnings.is_empty(), is_replaced, "{:?}", decision.warnings);
        is_replaced
    };
    assert!(!replaces("0.0.9", "leno-proxy"));
    // The image is the one of the installation, whose registry `leno inject` does not know.
    assert!(replaces("0.1.0", "registry.example/leno-proxy"));
}

#[test]
fn a_proxy_that_has_pages_for_probes_keeps_them() {
    // The injector of version 0.0.9 made this Pod, and an annotation pins that version.
    let mut older = Options::default();
    older.proxy.version = "0.0.9".to_owned();
    let by_older = |pod: &Value| {
        let decision = inject(pod, &Namespace::default(), Asked::ByName, &older).expect("no mistakes");
        let Outcome::Injected { patch, .. } = decision.outcome else { panic!("it is injected") };
        let mut injected = pod.clone();
        apply(&mut injected, &patch).expect("it fits");
        injected
    };
    let mut stored = by_older(&pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}})));
    assert_eq!(told(&stored), ["8080/1s"]);
    stored["metadata"]["annotations"] = json!({PROXY_VERSION: "0.0.9"});
    // The API server adds the default scheme.
    stored["spec"]["containers"][0]["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
    assert_eq!(decide(&stored, Asked::ByAnnotation).outcome, Outcome::Skipped(Skipped::HasProxy));
}

#[test]
fn the_tcp_probes_of_a_running_pod_are_told_with_what_keeps_them() {
    let (mut stored, _) = injected(&pod(&json!({"livenessProbe": {"tcpSocket": {"port": 8080}}})), Asked::ByName);
    assert_eq!(unreplaced(&stored, &Default::default()), []);
    stored["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
    stored["spec"]["containers"][0]["startupProbe"] = json!({"tcpSocket": {"port": "grpc"}});
    let found = unreplaced(&stored, &Default::default());
    let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.obstacle.as_ref())).collect();
    let expected =
        [("readinessProbe of container web", None), ("startupProbe of container web", Some(&Obstacle::Port))];
    assert_eq!(found, expected);
}
