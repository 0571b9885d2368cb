use leno_xds::Kind;

use super::super::fixtures::{mesh, service};
use super::super::subject::Subject;
use super::Changes;

/// The changed subjects of each kind, in the form `cluster echo.default:80`.
fn changes(old: &str, new: &str) -> Vec<String> {
    let changes = Changes::between(&mesh(old), &mesh(new));
    let of = |kind: Kind| changes.of(kind).iter().map(move |subject| format!("{} {subject}", kind.name())).collect();
    Kind::ALL.into_iter().flat_map(|kind| -> Vec<String> { of(kind) }).collect()
}

fn at(ip: &str, manifests: &str) -> String {
    manifests.replace("spec:\n  ports", &format!("spec:\n  clusterIP: {ip}\n  ports"))
}

#[test]
fn equal_meshes_have_no_changes() {
    let text = service("echo", &["10.1.0.1"]);
    assert!(changes(&text, &text).is_empty());
}

#[test]
fn an_endpoint_more_changes_the_endpoints_and_its_own_address() {
    let changed = changes(&service("echo", &["10.1.0.1"]), &service("echo", &["10.1.0.1", "10.1.0.2"]));
    assert_eq!(changed, ["endpoints echo.default:80", "listener 10.1.0.2:8080"]);
}

#[test]
fn a_service_that_comes_or_goes_changes_all_that_is_about_it() {
    let text = at("10.96.0.1", &service("echo", &[]));
    let all = [
        "cluster echo.default:80",
        "endpoints echo.default:80",
        "listener echo.default:80",
        "listener 10.96.0.1:80",
        "route echo.default:80",
        "route mesh",
    ];
    assert_eq!(changes("", &text), all);
    assert_eq!(changes(&text, ""), all);
}

#[test]
fn another_address_of_a_service_changes_both_listeners() {
    let text = service("echo", &[]);
    let changed = changes(&at("10.96.0.1", &text), &at("10.96.0.2", &text));
    for expected in ["cluster echo.default:80", "listener 10.96.0.1:80", "listener 10.96.0.2:80"] {
        assert!(changed.iter().any(|found| found == expected), "{changed:?}");
    }
    assert!(!changed.iter().any(|found| found == "endpoints echo.default:80"), "{changed:?}");
}

/// The routes of the whole mesh contain the addresses of a headless Service's endpoints.
#[test]
fn an_endpoint_more_of_a_headless_service_changes_the_routes_of_the_mesh_too() {
    let with = |endpoints: &[&str]| at("None", &service("echo", endpoints));
    let (one, two) = (with(&["10.1.0.1"]), with(&["10.1.0.1", "10.1.0.2"]));
    let expected = ["endpoints echo.default:80", "listener 10.1.0.2:8080", "route mesh"];
    assert_eq!(changes(&one, &two), expected);
    assert_eq!(changes(&two, &one), expected);
}

/// The addresses of a headless Service's endpoints lead to the Service while at least one endpoint is ready.
#[test]
fn the_first_ready_endpoint_of_a_headless_service_changes_the_addresses() {
    let of = |first: bool, second: bool| {
        let text = at("None", &service("echo", &["10.1.0.1", "10.1.0.2"]));
        let condition =
            |ip: &str, ready: bool| (format!("[{ip}]"), format!("[{ip}]\n  conditions: {{ready: {ready}}}"));
        let (one, two) = (condition("10.1.0.1", first), condition("10.1.0.2", second));
        text.replace(&one.0, &one.1).replace(&two.0, &two.1)
    };
    let listeners = ["listener 10.1.0.1:8080", "listener 10.1.0.2:8080"];
    let has_both = |changed: &[String]| listeners.iter().all(|listener| changed.iter().any(|found| found == listener));
    let first = changes(&of(false, false), &of(true, false));
    assert!(has_both(&first) && first.iter().any(|found| found == "route mesh"), "{first:?}");
    assert_eq!(changes(&of(true, false), &of(true, true)), ["endpoints echo.default:80"]);
}

#[test]
fn a_route_changes_the_routes_only() {
    let text = service("echo", &[]);
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  parentRefs: \
                 [{group: '', kind: Service, name: echo}]\n  rules: [{backendRefs: [{name: echo, port: 80}]}]\n";
    assert_eq!(changes(&text, &(text.clone() + route)), ["route echo.default:80", "route mesh"]);
}

/// TCPRoutes and TLSRoutes are part of the Listeners of their Service's addresses.
#[test]
fn a_route_of_connections_changes_the_addresses_of_its_service_too() {
    let text = at("10.96.0.10", &service("echo", &[]));
    let route_of = |kind: &'static str| {
        move |weight: u8| {
            format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: r}}\nspec:\n  parentRefs: \
                 [{{group: '', kind: Service, name: echo}}]\n  rules: [{{backendRefs: [{{name: echo, port: 80, weight: {weight}}}]}}]\n"
            )
        }
    };
    for kind in ["TCPRoute", "TLSRoute"] {
        let routed = |weight| text.clone() + &route_of(kind)(weight);
        // The steps: no route; a route of `kind`; that route with another weight; an HTTPRoute; a route of `kind`
        // again; no route.
        let of_requests = text.clone() + &route_of("HTTPRoute")(1);
        let steps = [text.clone(), routed(1), routed(2), of_requests, routed(2), text.clone()];
        for step in steps.windows(2) {
            let mut changed = changes(&step[0], &step[1]);
            changed.sort();
            assert_eq!(changed, ["listener 10.96.0.10:80", "route echo.default:80", "route mesh"], "{kind}");
        }
    }
}

#[test]
fn a_policy_changes_what_the_workloads_of_its_namespace_must_know() {
    let policy = |namespace: &str, identity: &str| {
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: web, namespace: {namespace}}}\nspec: {{allow: [{{identities: [{identity}]}}]}}\n"
        )
    };
    let text = policy("shop", "ns/shop/sa/cart") + &policy("lab", "ns/lab/sa/a");
    assert!(changes(&text, &text).is_empty());
    let changed = policy("shop", "ns/shop/sa/batch") + &policy("lab", "ns/lab/sa/a");
    let between = Changes::between(&mesh(&text), &mesh(&changed));
    let of_shop = [Subject::Inbound("shop".into())];
    assert!(between.of(Kind::Listener).iter().eq(&of_shop), "{between:?}");
    for [old, new] in [[policy("shop", "'*'"), String::new()], [String::new(), policy("shop", "'*'")]] {
        assert_eq!(changes(&old, &new), ["listener inbound"]);
    }
}

/// A TrafficPolicy `cart` for the Service `echo`, with these lines of its spec.
fn traffic_policy(spec: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: cart}}\nspec:\n  \
         targetRefs: [{{kind: Service, name: echo}}]\n  {spec}\n"
    )
}

#[test]
fn a_traffic_policy_changes_the_routes_of_its_services_only() {
    let text = service("other", &[]) + &service("echo", &[]);
    let with = |spec: &str| text.clone() + &traffic_policy(spec);
    let routes = ["route echo.default:80", "route mesh"];
    assert_eq!(changes(&text, &with("timeouts: {request: 1s}")), routes);
    assert_eq!(changes(&with("timeouts: {request: 1s}"), &with("timeouts: {request: 2s}")), routes);
    assert_eq!(changes(&with("retry: {}"), &with("retry: {mode: Audit}")), routes);
    assert_eq!(changes(&with("retry: {}"), &text), routes);
}

#[test]
fn an_objective_changes_the_clusters_of_its_service_only() {
    let text = service("other", &[]) + &service("echo", &[]);
    let with = |objective: &str| {
        let annotations = format!("name: cart, annotations: {{leno.dev/objective: {objective}}}");
        text.clone() + &traffic_policy("").replace("name: cart", &annotations)
    };
    let cluster = ["cluster echo.default:80"];
    assert_eq!(changes(&text, &with("p99 1s")), cluster);
    assert_eq!(changes(&with("p99 1s"), &with("p99 2s")), cluster);
    assert_eq!(changes(&with("p99 1s"), &text), cluster);
}

#[test]
fn a_retry_budget_changes_the_clusters_of_its_service_only() {
    let text = service("other", &[]) + &service("echo", &[]);
    let with = |spec: &str| text.clone() + &traffic_policy(spec);
    let cluster = ["cluster echo.default:80"];
    assert_eq!(changes(&text, &with("budget: {}")), cluster);
    assert_eq!(changes(&with("budget: {}"), &with("budget: {percent: 5}")), cluster);
    assert_eq!(changes(&with("budget: {}"), &text), cluster);
    let with = |count: u32, before: &str| {
        format!(
            "{before}---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\n\
             metadata: {{name: cart}}\nspec:\n  targetRefs: [{{group: '', kind: Service, name: echo}}]\n  \
             retryConstraint: {{minRetryRate: {{count: {count}, interval: 1s}}}}\n"
        )
    };
    assert_eq!(changes(&text, &with(1, &text)), cluster);
    assert_eq!(changes(&with(1, &text), &with(2, &text)), cluster);
    assert_eq!(changes(&with(1, &text), &text), cluster);
    // The XBackendTrafficPolicy's retryConstraint takes precedence, so a TrafficPolicy's budget changes nothing.
    let audited = text.clone() + &traffic_policy("budget: {mode: Audit}");
    assert_eq!(changes(&with(1, &text), &with(1, &audited)), [""; 0]);
}

#[test]
fn a_declared_protocol_is_told_to_the_endpoints_own_proxies() {
    let http = |text: &str| text.replace("{port: 80}", "{port: 80, appProtocol: http}");
    let (one, two) = (service("echo", &["10.1.0.1"]), service("echo", &["10.1.0.1", "10.1.0.2"]));
    let told = |old: &str, new: &str| {
        let changes = Changes::between(&mesh(old), &mesh(new));
        let ports = |subject: &&Subject| matches!(subject, Subject::Ports(_));
        changes.of(Kind::Listener).iter().filter(ports).cloned().collect::<Vec<_>>()
    };
    let ports = |ip: &str| Subject::Ports(ip.parse().expect("an address"));
    assert_eq!(told(&one, &two), [], "nothing is declared");
    assert_eq!(told(&http(&one), &http(&two)), [ports("10.1.0.2")]);
    assert_eq!(told(&one, &http(&one)), [ports("10.1.0.1")]);
    assert_eq!(told(&http(&one), &one), [ports("10.1.0.1")]);
    assert_eq!(told(&http(&one), ""), [ports("10.1.0.1")]);
}

/// The address of an endpoint leads to the cluster that knows the endpoint's proxy.
#[test]
fn an_endpoint_that_gets_a_proxy_changes_its_address() {
    let bare = service("a", &["10.1.0.1"]) + &service("b", &["10.1.0.1"]);
    let proxied = bare.replace(
        "kubernetes.io/service-name: b}}",
        "kubernetes.io/service-name: b}, annotations: {leno.dev/identity: ns/default/sa/b}}",
    );
    let leads_to = |text: &str| {
        let mesh = mesh(text);
        mesh.endpoint_by_address("10.1.0.1:8080".parse().expect("an address")).expect("it is there").0.key.to_string()
    };
    assert_eq!([leads_to(&bare), leads_to(&proxied)], ["a.default:80", "b.default:80"]);
    let changed = changes(&bare, &proxied);
    assert!(changed.iter().any(|found| found == "listener 10.1.0.1:8080"), "{changed:?}");
}
