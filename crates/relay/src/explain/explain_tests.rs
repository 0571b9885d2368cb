use std::time::Duration;

use leno_model::mesh::Mesh;
use leno_model::policy::Verdict;
use leno_model::spiffe::SpiffeId;
use leno_testing::seeds;

use super::*;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{call, mesh_of, relay, service};
use crate::link::LinkId;

/// A Service with a route to three other Services, and a policy for the workload ns/shop/sa/cart. One of the three
/// Services has no endpoint.
const SHOP: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: canary, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: cart}]
  rules:
  - name: asked-for
    matches: [{headers: [{name: x-canary, value: 'yes'}]}]
    timeouts: {request: 2s}
    backendRefs: [{name: v2, port: 80}]
  - name: moved
    matches: [{path: {value: /old}}]
    filters:
    - {type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}
  - name: page
    matches: [{path: {value: /items}, queryParams: [{name: page, value: '1'}]}]
    backendRefs: [{name: empty, port: 80}]
  - name: items
    matches: [{path: {value: /items}, method: GET}]
    filters:
    - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /things}}}
    backendRefs: [{name: v1, port: 80, weight: 9}, {name: v2, port: 80, weight: 1}]
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: cart}]
  timeouts: {request: 5s}
  retry: {attempts: 2}
---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  allow: [{identities: [ns/shop/sa/web]}]
  healthChecks: [/healthz]
";

fn mesh() -> Mesh {
    let none =
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: empty, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    let services =
        [service("cart", &["10.0.0.9"]), service("v1", &["10.0.0.1", "10.0.0.2"]), service("v2", &["10.0.0.3"])];
    mesh_of(format!("{SHOP}{}{none}", services.concat()))
}

/// Returns the HTTP/1 request that makes the call of a question.
fn written(question: &CallQuestion, host: &str) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\nhost: {host}\r\n", question.method, question.path);
    for (name, value) in &question.headers {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n").into_bytes()
}

/// The relay's treatment of a call: its own answer (the error's reason or the redirect's location), or the cluster and
/// the endpoint that the call is sent to.
#[derive(Debug, PartialEq)]
enum Done {
    Answered(String),
    Sent { cluster: String, endpoint: String, rule: Option<String>, deadline: Option<Duration> },
}

/// Makes the call on a new connection.
fn make(relay: &mut Relay, number: u32, origin: Origin, identity: Option<SpiffeId>, request: Vec<u8>) -> Done {
    let before: Vec<_> = relay.calls.iter().map(|(id, _)| id).collect();
    let client = call(relay, number, origin, identity, request);
    let made = relay.calls.iter().find(|(id, _)| !before.contains(id)).map(|(_, call)| call);
    let Some(call) = made else {
        let link = relay.link(LinkId::Client(client)).expect("it is open");
        let answer = String::from_utf8_lossy(link.codec.output()).into_owned();
        let field = |name: &str| {
            answer.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default().to_owned()
        };
        return Done::Answered(field("leno-proxy-error") + &field("location"));
    };
    let state = relay.targets.get(call.cluster).expect("it has a cluster");
    let picked = call.attempts.iter().find_map(|attempt| attempt.pick.as_ref());
    let endpoint = picked.and_then(|pick| state.balancer.address(pick.endpoint)).expect("an endpoint");
    Done::Sent {
        cluster: state.target.to_string(),
        endpoint: endpoint.to_string(),
        rule: call.route.as_ref().and_then(|route| route.rule_name().map(str::to_owned)),
        deadline: call.deadline.map(|at| at - call.started),
    }
}

fn outbound_question(random: &mut fastrand::Rng) -> (CallQuestion, &'static str) {
    let mut one_of = |choices: &[&'static str]| choices[random.usize(..choices.len())];
    let authority = one_of(&[
        "cart.shop:80",
        "cart.shop",
        "CART.shop.svc",
        "v1.shop:80",
        "nobody.shop:80",
        "empty.shop",
        "10.0.0.7:80",
    ]);
    let method = one_of(&["GET", "POST", "DELETE"]);
    let path = one_of(&["/items", "/items/7?page=1", "/items?page=1", "/old/a", "/other", "/itemsy"]);
    let headers = match one_of(&["", "yes", "no"]) {
        "" => Vec::new(),
        value => vec![("x-canary".to_owned(), value.to_owned())],
    };
    let side = CallSide::Outbound { authority: authority.to_owned(), address: None };
    (CallQuestion { side, method: method.to_owned(), path: path.to_owned(), headers }, authority)
}

#[test]
fn an_explanation_is_what_the_relay_then_does_with_the_call() {
    let here = "127.0.0.1:4140".parse().expect("an address");
    for seed in seeds(0..20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut relay = relay(seed, mesh(), false);
        for number in 0..40 {
            let (question, authority) = outbound_question(&mut random);
            let answer = relay.explain_call(&question).expect("a question");
            assert_eq!(relay.explain_call(&question).expect("a question"), answer, "to ask changes nothing");
            let origin = Origin { door: Door::Outbound, peer: here, local: here, original_destination: None };
            let known: Vec<_> = relay.targets.iter().map(|(_, state)| state.target.to_string()).collect();
            match make(&mut relay, number, origin, None, written(&question, authority)) {
                Done::Answered(what) => match answer.outcome {
                    Outcome::Failed(failure) => assert_eq!(failure.error, what, "{question:?}"),
                    Outcome::Redirected { location, .. } => assert_eq!(location, what, "{question:?}"),
                    other => panic!("{question:?}: {other:?}, but the relay answers {what}"),
                },
                Done::Sent { cluster, endpoint, rule, deadline } => {
                    assert_eq!(answer.outcome, Outcome::Sent, "{question:?}");
                    let outbound = answer.outbound.expect("the way");
                    let backend = outbound.backends.iter().find(|backend| backend.to == cluster);
                    let backend = backend.unwrap_or_else(|| panic!("{question:?}: {cluster} in {outbound:?}"));
                    assert!(
                        backend.share > 0.0 && backend.endpoints.iter().any(|it| it.address.to_string() == endpoint)
                    );
                    if known.contains(&cluster) {
                        let choice = backend.choice.as_ref().map(|choice| choice.address.to_string());
                        assert_eq!(choice, Some(endpoint), "{question:?}");
                    }
                    assert_eq!(outbound.route.and_then(|route| route.rule), rule, "{question:?}");
                    assert_eq!(outbound.deadline_ms.map(Duration::from_millis), deadline, "{question:?}");
                }
            }
        }
    }
}

#[test]
fn a_caller_is_let_in_exactly_if_the_explanation_says_so() {
    let application = "10.0.0.9:8080".parse().expect("an address");
    let mut relay = relay(1, mesh(), false);
    let mut number = 0;
    for identity in [None, Some("web"), Some("batch")] {
        for (method, path) in [("GET", "/"), ("GET", "/healthz"), ("POST", "/healthz")] {
            number += 1;
            let id = identity.map(|account| format!("spiffe://example.org/ns/shop/sa/{account}"));
            let peer = std::net::SocketAddr::from(([10, 0, 1, 1], 40_000));
            let side = CallSide::Inbound { port: 8080, identity: id.clone(), address: peer.ip() };
            let question = CallQuestion { side, method: method.into(), path: path.into(), headers: Vec::new() };
            let answer = relay.explain_call(&question).expect("a question");
            let origin =
                Origin { door: Door::Inbound, peer, local: application, original_destination: Some(application) };
            let identity = id.map(|id| id.parse().expect("an id"));
            let mut request = written(&question, "cart.shop");
            if method == "POST" {
                // The explanation assumes that a POST has content, so the request that the test sends for comparison
                // must have content, too.
                request = String::from_utf8(request)
                    .expect("text")
                    .replace("\r\n\r\n", "\r\ncontent-length: 1\r\n\r\n")
                    .into();
            }
            let done = make(&mut relay, number, origin, identity, request);
            let verdict = answer.inbound.expect("a decision").policy.expect("an identity").verdict;
            assert_eq!(
                verdict == Verdict::Denied,
                done == Done::Answered("denied".to_owned()),
                "{question:?}: {done:?}"
            );
            assert_eq!(verdict == Verdict::Denied, answer.outcome != Outcome::Sent, "{question:?}");
        }
    }
}

#[test]
fn an_unknown_destination_is_asked_for_as_a_call_would_ask() {
    let mut relay = relay(1, Mesh::empty().answering([]), true);
    let side = CallSide::Outbound { authority: "cart.shop:80".to_owned(), address: None };
    let question = CallQuestion { side, method: "GET".into(), path: "/".into(), headers: Vec::new() };
    for _ in 0..2 {
        let answer = relay.explain_call(&question).expect("a question");
        assert_eq!(answer.outcome, Outcome::Unknown { subject: "cart.shop:80".to_owned() });
    }
    let asked = relay.take_effects();
    assert!(matches!(&asked[..], [crate::effect::Effect::Ask(_)]), "once: {asked:?}");
}

fn of_cart(method: &str) -> CallQuestion {
    let side = CallSide::Outbound { authority: "cart.shop:80".to_owned(), address: None };
    CallQuestion { side, method: method.into(), path: "/items".into(), headers: Vec::new() }
}

#[test]
fn rules_that_do_not_match_are_listed_with_the_reason() {
    let answer = relay(1, mesh(), false).explain_call(&of_cart("POST")).expect("a question");
    let route = answer.outbound.expect("the way").route.expect("the rules");
    assert_eq!((route.route, route.kind.as_str()), (None, "HTTPRoute"));
    let why: Vec<_> = route.passed_over.iter().map(|it| (it.rule.as_deref().unwrap_or_default(), &*it.why)).collect();
    let expected = [
        ("items", r#"method GET: the call has "POST""#),
        ("page", r#"query parameter page = "1": the call has "/items""#),
        ("moved", r#"path prefix "/old": the call has "/items""#),
        ("asked-for", r#"header x-canary = "yes": the call has none"#),
    ];
    assert_eq!(why, expected);
}

#[test]
fn changes_limits_and_shares_come_from_the_rule_with_the_objects_that_set_them() {
    let answer = relay(1, mesh(), false).explain_call(&of_cart("GET")).expect("a question");
    let outbound = answer.outbound.expect("the way");
    assert_eq!(outbound.changes, [":path: /things"]);
    let deadline = (outbound.deadline_ms, outbound.deadline_set_by.as_deref());
    assert_eq!(deadline, (Some(5_000), Some("TrafficPolicy shop/cart")));
    assert_eq!(outbound.backends.iter().map(|it| it.share).collect::<Vec<_>>(), [0.9, 0.1]);
    assert_eq!(outbound.calls["retry"]["set_by"], "TrafficPolicy shop/cart");
}

#[test]
fn the_delay_of_a_hedge_is_told_for_calls_that_may_be_hedged() {
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: v1, namespace: shop}\nspec:\n  \
                  targetRefs: [{kind: Service, name: v1}]\n  hedge: {delay: p95, methods: [GET]}\n";
    let text = policy.to_owned() + &service("v1", &["10.0.0.1"]);
    let mut relay = relay(1, mesh_of(text), false);
    let mut delay = |method: &str| {
        let side = CallSide::Outbound { authority: "v1.shop:80".to_owned(), address: None };
        let question = CallQuestion { side, method: method.into(), path: "/".into(), headers: Vec::new() };
        let outbound = relay.explain_call(&question).expect("a question").outbound.expect("the way");
        outbound.backends[0].hedge_delay.clone()
    };
    assert_eq!(delay("GET").as_deref(), Some("p95 is not known yet, so calls are not hedged: 0 of 100 calls"));
    assert_eq!(delay("POST"), None);
}

#[test]
fn a_backends_mirror_copies_its_share_of_the_calls_to_this_backend() {
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: canary, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: cart}]
  rules:
  - filters:
    - {type: RequestMirror, requestMirror: {backendRef: {name: v1, port: 80}, fraction: {numerator: 1, denominator: 10000}}}
    backendRefs:
    - {name: v1, port: 80, weight: 9}
    - name: v2
      port: 80
      weight: 1
      filters:
      - {type: RequestMirror, requestMirror: {backendRef: {name: v1, port: 80}, percent: 50}}
";
    let services = [service("cart", &["10.0.0.9"]), service("v1", &["10.0.0.1"]), service("v2", &["10.0.0.3"])];
    let mut relay = relay(1, mesh_of(format!("{route}{}", services.concat())), false);
    let mirrors = relay.explain_call(&of_cart("GET")).expect("a question").outbound.expect("the way").mirrors;
    assert_eq!(mirrors, ["v1.shop:80 (0.01 % of the calls)", "v1.shop:80 (5 % of the calls)"]);
}

#[test]
fn a_port_with_tcp_routes_is_opaque() {
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: TCPRoute\nmetadata: {name: r, namespace: shop}\n\
                 spec:\n  parentRefs: [{group: '', kind: Service, name: db}]\n  \
                 rules: [{backendRefs: [{name: v1, port: 80}]}]\n";
    let db = "---\napiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop}\n\
              spec: {clusterIP: 10.96.0.7, ports: [{port: 9000}]}\n";
    let mut relay = relay(1, mesh_of([route, db, &service("v1", &["10.0.0.1"])].concat()), false);
    let address = Some("10.96.0.7:9000".parse().expect("an address"));
    let side = CallSide::Outbound { authority: "db.shop:9000".to_owned(), address };
    let headers = vec![("grpc-timeout".to_owned(), "1S".to_owned())];
    let question = CallQuestion { side, method: "POST".into(), path: "/".into(), headers };
    let outbound = relay.explain_call(&question).expect("a question").outbound.expect("the way");
    assert_eq!((outbound.is_opaque, outbound.deadline_ms), (true, None));
    assert_eq!(outbound.backends[0].to, "v1.shop:80");
}

/// Explains a call to the own address of an endpoint of the headless Service `cart`. `annotation` belongs to this
/// Service, and `field` to the endpoint.
fn of_endpoint((annotation, field): (&str, &str), content_type: Option<&str>) -> Outbound {
    let manifests = service("cart", &["10.0.0.7", "10.0.0.8"])
        .replace("spec: {", "spec: {clusterIP: None, ")
        .replace(
            "{name: cart, namespace: shop}",
            &format!("{{name: cart, namespace: shop, annotations: {{{annotation}}}}}"),
        )
        .replace("- addresses: [10.0.0.7]", &format!("- addresses: [10.0.0.7]{field}"));
    let mut relay = relay(1, mesh_of(manifests), false);
    let address = Some("10.0.0.7:8080".parse().expect("an address"));
    let side = CallSide::Outbound { authority: "cart.shop:80".to_owned(), address };
    let headers = content_type.map(|value| ("content-type".to_owned(), value.to_owned())).into_iter().collect();
    let question = CallQuestion { side, method: "POST".into(), path: "/shop.v1.Cart/Get".into(), headers };
    relay.explain_call(&question).expect("a question").outbound.expect("the way")
}

#[test]
fn a_call_to_an_endpoint_of_a_headless_service_is_balanced_by_the_rules_of_real_calls() {
    let grpc = Some("application/grpc");
    let hostname = "\n  hostname: cart-0";
    for (object, content_type, destination, in_http2) in [
        (("", ""), grpc, "cart.shop:80", true),
        (("", ""), None, "10.0.0.7:8080", true),
        (("", hostname), grpc, "10.0.0.7:8080", false),
        (("leno.dev/headless: balanced", hostname), grpc, "cart.shop:80", true),
        (("leno.dev/headless: direct", ""), grpc, "10.0.0.7:8080", false),
    ] {
        let outbound = of_endpoint(object, content_type);
        let told = (&*outbound.destination, outbound.is_service, outbound.is_balanced_in_http2);
        assert_eq!(told, (destination, destination == "cart.shop:80", in_http2), "{object:?} {content_type:?}");
        assert_eq!(outbound.endpoint_of.as_deref(), Some("cart.shop:80"), "{object:?} {content_type:?}");
    }
}

#[test]
fn a_hostile_question_is_refused() {
    let mut relay = relay(1, mesh(), false);
    let side = CallSide::Inbound { port: 80, identity: Some("\u{1b}[2J".to_owned()), address: [10, 0, 0, 1].into() };
    let question = CallQuestion { side, method: "GET".into(), path: "/".into(), headers: Vec::new() };
    let refused = relay.explain_call(&question).expect_err("it is no identity").to_string();
    assert!(refused.contains("spiffe://") && !refused.contains('\u{1b}'), "{refused}");
}
