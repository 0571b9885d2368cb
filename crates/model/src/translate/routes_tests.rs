use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SELECTED_PORTS_MAX;
use super::sharing::Resolved;
use crate::fixtures::{lines, objects, translated};
use crate::mesh::{ClusterKey, Mesh};
use crate::object::Object;
use crate::object::route::RouteRule;
use crate::route::fixtures::{Head, call, get};
use crate::route::status::{Condition, ConditionKind, Reason};
use crate::route::{BackendTarget, ENTRIES_MAX, RouteKind, RouteTable, Rule, TABLE_MAX_BYTES};
use crate::traffic::{CallPolicy, Setting, TimeLimit};
use crate::translate::references::Known;
use crate::translate::{Translation, translate};

/// In the namespace shop: `cart` with the ports 80 (http) and 81 (admin), `cart-v2` with port 80, the headless Service
/// `none`, `db` with the opaque port 3306, and `dns` without a TCP port. In the namespace bank: `pay` with port 80.
const SERVICES: &str = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {ports: [{name: http, port: 80}, {name: admin, port: 81}]}}
- {apiVersion: v1, kind: Service, metadata: {name: cart-v2, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: pay, namespace: bank}, spec: {ports: [{port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: none, namespace: shop}, spec: {clusterIP: None, ports: [{port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {ports: [{port: 3306}]}}
- {apiVersion: v1, kind: Service, metadata: {name: dns, namespace: shop}, spec: {ports: [{port: 53, protocol: UDP}]}}
";
const CART: &str = "{group: '', kind: Service, name: cart, namespace: shop, port: 80}";

/// A route `namespace/name` of a kind, with `parents` and `rules`.
fn route(kind: &str, route: &str, parents: &str, rules: &str) -> String {
    let (namespace, name) = route.split_once('/').expect("a namespace and a name");
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  parentRefs: [{parents}]\n  rules: {rules}\n"
    )
}

fn http(name: &str, parents: &str, rules: &str) -> String {
    route("HTTPRoute", name, parents, rules)
}

/// Returns a list of one rule with this name, which sends all requests to `cart.shop:80`.
fn to_cart(name: &str) -> String {
    format!("[{{name: {name}, backendRefs: [{{name: cart, namespace: shop, port: 80}}]}}]")
}

fn with(routes: &[String]) -> Translation {
    let routes = routes.concat();
    translated(&[("a-services.yaml", SERVICES), ("routes.yaml", routes.trim_start_matches("---\n"))])
}

fn key(service: &str, port: u16) -> ClusterKey {
    let (name, namespace) = service.split_once('.').expect("a name and a namespace");
    ClusterKey { namespace: namespace.into(), service: name.into(), port }
}

/// Returns the table for calls to `cart.shop:80` from clients in `namespace`.
fn table<'m>(mesh: &'m Mesh, namespace: &str) -> Option<&'m Arc<RouteTable>> {
    mesh.routes(&key("cart.shop", 80), namespace)
}

/// Returns the name of the rule at `cart.shop:80` for the request `head` from a client in `namespace`.
fn found(translation: &Translation, namespace: &str, head: Head<'_>) -> Option<String> {
    let found = table(&translation.mesh, namespace)?.find(&head)?;
    found.rule.name.as_deref().map(str::to_owned)
}

/// Returns the only rule of the table for `cart.shop:80`; it must match `GET /`.
fn only_rule(translation: &Translation) -> Rule {
    let table = table(&translation.mesh, "shop").expect("a table");
    Rule::clone(table.find(&get("/")).expect("a rule").rule)
}

/// Returns the reasons of the only status, for Accepted and for ResolvedRefs, each with its truth value.
fn reasons(translation: &Translation) -> [(bool, Reason); 2] {
    let [status] = &translation.routes[..] else { panic!("{:?}", translation.routes) };
    let [accepted, resolved] = &status.conditions[..] else { panic!("{status:?}") };
    assert_eq!((accepted.kind, resolved.kind), (ConditionKind::Accepted, ConditionKind::ResolvedRefs));
    [(accepted.status, accepted.reason), (resolved.status, resolved.reason)]
}

const ACCEPTED: (bool, Reason) = (true, Reason::Accepted);
const RESOLVED: (bool, Reason) = (true, Reason::ResolvedRefs);

#[test]
fn without_a_route_calls_go_to_the_cluster_itself() {
    let translation = with(&[]);
    assert_eq!(table(&translation.mesh, "shop"), None);
    assert!(translation.routes.is_empty());
}

/// The example of GEP-1294 (formerly GEP-1426).
#[test]
fn a_service_and_its_new_version_share_the_calls() {
    let weighted = "[{backendRefs: [{name: cart, port: 80, weight: 90}, {name: cart-v2, port: 80, weight: 10}]}]";
    let translation = with(&[http("shop/cart", "{group: '', kind: Service, name: cart}", weighted)]);
    let rule = only_rule(&translation);
    let shares: Vec<_> = rule.backends.iter().map(|backend| (backend.to.clone(), backend.weight)).collect();
    let to = |service| BackendTarget::Cluster(key(service, 80));
    assert_eq!(shares, [(to("cart.shop"), 90), (to("cart-v2.shop"), 10)]);
    assert_eq!(rule.route.to_string(), "HTTPRoute shop/cart");
    assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
    assert_eq!(lines(&translation.problems), [""; 0]);
    // The route applies only to calls to cart: cart-v2 has no routes.
    assert_eq!(translation.mesh.routes(&key("cart-v2.shop", 80), "shop"), None);
}

#[test]
fn a_producer_route_is_for_clients_of_all_namespaces() {
    let translation = with(&[http("shop/cart", CART, &to_cart("producer"))]);
    for namespace in ["shop", "web", ""] {
        assert_eq!(found(&translation, namespace, get("/")).as_deref(), Some("producer"), "{namespace}");
    }
}

#[test]
fn a_consumer_route_is_for_clients_of_its_own_namespace_only() {
    let translation = with(&[http("web/cart", CART, &to_cart("consumer"))]);
    assert_eq!(found(&translation, "web", get("/")).as_deref(), Some("consumer"));
    assert_eq!(table(&translation.mesh, "shop"), None);
    assert_eq!(table(&translation.mesh, "other"), None);
    assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
}

#[test]
fn consumer_routes_replace_producer_routes_and_are_not_merged_with_them() {
    let consumer = "[{name: consumer, matches: [{path: {value: /a}}]}]";
    let translation = with(&[http("shop/cart", CART, &to_cart("producer")), http("web/cart", CART, consumer)]);
    assert_eq!(found(&translation, "web", get("/a")).as_deref(), Some("consumer"));
    assert_eq!(found(&translation, "web", get("/b")), None);
    assert!(table(&translation.mesh, "web").is_some());
    assert_eq!(found(&translation, "shop", get("/a")).as_deref(), Some("producer"));
}

#[test]
fn routes_of_one_namespace_are_merged_by_precedence() {
    let translation = with(&[
        http("shop/b", CART, "[{name: b-root}, {name: b-long, matches: [{path: {value: /a/b}}]}]"),
        http("shop/a", CART, "[{name: a-root}, {name: a-short, matches: [{path: {value: /a}}]}]"),
    ]);
    for (path, name) in [("/", "a-root"), ("/a", "a-short"), ("/a/b/c", "b-long")] {
        assert_eq!(found(&translation, "shop", get(path)).as_deref(), Some(name), "{path}");
    }
}

#[test]
fn the_older_of_two_equal_routes_counts() {
    let created = |name: &str, time: &str| {
        let named = format!("name: {}", name.trim_start_matches("shop/"));
        http(name, CART, &to_cart(&format!("'{time}'"))).replacen(
            &named,
            &format!("{named}, creationTimestamp: 20{time}-01-01T00:00:00Z"),
            1,
        )
    };
    let translation = with(&[created("shop/a", "26"), created("shop/b", "25"), http("shop/z", CART, &to_cart("no"))]);
    assert_eq!(found(&translation, "shop", get("/")).as_deref(), Some("25"));
}

#[test]
fn a_parent_is_all_ports_or_the_one_that_it_names() {
    for (port, ports) in [
        ("", &[80, 81][..]),
        (", port: 81", &[81]),
        (", sectionName: http", &[80]),
        (", sectionName: admin, port: 81", &[81]),
    ] {
        let parent = format!("{{group: '', kind: Service, name: cart{port}}}");
        let translation = with(&[http("shop/cart", &parent, "[{}]")]);
        let has_routes = |port: &u16| translation.mesh.routes(&key("cart.shop", *port), "shop").is_some();
        let attached: Vec<u16> = [80, 81].into_iter().filter(has_routes).collect();
        assert_eq!(attached, ports, "{port}");
        assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
    }
}

#[test]
fn a_parent_that_is_not_there_is_not_matched() {
    for (parent, what) in [
        ("name: carts", "there is no Service \"shop/carts\"; add it, or correct the name or the namespace"),
        ("name: \"a\\nb\"", "there is no Service \"shop/a\\nb\"; add it, or correct the name or the namespace"),
        ("name: pay", "there is no Service \"shop/pay\"; add it, or correct the name or the namespace"),
        (
            "name: cart, port: 82",
            "Service shop/cart has no such port; it has 80 \"http\", 81 \"admin\"; use one of them",
        ),
        (
            "name: cart, port: 80, sectionName: admin",
            "Service shop/cart has no such port; it has 80 \"http\", 81 \"admin\"; use one of them",
        ),
        (
            "name: dns",
            "Service shop/dns is an ExternalName or has no TCP port, so calls cannot be sent to it; \
             name a Service with a TCP port",
        ),
        ("name: none", "Service shop/none is headless: routes apply to calls to a clusterIP; give it a clusterIP"),
        (
            "name: db",
            "the protocol there is opaque to the mesh, because of Service shop/db or its port; \
             correct leno.dev/opaque-ports or appProtocol, if it is HTTP",
        ),
    ] {
        let translation = with(&[http("shop/a", &format!("{{group: '', kind: Service, {parent}}}"), "[{}]")]);
        assert_eq!(reasons(&translation), [(false, Reason::NoMatchingParent), RESOLVED]);
        assert!(translation.mesh.attached_routes().is_empty());
        assert_eq!(translation.routes[0].conditions[0].message, format!("spec.parentRefs[0]: {what}"));
        let line = format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/a: {what}");
        assert_eq!(lines(&translation.problems), [line]);
    }
}

#[test]
fn a_parent_of_another_kind_has_no_status_here() {
    for gate in ["{name: gate}", "{group: '', name: gate}"] {
        let translation = with(&[http("shop/a", &format!("{gate}, {CART}"), "[{}]")]);
        assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
        let what = "ignored: it is a Gateway, and the mesh routes calls only to Services, whose group is \"\" or core";
        let line = format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/a: {what}");
        assert!(lines(&translation.notices).contains(&line), "{:?}", translation.notices);
    }
}

#[test]
fn a_service_of_another_group_is_ignored() {
    let translation = with(&[http("shop/a", "{group: example.com, kind: Service, name: cart}", "[{}]")]);
    assert!(translation.routes.is_empty() && translation.mesh.attached_routes().is_empty());
    let what = "ignored: it is a Service of example.com, and the mesh routes calls only to Services, whose group is \"\" or core";
    let line = format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/a: {what}");
    assert!(lines(&translation.notices).contains(&line), "{:?}", translation.notices);
}

/// Gateway API's introduction to meshes writes the core group as `core`, and so do Linkerd's documents.
#[test]
fn the_core_group_may_be_written_out() {
    let rules = "[{filters: [{type: RequestMirror, requestMirror: {backendRef: {group: core, kind: Service, name: cart-v2, port: 80}}}],
        backendRefs: [{group: core, kind: Service, name: pay, namespace: bank, port: 80}]}]";
    let grant = "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: shop, namespace: bank}\n\
                 spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}], to: [{group: core, kind: Service}]}\n";
    let parent = "{group: core, kind: Service, name: cart}";
    let translation = with(&[http("shop/a", parent, rules), grant.to_owned()]);
    assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
    assert_eq!(translation.routes[0].parent.group.as_deref(), Some("core"), "the status repeats the group");
    let rule = only_rule(&translation);
    assert_eq!(rule.backends[0].to, BackendTarget::Cluster(key("pay.bank", 80)));
    assert_eq!(rule.filters.mirrors[0].to, key("cart-v2.shop", 80));
}

/// Kubernetes stores such a parent: its group is Gateway API's, by default.
#[test]
fn a_service_without_its_group_is_ignored_and_the_other_parents_are_not() {
    for group in ["", "group: gateway.networking.k8s.io, "] {
        let translation = with(&[http("shop/a", &format!("{{{group}kind: Service, name: cart-v2}}, {CART}"), "[{}]")]);
        assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED]);
        assert!(table(&translation.mesh, "shop").is_some());
        assert_eq!(translation.mesh.routes(&key("cart-v2.shop", 80), "shop"), None);
        let what = "ignored: gateway.networking.k8s.io, the default group, has no kind Service; to name a Service, write \
                    `group: \"\"`";
        let line = format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/a: {what}");
        assert!(lines(&translation.notices).contains(&line), "{:?}", translation.notices);
    }
}

#[test]
fn a_route_whose_only_service_lacks_its_group_is_a_problem() {
    let what =
        "gateway.networking.k8s.io, the default group, has no kind Service; to name a Service, write `group: \"\"`";
    for parents in ["{kind: Service, name: cart}", "{kind: Service, name: cart}, {name: front}"] {
        let translation = with(&[http("shop/a", parents, "[{}]")]);
        let line = format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/a: {what}");
        assert_eq!(lines(&translation.problems), [line]);
        assert!(translation.routes.is_empty() && translation.mesh.attached_routes().is_empty());
    }
}

#[test]
fn a_status_repeats_the_parent_as_it_is_written() {
    let translation = with(&[http("shop/a", "{group: '', kind: Service, name: cart, sectionName: http}", "[{}]")]);
    let parent = &translation.routes[0].parent;
    assert_eq!((parent.group.as_deref(), parent.kind.as_deref(), &*parent.name), (Some(""), Some("Service"), "cart"));
    assert_eq!((parent.namespace.as_deref(), parent.section_name.as_deref(), parent.port), (None, Some("http"), None));
}

#[test]
fn a_backend_that_cannot_be_resolved_fails_its_share_of_the_calls() {
    for (backend, reason, why, fix) in [
        (
            "{name: carts, port: 80}",
            Reason::BackendNotFound,
            "there is no Service \"shop/carts\"",
            "add it, or correct the name",
        ),
        (
            "{name: cart, port: 82}",
            Reason::BackendNotFound,
            "Service shop/cart has no port 82",
            "use one of its ports: 80, 81",
        ),
        (
            "{name: dns, port: 53}",
            Reason::BackendNotFound,
            "Service shop/dns is an ExternalName or has no TCP port, so calls cannot be sent to it",
            "name a Service with a TCP port",
        ),
        ("{kind: Pod, name: cart}", Reason::InvalidKind, "calls cannot be sent to a Pod", "name a Service"),
        (
            "{group: a.b, kind: Service, name: cart}",
            Reason::InvalidKind,
            "calls cannot be sent to a Service of a.b",
            "name a Service",
        ),
        (
            "{name: pay, namespace: bank, port: 80}",
            Reason::RefNotPermitted,
            "no ReferenceGrant in namespace bank allows it",
            "add one there, from HTTPRoutes of shop to Services",
        ),
    ] {
        let rules = format!("[{{backendRefs: [{{name: cart, port: 80}}, {backend}]}}]");
        let translation = with(&[http("shop/a", CART, &rules)]);
        assert_eq!(reasons(&translation), [ACCEPTED, (false, reason)], "{backend}");
        let rule = only_rule(&translation);
        assert_eq!(rule.backends[0].to, BackendTarget::Cluster(key("cart.shop", 80)));
        assert_eq!((&rule.backends[1].to, rule.backends[1].weight), (&BackendTarget::Invalid(why.into()), 1));
        let place = "spec.rules[0].backendRefs[1]";
        assert_eq!(translation.routes[0].conditions[1].message, format!("{place}: {why}; {fix}"));
        let line = format!("routes.yaml:6: {place} of HTTPRoute shop/a: {why}; {fix}");
        assert_eq!(lines(&translation.problems), [line]);
    }
}

#[test]
fn a_backend_that_expects_the_applications_tls_gets_no_requests() {
    let services = |app_protocol: &str, annotations: &str| {
        format!(
            "{SERVICES}- {{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: shop, annotations: {annotations}}}, \
             spec: {{ports: [{{name: plain, port: 80}}, {{name: a, port: 4443, {app_protocol}}}]}}}}\n"
        )
    };
    let rules = "[{backendRefs: [{name: cart, port: 80}, {name: web, port: 4443}]}]";
    let of = |kind: &str, services: &str| {
        let route = route(kind, "shop/a", CART, rules);
        translated(&[("a-services.yaml", services), ("routes.yaml", route.trim_start_matches("---\n"))])
    };
    for kind in ["HTTPRoute", "GRPCRoute"] {
        for protocol in ["https", "TLS", "kubernetes.io/wss"] {
            let translation = of(kind, &services(&format!("appProtocol: {protocol}"), "{}"));
            assert_eq!(reasons(&translation), [ACCEPTED, (false, Reason::UnsupportedProtocol)], "{kind} {protocol}");
            let why =
                format!("port 4443 of Service shop/web expects the application's own TLS, which {kind}s do not send");
            let invalid = BackendTarget::Invalid(why.as_str().into());
            let table = table(&translation.mesh, "shop").expect("a table");
            assert_eq!(table.entries()[0].rule.backends[1].to, invalid);
            let expected =
                format!("spec.rules[0].backendRefs[1]: {why}; name a port without TLS, or correct its appProtocol");
            assert_eq!(translation.routes[0].conditions[1].message, expected);
        }
    }
    // These routes have no fault: an opaque port without TLS in `appProtocol` may speak HTTP, and a TCPRoute relays the
    // client's own TLS.
    for (kind, app_protocol, annotations) in [
        ("HTTPRoute", "appProtocol: tcp", "{}"),
        ("HTTPRoute", "", "{leno.dev/opaque-ports: '4443'}"),
        ("TCPRoute", "appProtocol: https", "{}"),
    ] {
        let rules = "[{backendRefs: [{name: web, port: 4443}]}]";
        let route = route(kind, "shop/a", CART, rules);
        let services = services(app_protocol, annotations);
        let files = [("a-services.yaml", &*services), ("routes.yaml", route.trim_start_matches("---\n"))];
        assert_eq!(reasons(&translated(&files)), [ACCEPTED, RESOLVED], "{kind} {app_protocol} {annotations}");
    }
}

#[test]
fn a_reference_grant_opens_another_namespace() {
    let rules = "[{backendRefs: [{name: pay, namespace: bank, port: 80}]}]";
    let grant = |namespace: &str, kind: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
             metadata: {{name: shop, namespace: {namespace}}}\n\
             spec: {{from: [{{group: gateway.networking.k8s.io, kind: {kind}, namespace: shop}}], to: [{{group: '', kind: Service}}]}}\n"
        )
    };
    let kinds = RouteKind::OBJECTS.map(RouteKind::name);
    for (kind, another) in kinds.iter().zip(kinds.iter().cycle().skip(1)) {
        let resolved = |grant: String| reasons(&with(&[route(kind, "shop/a", CART, rules), grant]))[1];
        assert_eq!(resolved(grant("bank", kind)), RESOLVED, "{kind}");
        assert_eq!(resolved(grant("bank", another)), (false, Reason::RefNotPermitted), "{kind}");
        assert_eq!(resolved(grant("shop", kind)), (false, Reason::RefNotPermitted), "{kind}");
    }
}

#[test]
fn four_times_as_many_references_and_grants_take_about_four_times_as_long() {
    let took = |count: usize| -> Duration {
        let backends: Vec<String> =
            (0..16).map(|number| format!("{{name: b{number}, namespace: bank, port: 80}}")).collect();
        let rules = vec![format!("{{backendRefs: [{}]}}", backends.join(", ")); 16].join(", ");
        let routes = (0..count).map(|number| http(&format!("shop/r{number}"), CART, &format!("[{rules}]")));
        let from: Vec<String> = (0..16)
            .map(|number| format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other-{number}}}"))
            .collect();
        let grants = (0..10 * count).map(|number| {
            format!(
                "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {{name: g{number}, namespace: bank}}\n\
                 spec: {{from: [{}], to: [{{group: '', kind: Service}}]}}\n",
                from.join(", ")
            )
        });
        let text: String = routes.chain(grants).collect();
        let mut all = objects(SERVICES);
        all.extend(objects(text.trim_start_matches("---\n")));
        let begun = Instant::now();
        let translation = translate(&all, "default");
        let took = begun.elapsed();
        let resolved = translation.routes.iter().map(|status| status.conditions[1].reason);
        assert_eq!(resolved.filter(|reason| *reason == Reason::RefNotPermitted).count(), count);
        took
    };
    // The shortest of three times: a busy machine can only make a time longer.
    let shortest = |count| (0..3).map(|_| took(count)).min().unwrap_or_default();
    // When each reference cost a search through all grants, the second time was about 16 times the first.
    let (few, many) = (shortest(10), shortest(40));
    assert!(many < few * 8, "{few:?}, then {many:?}");
}

#[test]
fn a_consumer_route_may_send_to_the_namespace_that_was_called_anyway() {
    let rules = "[{backendRefs: [{name: cart-v2, namespace: shop, port: 80}]}]";
    assert_eq!(reasons(&with(&[http("web/a", CART, rules)])), [ACCEPTED, RESOLVED]);
}

#[test]
fn a_mirror_that_cannot_be_resolved_is_left_out() {
    let mirror = |name| format!("{{type: RequestMirror, requestMirror: {{backendRef: {{name: {name}, port: 80}}}}}}");
    let rules =
        format!("[{{filters: [{}, {}], backendRefs: [{{name: cart, port: 80}}]}}]", mirror("cart-v2"), mirror("carts"));
    let translation = with(&[http("shop/a", CART, &rules)]);
    assert_eq!(reasons(&translation), [ACCEPTED, (false, Reason::BackendNotFound)]);
    let rule = only_rule(&translation);
    let mirrors: Vec<_> = rule.filters.mirrors.iter().map(|mirror| &mirror.to).collect();
    assert_eq!(mirrors, [&key("cart-v2.shop", 80)]);
    assert_eq!(rule.choose(0).map(|backend| &backend.to), Some(&BackendTarget::Cluster(key("cart.shop", 80))));
}

#[test]
fn a_rule_with_a_filter_that_the_mesh_does_not_have_answers_with_an_error() {
    let rules = "[{name: other, matches: [{path: {value: /a}}], backendRefs: [{name: cart, port: 80}]},
        {filters: [{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}], backendRefs: [{name: cart, port: 80}]}]";
    let translation = with(&[http("shop/a", CART, rules)]);
    assert_eq!(reasons(&translation), [(false, Reason::UnsupportedValue), RESOLVED]);
    let rule = only_rule(&translation);
    let what = "spec.rules[1].filters[0].type: Leno does not support the filter ExtensionRef; requests that match the rule are rejected";
    assert_eq!(rule.choose(7).map(|backend| &backend.to), Some(&BackendTarget::Invalid(what.into())));
    assert!(rule.filters.is_empty());
    assert_eq!(found(&translation, "shop", get("/a")).as_deref(), Some("other"));
}

/// GEP-1294, "Route types".
#[test]
fn of_routes_of_several_kinds_at_one_port_the_first_kind_is_in_force() {
    let kinds = RouteKind::OBJECTS.map(RouteKind::name);
    for (first, winner) in kinds.iter().enumerate() {
        let mut kinds = kinds[first..].to_vec();
        for _ in 0..kinds.len() {
            kinds.rotate_left(1);
            let routes: Vec<_> = kinds
                .iter()
                .map(|kind| route(kind, &format!("shop/{}", kind.to_lowercase()), CART, &to_cart("a")))
                .collect();
            let translation = with(&routes);
            let table = table(&translation.mesh, "shop").expect("a table");
            assert_eq!((table.kind().name(), table.entries().len()), (*winner, 1));
            let name = format!("{winner} shop/{}", winner.to_lowercase());
            assert_eq!(table.entries()[0].rule.route.to_string(), name);
            assert_eq!(translation.routes.len(), kinds.len());
            for status in &translation.routes {
                let accepted = &status.conditions[0];
                if status.route.kind.name() == *winner {
                    assert_eq!((accepted.status, accepted.reason), ACCEPTED);
                } else {
                    assert_eq!((accepted.status, accepted.reason), (false, Reason::Conflicted));
                    let what = format!("cart.shop:80 has {name}, which goes before; use routes of one kind for a port");
                    assert_eq!(accepted.message, format!("spec.parentRefs[0]: {what}"));
                }
            }
        }
    }
}

/// Two TCPRoutes match the same connections (GEP-2644).
#[test]
fn of_several_tcp_routes_the_oldest_is_in_force() {
    let created = |name: &str, minute: u8| {
        let text = route("TCPRoute", &format!("shop/{name}"), CART, &to_cart(name));
        let named = format!("metadata: {{name: {name}, ");
        text.replace(&named, &format!("{named}creationTimestamp: 2026-11-23T00:{minute:02}:00Z, "))
    };
    let undated = route("TCPRoute", "shop/a", CART, &to_cart("a"));
    let translation = with(&[undated.clone(), created("b", 2), created("c", 1)]);
    assert_eq!(only_rule(&translation).route.to_string(), "TCPRoute shop/c");
    assert!(translation.routes.iter().flat_map(|status| &status.conditions).all(|condition| condition.status));
    let shadowed = "cart.shop:80 has TCPRoute shop/c, which goes before; put the backendRefs of both into one";
    let accepted: Vec<_> = translation.routes.iter().map(|status| status.conditions[0].message.as_str()).collect();
    assert_eq!(accepted, [shadowed, shadowed, "in force for Service shop/cart"]);
    // A TCPRoute for both ports is accepted, although one of the ports has an HTTPRoute and the other has an older
    // TCPRoute.
    let all_ports = "{group: '', kind: Service, name: cart, namespace: shop}";
    for port in [80, 81] {
        let at = |port: u16| CART.replace("port: 80", &format!("port: {port}"));
        let before = [http("shop/a", &at(port), "[{}]"), route("TCPRoute", "shop/a", &at(161 - port), &to_cart("a"))];
        let translation = with(&[before.concat(), route("TCPRoute", "shop/b", all_ports, &to_cart("b"))]);
        assert!(translation.routes[2].conditions[0].status, "{port}: {:?}", translation.routes[2]);
    }
    // If two routes have no creation time, the first by name wins.
    let both = with(&[route("TCPRoute", "shop/b", CART, &to_cart("b")), undated]);
    assert_eq!(only_rule(&both).route.to_string(), "TCPRoute shop/a");
}

#[test]
fn routes_of_connections_may_be_attached_where_nothing_is_known_of_the_content() {
    let db = "{group: '', kind: Service, name: db, namespace: shop}";
    for kind in ["TLSRoute", "TCPRoute"] {
        let translation = with(&[route(kind, "shop/db", db, "[{backendRefs: [{name: db, port: 3306}]}]")]);
        assert_eq!(reasons(&translation), [ACCEPTED, RESOLVED], "{kind}");
        let table = translation.mesh.routes(&key("db.shop", 3306), "web").expect("a table");
        assert_eq!(table.kind().name(), kind);
    }
}

#[test]
fn tls_routes_of_one_port_share_its_connections_by_name() {
    let tls = |name: &str, hostname: &str| {
        let text = route("TLSRoute", &format!("shop/{name}"), CART, &to_cart(name));
        text.replace("  rules:", &format!("  hostnames: ['{hostname}']\n  rules:"))
    };
    let translation = with(&[tls("all", "*.example.org"), tls("one", "a.example.org")]);
    let table = table(&translation.mesh, "web").expect("a table");
    let found = |name| table.find_server(Some(name)).and_then(|found| found.rule.name.as_deref());
    assert_eq!(found("a.example.org"), Some("one"));
    assert_eq!(found("b.example.org"), Some("all"));
    assert_eq!(found("example.org"), None);
}

#[test]
fn the_first_rule_of_a_route_of_connections_has_all_of_them() {
    let rules = "[{name: first, backendRefs: [{name: cart, port: 80}]}, {name: never, backendRefs: [{name: nowhere, port: 80}]}]";
    for kind in ["TLSRoute", "TCPRoute"] {
        let translation = with(&[route(kind, "shop/a", CART, rules)]);
        assert_eq!(only_rule(&translation).name.as_deref(), Some("first"), "{kind}");
        assert_eq!(reasons(&translation), [ACCEPTED, (false, Reason::BackendNotFound)], "{kind}");
    }
}

#[test]
fn a_route_whose_parents_lead_to_one_port_twice_is_there_once() {
    let by_name = "{group: '', kind: Service, name: cart, namespace: shop, sectionName: http}";
    let translation = with(&[http("shop/a", &format!("{CART}, {by_name}"), &to_cart("a"))]);
    assert_eq!(table(&translation.mesh, "shop").expect("a table").entries().len(), 1);
    assert_eq!(translation.routes.len(), 2);
}

#[test]
fn routes_that_would_bring_more_matches_than_count_are_told_so_the_youngest_first() {
    let tls = |number: usize| {
        let names: Vec<String> = (0..1_000).map(|name| format!("{name}.r{number:02}.example")).collect();
        let text = route("TLSRoute", &format!("shop/r{number:02}"), CART, &to_cart("rule"));
        text.replace("  rules:", &format!("  hostnames: [{}]\n  rules:", names.join(", ")))
    };
    // One of these routes fits into a table; all of them together do not.
    let files: Vec<String> = (0..12).map(tls).collect();
    let translation = with(&files);
    let table = table(&translation.mesh, "shop").expect("a table");
    assert_eq!(table.entries().len(), 3_000);
    assert!(table.size_bytes() <= TABLE_MAX_BYTES && table.entries().len() <= ENTRIES_MAX);
    let refused: Vec<_> = translation.routes.iter().filter(|status| !status.conditions[0].status).collect();
    let names: Vec<_> = refused.iter().map(|status| &*status.route.name).collect();
    assert_eq!((names.len(), names[0], names[8]), (9, "r03", "r11"));
    let Condition { reason, message, .. } = &refused[0].conditions[0];
    let what = "with it the routes of cart.shop:80 would take more than 1 MiB, and older routes come first";
    assert_eq!(*reason, Reason::Conflicted);
    assert_eq!(
        *message,
        format!(
            "spec.parentRefs[0]: {what}; remove matches, filters or long patterns, or distribute them over several ports"
        )
    );
}

#[test]
fn patterns_and_filters_count_with_what_they_take_in_every_proxy() {
    // Each of these patterns has a few letters and compiles to about 10 KiB.
    let matches: Vec<String> = (0..8)
        .map(|number| format!("{{path: {{type: RegularExpression, value: '/{number}/[a-z]{{300}}'}}}}"))
        .collect();
    let rules = format!("[{{matches: [{}], backendRefs: [{{name: a, port: 80}}]}}]", matches.join(", "));
    let routes: Vec<String> = (0..20).map(|number| http(&format!("shop/r{number:02}"), CART, &rules)).collect();
    let translation = with(&routes);
    let table = table(&translation.mesh, "shop").expect("a table");
    assert!((8..160).contains(&table.entries().len()), "{}", table.entries().len());
    assert!(table.size_bytes() <= TABLE_MAX_BYTES);
    assert!(translation.routes.iter().any(|status| status.conditions[0].reason == Reason::Conflicted));

    let long = "x".repeat(4_000);
    let set: Vec<String> = (0..16).map(|number| format!("{{name: h{number}, value: {long}}}")).collect();
    let filters = format!("[{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{}]}}}}]", set.join(", "));
    let rules = format!("[{{filters: {filters}, backendRefs: [{{name: a, port: 80}}]}}]");
    let routes = (0..20).map(|number| (format!("r{number:02}"), http(&format!("shop/r{number:02}"), CART, &rules)));
    let routes: Vec<(String, String)> = routes.collect();
    let files = routes.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let translation = translated(&[("a-services.yaml", SERVICES)].into_iter().chain(files).collect::<Vec<_>>());
    assert_eq!(self::table(&translation.mesh, "shop").map(|table| table.entries().len()), Some(16));
}

#[test]
fn as_many_matches_as_gateway_api_lets_one_route_have_are_accepted_many_times() {
    let matches: Vec<String> = (0..64)
        .map(|number| format!("{{path: {{type: RegularExpression, value: '/shop/v[0-9]+/{number}'}}}}"))
        .collect();
    let rule = format!("{{matches: [{}], backendRefs: [{{name: a, port: 80}}]}}", matches.join(", "));
    let routes: Vec<String> =
        (0..5).map(|number| http(&format!("shop/r{number}"), CART, &format!("[{rule}, {rule}]"))).collect();
    let translation = with(&routes);
    assert_eq!(table(&translation.mesh, "shop").map(|table| table.entries().len()), Some(5 * 128));
}

#[test]
fn a_route_that_lost_one_of_its_ports_is_accepted_for_the_others() {
    let both = "{group: '', kind: Service, name: cart}";
    let translation = with(&[http("shop/http", both, "[{}]"), route("GRPCRoute", "shop/grpc", CART, "[{}]")]);
    assert_eq!(translation.routes.iter().filter(|status| status.conditions[0].status).count(), 2);
    let kind = |port| translation.mesh.routes(&key("cart.shop", port), "shop").map(|table| table.kind());
    assert_eq!((kind(80), kind(81)), (Some(RouteKind::Grpc), Some(RouteKind::Http)));
    let what = "cart.shop:80 has GRPCRoute shop/grpc, which goes before";
    assert!(
        lines(&translation.notices)
            .contains(&format!("routes.yaml:5: spec.parentRefs[0] of HTTPRoute shop/http: {what}"))
    );
    let message = format!("in force for Service shop/cart. Not in force at 1 of its ports: {what}");
    assert_eq!(accepted(&translation, "http"), message);
}

#[test]
fn a_status_names_the_opaque_ports_where_the_route_is_not_in_force() {
    let ports = "[{name: http, port: 80}, {name: db, port: 3306}, {name: own, port: 90}]";
    let services = format!(
        "{SERVICES}- {{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: shop, annotations: \
         {{leno.dev/opaque-ports: '90'}}}}, spec: {{ports: {ports}}}}}\n"
    );
    let of = |kind: &str| {
        let route = route(kind, "shop/a", "{group: '', kind: Service, name: web}", &to_cart("a"));
        translated(&[("a-services.yaml", &services), ("routes.yaml", route.trim_start_matches("---\n"))])
    };
    assert_eq!(
        accepted(&of("HTTPRoute"), "a"),
        "in force for Service shop/web. Not in force at 2 of its ports: web.shop:3306 is opaque to the mesh. web.shop:90 \
         is opaque to the mesh"
    );
    assert_eq!(accepted(&of("TCPRoute"), "a"), "in force for Service shop/web");
}

#[test]
fn routes_of_different_namespaces_do_not_conflict() {
    let translation = with(&[http("shop/a", CART, "[{}]"), route("GRPCRoute", "web/a", CART, "[{}]")]);
    let kind = |namespace| table(&translation.mesh, namespace).map(|table| table.kind());
    assert_eq!((kind("shop"), kind("web")), (Some(RouteKind::Http), Some(RouteKind::Grpc)));
    assert!(translation.routes.iter().all(|status| status.conditions[0].status));
}

#[test]
fn each_parent_has_a_status_and_each_mistake_is_told_once() {
    let parents = "{group: '', kind: Service, name: cart}, {group: '', kind: Service, name: cart-v2}";
    let translation = with(&[http("shop/a", parents, "[{backendRefs: [{name: nowhere, port: 80}]}]")]);
    assert_eq!(translation.routes.len(), 2);
    assert_eq!(translation.problems.len(), 1);
}

#[test]
fn a_route_is_in_the_meshs_own_description() {
    let translation = with(&[http("shop/a", CART, &to_cart("first"))]);
    let json = serde_json::to_value(&translation.mesh).expect("JSON");
    let routes = &json["routes"][0];
    assert_eq!((routes["cluster"].as_str(), routes["namespace"].as_str()), (Some("cart.shop:80"), Some("shop")));
    assert_eq!(routes["table"]["kind"], "HTTPRoute");
    let rule = &routes["table"]["entries"][0]["rule"];
    assert_eq!((&rule["name"], &rule["backends"][0]["to"]["cluster"]), (&"first".into(), &"cart.shop:80".into()));
}

#[test]
fn the_examples_of_the_documentation_do_what_they_say() {
    let page = include_str!("../../../../docs/routes.md");
    let examples: Vec<&str> = page.split("```").filter_map(|block| block.strip_prefix("yaml\n")).collect();
    let [canary, grpc, retries, tcp, tls] = examples[..] else { panic!("{examples:?}") };
    let service = |(name, port): (&str, u16)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{ports: [{{name: http, port: {port}}}]}}\n"
        )
    };
    let of_requests = [("search", 80), ("search-test", 80), ("stock", 80)];
    let of_connections = [("orders", 5432), ("orders-next", 5432), ("vault", 443), ("vault-eu", 443)];
    let services = of_requests.into_iter().chain(of_connections).map(service).collect::<String>();
    let services = SERVICES.to_owned() + &services;
    let files = [("b.yaml", canary), ("c.yaml", grpc), ("d.yaml", tcp), ("e.yaml", tls), ("f.yaml", retries)];
    let translation = translated(&[&[("a.yaml", &*services)][..], &files].concat());
    assert_eq!(lines(&translation.problems), [""; 0]);

    let asked_for = Head { headers: &[("x-version", "2")], ..get("/7") };
    assert_eq!(found(&translation, "web", asked_for).as_deref(), Some("asked-for"));
    assert_eq!(found(&translation, "web", get("/7")).as_deref(), Some("canary"));

    let search = translation.mesh.routes(&key("search.shop", 80), "web").expect("a table");
    let server =
        |head: Head<'_>| search.find(&head).and_then(|found| found.rule.choose(0)).map(|chosen| chosen.to.clone());
    let query = call("/shop.v1.Search/Query");
    let tester = Head { headers: &[("x-user", "tester-7")], ..query };
    assert_eq!(server(tester), Some(BackendTarget::Cluster(key("search-test.shop", 80))));
    assert_eq!(server(query), Some(BackendTarget::Cluster(key("search.shop", 80))));

    let stock = translation.mesh.routes(&key("stock.shop", 80), "web").expect("a table");
    let retry = stock.entries()[0].rule.calls.retry.as_ref().expect("it has retries");
    let retry = &retry.value;
    assert!(retry.attempts == 2 && retry.applies_to(503, None) && !retry.applies_to(500, None));

    let orders = translation.mesh.routes(&key("orders.shop", 5432), "web").expect("a table");
    let shares: Vec<_> = orders.entries()[0].rule.backends.iter().map(|backend| backend.weight).collect();
    assert_eq!((orders.kind(), shares), (RouteKind::Tcp, vec![9, 1]));
    let vault = translation.mesh.routes(&key("vault.shop", 443), "web").expect("a table");
    for (name, is_known) in
        [("eu.vault.example.org", true), ("a.us.vault.example.org", true), ("vault.example.org", false)]
    {
        assert_eq!(vault.find_server(Some(name)).is_some(), is_known, "{name}");
    }
}

/// Returns the message of a route's Accepted condition, which must be true.
fn accepted<'t>(translation: &'t Translation, name: &str) -> &'t str {
    let status = translation.routes.iter().find(|status| &*status.route.name == name).expect("a status");
    assert_eq!((status.conditions[0].status, status.conditions[0].reason), ACCEPTED, "{status:?}");
    &status.conditions[0].message
}

#[test]
fn a_route_whose_matches_an_older_one_has_is_accepted_and_says_that_it_gets_no_calls() {
    let fix = "remove one of the two, or give this route other matches";
    let translation = with(&[http("shop/a", CART, &to_cart("a")), http("shop/b", CART, &to_cart("b"))]);
    assert_eq!(found(&translation, "shop", get("/")).as_deref(), Some("a"));
    assert_eq!(accepted(&translation, "a"), "in force for Service shop/cart");
    let why =
        format!("it gets no calls of cart.shop:80: HTTPRoute shop/a, which is older, has the same matches; {fix}");
    assert_eq!(accepted(&translation, "b"), format!("in force for Service shop/cart, but {why}"));
    assert!(lines(&translation.notices).iter().any(|line| line.ends_with(&why)), "{:?}", translation.notices);
    // A consumer route applies to clients of its own namespace, so it shadows no producer route.
    let translation = with(&[http("bank/a", CART, &to_cart("a")), http("shop/b", CART, &to_cart("b"))]);
    assert_eq!(accepted(&translation, "b"), "in force for Service shop/cart");
}

#[test]
fn a_route_that_shares_some_matches_with_an_older_one_says_how_many() {
    let matches = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| format!("{{path: {{value: {path}}}}}")).collect();
        format!("[{{matches: [{}], backendRefs: [{{name: cart, namespace: shop, port: 80}}]}}]", paths.join(", "))
    };
    let translation =
        with(&[http("shop/a", CART, &matches(&["/x", "/y"])), http("shop/b", CART, &matches(&["/y", "/z"]))]);
    assert!(
        accepted(&translation, "b").contains(", but 1 of its 2 matches get no calls of cart.shop:80: HTTPRoute shop/a")
    );
    let translation = with(&[http("shop/a", CART, &matches(&["/x"])), http("shop/b", CART, &matches(&["/y"]))]);
    assert_eq!(accepted(&translation, "b"), "in force for Service shop/cart");
}

#[test]
fn a_status_tells_which_values_are_lowered() {
    let rules = "[{retry: {attempts: 20}, backendRefs: [{name: cart, port: 80}]}]";
    let translation = with(&[http("shop/a", CART, rules)]);
    assert_eq!(
        accepted(&translation, "a"),
        "in force for Service shop/cart. spec.rules[0].retry.attempts: 20 retries of one request; the proxy sends at \
         most 10"
    );
    let retry = only_rule(&translation).calls.retry.expect("retries");
    assert_eq!(retry.value.attempts, 10);
}

#[test]
fn requests_of_a_match_with_an_unsupported_pattern_follow_the_next_rule_and_the_status_says_so() {
    for (kind, bad, good) in [
        ("HTTPRoute", "{path: {type: RegularExpression, value: '/a('}}", "{path: {value: /a.B/D}}"),
        ("GRPCRoute", "{method: {type: RegularExpression, service: 'a('}}", "{method: {service: a.B, method: D}}"),
    ] {
        let rules = format!(
            "[{{name: bad, matches: [{bad}, {good}], backendRefs: [{{name: cart, port: 80}}]}}, {{name: next}}]"
        );
        let translation = with(&[route(kind, "shop/a", CART, &rules)]);
        assert_eq!(found(&translation, "shop", call("/a.B/C")).as_deref(), Some("next"), "{kind}");
        let table = table(&translation.mesh, "shop").expect("a table");
        let other = table.find(&call("/a.B/D")).expect("the rule with the other match").rule;
        assert_eq!(other.name.as_deref(), Some("bad"), "{kind}");
        assert!(matches!(other.backends[0].to, BackendTarget::Invalid(_)), "{kind}: its requests are rejected");
        assert_eq!(reasons(&translation), [(false, Reason::UnsupportedValue), RESOLVED]);
        let message = &translation.routes[0].conditions[0].message;
        assert!(message.contains("Leno drops the match: its requests follow the next rule"), "{message}");
    }
}

/// A rule of a route can have hundreds of invalid references, and each of the route's Services would repeat them.
#[test]
fn a_route_with_thousands_of_errors_reports_the_first_of_them_and_their_number() {
    let mirror = |number: usize| {
        format!("{{type: RequestMirror, requestMirror: {{backendRef: {{name: gone-{number}, port: 80}}}}}}")
    };
    let mirrors: Vec<String> = (0..16).map(mirror).collect();
    let backend = format!("{{name: gone, port: 80, filters: [{}]}}", mirrors.join(", "));
    let rule = format!("{{backendRefs: [{}]}}", vec![backend; 16].join(", "));
    let rules = format!("[{}]", vec![rule; 16].join(", "));
    let parents: Vec<String> =
        (0..32).map(|n| format!("{{group: '', kind: Service, name: cart, namespace: shop-{n}, port: 80}}")).collect();
    let services: Vec<String> = (0..32)
        .map(|n| {
            format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: cart, namespace: shop-{n}}}\n\
                 spec: {{ports: [{{port: 80}}]}}\n"
            )
        })
        .collect();
    let route = http("web/cart", &parents.join(", "), &rules);
    let start = Instant::now();
    let translation =
        translated(&[("a-services.yaml", &services.join("---\n")), ("routes.yaml", route.trim_start_matches("---\n"))]);
    let problems = lines(&translation.problems);
    assert_eq!(problems.len(), 17);
    assert!(
        problems[0].contains("spec.rules[0].backendRefs[0] of HTTPRoute web/cart: there is no Service"),
        "{problems:?}"
    );
    // Each of 16 rules has 16 backends, and each backend has 16 mirrors.
    let more = 16 * 16 * 17 - 16;
    let last = format!("HTTPRoute web/cart: it has {more} more errors than the 16 reported ones; correct the reported");
    assert!(problems[16].contains(&last), "{problems:?}");
    assert_eq!(translation.routes.len(), 32);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// The Services of the other tests, and `wide` with the ports from 1 to 500.
fn services_with_wide() -> String {
    let ports: Vec<String> = (1..=500).map(|port| format!("{{name: p{port}, port: {port}}}")).collect();
    format!(
        "{SERVICES}- {{apiVersion: v1, kind: Service, metadata: {{name: wide, namespace: shop}}, spec: {{ports: [{}]}}}}\n",
        ports.join(", ")
    )
}

#[test]
fn the_ports_of_a_service_share_the_rules_of_its_routes() {
    let services = services_with_wide();
    let wide = "{group: '', kind: Service, name: wide, namespace: shop}";
    let policy = |name: &str, target: &str| {
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  targetRefs: [{target}]\n  timeouts: {{request: 10s}}\n"
        )
    };
    let of_wide = policy("wide", "{group: '', kind: Service, name: wide}");
    let own = "{group: '', kind: Service, name: wide, sectionName: p7}";
    let of_one = policy("one", own).replace("10s", "20s");
    let text = format!("{}{of_wide}{of_one}", http("shop/wide", wide, &to_cart("all")));
    let translation = translated(&[("a-services.yaml", &services), ("routes.yaml", text.trim_start_matches("---\n"))]);
    assert_eq!(lines(&translation.problems), [""; 0]);
    let table = |port| translation.mesh.routes(&key("wide.shop", port), "web").expect("a table");
    assert!(Arc::ptr_eq(table(1), table(500)), "equal tables are one table");
    // Port 7 has its own policy, and so its own table. The tables still share the matches in memory.
    let (all, one) = (&table(1).entries()[0], &table(7).entries()[0]);
    assert_ne!(all.rule.calls, one.rule.calls);
    assert!(Arc::ptr_eq(&all.matches, &one.matches));
    assert!(Arc::ptr_eq(&all.rule.filters, &one.rule.filters));
    assert!(Arc::ptr_eq(&all.rule.backends, &one.rule.backends));
}

/// A list for each of 6,000 ports took 250 MB, with 16 routes that have 16 rules each.
#[test]
fn ports_with_equal_policies_share_the_list_of_a_routes_rules() {
    let text = http("shop/cart", CART, &to_cart("one"));
    let Object::Route(route) = objects(text.trim_start_matches("---\n")).remove(0) else { panic!("a route") };
    let policy = "apiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: cart, namespace: shop}\n\
                  spec: {targetRefs: [{group: '', kind: Service, name: cart}], timeouts: {request: 1s}}\n";
    let Object::TrafficPolicy(policy) = objects(policy).remove(0) else { panic!("a policy") };
    let mut resolved = Resolved::new(&route, "shop", &Known::new(&[], &[], &[], &[]));
    let limit = Setting::enforced(TimeLimit { after: Duration::from_secs(1) }, &"TrafficPolicy shop/cart".into());
    let limited = CallPolicy { request_timeout: Some(limit), ..CallPolicy::default() };
    let own = [(); 2].map(|()| resolved.rules_with(&route, Vec::new(), |_| None));
    let with_policy = vec![Arc::as_ptr(&policy)];
    let other = [(); 2].map(|()| resolved.rules_with(&route, with_policy.clone(), |_| Some(limited.clone())));
    assert!(Rc::ptr_eq(&own[0], &own[1]) && Rc::ptr_eq(&other[0], &other[1]));
    assert_eq!([&own[0][0], &other[0][0]].map(|rule| rule.calls.clone()), [CallPolicy::default(), limited]);
    let same = |_: &RouteRule| -> Option<CallPolicy> { panic!("the rules at a port with these policies are known") };
    assert!(Rc::ptr_eq(&resolved.rules_with(&route, with_policy, same), &other[0]));
}

#[test]
fn the_routes_of_a_namespace_select_a_limited_number_of_ports() {
    let services = services_with_wide();
    let wide = "{group: '', kind: Service, name: wide, namespace: shop}";
    let last = SELECTED_PORTS_MAX / 500;
    let wides = (0..=last).map(|number| http(&format!("shop/r{number:02}"), wide, &to_cart("wide")));
    let others = [http("shop/small", CART, &to_cart("small")), http("web/wide", wide, &to_cart("wide"))];
    let text: String = wides.chain(others).collect();
    let translation = translated(&[("a-services.yaml", &services), ("routes.yaml", text.trim_start_matches("---\n"))]);
    let refused: Vec<_> = translation.routes.iter().filter(|status| !status.conditions[0].status).collect();
    // The youngest route to all ports has no room; a route to one port and a route of another namespace have room.
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(*refused.route.name, *format!("r{last}"));
    let Condition { reason, message, .. } = &refused.conditions[0];
    assert_eq!(*reason, Reason::Conflicted);
    assert_eq!(
        message,
        "spec.parentRefs[0]: with it the routes of namespace shop would select more than 32768 ports, and earlier \
         routes come first; name the port of the Service, or remove routes"
    );
    assert_eq!(found(&translation, "shop", get("/")).as_deref(), Some("small"));
    let consumers = translation.mesh.routes(&key("wide.shop", 500), "web").expect("a table");
    assert_eq!(consumers.entries().len(), 1);
}

#[test]
fn a_message_lists_at_most_8_ports() {
    let services = services_with_wide();
    let parent = "{group: '', kind: Service, name: wide, port: 501}";
    let route = http("shop/cart", parent, "[{backendRefs: [{name: wide, port: 501}]}]");
    let translation = translated(&[("a-services.yaml", &services), ("routes.yaml", route.trim_start_matches("---\n"))]);
    for problem in lines(&translation.problems) {
        assert!(problem.contains(", and 492 more"), "{problem}");
    }
    assert_eq!(translation.problems.len(), 2);
}
