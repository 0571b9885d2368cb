use super::*;
use crate::cluster::traffic::tests::config_of;

const MANIFESTS: &str = "\
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: grpc, port: 50051}, {name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: prices, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: cart}]
  timeouts: {request: 2s}
---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  ports: [8080, 9090]
  allow:
  - {identities: [ns/shop/sa/web, ns/shop/sa/desk], networks: [10.0.0.0/8]}
  - {networks: [fd00::/8]}
  healthChecks: [/healthz]
---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: nobody, namespace: shop}
spec: {allow: [], mode: Audit}
---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: elsewhere, namespace: web}
spec: {allow: []}
";

/// The `/config` page of a proxy that has read these manifests.
fn config() -> Value {
    config_of(MANIFESTS)
}

#[test]
fn a_workload_has_the_authorization_policies_of_its_namespace_with_what_they_select_and_allow() {
    let row = |policy: &str, selects: &str, allows: &str, mode: &str| AuthorizationRow {
        policy: format!("AuthorizationPolicy {policy}"),
        selects: selects.to_owned(),
        allows: allows.to_owned(),
        mode: mode.to_owned(),
    };
    let callers = "ns/shop/sa/web, ns/shop/sa/desk from 10.0.0.0/8; fd00::/8; every caller to /healthz";
    let mut expected = vec![
        row("shop/cart", "ports 8080, 9090 of service account cart", callers, "Enforce"),
        row("shop/nobody", "every port in namespace shop", "no caller", "Audit"),
    ];
    assert_eq!(authorization_rows(&config(), "shop").as_ref(), Some(&expected));
    // If the user names a proxy by its admin address, its namespace is unknown, so show the policies of all namespaces.
    expected.push(row("web/elsewhere", "every port in namespace web", "no caller", "Enforce"));
    assert_eq!(authorization_rows(&config(), ""), Some(expected));
    assert_eq!(authorization_rows(&json!({"mesh": {}}), "shop"), None, "not known");
}

#[test]
fn a_service_has_the_parts_of_policies_of_each_of_its_ports() {
    let lines = traffic_lines(&config(), "shop/cart", "web");
    let shown: Vec<_> = lines.iter().map(|(at, line)| [at, &*line.part, &*line.value, &*line.set_by]).collect();
    let part = |at| [at, "timeouts.request", "2s", "TrafficPolicy shop/cart"];
    assert_eq!(shown, [part("cart.shop:80"), part("cart.shop:50051")]);
    assert!(traffic_lines(&config(), "shop/prices", "web").is_empty());
}

#[test]
fn a_rule_without_parts_is_shown_before_a_rule_with_parts_and_equal_parts_once() {
    let route = "---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: cart, port: 50051}]
  rules:
  - name: pay
    matches: [{method: {service: shop.v1.Cart, method: Pay}}]
    backendRefs: [{name: prices, port: 80}]
  - name: rest
    backendRefs: [{name: cart, port: 50051}]
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: rest, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: cart, sectionName: rest}]
  timeouts: {request: 5s}
";
    let manifests = MANIFESTS
        .replace("  targetRefs: [{kind: Service, name: cart}]", "  targetRefs: [{kind: Service, name: prices}]");
    let config = config_of(&[&manifests, route].concat());
    let mut rows = TrafficRows::default();
    for namespace in ["web", "desk"] {
        for (at, line) in traffic_lines(&config, "shop/cart", namespace) {
            rows.add(at, line, namespace);
        }
    }
    let shown: Vec<_> = rows.all.iter().map(|row| [&*row.at, &*row.line.route, &*row.line.part]).collect();
    let rule = |name: &str| format!("GRPCRoute shop/cart, rule {name}");
    let expected = [["cart.shop:50051", &rule("pay"), "none"], ["cart.shop:50051", &rule("rest"), "timeouts.request"]];
    assert_eq!(shown, expected);
    assert_eq!(rows.all[0].namespaces.iter().collect::<Vec<_>>(), ["desk", "web"]);
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let identities: Vec<String> = (0..23).map(|n| format!("ns/shop/sa/a{n}")).collect();
    let text = allows(&json!({ "allow": [{ "identities": identities }] }));
    assert!(text.contains("ns/shop/sa/a19 and 3 more") && !text.contains("a20"), "{text}");
    assert!(super::config(&" ".repeat(PAGE_MAX_BYTES + 1)).is_none());
}
