use leno_model::policy::{Allow, Mode};
use serde_json::{Value, json};

use super::super::fixtures::object;
use super::super::report::Checklist;
use super::*;

/// A Pod with the service account `cart`, whose application has this probe.
fn pod(probe: &Value, proxy: &[&str]) -> Pod {
    object(json!({
        "metadata": {"name": "cart-1", "namespace": "shop", "labels": {"leno.dev/injected": "true"}},
        "spec": {
            "serviceAccountName": "cart",
            "initContainers": [{"name": "leno-proxy", "image": "leno-proxy:1", "args": proxy}],
            "containers": [{"name": "app", "image": "app", "livenessProbe": probe}],
        },
        "status": {"hostIP": "192.168.0.2"},
    }))
}

fn policy(networks: &[&str]) -> Arc<AuthorizationPolicy> {
    let networks: Vec<_> = networks.iter().map(|text| text.parse().expect("a network")).collect();
    let rule = leno_model::policy::Rule { identities: None, networks: Some(networks.into()) };
    let allow = Allow::from(vec![rule]);
    let policy = AuthorizationPolicy::unreadable("shop", "cart", Some("cart".into()), Some([8080].into()));
    Arc::new(AuthorizationPolicy { mode: Mode::Enforce, allow, ..policy })
}

/// Returns the verdict and the reason of each finding.
fn checked(pod: &Pod, policies: &[Arc<AuthorizationPolicy>]) -> Vec<String> {
    let mut list = Checklist::default();
    list.check("probes", &[], || findings(&[pod], policies));
    list.checks().iter().map(|check| format!("{:?}: {}", check.verdict, check.why)).collect()
}

fn http() -> Value {
    json!({"httpGet": {"port": 8080, "path": "/healthz"}})
}

const DENY: &str = "--default-inbound-policy=deny";
const FINE: &str = "Ok: no policy denies a probe or a lifecycle hook";

#[test]
fn a_probe_that_the_proxy_was_told_of_is_let_in() {
    assert_eq!(checked(&pod(&http(), &[DENY, "--probe=8080/healthz"]), &[policy(&[])]), [FINE]);
}

#[test]
fn a_probe_that_a_default_or_a_policy_denies_is_told() {
    let told = "Failed: the livenessProbe of container app of shop/cart-1 is denied: ";
    for (proxy, policies, reason) in [
        (&[DENY][..], vec![], "the default inbound policy is deny"),
        (&[], vec![policy(&[])], "no rule of AuthorizationPolicy shop/cart allows it"),
    ] {
        let found = checked(&pod(&http(), proxy), &policies);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{told}{reason}")), "{found:?}");
        assert!(found[0].ends_with("its proxy does not know the probe"), "{found:?}");
    }
    let https = json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}});
    let found = checked(&pod(&https, &[DENY]), &[]);
    assert!(found[0].contains("it uses HTTPS"), "{found:?}");
}

#[test]
fn a_probe_of_an_opaque_port_is_told_although_the_proxy_knows_it() {
    let http_ports = "--http-ports=3000-9000";
    let opaque = "--opaque-ports=8080";
    let told = "--probe=8080/healthz";
    let found = checked(&pod(&http(), &[DENY, told, opaque]), &[]);
    assert!(found.len() == 1 && found[0].starts_with("Failed: the livenessProbe"), "{found:?}");
    assert!(found[0].contains("; its port is opaque, so the proxy cannot read"), "{found:?}");
    assert_eq!(checked(&pod(&http(), &[DENY, told, opaque, http_ports]), &[]), [FINE]);
    assert_eq!(checked(&pod(&http(), &[told, opaque]), &[]), [FINE]);
    let selenium = json!({"httpGet": {"port": 4444, "path": "/status"}});
    let found = checked(&pod(&selenium, &[DENY, "--probe=4444/status"]), &[]);
    assert!(found.len() == 1 && found[0].starts_with("Warning: the livenessProbe"), "{found:?}");
    assert!(found[0].contains("opaque by default"), "{found:?}");
    assert_eq!(checked(&pod(&selenium, &[DENY, "--probe=4444/status", http_ports]), &[]), [FINE]);
}

#[test]
fn a_lifecycle_hook_is_told_unless_a_policy_allows_its_path() {
    let with_hook_at = |port: u16, proxy: &[&str]| {
        let mut pod = pod(&Value::Null, proxy);
        let app = &mut pod.spec.as_mut().expect("a spec").containers[0];
        let hook = json!({"preStop": {"httpGet": {"port": port, "path": "/wait-for-drain"}}});
        app.lifecycle = Some(serde_json::from_value(hook).expect("a hook"));
        pod
    };
    let with_hook = |proxy: &[&str]| with_hook_at(8080, proxy);
    let found = checked(&with_hook(&[DENY, "--probe=8080/wait-for-drain"]), &[]);
    assert!(found.len() == 1 && found[0].starts_with("Failed: the preStop hook of container app"), "{found:?}");
    assert!(found[0].contains("list its path in healthChecks"), "{found:?}");
    assert_eq!(checked(&with_hook(&[]), &[]), [FINE]);
    let allowing = AuthorizationPolicy {
        health_checks: ["/wait-for-drain".parse().expect("a path")].into(),
        ..AuthorizationPolicy::clone(&policy(&[]))
    };
    assert_eq!(checked(&with_hook(&[DENY]), &[Arc::new(allowing.clone())]), [FINE]);
    // The proxy cannot read the request at a default opaque port, so the policy's path does not help.
    let everywhere = Arc::new(AuthorizationPolicy { ports: None, ..allowing });
    let found = checked(&with_hook_at(4444, &[DENY]), &[Arc::clone(&everywhere)]);
    assert!(found.len() == 1 && found[0].starts_with("Warning: the preStop hook of container app"), "{found:?}");
    assert!(found[0].contains("list the port in leno.dev/http-ports and the path in healthChecks"), "{found:?}");
    assert_eq!(checked(&with_hook_at(4444, &[DENY, "--http-ports=4444"]), &[everywhere]), [FINE]);
}

#[test]
fn a_probe_that_nothing_denies_is_fine() {
    assert_eq!(checked(&pod(&http(), &[]), &[]), [FINE]);
    assert_eq!(checked(&pod(&http(), &[]), &[policy(&["192.168.0.0/24"])]), [FINE]);
    let elsewhere = json!({"httpGet": {"port": 9090, "path": "/healthz"}});
    assert_eq!(checked(&pod(&elsewhere, &[]), &[policy(&[])]), [FINE]);
}

#[test]
fn a_tcp_probe_that_reaches_only_the_proxy_is_told() {
    let arguments = ["--admin-port=4191".to_owned()];
    let with_init = |probe: Value| {
        let mut pod = pod(&probe, &[DENY]);
        let init = pod.spec.as_mut().and_then(|spec| spec.init_containers.as_mut()).expect("init containers");
        let mut redirection = init[0].clone();
        redirection.name = "leno-init".to_owned();
        redirection.args = Some(arguments.to_vec());
        init.insert(0, redirection);
        pod
    };
    let found = checked(&with_init(json!({"tcpSocket": {"port": 8080}})), &[]);
    let expected = "Warning: the livenessProbe of container app of shop/cart-1 reaches only the proxy, so it succeeds even if the \
                    application is down";
    assert_eq!(found, [expected]);
    let elsewhere = checked(&with_init(json!({"tcpSocket": {"port": 8080, "host": "10.0.0.9"}})), &[]);
    let expected = "Warning: the livenessProbe of container app of shop/cart-1 names the host \"10.0.0.9\"";
    assert!(elsewhere.len() == 1 && elsewhere[0].starts_with(expected), "{elsewhere:?}");
    let unnamed = checked(&with_init(json!({"tcpSocket": {"port": "grpc"}})), &[]);
    assert!(unnamed.len() == 1 && unnamed[0].ends_with("the container does not have its port"), "{unnamed:?}");
    let replaced = json!({"httpGet": {"path": "/probe/tcp/8080", "port": 4191}});
    assert_eq!(checked(&with_init(replaced), &[]), [FINE]);
}

#[test]
fn the_remedy_for_an_older_injector_covers_manifests_with_a_proxy() {
    let found = findings(&[&pod(&json!({"tcpSocket": {"port": 8080}}), &[])], &[]);
    let fix = found[0].fix.as_deref().expect("a remedy");
    assert!(
        fix.starts_with("if the Pod template has leno-init, run leno inject on it again; otherwise upgrade"),
        "{fix}"
    );
    assert!(
        fix.contains("remove leno.dev/proxy-version or leno.dev/proxy-image if it gives the proxy another "),
        "{fix}"
    );
    assert!(fix.ends_with("then kubectl delete pod -n shop cart-1, and create it again"), "{fix}");
}
