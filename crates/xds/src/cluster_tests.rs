use leno_model::balance::{BudgetSettings, Policy};
use leno_model::protocol::Protocol;
use leno_model::spiffe::TrustDomain;
use leno_model::traffic::{Mode, Setting};
use prost::Message;

use super::{has_same_peers, read, write};
use crate::facts::{BALANCER, BUDGET, BUDGET_INTERVAL, BUDGET_MIN_PER_SECOND, Facts};
use crate::fixtures::{ENVOY, GRPC, cluster, endpoint, meshed};
use crate::pb::cluster::Cluster;
use crate::pb::cluster::cluster::LbPolicy;
use crate::pb::tls::UpstreamTlsContext;
use crate::pb::{core, upstream};
use crate::proto::from_any;
use crate::view::{Dialect, View};

fn trust_domain() -> TrustDomain {
    "cluster.local".parse().expect("a trust domain")
}

fn context(socket: &core::TransportSocket) -> UpstreamTlsContext {
    let core::transport_socket::ConfigType::TypedConfig(any) = socket.config_type.as_ref().expect("a config");
    from_any(any).expect("TLS")
}

#[test]
fn envoy_chooses_the_endpoint_with_the_fewest_requests_for_latency() {
    let written = write(&cluster("echo"), ENVOY);
    assert_eq!(written.lb_policy, i32::from(LbPolicy::LeastRequest));
    assert!(written.load_balancing_policy.is_none());
    let robin = leno_model::mesh::Cluster { balancer: Policy::RoundRobin, ..cluster("echo") };
    assert_eq!(write(&robin, ENVOY).lb_policy, i32::from(LbPolicy::RoundRobin));
}

#[test]
fn envoy_gets_a_budget_for_the_retries_in_flight() {
    let written = |percent, min_per_second, mode, view| {
        let value = BudgetSettings { percent, min_per_second, ..BudgetSettings::default() };
        let budget = Setting { value, mode, set_by: "TrafficPolicy shop/echo".into() };
        let cluster = leno_model::mesh::Cluster { retry_budget: Some(budget), ..cluster("echo") };
        let thresholds = write(&cluster, view).circuit_breakers.expect("it is always written").thresholds;
        let budget = thresholds.into_iter().next().and_then(|thresholds| thresholds.retry_budget)?;
        Some((budget.budget_percent?.value, budget.min_retry_concurrency.map(|least| least.value)))
    };
    assert_eq!(written(30, 10, Mode::Enforce, ENVOY), Some((30.0, None)), "at least Envoy's own minimum");
    assert_eq!(written(0, 0, Mode::Enforce, ENVOY), Some((0.0, Some(0))), "no retry");
    assert_eq!(written(30, 10, Mode::Audit, ENVOY), None);
    assert_eq!(written(30, 10, Mode::Enforce, GRPC), None);
}

#[test]
fn a_cluster_has_none_of_the_limits_that_clients_would_set_by_themselves() {
    for view in [ENVOY, GRPC] {
        let thresholds = write(&cluster("echo"), view).circuit_breakers.expect("it is always written").thresholds;
        let [limits] = thresholds.as_slice() else { panic!("{thresholds:?}") };
        let limits = [&limits.max_connections, &limits.max_pending_requests, &limits.max_requests, &limits.max_retries];
        assert!(
            limits.iter().all(|limit| limit.as_ref().is_some_and(|limit| limit.value == i32::MAX as u32)),
            "{limits:?}"
        );
    }
}

#[test]
fn envoy_limits_retries_by_the_default_budget_too() {
    let thresholds = write(&cluster("echo"), ENVOY).circuit_breakers.expect("it is always written").thresholds;
    let budget = thresholds[0].retry_budget.as_ref().and_then(|budget| budget.budget_percent.as_ref());
    assert_eq!(budget.map(|percent| percent.value), Some(BudgetSettings::default().percent.into()));
}

#[test]
fn grpc_is_given_round_robin_after_what_not_all_of_its_languages_know() {
    let written = write(&cluster("echo"), GRPC);
    let policies = written.load_balancing_policy.expect("a list").policies;
    let names: Vec<_> =
        policies.iter().map(|policy| policy.typed_extension_config.as_ref().expect("one").name.as_str()).collect();
    assert_eq!(names, ["least_request", "wrr_locality"]);
    assert_eq!(written.lb_policy, i32::from(LbPolicy::RoundRobin));
}

#[test]
fn http_2_is_spoken_where_the_service_says_so() {
    let written = write(&cluster("echo"), ENVOY);
    let options = written.typed_extension_protocol_options.values().next().expect("options");
    let options: upstream::HttpProtocolOptions = from_any(options).expect("of HTTP");
    let text = format!("{options:?}");
    assert!(text.contains("Http2ProtocolOptions") && !text.contains("Http1ProtocolOptions"), "{text}");
}

#[test]
fn a_client_with_certificates_asks_a_proxy_for_its_port_and_checks_who_answers() {
    let mut meshed_cluster = cluster("cart");
    meshed_cluster.endpoints = vec![endpoint("10.244.1.1:50061"), meshed("10.244.1.2:50061", None)];
    let trust_domain = trust_domain();
    let written = write(&meshed_cluster, View { dialect: Dialect::Envoy, mutual_tls: Some(&trust_domain) });
    let names: Vec<_> = written.transport_socket_matches.iter().map(|socket| socket.name.as_str()).collect();
    assert_eq!(names, ["50061.leno.internal ns/shop/sa/cart", "clear"]);
    let tls = context(written.transport_socket_matches[0].transport_socket.as_ref().expect("a socket"));
    assert_eq!(tls.sni, "50061.leno.internal");
    assert!(format!("{tls:?}").contains("spiffe://cluster.local/ns/shop/sa/cart"), "{tls:?}");
}

#[test]
fn grpc_uses_tls_only_where_all_endpoints_have_proxies() {
    let trust_domain = trust_domain();
    let view = View { dialect: Dialect::Grpc, mutual_tls: Some(&trust_domain) };
    let mut some = cluster("cart");
    some.endpoints = vec![meshed("10.244.1.2:50061", None)];
    let written = write(&some, view);
    assert!(written.transport_socket_matches.is_empty(), "gRPC refuses them");
    assert_eq!(context(written.transport_socket.as_ref().expect("a socket")).sni, "50061.leno.internal");
    some.endpoints.push(endpoint("10.244.1.3:50061"));
    assert!(write(&some, view).transport_socket.is_none());
}

#[test]
fn opaque_bytes_are_never_sent_to_a_proxy_as_if_they_were_http() {
    let trust_domain = trust_domain();
    let mut opaque = cluster("mysql");
    opaque.protocol = Protocol::Opaque;
    opaque.endpoints = vec![meshed("10.244.1.2:3306", None)];
    for dialect in [Dialect::Envoy, Dialect::Grpc] {
        let written = write(&opaque, View { dialect, mutual_tls: Some(&trust_domain) });
        assert!(written.transport_socket.is_none() && written.transport_socket_matches.is_empty());
    }
}

#[test]
fn a_cluster_changes_with_the_identities_of_its_endpoints_and_not_with_their_number() {
    let mut one = cluster("cart");
    one.endpoints = vec![meshed("10.244.1.2:50061", None)];
    let mut two = one.clone();
    two.endpoints.push(meshed("10.244.1.3:50061", None));
    assert!(has_same_peers(&one, &two));
    two.endpoints.push(endpoint("10.244.1.4:50061"));
    assert!(!has_same_peers(&one, &two), "gRPC's socket is gone");
}

#[test]
fn a_cluster_of_another_control_plane_is_read_by_its_usual_fields() {
    let resource =
        Cluster { name: "echo.shop:50051".to_owned(), lb_policy: LbPolicy::Random.into(), ..Default::default() };
    let cluster = read(&resource.encode_to_vec()).expect("a Cluster");
    assert_eq!((cluster.balancer, cluster.protocol), (Policy::Random, Protocol::Detect));
    assert_eq!(cluster.settings, leno_model::settings::Settings::default());
}

#[test]
fn a_balancer_and_a_budget_of_a_newer_control_plane_do_not_make_a_cluster_unreadable() {
    let budget =
        Setting { value: BudgetSettings::default(), mode: Mode::Enforce, set_by: "TrafficPolicy shop/echo".into() };
    let mut written =
        write(&leno_model::mesh::Cluster { retry_budget: Some(budget.clone()), ..cluster("echo") }, ENVOY);
    let facts = Facts::from_metadata(written.metadata.as_ref());
    written.metadata = facts.with(BALANCER, "ring-hash").with(BUDGET, "0.5").metadata();
    let changed = read(&written.encode_to_vec()).expect("a Cluster");
    assert_eq!(changed.balancer, Policy::LeastRequest, "the balancer that Envoy gets");
    let no_retry = BudgetSettings { percent: 0, min_per_second: 0, ..BudgetSettings::default() };
    assert_eq!(changed.retry_budget, Some(Setting { value: no_retry, ..budget }), "not the looser default");
    written.lb_policy = LbPolicy::RingHash.into();
    let changed = read(&written.encode_to_vec()).expect("a Cluster");
    assert_eq!(changed.balancer, Policy::Latency, "Envoy's balancer is unknown too");
}

#[test]
fn an_unreadable_part_of_a_budget_allows_no_retry_and_keeps_its_mode() {
    let budget =
        Setting { value: BudgetSettings::default(), mode: Mode::Audit, set_by: "TrafficPolicy shop/echo".into() };
    let written = write(&leno_model::mesh::Cluster { retry_budget: Some(budget.clone()), ..cluster("echo") }, ENVOY);
    let facts = || Facts::from_metadata(written.metadata.as_ref());
    let budget_of = |facts: Facts| crate::call_policy::budget(&facts, "echo");
    assert_eq!(budget_of(facts()), Some(budget.clone()));
    let no_retry = BudgetSettings { percent: 0, min_per_second: 0, ..BudgetSettings::default() };
    for fact in [BUDGET_INTERVAL, BUDGET_MIN_PER_SECOND] {
        let expected = Setting { value: no_retry, ..budget.clone() };
        assert_eq!(budget_of(facts().with(fact, "many")), Some(expected), "{fact}");
    }
    assert_eq!(budget_of(Facts::default()), None);
}

#[test]
fn a_cluster_that_cannot_be_read_is_named() {
    let resource = Cluster { name: "www.example.com".to_owned(), ..Default::default() };
    let error = read(&resource.encode_to_vec()).expect_err("not ours");
    assert_eq!(error.to_string(), "www.example.com: name: is not service.namespace:port");
    assert!(read(b"\xff").is_err());
}
