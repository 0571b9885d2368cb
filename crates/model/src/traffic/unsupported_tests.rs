use std::time::Duration;

use super::*;
use crate::traffic::{GrpcCodes, Hedge, HedgeDelay, Retry, TimeLimit};

fn set<T>(value: T, mode: Mode) -> Option<Setting<T>> {
    Some(Setting { value, mode, set_by: "TrafficPolicy shop/cart".into() })
}

fn limit(mode: Mode) -> Option<Setting<TimeLimit>> {
    set(TimeLimit { after: Duration::from_secs(1) }, mode)
}

/// A retry after ABORTED and UNAVAILABLE, and after the HTTP status 503.
fn retry(attempts: u8) -> Retry {
    let grpc_codes = GrpcCodes::default().with(10).with(14);
    Retry { http_codes: [503].into(), grpc_codes, attempts, ..Retry::default() }
}

fn names(client: XdsClient, policy: &CallPolicy, budget: Option<&Setting<BudgetSettings>>) -> Vec<String> {
    unsupported(client, policy, budget).iter().map(ToString::to_string).collect()
}

#[test]
fn envoy_ignores_less_than_grpc() {
    let hedge = Hedge { delay: HedgeDelay::Percentile(950), attempts: 1, methods: Arc::default() };
    let policy = CallPolicy {
        request_timeout: limit(Mode::Enforce),
        backend_request_timeout: limit(Mode::Enforce),
        stream_idle_timeout: limit(Mode::Enforce),
        retry: set(retry(5), Mode::Enforce),
        hedge: set(hedge, Mode::Enforce),
    };
    let budget = set(BudgetSettings::default(), Mode::Enforce);
    assert_eq!(
        names(XdsClient::Grpc, &policy, budget.as_ref()),
        [
            "timeouts.backendRequest",
            "timeouts.streamIdle",
            "some of retry.grpcCodes",
            "retry.httpCodes",
            "retry.attempts above 4",
            "hedge",
            "budget"
        ]
    );
    assert_eq!(
        names(XdsClient::GrpcGo, &policy, budget.as_ref()),
        [
            "timeouts.backendRequest",
            "timeouts.streamIdle",
            "some of retry.grpcCodes",
            "retry.httpCodes",
            "hedge",
            "budget"
        ]
    );
    let by_envoy = unsupported(XdsClient::Envoy, &policy, budget.as_ref());
    assert_eq!(
        names(XdsClient::Envoy, &policy, budget.as_ref()),
        ["some of retry.grpcCodes", "hedge", "budget.interval", "budget.minPerSecond"]
    );
    assert!(by_envoy.iter().all(|part| &*part.set_by == "TrafficPolicy shop/cart"));
}

#[test]
fn envoy_ignores_no_minimum_that_is_zero() {
    let budget = set(BudgetSettings { min_per_second: 0, ..BudgetSettings::default() }, Mode::Enforce);
    assert_eq!(names(XdsClient::Envoy, &CallPolicy::default(), budget.as_ref()), ["budget.interval"]);
    assert_eq!(names(XdsClient::Grpc, &CallPolicy::default(), budget.as_ref()), ["budget"]);
}

#[test]
fn a_policy_that_every_client_knows_has_no_such_part() {
    let known = Retry { grpc_codes: GrpcCodes::default().with(14), ..Retry::default() };
    let policy =
        CallPolicy { request_timeout: limit(Mode::Enforce), retry: set(known, Mode::Enforce), ..CallPolicy::default() };
    let without_retry = CallPolicy { backend_request_timeout: limit(Mode::Enforce), ..CallPolicy::default() };
    for client in [XdsClient::Grpc, XdsClient::GrpcGo, XdsClient::Envoy] {
        assert_eq!(names(client, &policy, None), [""; 0]);
        assert_eq!(names(client, &without_retry, None), [""; 0]);
    }
}

#[test]
fn every_client_ignores_a_part_that_is_audited_and_no_client_a_part_that_is_off() {
    let of = |mode| CallPolicy {
        request_timeout: limit(mode),
        stream_idle_timeout: limit(mode),
        retry: set(retry(5), mode),
        ..CallPolicy::default()
    };
    let budget = set(BudgetSettings::default(), Mode::Audit);
    for client in [XdsClient::Grpc, XdsClient::GrpcGo, XdsClient::Envoy] {
        assert_eq!(
            names(client, &of(Mode::Audit), budget.as_ref()),
            [
                "timeouts.request in mode Audit",
                "timeouts.streamIdle in mode Audit",
                "retry in mode Audit",
                "budget in mode Audit"
            ]
        );
        assert_eq!(names(client, &of(Mode::Off), None), [""; 0]);
    }
}
