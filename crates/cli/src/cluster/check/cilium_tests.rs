use serde_json::{Value, json};

use super::super::fixtures::{named, object};
use super::super::report::{Check, Verdict};
use super::*;

/// Checks a configuration of Cilium with these keys and values.
fn check(data: &Value) -> Check {
    let config: ConfigMap = object(json!({"metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": data}));
    let mut list = Checklist::default();
    conclude(&mut list, Some(&config));
    named(&list, "Cilium").remove(0)
}

#[test]
fn socket_load_balancing_in_pods_fails_and_the_fix_names_the_helm_value_and_the_restart() {
    for data in [
        json!({"kube-proxy-replacement": "true"}),
        json!({"kube-proxy-replacement": "true", "bpf-lb-sock-hostns-only": "false"}),
        json!({"kube-proxy-replacement": "strict", "bpf-lb-sock": "false"}),
        json!({"kube-proxy-replacement": "probe"}),
        json!({"kube-proxy-replacement": "false", "bpf-lb-sock": "true"}),
        json!({"kube-proxy-replacement": "partial", "enable-host-reachable-services": "true"}),
        json!({"bpf-lb-sock": "true"}),
    ] {
        let check = check(&data);
        assert_eq!(check.verdict, Verdict::Failed, "{data}");
        let fix = check.fix.expect("a fix");
        assert!(fix.contains("socketLB.hostNamespaceOnly=true") && fix.ends_with("daemonset/cilium"), "{fix}");
    }
}

#[test]
fn a_cilium_that_leaves_the_connections_of_pods_alone_is_ok() {
    for data in [
        json!({"kube-proxy-replacement": "true", "bpf-lb-sock-hostns-only": "true"}),
        json!({"kube-proxy-replacement": "strict", "bpf-lb-sock": "true", "bpf-lb-sock-hostns-only": "true"}),
        json!({"kube-proxy-replacement": "false", "bpf-lb-sock": "false"}),
        json!({"kube-proxy-replacement": "partial"}),
        json!({"kube-proxy-replacement": "disabled", "bpf-lb-sock": "true"}),
        json!({}),
    ] {
        assert_eq!(check(&data).verdict, Verdict::Ok, "{data}");
    }
}

#[test]
fn without_cilium_there_is_no_check() {
    let mut list = Checklist::default();
    conclude(&mut list, None);
    assert!(list.checks().is_empty());
}
