use leno_model::policy::{Allow, Mode};
use serde_json::json;

use super::super::fixtures::object;
use super::super::report::Verdict;
use super::*;

fn web() -> Pod {
    object(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"serviceAccountName": "web", "containers": [
            {"name": "app", "ports": [{"containerPort": 8080, "name": "http"}]},
        ]},
    }))
}

fn service(target: &serde_json::Value) -> Service {
    object(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": target}]},
    }))
}

fn policy(account: &str, port: u16) -> Arc<AuthorizationPolicy> {
    Arc::new(AuthorizationPolicy {
        namespace: "shop".into(),
        name: "web".into(),
        service_account: Some(account.into()),
        ports: Some([port].into()),
        mode: Mode::Enforce,
        allow: Allow::default(),
        health_checks: Box::default(),
    })
}

fn of(policy: Arc<AuthorizationPolicy>, services: &[Service]) -> Finding {
    findings(&[&web()], services, &[policy]).remove(0)
}

#[test]
fn a_services_port_in_a_policy_is_found_by_number_and_by_name() {
    for target in [json!(8080), json!("http")] {
        let finding = of(policy("web", 80), &[service(&target)]);
        assert_eq!(finding.verdict, Verdict::Warning);
        let expected = "AuthorizationPolicy shop/web names port 80, on which none of its Pods listens; Service web sends port 80 to \
                        port 8080 of the Pod";
        assert_eq!(finding.why, expected);
        assert_eq!(
            finding.fix.as_deref(),
            Some("write 8080 in spec.ports: kubectl edit -n shop authorizationpolicy web")
        );
    }
}

#[test]
fn ports_of_pods_and_ports_of_other_workloads_are_no_mistake() {
    assert_eq!(of(policy("web", 8080), &[service(&json!(8080))]).verdict, Verdict::Ok);
    assert_eq!(of(policy("cart", 80), &[service(&json!(8080))]).verdict, Verdict::Ok);
    // No finding for a port that no Service maps: a Pod may listen on a port that it does not declare.
    assert_eq!(of(policy("web", 9090), &[service(&json!(8080))]).verdict, Verdict::Ok);
    assert_eq!(of(policy("web", 80), &[service(&json!(80))]).verdict, Verdict::Ok);
}
