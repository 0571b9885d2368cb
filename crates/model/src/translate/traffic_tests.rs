use std::sync::Arc;
use std::time::Duration;

use crate::balance::BudgetSettings;
use crate::fixtures::{lines, translated};
use crate::manifest::{SourceFile, parse_file};
use crate::mesh::{ClusterKey, Dialled};
use crate::route::fixtures::{call, get};
use crate::route::status::Reason;
use crate::route::{RouteKind, RouteTable};
use crate::traffic::CallPolicy;
use crate::translate::{Memo, Translation, translate_again};

/// In the namespace shop: `cart` with the ports 80 (http) and 81 (admin), the opaque `db`, and `dns` without a TCP
/// port.
const SERVICES: &str = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {ports: [{name: http, port: 80}, {name: admin, port: 81}]}}
- {apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {ports: [{port: 3306}]}}
- {apiVersion: v1, kind: Service, metadata: {name: dns, namespace: shop}, spec: {ports: [{port: 53, protocol: UDP}]}}
";

/// A GRPCRoute `namespace/name` of `cart.shop:80`, with a rule `get` for one method and a rule without a name for all
/// other methods.
fn grpc_route(route: &str) -> String {
    let (namespace, name) = route.split_once('/').expect("a namespace and a name");
    let backend = "backendRefs: [{name: cart, namespace: shop, port: 80}]";
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  parentRefs: [{{group: '', kind: Service, name: cart, namespace: shop, port: 80}}]\n  rules:\n  \
         - {{name: get, matches: [{{method: {{service: shop.Cart, method: Get}}}}], {backend}}}\n  - {{{backend}}}\n"
    )
}

/// Returns a TrafficPolicy in the namespace shop, for one target; `spec` has the fields of its spec after `targetRefs`.
fn policy(name: &str, target: &str, spec: &str) -> String {
    let group = if target.contains("Service") { "" } else { "group: gateway.networking.k8s.io, " };
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
         targetRefs: [{{{group}{target}}}]\n  {spec}\n"
    )
}

/// Returns an XBackendTrafficPolicy in the namespace shop, for the Service `cart`; `spec` has the fields of its spec
/// after `targetRefs`.
fn backend_policy(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\n\
         metadata: {{name: {name}, namespace: shop}}\nspec:\n  \
         targetRefs: [{{group: '', kind: Service, name: cart}}]\n  {spec}\n"
    )
}

fn with(objects: &[String]) -> Translation {
    let objects = objects.concat();
    translated(&[("a-services.yaml", SERVICES), ("objects.yaml", objects.trim_start_matches("---\n"))])
}

fn table<'t>(translation: &'t Translation, service: &str, port: u16, namespace: &str) -> Option<&'t RouteTable> {
    let key = ClusterKey { namespace: "shop".into(), service: service.into(), port };
    translation.mesh.routes(&key, namespace).map(|table| &**table)
}

/// The policy of a gRPC call to `cart.shop:80` from a client in `namespace`.
fn calls(translation: &Translation, namespace: &str, path: &str) -> CallPolicy {
    let table = table(translation, "cart", 80, namespace).expect("a table");
    table.find(&call(path)).expect("a rule").rule.calls.clone()
}

/// The limits in milliseconds for the whole request and for an attempt, and the number of retries.
fn numbers(calls: &CallPolicy) -> [Option<u128>; 3] {
    let limits = [&calls.request_timeout, &calls.backend_request_timeout];
    let [request, attempt] = limits.map(|limit| limit.as_ref().map(|limit| limit.value.after.as_millis()));
    [request, attempt, calls.retry.as_ref().map(|retry| retry.value.attempts.into())]
}

/// Whether each target of each policy is accepted, with the reason.
fn reasons(translation: &Translation) -> Vec<(&str, bool, Reason)> {
    let statuses = translation.traffic.iter();
    statuses.map(|status| (&*status.policy, status.condition.status, status.condition.reason)).collect()
}

#[test]
fn a_policy_of_a_service_without_routes_gives_it_one_rule_for_all_calls() {
    let translation = with(&[policy("cart", "kind: Service, name: cart", "retry: {attempts: 2}")]);
    assert_eq!(lines(&translation.problems), [""; 0]);
    for (port, namespace) in [(80, "shop"), (80, "web"), (81, "web")] {
        let table = table(&translation, "cart", port, namespace).expect("a table");
        assert_eq!(table.kind(), RouteKind::Service);
        let rule = table.find(&get("/any/path")).expect("it matches everything").rule;
        assert_eq!(rule.route.to_string(), "Service shop/cart");
        assert_eq!(numbers(&rule.calls), [None, None, Some(2)]);
        assert_eq!(rule.choose(0).map(|backend| format!("{:?}", backend.to).contains("cart")), Some(true));
    }
    assert!(table(&translation, "db", 3306, "shop").is_none());
}

#[test]
fn a_policy_for_a_port_goes_before_the_policy_for_its_service() {
    let translation = with(&[
        policy("all", "kind: Service, name: cart", "retry: {attempts: 2}"),
        policy("admin", "kind: Service, name: cart, sectionName: admin", "retry: {attempts: 3}"),
    ]);
    let of_port = |port| {
        let table = table(&translation, "cart", port, "shop").expect("a table");
        numbers(&table.find(&get("/")).expect("a rule").rule.calls)[2]
    };
    assert_eq!((of_port(80), of_port(81)), (Some(2), Some(3)));
}

#[test]
fn a_rule_goes_before_its_route_and_a_route_before_its_service() {
    let route = "kind: GRPCRoute, name: cart";
    let translation = with(&[
        grpc_route("shop/cart"),
        policy("rule", &format!("{route}, sectionName: get"), "timeouts: {request: 1s}"),
        policy("route", route, "timeouts: {request: 2s, backendRequest: 300ms}"),
        policy("service", "kind: Service, name: cart", "timeouts: {request: 3s}\n  retry: {attempts: 4}"),
    ]);
    assert_eq!(numbers(&calls(&translation, "shop", "/shop.Cart/Get")), [Some(1_000), Some(300), Some(4)]);
    assert_eq!(numbers(&calls(&translation, "shop", "/shop.Cart/Add")), [Some(2_000), Some(300), Some(4)]);
    // Port 81 has no routes: only the policy for the Service applies.
    let admin = table(&translation, "cart", 81, "shop").expect("a table");
    assert_eq!(numbers(&admin.find(&get("/")).expect("a rule").rule.calls), [Some(3_000), None, Some(4)]);
}

#[test]
fn a_field_of_gateway_api_goes_before_every_policy() {
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: cart, namespace: shop}\n\
         spec:\n  parentRefs: [{group: '', kind: Service, name: cart, port: 80}]\n  rules:\n  \
         - {name: all, timeouts: {request: 1s}, retry: {attempts: 1}, backendRefs: [{name: cart, port: 80}]}\n";
    let spec = "timeouts: {request: 2s, backendRequest: 300ms}\n  retry: {attempts: 5}";
    let target = "kind: HTTPRoute, name: cart, sectionName: all";
    let translation = with(&[route.to_owned(), policy("rule", target, spec)]);
    assert_eq!(numbers(&calls(&translation, "shop", "/")), [Some(1_000), Some(300), Some(1)]);
}

#[test]
fn the_policy_of_a_service_is_also_for_the_routes_of_its_consumers() {
    let translation =
        with(&[grpc_route("web/mine"), policy("service", "kind: Service, name: cart", "retry: {attempts: 4}")]);
    assert_eq!(numbers(&calls(&translation, "web", "/shop.Cart/Get"))[2], Some(4));
    // The route in `web` does not apply to clients in `bank`.
    assert_eq!(table(&translation, "cart", 80, "bank").map(RouteTable::kind), Some(RouteKind::Service));
}

#[test]
fn a_rule_can_switch_off_what_its_service_has() {
    let translation = with(&[
        grpc_route("shop/cart"),
        policy("pay", "kind: GRPCRoute, name: cart, sectionName: get", "retry: {mode: 'Off'}"),
        policy("service", "kind: Service, name: cart", "retry: {attempts: 4}"),
    ]);
    assert_eq!(numbers(&calls(&translation, "shop", "/shop.Cart/Get"))[2], None);
    assert_eq!(numbers(&calls(&translation, "shop", "/shop.Cart/Add"))[2], Some(4));
}

#[test]
fn of_two_policies_for_one_target_the_first_is_in_force() {
    let target = "kind: Service, name: cart";
    let translation = with(&[policy("a", target, "retry: {attempts: 2}"), policy("b", target, "retry: {attempts: 3}")]);
    assert_eq!(reasons(&translation), [("a", true, Reason::Accepted), ("b", false, Reason::Conflicted)]);
    let expected = "objects.yaml:12: spec.targetRefs[0] of TrafficPolicy shop/b: the older TrafficPolicy shop/a has the same \
                    target; remove the target from one of the two";
    assert_eq!(lines(&translation.problems), [expected]);
    let table = table(&translation, "cart", 80, "shop").expect("a table");
    assert_eq!(numbers(&table.find(&get("/")).expect("a rule").rule.calls)[2], Some(2));
}

#[test]
fn a_target_that_does_not_exist_is_reported() {
    for (target, what) in [
        ("kind: Service, name: crat", "there is no Service \"shop/crat\"; add it, or correct the name"),
        (
            "kind: Service, name: dns",
            "Service shop/dns is an ExternalName or has no TCP port, so calls cannot be sent to it; \
             name a Service with a TCP port",
        ),
        ("kind: GRPCRoute, name: crat", "there is no GRPCRoute shop/crat; add it, or correct the name"),
        ("kind: HTTPRoute, name: cart", "there is no HTTPRoute shop/cart; add it, or correct the name"),
        (
            "kind: Service, name: cart, sectionName: grpc",
            "Service shop/cart has no port named grpc; it has http, admin; correct sectionName, or remove it to select all",
        ),
        (
            "kind: GRPCRoute, name: cart, sectionName: add",
            "GRPCRoute shop/cart has no rule named add; it has get; correct sectionName, or remove it to select all",
        ),
    ] {
        let translation = with(&[grpc_route("shop/cart"), policy("one", target, "retry: {}")]);
        assert_eq!(reasons(&translation), [("one", false, Reason::TargetNotFound)], "{target}");
        assert_eq!(translation.traffic[0].condition.message, format!("spec.targetRefs[0]: {what}"));
        assert_eq!(translation.problems.len(), 1);
    }
}

#[test]
fn a_budget_belongs_to_the_clusters_of_its_service() {
    let translation = with(&[policy("cart", "kind: Service, name: cart", "budget: {percent: 5}")]);
    let budgets: Vec<_> = translation
        .mesh
        .clusters()
        .iter()
        .map(|cluster| cluster.retry_budget.as_ref().map(|budget| budget.value))
        .collect();
    let own = Some(BudgetSettings { percent: 5, ..BudgetSettings::default() });
    assert_eq!(budgets, [own, own, None]);
    // A policy that sets only a retry budget creates no table of routes.
    assert!(table(&translation, "cart", 80, "shop").is_none());
}

/// The percentage of the retry budget of each port of `cart`, and the object that sets it.
fn budgets(translation: &Translation) -> Vec<Option<(u8, &str)>> {
    let clusters = translation.mesh.clusters().iter().filter(|cluster| &*cluster.key.service == "cart");
    clusters
        .map(|cluster| cluster.retry_budget.as_ref().map(|budget| (budget.value.percent, &*budget.set_by)))
        .collect()
}

/// The objective of all calls to each port of `cart`, and the object that sets it.
fn objectives(translation: &Translation) -> Vec<Option<(String, String)>> {
    let clusters = translation.mesh.clusters().iter().filter(|cluster| &*cluster.key.service == "cart");
    let all = clusters.map(|cluster| cluster.objectives.as_ref());
    all.map(|all| all.and_then(|all| Some((all.of_others()?.to_string(), all.set_by.to_string())))).collect()
}

#[test]
fn the_objective_of_a_service_goes_before_a_policy_for_its_port_and_that_before_a_policy_for_all() {
    let with_objective = |policy: String, objective: &str| {
        policy.replace(
            "namespace: shop}",
            &format!("namespace: shop, annotations: {{leno.dev/objective: {objective}}}}}"),
        )
    };
    let all = with_objective(policy("all", "kind: Service, name: cart", ""), "p99 2s");
    let admin = with_objective(policy("admin", "kind: Service, name: cart, sectionName: admin", ""), "p99 3s");
    let set = |text: &str, by: &str| Some((text.to_owned(), by.to_owned()));
    let translation = with(&[all.clone(), admin.clone()]);
    let of_policies = [set("p99 2s", "TrafficPolicy shop/all"), set("p99 3s", "TrafficPolicy shop/admin")];
    assert_eq!(objectives(&translation), of_policies);
    assert_eq!(reasons(&translation), [("all", true, Reason::Accepted), ("admin", true, Reason::Accepted)]);
    let services = SERVICES.replace(
        "{name: cart, namespace: shop}",
        "{name: cart, namespace: shop, annotations: {leno.dev/objective: p99 1s}}",
    );
    let policies = (all.clone() + &admin).trim_start_matches("---\n").to_owned();
    let translation = translated(&[("a.yaml", &services), ("b.yaml", &policies)]);
    assert_eq!(objectives(&translation), [set("p99 1s", "Service shop/cart"), set("p99 1s", "Service shop/cart")]);
    // If two policies have the same target, the first policy is in force.
    let second = with_objective(policy("second", "kind: Service, name: cart", ""), "p99 4s");
    assert_eq!(objectives(&with(&[all, admin, second])), of_policies);
}

#[test]
fn the_retry_budget_of_gateway_api_goes_before_every_policy_for_the_service() {
    let all = policy("all", "kind: Service, name: cart", "budget: {percent: 2}\n  retry: {attempts: 4}");
    let admin = policy("admin", "kind: Service, name: cart, sectionName: admin", "budget: {percent: 3, mode: Audit}");
    let ours = [Some((2, "TrafficPolicy shop/all")), Some((3, "TrafficPolicy shop/admin"))];
    assert_eq!(budgets(&with(&[all.clone(), admin.clone()])), ours);
    let theirs = backend_policy("cart", "retryConstraint: {budget: {percent: 1}}");
    let translation = with(&[all.clone(), admin.clone(), theirs]);
    assert_eq!(budgets(&translation), [Some((1, "XBackendTrafficPolicy shop/cart")); 2]);
    // Policies of different kinds do not conflict: the other parts of the TrafficPolicy stay in force.
    let accepted = ["all", "admin", "cart"].map(|name| (name, true, Reason::Accepted));
    assert_eq!(reasons(&translation), accepted);
    let table = table(&translation, "cart", 80, "shop").expect("a table");
    assert_eq!(numbers(&table.find(&get("/")).expect("a rule").rule.calls)[2], Some(4));
    // Without a retryConstraint, the XBackendTrafficPolicy sets no budget.
    let without = with(&[all, admin, backend_policy("cart", "sessionPersistence: {}")]);
    assert_eq!(budgets(&without), ours);
}

#[test]
fn of_two_policies_of_gateway_api_for_one_service_the_first_is_in_force() {
    let translation = with(&[
        backend_policy("a", "retryConstraint: {budget: {percent: 1}}"),
        backend_policy("b", "retryConstraint: {budget: {percent: 2}}"),
    ]);
    assert_eq!(reasons(&translation), [("a", true, Reason::Accepted), ("b", false, Reason::Conflicted)]);
    let expected = "objects.yaml:12: spec.targetRefs[0] of XBackendTrafficPolicy shop/b: the older XBackendTrafficPolicy \
                    shop/a has the same target; remove the target from one of the two";
    assert_eq!(lines(&translation.problems), [expected]);
    assert_eq!(budgets(&translation), [Some((1, "XBackendTrafficPolicy shop/a")); 2]);
    // If the target of a policy does not exist, the policy conflicts with no other policy.
    let missing = backend_policy("a", "retryConstraint: {}").replace("name: cart}]", "name: crat}]");
    let translation = with(&[missing, backend_policy("b", "retryConstraint: {}")]);
    assert_eq!(reasons(&translation), [("a", false, Reason::TargetNotFound), ("b", true, Reason::Accepted)]);
}

#[test]
fn a_policy_of_gateway_api_says_what_the_mesh_does_otherwise() {
    let message = |spec: &str| with(&[backend_policy("cart", spec)]).traffic[0].condition.message.clone();
    let ignored = "gRPC clients without a proxy ignore: budget; Envoy ignores: budget.interval, budget.minPerSecond";
    assert_eq!(message("retryConstraint: {}"), format!("in force for proxies; {ignored}"));
    assert_eq!(
        message("sessionPersistence: {}\n  retryConstraint: {minRetryRate: {count: 1, interval: 10s}}"),
        format!(
            "in force for proxies; sessionPersistence is not supported; minRetryRate is rounded up to 1 \
             per second; {ignored}"
        )
    );
    assert_eq!(
        message("sessionPersistence: {}"),
        "sessionPersistence is not supported; without retryConstraint, the policy has no effect"
    );
}

#[test]
fn a_cluster_with_a_budget_stays_the_same_object_while_nothing_changes() {
    let text = SERVICES.to_owned() + &policy("cart", "kind: Service, name: cart", "budget: {percent: 5}");
    let file = SourceFile { path: "a.yaml".to_owned(), text };
    let objects = parse_file(&file, "default").expect("no mistakes").objects;
    let mut memo = Memo::default();
    let mut cluster = || {
        let translation = translate_again(&objects, "default", Dialled::Any, &mut memo);
        let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
        translation.mesh.cluster(&key).expect("the Service").clone()
    };
    assert!(Arc::ptr_eq(&cluster(), &cluster()));
}

#[test]
fn the_status_says_what_programs_without_a_proxy_ignore() {
    let message =
        |spec: &str| with(&[policy("cart", "kind: Service, name: cart", spec)]).traffic[0].condition.message.clone();
    assert_eq!(message("retry: {grpcCodes: [UNAVAILABLE]}\n  timeouts: {request: 1s}"), "");
    assert_eq!(
        message("retry: {grpcCodes: [ABORTED], mode: Audit}\n  hedge: {delay: 1s, methods: [GET]}\n  budget: {}"),
        "in force for proxies; gRPC clients without a proxy ignore: retry in mode Audit, hedge, budget; Envoy ignores: retry in \
         mode Audit, hedge, budget.interval, budget.minPerSecond"
    );
    assert_eq!(
        message("timeouts: {streamIdle: 5m}"),
        "in force for proxies; gRPC clients without a proxy ignore: timeouts.streamIdle"
    );
}

#[test]
fn a_policy_where_the_mesh_reads_no_calls_says_that_it_has_no_effect() {
    let tcp_route = |namespace: &str, port: u16| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: TCPRoute\nmetadata: {{name: cart-{port}, namespace: {namespace}}}\n\
             spec:\n  parentRefs: [{{group: '', kind: Service, name: cart, namespace: shop, port: {port}}}]\n  \
             rules: [{{backendRefs: [{{name: cart, namespace: shop, port: {port}}}]}}]\n"
        )
    };
    let message = |target: &str, routes: &[String]| {
        let translation = with(&[&[policy("one", target, "retry: {attempts: 2}")], routes].concat());
        assert_eq!(reasons(&translation), [("one", true, Reason::Accepted)]);
        translation.traffic[0].condition.message.clone()
    };
    let idle = |ports: &str| {
        format!("it has no effect: {ports} is opaque or has a TCPRoute or TLSRoute, so the mesh reads no calls there")
    };
    assert_eq!(message("kind: Service, name: db", &[]), idle("every port of Service shop/db"));
    let (cart, admin) = ("kind: Service, name: cart", "kind: Service, name: cart, sectionName: admin");
    assert_eq!(message(admin, &[tcp_route("shop", 81)]), idle("port admin of Service shop/cart"));
    assert_eq!(message(cart, &[tcp_route("shop", 80), tcp_route("shop", 81)]), idle("every port of Service shop/cart"));
    // The policy has an effect while the mesh reads the calls of one port, or the calls of clients in one namespace.
    assert_eq!(message(cart, &[tcp_route("shop", 81)]), "");
    assert_eq!(message(admin, &[tcp_route("web", 81)]), "");
    let of_consumers = grpc_route("web/mine").replace("port: 80", "port: 81");
    assert_eq!(message(admin, &[tcp_route("shop", 81), of_consumers]), "");
}

#[test]
fn a_policy_of_a_route_that_is_not_in_force_says_that_it_has_no_effect() {
    let message = |target: &str, routes: &[String]| {
        let translation = with(&[&[policy("one", target, "retry: {attempts: 2}")], routes].concat());
        assert_eq!(reasons(&translation), [("one", true, Reason::Accepted)]);
        translation.traffic[0].condition.message.clone()
    };
    let (whole, rule) = ("kind: GRPCRoute, name: cart", "kind: GRPCRoute, name: cart, sectionName: get");
    assert_eq!(
        (message(whole, &[grpc_route("shop/cart")]), message(rule, &[grpc_route("shop/cart")])),
        Default::default()
    );
    let idle = "it has no effect: GRPCRoute shop/cart is in force at no port where the mesh reads calls; the status of \
                the route says why";
    let elsewhere = grpc_route("shop/cart").replacen("port: 80", "port: 82", 1);
    let opaque =
        grpc_route("shop/cart").replacen("name: cart, namespace: shop, port: 80", "name: db, namespace: shop", 1);
    for route in [elsewhere, opaque] {
        let routes = [route];
        assert_eq!((&*message(whole, &routes), &*message(rule, &routes)), (idle, idle));
    }
}

#[test]
fn the_examples_of_the_documentation_do_what_they_say() {
    let page = include_str!("../../../../docs/traffic.md");
    let examples: Vec<&str> = page.split("```").filter_map(|block| block.strip_prefix("yaml\n")).collect();
    let [whole, pay, constraint] = examples[..] else { panic!("{examples:?}") };
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {ports: [{port: 50051}]}}";
    let translation = translated(&[("a.yaml", service), ("b.yaml", whole), ("c.yaml", pay)]);
    let with_constraint =
        translated(&[("a.yaml", service), ("b.yaml", whole), ("c.yaml", pay), ("d.yaml", constraint)]);
    assert_eq!(lines(&translation.problems), [""; 0]);
    let table = table(&translation, "cart", 50051, "web").expect("a table");
    let of = |path| table.find(&call(path)).expect("a rule").rule.calls.clone();
    let get = of("/shop.v1.Cart/GetItems");
    assert_eq!(numbers(&get), [Some(2_000), Some(300), Some(2)]);
    assert!(get.hedge.is_some_and(|hedge| hedge.value.applies_to(true, b"/shop.v1.Cart/GetItems")));
    let pay = of("/shop.v1.Cart/Pay");
    assert_eq!(numbers(&pay), [Some(10_000), Some(300), None]);
    assert_eq!(
        pay.request_timeout.map(|limit| limit.set_by.to_string()).as_deref(),
        Some("TrafficPolicy shop/cart-pay")
    );
    let cluster = &translation.mesh.clusters()[0];
    assert_eq!(cluster.retry_budget.as_ref().map(|budget| budget.value), Some(BudgetSettings::default()));
    assert_eq!(lines(&with_constraint.problems), [""; 0]);
    assert!(with_constraint.traffic.iter().all(|status| !status.condition.message.contains("rounded")));
    let budget = with_constraint.mesh.clusters()[0].retry_budget.clone().expect("a retry budget");
    let expected = BudgetSettings { percent: 10, interval: Duration::from_secs(30), min_per_second: 3 };
    assert_eq!((budget.value, &*budget.set_by), (expected, "XBackendTrafficPolicy shop/cart"));
    // The documentation page must quote the message for a percentile above p99.9.
    let mistake = whole.replace("p95", "p101");
    let file = SourceFile { path: "b.yaml".to_owned(), text: mistake };
    let refused = parse_file(&file, "default").expect_err("a mistake");
    let text = refused.problems[0].to_string();
    let quoted = text.split_once(": ").map(|(_, rest)| rest).expect("a place");
    assert!(page.replace('\n', " ").contains(quoted), "the page does not have {quoted}");
}
