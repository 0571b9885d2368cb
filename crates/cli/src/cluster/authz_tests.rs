use std::cell::RefCell;

use leno_model::policy::{Mode, Rule};
use serde_json::json;

use super::*;
use crate::cluster::clock::BootInstant;
use crate::cluster::connect::tests::with_api_server;
use crate::cluster::metrics::Reading;

fn pod(name: &str, default: &str) -> Pod {
    let proxy =
        json!({"name": "leno-proxy", "image": "leno-proxy:1", "args": [format!("--default-inbound-policy={default}")]});
    let ports = json!([{"containerPort": 8080}, {"containerPort": 9000, "protocol": "UDP"}]);
    let spec = json!({
        "serviceAccountName": "cart", "initContainers": [proxy], "containers": [{"name": "app", "image": "app", "ports": ports}],
    });
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec})).expect("a Pod")
}

fn group(pods: Vec<Pod>) -> Group {
    Group { namespace: "shop".to_owned(), name: "cart".to_owned(), shown: "cart".to_owned(), pods }
}

fn policy(name: &str, mode: Mode, ports: Option<&[u16]>, identities: &[&str]) -> Arc<AuthorizationPolicy> {
    let identities: Vec<_> = identities.iter().map(|text| text.parse().expect("identities")).collect();
    let allow = if identities.is_empty() {
        Vec::new()
    } else {
        vec![Rule { identities: Some(identities.into()), networks: None }]
    };
    Arc::new(AuthorizationPolicy {
        namespace: "shop".into(),
        name: name.into(),
        service_account: Some("cart".into()),
        ports: ports.map(Into::into),
        mode,
        allow: allow.into(),
        health_checks: Box::default(),
    })
}

fn pages(text: &str) -> Pages {
    let reading = Reading { at: BootInstant::now(), page: Scrape::parse(text) };
    [(("shop".to_owned(), "cart-1".to_owned()), reading)].into()
}

#[test]
fn ports_that_no_policy_selects_are_decided_by_the_proxys_default() {
    let rows = rows(&group(vec![pod("cart-1", "deny")]), &[], &Pages::new());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].port, Some(8080));
    assert_eq!(rows[0].decides, Decides::Default(["deny".to_owned()].into()));
}

#[test]
fn enforced_policies_decide_and_those_in_audit_mode_stand_beside_the_default() {
    let all = [
        policy("cart", Mode::Enforce, Some(&[8080]), &["ns/shop/sa/web"]),
        policy("more", Mode::Enforce, Some(&[8080, 7000]), &["ns/bank/sa/*"]),
        policy("maybe", Mode::Audit, None, &[]),
    ];
    let counts = "inbound_http_authz_allow_total{target_port=\"8080\",tls=\"true\"} 7\n\
                  inbound_http_authz_deny_total{target_port=\"8080\",authz_name=\"shop/cart\"} 2\n\
                  inbound_tcp_authz_allow_total{target_port=\"6379\"} 1\n\
                  leno_tcp_audited_total{target_port=\"6379\"} 1\n";
    let rows = rows(&group(vec![pod("cart-1", "audit")]), &all, &pages(counts));
    let ports: Vec<_> = rows.iter().map(|row| row.port).collect();
    assert_eq!(ports, [Some(6379), Some(7000), Some(8080)]);
    assert_eq!(rows[0].audited_by, ["maybe"]);
    assert_eq!((rows[0].allowed, rows[0].denied, rows[0].audited), (1.0, 0.0, 1.0));
    let both = Decides::Policies {
        names: vec!["cart".to_owned(), "more".to_owned()],
        callers: vec!["ns/shop/sa/web".to_owned(), "ns/bank/sa/*".to_owned()],
        unreadable: Vec::new(),
    };
    assert_eq!(rows[2].decides, both);
    assert_eq!((rows[2].allowed, rows[2].denied), (7.0, 2.0));
    assert!(rows[2].audited_by.is_empty());
    let text = table(&rows);
    assert!(text.contains("default: audit (audit: maybe)   every caller; unauthorized calls are logged"), "{text}");
    assert!(text.contains("cart, more                      ns/shop/sa/web or ns/bank/sa/*"), "{text}");
}

#[test]
fn calls_that_proxies_count_without_their_port_have_a_row() {
    let counts = "inbound_http_authz_deny_total{target_port=\"8080\"} 2\n\
                  inbound_http_authz_allow_total{target_port=\"other\",client_id=\"other\",authz_kind=\"other\"} 5\n\
                  inbound_http_authz_deny_total{target_port=\"other\",client_id=\"other\",authz_kind=\"other\"} 7\n";
    let found = rows(&group(vec![pod("cart-1", "deny")]), &[], &pages(counts));
    let [port, other] = &found[..] else { panic!("two rows: {found:?}") };
    assert_eq!((port.port, port.allowed, port.denied), (Some(8080), 0.0, 2.0));
    assert_eq!((other.port, &other.decides, other.allowed, other.denied), (None, &Decides::Other, 5.0, 7.0));
    let text = table(&found);
    let line = text.lines().find(|line| line.contains("other ")).unwrap_or_else(|| panic!("no row: {text}"));
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["shop", "cart", "other", "-", "-", "5", "7", "0"]);
    assert!(text.ends_with("; other: without their port, because of a limit on ports and series\n"), "{text}");

    // Without a known port, the row for all ports has these calls.
    let mut no_ports = pod("cart-1", "deny");
    no_ports.spec.as_mut().expect("a spec").containers.clear();
    let found = rows(&group(vec![no_ports]), &[], &pages(&counts.replace("8080", "other")));
    let [all] = &found[..] else { panic!("one row: {found:?}") };
    assert_eq!((all.port, all.allowed, all.denied), (None, 5.0, 9.0));
    assert!(!table(&found).contains("limit on ports"), "{}", table(&found));
}

#[test]
fn policies_of_other_accounts_and_namespaces_say_nothing() {
    let other = AuthorizationPolicy {
        service_account: Some("web".into()),
        ..(*policy("web", Mode::Enforce, None, &[])).clone()
    };
    let elsewhere =
        AuthorizationPolicy { namespace: "bank".into(), ..(*policy("cart", Mode::Enforce, None, &[])).clone() };
    let rows = rows(&group(vec![pod("cart-1", "deny")]), &[Arc::new(other), Arc::new(elsewhere)], &Pages::new());
    assert_eq!(rows[0].decides, Decides::Default(["deny".to_owned()].into()));
}

#[test]
fn without_a_meshed_workload_no_policy_is_read() {
    let paths = RefCell::new(Vec::new());
    let bare = json!({"metadata": {"namespace": "shop", "name": "web-1"}, "spec": {"containers": [{"name": "app"}]}});
    let reply = |path: &str| {
        paths.borrow_mut().push(path.to_owned());
        match path {
            "/api/v1/namespaces/shop/pods" => (200, json!({"metadata": {}, "items": [bare.clone()]})),
            _ => (403, json!({"kind": "Status", "status": "Failure", "message": "forbidden", "code": 403})),
        }
    };
    let (all, scope) = (Selection { kind: Kind::Workloads, name: None }, Scope::of(Some("shop".to_owned())));
    let rows = with_api_server(reply, async |cluster| read(&cluster, &all, &scope).await);
    assert_eq!(table(&rows.expect("no policy is needed")), "nothing here has a proxy; -n NAME or -A looks elsewhere\n");
    assert_eq!(paths.into_inner(), ["/api/v1/namespaces/shop/pods"]);
}

#[test]
fn a_policy_that_cannot_be_read_is_named() {
    let odd = policy("odd", Mode::Unreadable, None, &[]);
    let rows = rows(&group(vec![pod("cart-1", "deny")]), &[odd], &Pages::new());
    let text = table(&rows);
    assert!(text.contains("no caller; odd cannot be read: an earlier version may be in force"), "{text}");
}

#[test]
fn a_policy_that_allows_nobody_says_so() {
    let rows = rows(&group(vec![pod("cart-1", "deny")]), &[policy("none", Mode::Enforce, None, &[])], &Pages::new());
    assert!(table(&rows).contains("none         no caller"), "{}", table(&rows));
}
