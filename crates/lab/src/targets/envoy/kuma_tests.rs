use super::super::fixtures::{cluster, http_filters, manager, network_filters, route, sidecars};
use super::*;

#[test]
fn the_clients_sidecar_limits_calls_and_retries_them() {
    let (outbound, _) = sidecars(settings);
    let thresholds = &cluster(&outbound)["circuit_breakers"]["thresholds"][0];
    assert_eq!((&thresholds["max_requests"], &thresholds["max_retries"]), (&1024.into(), &3.into()));
    assert_eq!(cluster(&outbound)["lb_policy"], Value::Null, "Envoy's own, ROUND_ROBIN");
    let action = &route(&outbound)["route"];
    assert_eq!(action["timeout"], "15s");
    assert_eq!(action["retry_policy"]["num_retries"], 5);
    assert_eq!(action["retry_policy"]["retry_on"], GRPC_RETRY_ON);
}

#[test]
fn the_servers_sidecar_has_the_doubled_timeouts_and_no_retries() {
    let (_, inbound) = sidecars(settings);
    assert_eq!(manager(&inbound)["stream_idle_timeout"], "3600s");
    assert_eq!(cluster(&inbound)["connect_timeout"], "10s");
    let action = &route(&inbound)["route"];
    assert_eq!((&action["timeout"], &action["retry_policy"]), (&"0s".into(), &Value::Null));
}

#[test]
fn only_the_servers_sidecar_has_a_permission() {
    let (outbound, inbound) = sidecars(settings);
    assert_eq!(network_filters(&outbound).len(), 1);
    let filters = network_filters(&inbound);
    assert_eq!(filters[0]["name"], "envoy.filters.network.rbac");
    let rules = &filters[0]["typed_config"]["rules"];
    assert_eq!(rules["action"], "ALLOW");
    assert_eq!(http_filters(&inbound), ["grpc_stats", "router"]);
}
