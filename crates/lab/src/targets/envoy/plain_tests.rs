use super::super::super::hop::{Side, Wire};
use super::super::fixtures::{address, cluster, config_of, route};
use super::*;

fn config(policy: CallPolicy) -> Value {
    let clear = Side::in_clear(Wire::Http2);
    config_of((clear, clear), &[address(11)], |_| settings(policy))
}

#[test]
fn envoy_retries_only_if_the_policy_says_so_and_keeps_its_own_limit() {
    let limit = |config: &Value| cluster(config)["circuit_breakers"]["thresholds"][0]["max_retries"].clone();
    let once = config(CallPolicy::Once);
    assert_eq!(route(&once)["route"]["retry_policy"], Value::Null);
    let retry = config(CallPolicy::Retry);
    assert_eq!(route(&retry)["route"]["retry_policy"]["num_retries"], 2);
    assert_eq!(limit(&retry), Value::Null);
    let unlimited = config(CallPolicy::RetryUnlimited);
    assert_eq!(route(&unlimited)["route"], route(&retry)["route"]);
    assert_eq!(limit(&unlimited), 1_000_000);
}
