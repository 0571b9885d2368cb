use std::time::Duration;

use crate::balance::BudgetSettings;
use crate::fixtures::{notices, parse, problems};
use crate::object::{Object, TrafficPolicy};
use crate::traffic::{Mode, PolicyKind};

/// A policy for the Service `cart`, with the additional lines `spec` in its spec.
fn text(spec: &str) -> String {
    with_targets("[{group: '', kind: Service, name: cart}]", spec)
}

fn with_targets(targets: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\n\
         metadata: {{name: cart, namespace: shop}}\nspec:\n  targetRefs: {targets}\n{spec}"
    )
}

fn policy(text: &str) -> TrafficPolicy {
    let objects = parse(text).expect("a policy without mistakes").objects;
    let [Object::TrafficPolicy(policy)] = &objects[..] else { panic!("{objects:?}") };
    TrafficPolicy::clone(policy)
}

fn budget(spec: &str) -> BudgetSettings {
    policy(&text(spec)).retry_budget.expect("a retry budget").value
}

/// The remarks of a valid policy.
fn remarks(text: &str) -> Vec<String> {
    policy(text).remarks.iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_policy_is_read_as_a_policy_with_only_a_retry_budget() {
    let read = policy(&text(
        "  retryConstraint: {budget: {percent: 30, interval: 5s}, minRetryRate: {count: 6, interval: 2s}}\n",
    ));
    assert_eq!((read.kind, read.targets.len(), read.calls.is_empty()), (PolicyKind::BackendTraffic, 1, true));
    let set = read.retry_budget.expect("a retry budget");
    assert_eq!((set.mode, &*set.set_by), (Mode::Enforce, "XBackendTrafficPolicy shop/cart"));
    assert_eq!(set.value, BudgetSettings { percent: 30, interval: Duration::from_secs(5), min_per_second: 3 });
    assert!(read.remarks.is_empty(), "{:?}", read.remarks);
}

#[test]
fn what_is_left_out_has_the_default_of_gateway_api() {
    let usual = BudgetSettings::default();
    for spec in ["{}", "{budget: {}}", "{minRetryRate: {}}", "{budget: {percent: 20}, minRetryRate: {interval: 1s}}"] {
        assert_eq!(budget(&format!("  retryConstraint: {spec}\n")), usual, "{spec}");
    }
    let other_percent = budget("  retryConstraint: {budget: {percent: 0}}\n");
    assert_eq!(other_percent, BudgetSettings { percent: 0, ..usual });
    let other_count = budget("  retryConstraint: {minRetryRate: {count: 7}}\n");
    assert_eq!(other_count, BudgetSettings { min_per_second: 7, ..usual });
}

#[test]
fn a_rate_is_rounded_up_to_whole_retries_per_second() {
    for (rate, per_second, is_exact) in [
        ("{count: 10, interval: 1s}", 10, true),
        ("{count: 60, interval: 1m}", 1, true),
        ("{count: 1, interval: 1ms}", 1_000, true),
        ("{count: 1000000, interval: 1h}", 278, false),
        ("{count: 3, interval: 2s}", 2, false),
        ("{count: 61, interval: 1m}", 2, false),
        // A minimum is never rounded down to 0.
        ("{count: 1, interval: 1h}", 1, false),
        ("{count: 3600, interval: 1h}", 1, true),
    ] {
        let spec = format!("  retryConstraint: {{minRetryRate: {rate}}}\n");
        assert_eq!(budget(&spec).min_per_second, per_second, "{rate}");
        let remark = format!("minRetryRate is rounded up to {per_second} per second");
        assert_eq!(remarks(&text(&spec)), if is_exact { vec![] } else { vec![remark] }, "{rate}");
    }
}

#[test]
fn session_persistence_is_a_remark_and_leaves_the_retry_constraint_in_force() {
    let sessions = "  sessionPersistence: {sessionName: a, type: Cookie, cookieConfig: {lifetimeType: Session}}\n";
    let both = text(&format!("  retryConstraint: {{}}\n{sessions}"));
    assert!(policy(&both).retry_budget.is_some());
    let unsupported = "sessionPersistence is not supported";
    assert_eq!(remarks(&both), [unsupported]);
    assert_eq!(notices(&both), [format!("echo.yaml:4: spec of XBackendTrafficPolicy shop/cart: {unsupported}")]);
    assert!(policy(&text(sessions)).retry_budget.is_none());
    let nothing = "without retryConstraint, the policy has no effect";
    assert_eq!(remarks(&text(sessions)), [unsupported, nothing]);
    assert_eq!(remarks(&text("")), [nothing]);
}

#[test]
fn each_mistake_names_its_field_and_its_fix() {
    let constraint = "spec.retryConstraint";
    for (spec, problem) in [
        ("{budget: {percent: 101}}", ".budget.percent: 101 is too much or too little; use 0 to 100"),
        ("{budget: {percent: -1}}", ".budget.percent: -1 is too much or too little; use 0 to 100"),
        ("{budget: {interval: 61s}}", ".budget.interval: too short or too long; use 1s to 60s"),
        ("{budget: {interval: 999ms}}", ".budget.interval: too short or too long; use 1s to 60s"),
        (
            "{budget: {interval: soon}}",
            ".budget.interval: \"soon\" is not a duration; write one such as 1m30s or 500ms",
        ),
        ("{minRetryRate: {count: 0}}", ".minRetryRate.count: 0 is too much or too little; use 1 to 1000000"),
        (
            "{minRetryRate: {count: 1000001}}",
            ".minRetryRate.count: 1000001 is too much or too little; use 1 to 1000000",
        ),
        ("{minRetryRate: {interval: 0s}}", ".minRetryRate.interval: too short or too long; use 1ms to 1h"),
        ("{minRetryRate: {interval: 1h1ms}}", ".minRetryRate.interval: too short or too long; use 1ms to 1h"),
        (
            "{minRetryRate: {count: 1001, interval: 1s}}",
            ".minRetryRate: 1001 retries per second; use at most 1000: a lower count, or a longer interval",
        ),
        (
            "{minRetryRate: {count: 1000000, interval: 1ms}}",
            ".minRetryRate: 1000000000 retries per second; use at most 1000: a lower count, or a longer interval",
        ),
        ("{budgets: {}}", ".budgets: RetryConstraint has no such field; did you mean budget?"),
    ] {
        let (field, what) = problem.split_once(": ").expect("a field and a text");
        let expected = format!("echo.yaml:6: {constraint}{field} of XBackendTrafficPolicy shop/cart: {what}");
        assert_eq!(problems(&text(&format!("  retryConstraint: {spec}\n"))), [expected], "{spec}");
    }
    let of_spec = |line: &str| problems(&text(line)).remove(0).replace(" of XBackendTrafficPolicy shop/cart", "");
    assert_eq!(
        of_spec("  budget: {}\n"),
        "echo.yaml:6: spec.budget: BackendTrafficPolicySpec has no such field; remove it"
    );
}

#[test]
fn a_target_is_a_service_and_other_kinds_are_left_to_others() {
    let read = |targets: &str| with_targets(targets, "  retryConstraint: {}\n");
    let cart = "{group: '', kind: Service, name: cart}";
    let imported = format!("[{{group: multicluster.x-k8s.io, kind: ServiceImport, name: cart}}, {cart}]");
    assert_eq!(policy(&read(&imported)).targets.len(), 1);
    let ignored = "echo.yaml:5: spec.targetRefs[0] of XBackendTrafficPolicy shop/cart: ignored: the mesh applies this \
                   policy only to Services, whose group is \"\" or core";
    assert_eq!(notices(&read(&imported)), [ignored]);
    assert_eq!(policy(&read("[{group: core, kind: Service, name: cart}]")).targets.len(), 1);
    assert_eq!(policy(&read("[{group: example.com, kind: Service, name: cart}]")).targets.len(), 0);
    for (targets, problem) in [
        ("[]", "spec.targetRefs: missing; name a Service"),
        ("[{kind: Servise, name: cart}]", "[0].kind: a policy cannot select \"Servise\"; did you mean Service?"),
        (&format!("[{cart}, {cart}]"), "[1]: the same target as before; remove one of the two"),
        (&format!("[{}]", [cart; 17].join(", ")), "spec.targetRefs: 17 targets; use at most 16, or several policies"),
        (
            "[{kind: Service, name: Cart}]",
            "[0].name: \"Cart\" is not a name; use at most 253 lower-case letters, digits, dashes and dots",
        ),
        (
            "[{kind: Service, name: cart, sectionName: http}]",
            "[0].sectionName: LocalPolicyTargetReference has no such field; remove it",
        ),
    ] {
        let found = problems(&read(targets)).remove(0).replace(" of XBackendTrafficPolicy shop/cart", "");
        assert!(found.ends_with(problem), "{found}, not {problem}");
    }
}

#[test]
fn another_version_or_a_name_without_the_x_is_a_mistake() {
    let first = |from: &str, to: &str| problems(&text("").replace(from, to)).remove(0);
    assert_eq!(
        first("v1alpha1", "v1beta1"),
        "echo.yaml:1: apiVersion of XBackendTrafficPolicy shop/cart: \"gateway.networking.x-k8s.io/v1beta1\" is not read; \
         use gateway.networking.x-k8s.io/v1alpha1"
    );
    assert_eq!(
        first("XBackend", "Backend"),
        "echo.yaml:2: kind of BackendTrafficPolicy shop/cart: \"BackendTrafficPolicy\" is not a kind of \
         gateway.networking.x-k8s.io/v1alpha1; did you mean XBackendTrafficPolicy?"
    );
}
