use std::time::Duration;

use super::TrafficPolicy;
use crate::balance::BudgetSettings;
use crate::manifest::{Manifest, SourceFile, parse_file};
use crate::object::Object;
use crate::traffic::status::{TargetKind, TargetRef};
use crate::traffic::{HedgeDelay, Mode};

/// Returns the manifest of a TrafficPolicy for the Service `cart`; `spec` has the lines of its spec after the target.
fn text(spec: &str) -> String {
    format!(
        "apiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: cart, namespace: shop}}\nspec:\n  \
         targetRefs: [{{group: '', kind: Service, name: cart}}]\n{spec}"
    )
}

fn parse(text: String) -> Result<Manifest, Vec<String>> {
    let file = SourceFile { path: "cart.yaml".to_owned(), text };
    let problems = |refused: crate::manifest::Refused| refused.problems.iter().map(ToString::to_string).collect();
    parse_file(&file, "default").map_err(problems)
}

fn policy(spec: &str) -> TrafficPolicy {
    let objects = parse(text(spec)).expect("a policy without mistakes").objects;
    let [Object::TrafficPolicy(policy)] = &objects[..] else { panic!("{objects:?}") };
    TrafficPolicy::clone(policy)
}

#[test]
fn a_whole_policy_is_read() {
    let read = policy(
        "  timeouts: {request: 2s, backendRequest: 300ms, streamIdle: 5m}
  retry: {grpcCodes: [UNAVAILABLE, ABORTED], httpCodes: [503, 502], attempts: 2, backoff: 25ms, mode: Audit}
  hedge: {delay: p95, attempts: 2, methods: [shop.v1.Cart/Get]}
  budget: {percent: 30, interval: 5s, minPerSecond: 3}\n",
    );
    let target = TargetRef { kind: TargetKind::Service, name: "cart".into(), section_name: None };
    assert_eq!(read.targets[0].reference, target);
    let calls = &read.calls;
    let limits = [&calls.request_timeout, &calls.backend_request_timeout, &calls.stream_idle_timeout];
    let ms = limits.map(|limit| limit.as_ref().map(|limit| (limit.value.after.as_millis(), limit.mode)));
    assert_eq!(ms, [2_000, 300, 300_000].map(|ms| Some((ms, Mode::Enforce))));
    let retry = calls.retry.as_ref().expect("retries");
    assert_eq!((retry.mode, &*retry.set_by), (Mode::Audit, "TrafficPolicy shop/cart"));
    assert_eq!((retry.value.attempts, retry.value.backoff), (2, Duration::from_millis(25)));
    assert_eq!(&*retry.value.http_codes, [502, 503]);
    let codes: Vec<_> = retry.value.grpc_codes.iter().map(|(_, name)| name).collect();
    assert_eq!(codes, ["ABORTED", "UNAVAILABLE"]);
    let hedge = &calls.hedge.as_ref().expect("hedging").value;
    assert_eq!((hedge.delay, hedge.attempts), (HedgeDelay::Percentile(950), 2));
    let budget = read.retry_budget.expect("a budget").value;
    assert_eq!(budget, BudgetSettings { percent: 30, interval: Duration::from_secs(5), min_per_second: 3 });
}

#[test]
fn what_is_left_out_has_a_default_or_is_not_set() {
    let read = policy("  retry: {}\n  budget: {}\n");
    assert_eq!(read.calls.retry.as_ref().map(|retry| retry.value.attempts), Some(1));
    assert_eq!(read.retry_budget.map(|budget| budget.value), Some(BudgetSettings::default()));
    assert!(read.calls.request_timeout.is_none() && read.calls.hedge.is_none());
}

#[test]
fn a_part_that_is_off_needs_nothing_else() {
    let read = policy("  timeouts: {mode: 'Off'}\n  retry: {mode: 'Off'}\n  hedge: {mode: 'Off'}\n");
    assert_eq!(read.calls.retry.as_ref().map(|retry| retry.mode), Some(Mode::Off));
    assert!(read.calls.without_off().is_empty());
    // `0s` switches the limit off, even if a less specific policy sets a limit.
    let unlimited = policy("  timeouts: {request: 0s}\n").calls;
    assert_eq!(unlimited.request_timeout.map(|limit| limit.mode), Some(Mode::Off));
}

#[test]
fn each_mistake_names_its_line_and_its_fix() {
    let cases = [
        (
            "",
            "4: spec: a policy that sets nothing; add timeouts, retry, hedge, budget or the annotation leno.dev/objective",
        ),
        ("  timeouts: {}\n", "6: spec.timeouts: no time limit; add request, backendRequest or streamIdle"),
        (
            "  timeouts: {request: 1s, backendRequest: 2s}\n",
            "6: spec.timeouts.backendRequest: longer than the whole request may take; make it shorter than request",
        ),
        (
            "  timeouts: {streamIdle: soon}\n",
            "6: spec.timeouts.streamIdle: \"soon\" is not a duration; write one such as 1m30s or 500ms",
        ),
        (
            "  timeouts: {streamIdle: 1ms}\n",
            "6: spec.timeouts.streamIdle: a stream that is idle for 1ms; use at least 100ms",
        ),
        (
            "  retry: {attempts: 0}\n",
            "6: spec.retry.attempts: 0 retries of one request; use 1 to 10, or remove the field retry",
        ),
        (
            "  retry: {grpcCodes: [UNAVAILIBLE]}\n",
            "6: spec.retry.grpcCodes[0]: \"UNAVAILIBLE\" is not a gRPC status; did you mean UNAVAILABLE?",
        ),
        ("  retry: {grpcCodes: [OK]}\n", "6: spec.retry.grpcCodes[0]: OK is no failure; remove it"),
        (
            "  retry: {httpCodes: [200]}\n",
            "6: spec.retry.httpCodes: 200 is not a status of a failed request; use codes from 400 to 599",
        ),
        (
            "  hedge: {delay: p101, methods: [a.B/C]}\n",
            "6: spec.hedge.delay: \"p101\" is not a delay; use p50 to p99.9, with at most one digit after the dot",
        ),
        (
            "  hedge: {delay: p95}\n",
            "6: spec.hedge.methods: missing; name the methods whose calls may be sent twice, as shop.v1.Cart/GetItem",
        ),
        (
            "  hedge: {delay: p95, attempts: 0, methods: [GET]}\n",
            "6: spec.hedge.attempts: 0 further attempts at one call; use 1 to 3, or remove the field hedge",
        ),
        ("  budget: {percent: 101}\n", "6: spec.budget.percent: 101 is too much or too little; use 0 to 100"),
        ("  budget: {interval: 2m}\n", "6: spec.budget.interval: too short or too long; use 1s to 60s"),
        ("  retry: {mode: Maybe}\n", "6: spec.retry.mode: \"Maybe\" is not a mode; use Enforce or Audit or Off"),
        ("  retries: {}\n", "6: spec.retries: TrafficPolicySpec has no such field; remove it"),
    ];
    for (spec, problem) in cases {
        let problems = parse(text(spec)).expect_err(spec);
        let mut parts = problem.splitn(3, ": ");
        let [line, field, what] = std::array::from_fn(|_| parts.next().expect("a line, a field and a text"));
        let expected = format!("cart.yaml:{line}: {field} of TrafficPolicy shop/cart: {what}");
        assert!(problems.contains(&expected), "{spec}: {problems:#?}, not {expected}");
    }
}

#[test]
fn a_target_is_a_service_or_a_route() {
    let with =
        |targets: &str| parse(text("  retry: {}\n").replace("[{group: '', kind: Service, name: cart}]", targets));
    let routes = "[{group: gateway.networking.k8s.io, kind: GRPCRoute, name: cart, sectionName: get}]";
    assert!(with(routes).is_ok());
    for (targets, problem) in [
        ("[]", "spec.targetRefs: missing; name a Service, an HTTPRoute or a GRPCRoute"),
        (
            "[{kind: GrpcRoute, name: cart}]",
            "spec.targetRefs[0].kind: a policy cannot select \"GrpcRoute\"; did you mean GRPCRoute?",
        ),
        (
            "[{kind: HTTPRoute, name: cart}]",
            "spec.targetRefs[0].group: \"\" is not the group of a HTTPRoute; use gateway.networking.k8s.io",
        ),
        (
            "[{kind: Service, name: cart}, {kind: Service, name: cart}]",
            "spec.targetRefs[1]: the same target as before; remove one of the two",
        ),
        (
            "[{kind: Service, name: ''}]",
            "spec.targetRefs[0].name: \"\" is not a name; use at most 253 lower-case letters, digits, dashes and dots",
        ),
    ] {
        let problems = with(targets).expect_err(targets);
        assert!(
            problems.iter().any(|found| found.replace(" of TrafficPolicy shop/cart", "").contains(problem)),
            "{problems:#?}, not {problem}"
        );
    }
}

#[test]
fn a_budget_is_for_services_only() {
    let spec = text("  budget: {percent: 10}\n")
        .replace("group: '', kind: Service", "group: gateway.networking.k8s.io, kind: GRPCRoute");
    let problems = parse(spec).expect_err("a mistake");
    let expected = "spec.budget: a budget counts all calls to a Service, and a target is GRPCRoute; move it to a policy for the Service";
    assert!(problems[0].replace(" of TrafficPolicy shop/cart", "").contains(expected), "{problems:?}");
}

#[test]
fn a_mistake_allows_and_denies_no_caller() {
    let file = SourceFile { path: "cart.yaml".to_owned(), text: text("  retry: {attempts: 0}\n") };
    let refused = parse_file(&file, "default").expect_err("a mistake");
    assert!(refused.policies.is_empty(), "it is no AuthorizationPolicy: {:?}", refused.policies);
}

/// Like [`text`], with the annotation `leno.dev/objective` set to `objective`.
fn with_objective(objective: &str, spec: &str) -> String {
    let annotations = format!("annotations: {{leno.dev/objective: '{objective}'}}");
    text(spec).replace("namespace: shop}", &format!("namespace: shop, {annotations}}}"))
}

#[test]
fn a_policy_may_set_nothing_but_an_objective() {
    let objects = parse(with_objective("success 99.9 %, p99 50ms", "")).expect("no mistake").objects;
    let [Object::TrafficPolicy(policy)] = &objects[..] else { panic!("{objects:?}") };
    let objectives = policy.objectives.as_ref().expect("objectives");
    assert_eq!(objectives.to_string(), "*: success 99.9 %, p99 50ms");
    assert_eq!(&*objectives.set_by, "TrafficPolicy shop/cart");
}

#[test]
fn an_objective_of_a_policy_for_a_route_or_with_a_mistake_says_what_to_do() {
    let place = "cart.yaml:3: metadata.annotations[\"leno.dev/objective\"] of TrafficPolicy shop/cart";
    let route = "{group: gateway.networking.k8s.io, kind: GRPCRoute, name: cart}";
    let of_a_route = with_objective("p99 1s", "  retry: {}\n").replace("{group: '', kind: Service, name: cart}", route);
    assert_eq!(
        parse(of_a_route).expect_err("a mistake"),
        [format!(
            "{place}: an objective is for all calls to a Service, and a target is GRPCRoute; move it to the Service, or to a \
             policy for the Service"
        )]
    );
    assert_eq!(
        parse(with_objective("p99 1d", "")).expect_err("a mistake"),
        [format!("{place}: \"1d\" is not the time of a call; write a duration from 1ms to 1h, for example p99 50ms")]
    );
    let unknown = with_objective("p99 1s", "  retry: {}\n").replace("objective", "objectives");
    assert_eq!(
        parse(unknown).expect_err("a mistake"),
        [format!(
            "{}: there is no such annotation; did you mean leno.dev/objective?",
            place.replace("objective", "objectives")
        )]
    );
}
