use serde_json::{Value, json};

use super::super::{Asked, InboundPorts, Namespace, Options, Outcome, inject};
use super::{PodProbe, Unasked, of_arguments, of_pod, options};

/// A Pod whose only container has these probes.
fn pod(probes: &Value) -> Value {
    let mut container = json!({"name": "web", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}]});
    for (kind, probe) in probes.as_object().expect("probes") {
        container[kind] = probe.clone();
    }
    json!({"metadata": {}, "spec": {"containers": [container]}})
}

fn liveness(probe: &Value) -> Vec<PodProbe> {
    of_pod(&pod(&json!({ "livenessProbe": probe })), &InboundPorts::default())
}

/// The proxy's arguments in the injected Pod, and the injector's warnings.
fn injected(pod: &Value, options: &Options) -> (Vec<String>, Vec<String>) {
    let decision = inject(pod, &Namespace::default(), Asked::ByName, options).expect("nothing is wrong");
    let Outcome::Injected { patch, .. } = decision.outcome else { panic!("it was skipped") };
    let mut patched = pod.clone();
    crate::patch::apply(&mut patched, &patch).expect("it fits");
    let args = patched["spec"]["initContainers"][1]["args"].as_array().expect("arguments").clone();
    (args.iter().filter_map(|arg| Some(arg.as_str()?.to_owned())).collect(), decision.warnings)
}

#[test]
fn the_proxy_is_told_the_port_and_path_of_each_probe_once() {
    let pod = pod(&json!({
        "startupProbe": {"httpGet": {"port": "http", "path": "/healthz"}},
        "livenessProbe": {"httpGet": {"port": 8080, "path": "/healthz?verbose"}},
        "readinessProbe": {"grpc": {"port": 9090, "service": "shop.Cart"}},
    }));
    let (args, warnings) = injected(&pod, &Options::default());
    let probes: Vec<&String> = args.iter().filter(|arg| arg.starts_with("--probe")).collect();
    let expected = ["8080/healthz", "8080/healthz?verbose", "9090/grpc.health.v1.Health/Check"];
    assert_eq!(probes, expected.map(|probe| format!("--probe={probe}")).iter().collect::<Vec<_>>());
    assert_eq!(warnings, [""; 0]);
    let shown: Vec<String> = of_arguments(&args).iter().map(ToString::to_string).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_probe_keeps_its_query_as_kubelets_send_it() {
    for (written, target, argument) in [
        ("/graphql?query=%7B__typename%7D", "/graphql?query=%7B__typename%7D", "/graphql?query=%7B__typename%7D"),
        ("/graphql?query={a(b:$c)}&d=/../e", "/graphql?query={a(b:$c)}&d=/../e", "/graphql?query={a(b:$$c)}&d=/../e"),
        ("healthz?", "/healthz?", "/healthz?"),
        ("?a=b,c", "/?a=b,c", "/?a=b,c"),
        ("/a?b=\u{e4}", "/a?b=\u{e4}", "/a?b=\u{e4}"),
        ("/a?b#c?d", "/a?b", "/a?b"),
        ("/a#b?c", "/a", "/a"),
        ("#", "/", "/"),
    ] {
        let args = options(&liveness(&json!({"httpGet": {"port": 8080, "path": written}})));
        assert_eq!(args, [format!("--probe=8080{argument}")]);
        assert_eq!(of_arguments(&args)[0].to_string(), format!("8080{target}"));
    }
}

#[test]
fn probes_of_sidecars_count_and_our_own_containers_do_not() {
    let probe = json!({"httpGet": {"port": 4191, "path": "/ready"}});
    let sidecar = json!({"httpGet": {"port": 7000}});
    let pod = json!({"spec": {"initContainers": [
        {"name": "leno-proxy", "livenessProbe": probe},
        {"name": "leno-grpc", "startupProbe": probe},
        {"name": "logs", "restartPolicy": "Always", "readinessProbe": sidecar},
    ]}});
    assert_eq!(options(&of_pod(&pod, &InboundPorts::default())), ["--probe=7000/"]);
}

#[test]
fn what_asks_the_application_nothing_is_no_probe_of_ours() {
    for probe in [
        json!({"exec": {"command": ["true"]}}),
        json!({"tcpSocket": {"port": 8080}}),
        json!({"httpGet": {"port": 8080, "path": "/", "host": "example.org"}}),
    ] {
        assert_eq!(liveness(&probe), [], "{probe}");
    }
    let skipped = InboundPorts { skipped: "8000-8999".parse().expect("ports"), ..InboundPorts::default() };
    let pod = pod(&json!({"livenessProbe": {"httpGet": {"port": "http", "path": "/healthz"}}}));
    assert_eq!(of_pod(&pod, &skipped), []);
}

#[test]
fn a_probe_that_would_open_more_than_itself_is_not_let_in() {
    let why = |probe: Value| liveness(&probe).remove(0).asks.expect_err("it is not let in");
    assert_eq!(why(json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}})), Unasked::Https);
    assert_eq!(why(json!({"httpGet": {"port": "grpc"}})), Unasked::Port);
    for path in ["/a/../b", "/a%2Fb", "//", "/a/../b?c", "/a?b c"] {
        assert!(matches!(why(json!({"httpGet": {"port": 1, "path": path}})), Unasked::Path(_)), "{path}");
    }
}

#[test]
fn the_injector_warns_of_a_probe_that_the_default_policy_denies() {
    let pod = pod(&json!({"livenessProbe": {"httpGet": {"port": 8080, "scheme": "HTTPS"}}}));
    let mut options = Options::default();
    assert_eq!(injected(&pod, &options).1, [""; 0]);
    options.proxy.default_inbound_policy = "deny".to_owned();
    let warnings = injected(&pod, &options).1;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("the livenessProbe of container web is denied"), "{warnings:?}");
}

/// The proxy cannot read a request at an opaque port. A default opaque port may be declared to speak HTTP.
#[test]
fn a_probe_of_an_opaque_port_is_denied_and_the_author_is_told() {
    let warnings = |port: u16, annotations: Value| {
        let mut pod = pod(&json!({"livenessProbe": {"httpGet": {"port": port, "path": "/healthz"}}}));
        pod["metadata"]["annotations"] = annotations;
        let mut options = Options::default();
        options.proxy.default_inbound_policy = "deny".to_owned();
        let (args, warnings) = injected(&pod, &options);
        (args.contains(&format!("--probe={port}/healthz")), warnings.concat())
    };
    let (is_told, warning) = warnings(9000, json!({"leno.dev/opaque-ports": "9000-9010"}));
    assert!(!is_told && warning.contains("its port is opaque, so the proxy cannot read the request"), "{warning}");
    let both = json!({"leno.dev/opaque-ports": "9000-9010", "leno.dev/http-ports": "9000"});
    assert_eq!(warnings(9000, both), (true, String::new()));
    let (is_told, warning) = warnings(4444, json!({}));
    assert!(is_told && warning.contains("its port is opaque by default"), "{warning}");
    assert_eq!(warnings(4444, json!({"leno.dev/http-ports": "4444"})), (true, String::new()));
}

/// A hook starts an action in the application. If the proxy allowed it, any client could start this action.
#[test]
fn a_lifecycle_hook_gets_no_permission_and_the_author_is_told_if_the_default_policy_denies_it() {
    let hook = |port: u16| json!({"httpGet": {"port": port, "path": "/wait-for-drain"}});
    let exec = json!({"exec": {"command": ["true"]}});
    let warnings = |policy: &str, lifecycle: Value| {
        let pod = pod(&json!({ "lifecycle": lifecycle }));
        let mut options = Options::default();
        options.proxy.default_inbound_policy = policy.to_owned();
        let (args, warnings) = injected(&pod, &options);
        assert!(!args.iter().any(|arg| arg.starts_with("--probe")), "{args:?}");
        warnings
    };
    for (port, why) in [
        (
            8080,
            "the proxy does not allow a hook as it allows a probe; list its path in healthChecks of an AuthorizationPolicy, \
             or use exec",
        ),
        (
            4444,
            "its port is opaque by default, unless a Service of the namespace declares HTTP there, so the proxy cannot read \
             the request; list the port in leno.dev/http-ports and the path in healthChecks of an AuthorizationPolicy, or \
             use exec",
        ),
    ] {
        let found = warnings("all-authenticated", json!({"postStart": hook(port), "preStop": hook(port)}));
        let denied = |what: &str| {
            format!("the {what} hook of container web is denied by the default inbound policy all-authenticated: {why}")
        };
        assert_eq!(found, [denied("postStart"), denied("preStop")]);
    }
    assert_eq!(warnings("all-unauthenticated", json!({"preStop": hook(8080)})), [""; 0]);
    assert_eq!(warnings("deny", json!({"postStart": exec, "preStop": {"sleep": {"seconds": 5}}})), [""; 0]);
    let elsewhere = json!({"preStop": {"httpGet": {"port": 80, "host": "example.org"}}});
    assert_eq!(warnings("deny", elsewhere), [""; 0]);
}

#[test]
fn a_path_that_looks_like_a_variable_stays_what_it_is() {
    for (path, argument) in [
        ("/$(POD_NAME)", "--probe=8080/$$(POD_NAME)"),
        ("/a?b=$(POD_NAME)", "--probe=8080/a?b=$$(POD_NAME)"),
        ("/$$c", "--probe=8080/$$$$c"),
        ("/$$(X)", "--probe=8080/$$$$(X)"),
        ("/a$", "--probe=8080/a$$"),
    ] {
        let args = options(&liveness(&json!({"httpGet": {"port": 8080, "path": path}})));
        assert_eq!(args, [argument]);
        assert_eq!(of_arguments(&args)[0].to_string(), format!("8080{path}"));
    }
}
