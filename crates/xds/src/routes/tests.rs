use std::collections::BTreeSet;
use std::time::Duration;

use leno_model::mesh::{ClusterKey, Mesh};
use leno_model::route::RouteTable;
use leno_model::traffic::{CallPolicy, HEDGES_MAX, RETRIES_MAX};
use prost::Message;

use super::{read, write, write_mesh};
use crate::facts::{Facts, HEDGE, HEDGE_DELAY, RETRIES, RETRY_GRPC_CODES};
use crate::fixtures::mesh;
use crate::pb::core::HeaderValueOption;
use crate::pb::route::redirect_action::PathRewriteSpecifier;
use crate::pb::route::{RedirectAction, Route, RouteConfiguration, route, route_action, route_match};
use crate::view::Dialect;

const SERVICES: &str = "\
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: shop}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: web, port: 80}, {name: grpc, port: 50051}]
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: shop}
spec:
  ports: [{port: 50051}]
";

fn route(spec: &str) -> Mesh {
    route_of("HTTPRoute", spec)
}

fn route_of(kind: &str, spec: &str) -> Mesh {
    mesh(&written(kind, spec))
}

/// The Services and a route with these rules, as manifests.
fn written(kind: &str, spec: &str) -> String {
    let spec = spec.replace('\n', " ");
    format!(
        "{SERVICES}---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: r, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: '', kind: Service, name: echo, port: 50051}}]\n  rules: {spec}\n"
    )
}

fn of_echo(mesh: &Mesh, dialect: Dialect) -> RouteConfiguration {
    let cluster = mesh.clusters().iter().find(|cluster| cluster.key.to_string() == "echo.shop:50051").expect("echo");
    write(&cluster.key, mesh.routes(&cluster.key, "shop").map(AsRef::as_ref), dialect)
}

fn routes(mesh: &Mesh, dialect: Dialect) -> Vec<Route> {
    let [host] = &of_echo(mesh, dialect).virtual_hosts[..] else { panic!("one virtual host") };
    assert_eq!(host.domains, ["*"]);
    host.routes.clone()
}

fn clusters(route: &Route) -> Vec<(String, u32)> {
    let Some(route::Action::Route(action)) = &route.action else { panic!("{route:?}") };
    match action.cluster_specifier.as_ref().expect("a cluster") {
        route_action::ClusterSpecifier::Cluster(name) => vec![(name.clone(), 1)],
        route_action::ClusterSpecifier::WeightedClusters(weighted) => {
            let one = |cluster: &crate::pb::route::weighted_cluster::ClusterWeight| {
                (cluster.name.clone(), cluster.weight.map_or(0, |weight| weight.value))
            };
            weighted.clusters.iter().map(one).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_route_everything_goes_to_the_cluster_for_as_long_as_it_takes() {
    let routes = routes(&mesh(SERVICES), Dialect::Grpc);
    assert_eq!(clusters(&routes[0]), [("echo.shop:50051".to_owned(), 1)]);
    let Some(route::Action::Route(action)) = &routes[0].action else { panic!("no action") };
    assert_eq!(action.timeout.map(|timeout| timeout.seconds), Some(0), "Envoy's own would be 15 s");
}

#[test]
fn an_authority_leads_to_one_cluster_however_it_is_written() {
    let configuration = write_mesh(&mesh(SERVICES), "shop", "cluster.local", Dialect::Envoy);
    let mut all = BTreeSet::new();
    for host in &configuration.virtual_hosts {
        for domain in &host.domains {
            assert!(all.insert(domain.clone()), "{domain} is there twice");
        }
    }
    let expected = [
        "echo:50051",
        "echo.shop:50051",
        "echo.shop.svc:50051",
        "echo.shop.svc.cluster.local:50051",
        "echo",
        "echo.shop",
        "echo.shop.svc.cluster.local:80",
        "10.96.0.10:50051",
        "10.96.0.10",
        "other:50051",
    ];
    for domain in expected {
        assert!(all.contains(domain), "{domain} is not in {all:?}");
    }
    let elsewhere = write_mesh(&mesh(SERVICES), "default", "corp.example", Dialect::Envoy);
    let domains: Vec<&str> =
        elsewhere.virtual_hosts.iter().flat_map(|host| &host.domains).map(String::as_str).collect();
    assert!(domains.contains(&"echo.shop.svc.corp.example:50051") && !domains.contains(&"echo"), "{domains:?}");
    assert!(domains.iter().all(|domain| !domain.contains("cluster.local")), "{domains:?}");
}

#[test]
fn backends_have_their_weights() {
    let mesh = route("[{backendRefs: [{name: echo, port: 50051, weight: 9}, {name: other, port: 50051, weight: 1}]}]");
    let routes = routes(&mesh, Dialect::Envoy);
    assert_eq!(clusters(&routes[0]), [("echo.shop:50051".to_owned(), 9), ("other.shop:50051".to_owned(), 1)]);
}

#[test]
fn a_rule_without_backends_answers_with_500_and_is_no_error_to_any_client() {
    let routes = routes(&route("[{backendRefs: [{name: echo, port: 50051, weight: 0}]}]"), Dialect::Grpc);
    let Some(route::Action::DirectResponse(response)) = &routes[0].action else { panic!("{:?}", routes[0]) };
    assert_eq!(response.status, 500);
}

#[test]
fn a_prefix_ends_at_an_element_for_both_dialects() {
    let mesh =
        route("[{matches: [{path: {type: PathPrefix, value: /a.b}}], backendRefs: [{name: echo, port: 50051}]}]");
    let path = |dialect| routes(&mesh, dialect)[0].r#match.clone().and_then(|matches| matches.path_specifier);
    assert_eq!(path(Dialect::Envoy), Some(route_match::PathSpecifier::PathSeparatedPrefix("/a.b".to_owned())));
    let Some(route_match::PathSpecifier::SafeRegex(regex)) = path(Dialect::Grpc) else { panic!("gRPC knows no other") };
    assert_eq!(regex.regex, r"/a\.b(/.*)?");
}

#[test]
fn a_time_limit_holds_for_both_dialects() {
    let mesh = route("[{timeouts: {request: 2s}, backendRefs: [{name: echo, port: 50051}]}]");
    let Some(route::Action::Route(action)) = routes(&mesh, Dialect::Envoy)[0].action.clone() else { panic!("none") };
    assert_eq!(action.timeout.map(|timeout| timeout.seconds), Some(2));
    let stream = action.max_stream_duration.and_then(|limits| limits.max_stream_duration);
    assert_eq!(stream.map(|timeout| timeout.seconds), Some(2));
}

/// The request timeout is the route's and the attempt timeout is the policy's, so either of the two may be the shorter
/// one.
#[test]
fn without_retries_the_shorter_limit_of_a_call_and_of_its_attempt_holds_for_both() {
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  \
                  targetRefs: [{kind: Service, name: echo}]\n  timeouts: {backendRequest: 3s}\n";
    for (timeouts, expected) in [("{request: 2s}", 2), ("{request: 5s}", 3), ("{}", 3)] {
        let rules = format!("[{{timeouts: {timeouts}, backendRefs: [{{name: echo, port: 50051}}]}}]");
        let mesh = mesh(&(written("HTTPRoute", &rules) + policy));
        let Some(route::Action::Route(action)) = routes(&mesh, Dialect::Grpc)[0].action.clone() else { panic!("none") };
        assert_eq!(action.timeout.map(|timeout| timeout.seconds), Some(expected), "{timeouts}");
    }
}

#[test]
fn retries_are_in_the_words_of_envoy_and_grpc() {
    let mesh = route(
        "[{timeouts: {request: 2s, backendRequest: 500ms}, retry: {codes: [503, 429], attempts: 3, backoff: 0s},
           backendRefs: [{name: echo, port: 50051}]}]",
    );
    for dialect in [Dialect::Envoy, Dialect::Grpc] {
        let Some(route::Action::Route(action)) = routes(&mesh, dialect)[0].action.clone() else { panic!("none") };
        assert_eq!(action.timeout.map(|timeout| timeout.seconds), Some(2), "of the whole call");
        let retry = action.retry_policy.expect("the rule has retries");
        assert_eq!(
            retry.retry_on,
            "connect-failure,refused-stream,reset,retriable-status-codes,resource-exhausted,unavailable"
        );
        assert_eq!((retry.num_retries.map(|n| n.value), &retry.retriable_status_codes[..]), (Some(3), &[429, 503][..]));
        assert_eq!(retry.per_try_timeout.map(|timeout| timeout.nanos), Some(500_000_000));
        let pause = retry.retry_back_off.and_then(|pause| pause.base_interval);
        assert_eq!(pause.map(|pause| pause.nanos), Some(1_000_000));
        let avoids = dialect == Dialect::Envoy;
        assert_eq!(retry.retry_host_predicate.len(), usize::from(avoids), "only Envoy can avoid an endpoint");
        assert_eq!(retry.host_selection_retry_max_attempts > 0, avoids);
    }
}

#[test]
fn a_percent_sign_in_a_header_is_no_variable_of_envoy() {
    let filter = "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x, value: '100%'}]}}";
    let mesh = route(&format!("[{{filters: [{filter}], backendRefs: [{{name: echo, port: 50051}}]}}]"));
    let headers = &routes(&mesh, Dialect::Envoy)[0].request_headers_to_add;
    assert_eq!(headers[0].header.as_ref().map(|header| header.value.as_str()), Some("100%%"));
}

/// Returns header changes as texts such as `x=1`, in Envoy's order.
fn changes(options: &[HeaderValueOption]) -> Vec<String> {
    let headers = options.iter().filter_map(|option| option.header.as_ref());
    headers.map(|header| format!("{}={}", header.key, header.value)).collect()
}

#[test]
fn a_backends_changes_of_a_request_override_the_rules_in_envoy_too() {
    let modifier = |changes: &str| format!("{{type: RequestHeaderModifier, requestHeaderModifier: {{{changes}}}}}");
    let of_rule = modifier("set: [{name: a, value: rule}, {name: b, value: rule}], add: [{name: c, value: rule}]");
    let own = modifier("set: [{name: a, value: '5%'}], add: [{name: c, value: backend}], remove: [b]");
    let backends = format!("[{{name: echo, port: 50051, filters: [{own}]}}, {{name: other, port: 50051}}]");
    let mesh = route(&format!("[{{filters: [{of_rule}], backendRefs: {backends}}}]"));
    let all = routes(&mesh, Dialect::Envoy);
    let [route] = &all[..] else { panic!("{all:?}") };
    assert!(route.request_headers_to_add.is_empty(), "Envoy would apply them last: {route:?}");
    let Some(route::Action::Route(action)) = &route.action else { panic!("{route:?}") };
    let Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) = &action.cluster_specifier else {
        panic!("{action:?}")
    };
    let [echo, other] = &weighted.clusters[..] else { panic!("{weighted:?}") };
    assert_eq!(changes(&echo.request_headers_to_add), ["a=5%%", "c=rule", "c=backend"]);
    assert_eq!(echo.request_headers_to_remove, ["b"]);
    assert_eq!(changes(&other.request_headers_to_add), ["a=rule", "b=rule", "c=rule"]);
    let (written, read) = both(&mesh);
    assert!(written.is_some());
    assert_eq!(read, written);
}

/// Returns the redirect of requests to `port` of echo, and its port as leno-proxy reads it.
fn redirect(port: u16, fields: &str) -> (RedirectAction, u16) {
    let rules = format!("[{{filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]}}]");
    let parent = format!("name: echo, port: {port}}}]");
    let mesh = mesh(&written("HTTPRoute", &rules).replace("name: echo, port: 50051}]", &parent));
    let key = ClusterKey { namespace: "shop".into(), service: "echo".into(), port };
    let configuration = write(&key, mesh.routes(&key, "shop").map(AsRef::as_ref), Dialect::Envoy);
    let table = read(&configuration.encode_to_vec()).expect("ours").table.expect("a table");
    let read = table.entries()[0].rule.filters.redirect.as_ref().expect("a redirect").port_from(port);
    let Some(route::Action::Redirect(action)) = configuration.virtual_hosts[0].routes[0].action.clone() else {
        panic!("{configuration:?}")
    };
    (action, read)
}

#[test]
fn a_redirect_leads_to_the_port_of_its_scheme_or_of_the_service() {
    for (port, fields, in_envoy, target) in [
        (80, "", 0, 80),
        (80, "hostname: a.org", 0, 80),
        (80, "scheme: https", 0, 443),
        (80, "scheme: https, port: 8443", 8443, 8443),
        (50051, "", 50051, 50051),
        (50051, "hostname: a.org", 50051, 50051),
        (50051, "hostname: a.org, port: 80", 80, 80),
        (50051, "scheme: http", 80, 80),
        (50051, "scheme: https", 443, 443),
        (50051, "scheme: https, hostname: a.org", 0, 443),
        (50051, "scheme: http, hostname: a.org, port: 443", 443, 443),
    ] {
        let (action, read) = redirect(port, fields);
        assert_eq!((action.port_redirect, read), (in_envoy, target), "{port} {fields}");
    }
}

/// Envoy reads an empty path as no change of the path.
#[test]
fn an_empty_path_becomes_the_root() {
    let path = "path: {type: ReplaceFullPath, replaceFullPath: ''}";
    let root = PathRewriteSpecifier::PathRedirect("/".to_owned());
    assert_eq!(redirect(80, path).0.path_rewrite_specifier, Some(root));
    let filter = format!("{{type: URLRewrite, urlRewrite: {{{path}}}}}");
    let mesh = route(&format!("[{{filters: [{filter}], backendRefs: [{{name: echo, port: 50051}}]}}]"));
    let Some(route::Action::Route(action)) = routes(&mesh, Dialect::Envoy)[0].action.clone() else { panic!("none") };
    assert_eq!(action.regex_rewrite.map(|rewrite| rewrite.substitution), Some("/".to_owned()));
}

/// gRPC matches the metadata of a call only, so a condition on the method would never be true.
#[test]
fn a_match_with_the_method_post_matches_every_call_of_grpc() {
    let mesh = route("[{matches: [{method: POST}, {method: GET}], backendRefs: [{name: echo, port: 50051}]}]");
    let headers = |dialect| {
        let names = |route: &Route| {
            let headers = &route.r#match.as_ref().expect("a match").headers;
            headers.iter().map(|header| header.name.clone()).collect::<Vec<_>>()
        };
        routes(&mesh, dialect).iter().map(names).collect::<Vec<_>>()
    };
    assert_eq!(headers(Dialect::Envoy), [[":method"], [":method"]]);
    assert_eq!(headers(Dialect::Grpc), [vec![], vec![":method".to_owned()]]);
}

const EVERYTHING: &str = "[
  {name: first, matches: [
     {path: {type: Exact, value: /a}, method: GET, headers: [{name: x, value: y}, {name: z, type: RegularExpression, value: 'a+'}],
      queryParams: [{name: q, value: '1'}]},
     {path: {type: PathPrefix, value: /b}}, {path: {type: RegularExpression, value: '/c/[0-9]+'}}],
   filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: s, value: '5%'}], add: [{name: t, value: u}], remove: [v]}},
     {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [w]}},
     {type: RequestMirror, requestMirror: {backendRef: {name: other, port: 50051}, fraction: {numerator: 1, denominator: 3}}}],
   backendRefs: [{name: echo, port: 50051, weight: 3, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: k, value: l}]}}]},
     {name: other, port: 50051, weight: 7, filters: [
       {type: URLRewrite, urlRewrite: {hostname: example.org, path: {type: ReplaceFullPath, replaceFullPath: /d}}}]},
     {name: nobody, port: 1, weight: 1}],
   timeouts: {request: 3s, backendRequest: 500ms}, retry: {codes: [502, 503], attempts: 2, backoff: 40ms}},
  {matches: [{path: {type: PathPrefix, value: /old}}],
   filters: [{type: URLRewrite, urlRewrite: {hostname: example.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}],
   backendRefs: [{name: echo, port: 50051}]},
  {matches: [{path: {type: PathPrefix, value: /backend}}],
   backendRefs: [{name: echo, port: 50051}, {name: other, port: 50051, filters: [
     {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}},
     {type: RequestMirror, requestMirror: {backendRef: {name: other, port: 50051}, percent: 20}},
     {type: RequestMirror, requestMirror: {backendRef: {name: echo, port: 50051}}}]}]},
  {matches: [{path: {type: PathPrefix, value: /root}}],
   filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}],
   backendRefs: [{name: echo, port: 50051}]},
  {matches: [{path: {type: PathPrefix, value: /full}}],
   filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /one}}}],
   backendRefs: [{name: echo, port: 50051}]},
  {matches: [{path: {type: PathPrefix, value: /gone}}],
   filters: [{type: RequestRedirect, requestRedirect: {scheme: https, hostname: example.com, port: 8443, statusCode: 301,
     path: {type: ReplaceFullPath, replaceFullPath: /there}}}]}
]";

const GRPC: &str = "[
  {matches: [{method: {service: shop.Cart, method: Add}}, {method: {service: shop.Cart}}, {method: {method: Get}},
     {method: {type: RegularExpression, service: 'shop[.].*', method: 'Get.*'}, headers: [{name: x, value: y}]}],
   backendRefs: [{name: other, port: 50051}]},
  {backendRefs: [{name: echo, port: 50051}]}
]";

/// Returns the routes of `echo.shop:50051`, and the routes that a client reads from their encoded form.
fn both(mesh: &Mesh) -> (Option<RouteTable>, Option<RouteTable>) {
    let read = read(&of_echo(mesh, Dialect::Envoy).encode_to_vec()).expect("ours");
    assert_eq!(read.key.to_string(), "echo.shop:50051");
    (mesh.routes(&read.key, "shop").map(|table| RouteTable::clone(table)), read.table)
}

#[test]
fn routes_are_the_same_after_their_way_over_the_wire() {
    let (written, read) = both(&route_of("HTTPRoute", EVERYTHING));
    assert!(written.as_ref().is_some_and(|table| table.entries().len() == 8), "{written:?}");
    assert_eq!(read, written);
    let (written, read) = both(&route_of("GRPCRoute", GRPC));
    assert!(written.as_ref().is_some_and(|table| table.entries().len() == 5), "{written:?}");
    assert_eq!(read, written);
    assert_eq!(both(&mesh(SERVICES)), (None, None));
}

#[test]
fn routes_that_were_changed_on_their_way_are_read_or_refused() {
    let parts =
        "retry: {attempts: 2}\n  hedge: {delay: p95, methods: [GET]}\n  timeouts: {streamIdle: 1s, mode: Audit}";
    let policed = of_echo(&mesh(&policy(parts)), Dialect::Envoy).encode_to_vec();
    let routed = of_echo(&route_of("HTTPRoute", EVERYTHING), Dialect::Envoy).encode_to_vec();
    for seed in leno_testing::seeds(0..2_000) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut changed = if random.bool() { routed.clone() } else { policed.clone() };
        for _ in 0..random.usize(1..8) {
            let place = random.usize(..changed.len());
            changed[place] = random.u8(..);
        }
        changed.truncate(random.usize(..=changed.len()));
        if let Err(error) = read(&changed) {
            assert!(!error.to_string().contains('\n'), "seed {seed}: {error}");
        }
    }
}

/// A TrafficPolicy of echo with these parts.
fn policy(spec: &str) -> String {
    format!(
        "{SERVICES}---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: p, namespace: shop}}\n\
         spec:\n  targetRefs: [{{kind: Service, name: echo}}]\n  {spec}\n"
    )
}

#[test]
fn the_policy_of_a_service_is_the_same_after_its_way_over_the_wire() {
    for spec in [
        "timeouts: {request: 2s, backendRequest: 300ms, streamIdle: 5m, mode: Audit}",
        "retry: {grpcCodes: [UNAVAILABLE, ABORTED], httpCodes: [503], attempts: 2, backoff: 40ms}",
        "retry: {mode: Audit}\n  hedge: {delay: p99.5, attempts: 2, methods: [shop.Cart/Get, shop.Stock/*, GET]}",
        "hedge: {delay: 30ms, methods: [HEAD], mode: Audit}\n  timeouts: {streamIdle: 1s}",
    ] {
        let (written, read) = both(&mesh(&policy(spec)));
        assert!(written.is_some());
        assert_eq!(read, written, "{spec}");
    }
}

#[test]
fn retries_and_hedging_of_a_newer_control_plane_do_not_make_routes_unreadable() {
    let parts = "retry: {attempts: 2}\n  hedge: {delay: p95, methods: [GET]}\n  timeouts: {request: 2s}";
    let written = of_echo(&mesh(&policy(parts)), Dialect::Envoy);
    let calls = |change: &dyn Fn(Facts) -> Facts| -> CallPolicy {
        let mut changed = written.clone();
        let metadata = &mut changed.virtual_hosts[0].routes[0].metadata;
        *metadata = change(Facts::from_metadata(metadata.as_ref())).metadata();
        let table = read(&changed.encode_to_vec()).expect("the proxy ignores what it does not know").table;
        table.expect("a table").entries()[0].rule.calls.clone()
    };
    let unknown = calls(&|facts| facts.with(RETRY_GRPC_CODES, "14,unavailable").with(HEDGE_DELAY, "twice p95"));
    assert_eq!((unknown.retry, unknown.hedge), (None, None));
    assert_eq!(unknown.request_timeout.map(|limit| limit.value.after), Some(Duration::from_secs(2)));
    for many in ["200", "70000"] {
        let lowered = calls(&|facts| facts.with(RETRIES, many).with(HEDGE, many));
        assert_eq!(lowered.retry.map(|retry| retry.value.attempts), Some(RETRIES_MAX), "{many}");
        assert_eq!(lowered.hedge.map(|hedge| hedge.value.attempts), Some(HEDGES_MAX), "{many}");
    }
}

#[test]
fn programs_without_a_proxy_get_the_parts_that_they_know_and_none_that_is_only_audited() {
    let action = |spec: &str, dialect| {
        let Some(route::Action::Route(action)) = routes(&mesh(&policy(spec)), dialect)[0].action.clone() else {
            panic!("{spec} makes no route")
        };
        action
    };
    for dialect in [Dialect::Envoy, Dialect::Grpc] {
        let enforced = action(
            "timeouts: {request: 2s, streamIdle: 7s}\n  retry: {grpcCodes: [UNAVAILABLE, ABORTED], attempts: 2}",
            dialect,
        );
        let retry = enforced.retry_policy.expect("it is enforced");
        assert_eq!(retry.retry_on, "connect-failure,refused-stream,reset,retriable-status-codes,unavailable");
        assert_eq!(enforced.timeout.map(|timeout| timeout.seconds), Some(2));
        assert_eq!(enforced.idle_timeout.map(|timeout| timeout.seconds), Some(7));
        let audited = action("timeouts: {request: 2s, streamIdle: 7s, mode: Audit}\n  retry: {mode: Audit}", dialect);
        assert_eq!(audited.timeout.map(|timeout| timeout.seconds), Some(0), "no limit");
        assert_eq!((audited.idle_timeout, audited.retry_policy, audited.max_stream_duration), (None, None, None));
    }
}

/// A mesh with a TLSRoute of echo for these hostnames.
fn tls(hostnames: &str) -> Mesh {
    let rules = "[{name: one, backendRefs: [{name: echo, port: 50051, weight: 9}, {name: other, port: 50051}]}]";
    let spec = format!("{rules}\n  hostnames: {hostnames}");
    let text = format!(
        "{SERVICES}---\napiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: r, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: '', kind: Service, name: echo, port: 50051}}]\n  rules: {spec}\n"
    );
    mesh(&text)
}

#[test]
fn routes_of_connections_are_the_same_after_their_way_over_the_wire() {
    let tcp = route_of("TCPRoute", "[{backendRefs: [{name: echo, port: 50051, weight: 9}, {name: nobody, port: 1}]}]");
    for mesh in [tcp, tls("[a.example.org, '*.example.org']"), tls("[]")] {
        let written = of_echo(&mesh, Dialect::Envoy);
        let key = crate::name::cluster_key(&written.name).expect("a cluster");
        let table = read(&written.encode_to_vec()).expect("ours").table.expect("a table");
        assert_eq!(Some(&table), mesh.routes(&key, "shop").map(AsRef::as_ref));
    }
}

/// TLSRoutes match connections by server name, so requests go to the cluster itself.
#[test]
fn requests_do_not_meet_tls_routes() {
    let mesh = tls("[a.example.org]");
    let all = routes(&mesh, Dialect::Envoy);
    let [connection, request] = &all[..] else { panic!("{all:?}") };
    let path = |route: &Route| route.r#match.clone().and_then(|matches| matches.path_specifier);
    assert!(matches!(path(connection), Some(route_match::PathSpecifier::ConnectMatcher(_))));
    assert_eq!(clusters(connection), [("echo.shop:50051".to_owned(), 9), ("other.shop:50051".to_owned(), 1)]);
    assert_eq!(clusters(request), [("echo.shop:50051".to_owned(), 1)]);
    let of_grpc = routes(&mesh, Dialect::Grpc);
    assert_eq!(of_grpc.len(), 1, "gRPC refuses a match that it does not know");
    assert_eq!(clusters(&of_grpc[0]), [("echo.shop:50051".to_owned(), 1)]);
}
