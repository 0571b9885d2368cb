use std::time::UNIX_EPOCH;

use leno_install::names::HELM_RELEASE;
use serde_json::{Value, json};

use super::super::fixtures::{DAY, installed, named, object};
use super::super::report::{Check, Verdict};
use super::*;

fn pod(name: &str, container: &str, ips: &[&str]) -> Pod {
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    object(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": container}]},
        "status": {"phase": "Running", "podIP": ips.first(), "podIPs": all},
    }))
}

fn service(name: &str, ips: &[&str]) -> Service {
    object(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": ips.first(), "clusterIPs": ips, "ports": [{"port": 80}]},
    }))
}

/// Checks an installation by `leno install` with these Pods and Services, and with this value of
/// `proxy.clusterNetworks`.
fn check(pods: Vec<Pod>, services: Vec<Service>, setting: &str) -> Vec<Check> {
    check_with(&json!({}), pods, services, setting)
}

/// Like [`check`], for an installation whose ConfigMap has these annotations.
fn check_with(annotations: &Value, pods: Vec<Pod>, services: Vec<Service>, setting: &str) -> Vec<Check> {
    let options = format!("proxy: {{clusterNetworks: '{setting}'}}");
    let metadata = json!({"name": "leno-config", "annotations": annotations});
    let config = object(json!({"metadata": metadata, "data": {"inject.yaml": options}}));
    let facts = Installed {
        meshed: Ok(pods),
        services: Ok(Some(services)),
        config: Some(config),
        ..installed(UNIX_EPOCH + 20_000 * DAY)
    };
    let mut list = Checklist::default();
    conclude(&mut list, &facts);
    named(&list, NETWORKS)
}

#[test]
fn private_addresses_are_in_the_default_networks() {
    let pods = vec![pod("web-1", "leno-proxy", &["10.1.2.3", "fd00::3"])];
    let services = vec![service("web", &["172.20.0.1", "fd00:1::1"]), service("headless", &["None"])];
    let checks = check(pods, services, "");
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!(checks[0].verdict, Verdict::Ok);
}

#[test]
fn each_pod_and_service_outside_of_the_networks_is_a_warning_with_the_value_to_set() {
    let pods = vec![pod("web-1", "leno-proxy", &["10.1.2.3", "2001:db8::3"])];
    let checks = check(pods, vec![service("web", &["34.118.224.1"])], "");
    let [of_pod, of_service] = &*checks else { panic!("{checks:?}") };
    assert_eq!([of_pod.verdict, of_service.verdict], [Verdict::Warning; 2]);
    assert!(of_pod.why.starts_with("Pod shop/web-1 has the address 2001:db8::3, which is outside"), "{}", of_pod.why);
    assert!(of_service.why.starts_with("Service shop/web has the address 34.118.224.1, "), "{}", of_service.why);
    let fix = of_service.fix.as_deref().unwrap_or_default();
    let command = format!("leno upgrade --set proxy.clusterNetworks={CLUSTER_NETWORKS},NETWORK | kubectl apply -f -;");
    assert!(fix.contains(&command), "{fix}");
}

#[test]
fn an_installation_by_helm_is_changed_with_helm() {
    let helm = json!({HELM_RELEASE: "mesh"});
    let checks = check_with(&helm, Vec::new(), vec![service("web", &["34.118.224.1"])], "10.0.0.0/8,fd00::/8");
    let fix = checks[0].fix.as_deref().unwrap_or_default();
    assert!(fix.contains("helm upgrade mesh "), "{fix}");
    assert!(fix.contains(r"--set 'proxy.clusterNetworks=10.0.0.0/8\,fd00::/8\,NETWORK';"), "{fix}");
}

#[test]
fn the_networks_of_the_installation_apply() {
    let services = || vec![service("web", &["34.118.224.1"])];
    assert_eq!(check(Vec::new(), services(), "10.0.0.0/8,34.118.224.0/20")[0].verdict, Verdict::Ok);
    assert_eq!(check(Vec::new(), services(), "10.0.0.0/8")[0].verdict, Verdict::Warning);
}

/// Calls to a Pod without a proxy are unencrypted in any case.
#[test]
fn a_pod_without_a_proxy_is_no_warning() {
    assert_eq!(check(vec![pod("web-1", "setup", &["2001:db8::3"])], Vec::new(), "")[0].verdict, Verdict::Ok);
}

#[test]
fn without_the_right_to_list_services_the_pods_are_checked() {
    let facts = Installed {
        meshed: Ok(vec![pod("web-1", "leno-proxy", &["2001:db8::3"])]),
        services: Ok(None),
        ..installed(UNIX_EPOCH + 20_000 * DAY)
    };
    let mut list = Checklist::default();
    conclude(&mut list, &facts);
    assert_eq!(named(&list, NETWORKS)[0].verdict, Verdict::Warning);
}
