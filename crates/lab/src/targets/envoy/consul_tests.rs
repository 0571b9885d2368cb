use super::super::fixtures::{cluster, http_filters, manager, route, sidecars};
use super::*;

#[test]
fn the_balancer_and_the_request_timeout_are_envoys_own() {
    let (outbound, inbound) = sidecars(settings);
    for config in [outbound, inbound] {
        assert_eq!(cluster(&config)["lb_policy"], Value::Null);
        assert_eq!(cluster(&config)["connect_timeout"], "5s");
        let action = &route(&config)["route"];
        assert_eq!((&action["timeout"], &action["retry_policy"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn the_servers_sidecar_checks_the_intention_and_reads_the_clients_identity() {
    let (outbound, inbound) = sidecars(settings);
    assert_eq!(http_filters(&outbound), ["grpc_stats", "grpc_http1_bridge", "router"]);
    assert_eq!(http_filters(&inbound), ["grpc_stats", "grpc_http1_bridge", "rbac", "header_to_metadata", "router"]);
    let filters = &manager(&inbound)["http_filters"];
    let allowed = &filters[2]["typed_config"]["rules"]["policies"]["client"]["principals"][0];
    assert_eq!(allowed["authenticated"]["principal_name"]["exact"], "spiffe://lab.local/ns/lab/sa/client");
    let rules = filters[3]["typed_config"]["request_rules"].as_array().expect("a list");
    assert_eq!(rules.len(), 5);
    assert_eq!(rules[4]["on_header_present"]["regex_value_rewrite"]["substitution"], "\\5");
}

#[test]
fn the_application_gets_the_clients_certificate() {
    let (_, inbound) = sidecars(settings);
    assert_eq!(manager(&inbound)["forward_client_cert_details"], "APPEND_FORWARD");
    assert_eq!(manager(&inbound)["set_current_client_cert_details"]["chain"], true);
}
