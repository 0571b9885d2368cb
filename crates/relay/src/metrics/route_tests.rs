use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};

use super::RouteLabels;
use crate::metrics::WorkerMetrics;
use crate::metrics::fixtures::{assert_line, scrape};

const ROUTE: &str = r#"parent_group="core",parent_kind="Service",parent_namespace="shop",parent_name="cart",parent_port="80",parent_section_name="",route_group="gateway.networking.k8s.io",route_kind="HTTPRoute",route_namespace="shop",route_name="canary""#;

fn key(service: &str) -> ClusterKey {
    ClusterKey { namespace: "shop".into(), service: service.into(), port: 80 }
}

fn labels(kind: RouteKind, route: &str, backend: Option<&str>) -> RouteLabels {
    let route = RouteName { kind, namespace: "shop".into(), name: route.into() };
    RouteLabels { parent: key("cart"), route, backend: backend.map(key) }
}

#[test]
fn requests_count_by_backend_and_what_became_of_them_by_route() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for (worker, backend) in [(&workers[0], "cart-v1"), (&workers[1], "cart-v1"), (&workers[1], "cart-v2")] {
        let series = worker.route(&labels(RouteKind::Http, "canary", Some(backend)));
        series.requests.add(1);
        series.ended(Some(200), None, None);
    }
    workers[0].route(&labels(RouteKind::Http, "canary", None)).ended(Some(504), None, Some("request-timeout"));
    workers[0].route(&labels(RouteKind::Http, "canary", None)).ended(None, None, Some("cancelled"));

    let text = scrape(&workers);
    let backend = |name: &str| {
        format!(
            "backend_group=\"core\",backend_kind=\"Service\",backend_namespace=\"shop\",backend_name=\"{name}\",\
             backend_port=\"80\",backend_section_name=\"\""
        )
    };
    let requests = "outbound_http_route_backend_requests_total";
    assert_line(&text, &format!("{requests}{{{ROUTE},{}}} 2", backend("cart-v1")));
    assert_line(&text, &format!("{requests}{{{ROUTE},{}}} 1", backend("cart-v2")));
    let statuses = "outbound_http_route_request_statuses_total";
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"200\",error=\"\"}} 3"));
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"504\",error=\"request-timeout\"}} 1"));
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"\",error=\"cancelled\"}} 1"));
    let samples = text.lines().filter(|line| line.starts_with(requests)).count();
    assert_eq!(samples, 2, "what went to no backend is no request to one");
}

#[test]
fn grpc_routes_count_under_names_of_their_own_and_with_grpcs_statuses() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Grpc, "canary", Some("cart-v1")));
    series.requests.add(1);
    series.ended(Some(200), Some(0), None);
    series.ended(Some(200), Some(14), Some("no-endpoint"));
    let text = scrape(&[worker]);
    let route = ROUTE.replace("HTTPRoute", "GRPCRoute");
    let statuses = "outbound_grpc_route_request_statuses_total";
    assert_line(&text, &format!("{statuses}{{{route},grpc_status=\"OK\",error=\"\"}} 1"));
    assert_line(&text, &format!("{statuses}{{{route},grpc_status=\"UNAVAILABLE\",error=\"no-endpoint\"}} 1"));
    assert!(!text.contains("outbound_http_route_request_statuses_total{"), "{text}");
}

#[test]
fn connections_count_as_opened_and_closed() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Tcp, "canary", Some("cart-v1")));
    series.requests.add(3);
    series.ended(Some(200), None, None);
    series.ended(None, None, None);
    series.ended(None, None, Some("cancelled"));
    let text = scrape(&[worker]);
    let route = ROUTE.replace("HTTPRoute", "TCPRoute");
    let opened = text.lines().find(|line| line.starts_with("outbound_tcp_route_open_total{")).expect("a count");
    assert!(
        opened.contains(&route) && opened.contains("backend_name=\"cart-v1\"") && opened.ends_with(" 3"),
        "{opened}"
    );
    assert_line(&text, &format!("outbound_tcp_route_close_total{{{route},error=\"\"}} 2"));
    assert_line(&text, &format!("outbound_tcp_route_close_total{{{route},error=\"cancelled\"}} 1"));
    assert!(!text.contains("outbound_tls_route_open_total{"), "{text}");
}

#[test]
fn names_beyond_the_limit_share_one_series_of_each_kind() {
    let beyond = labels(RouteKind::Http, "canary", Some("cart-v1")).beyond_limit();
    assert_eq!(beyond, labels(RouteKind::Http, "other-route", Some("cart-v9")).beyond_limit());
    assert_ne!(beyond, labels(RouteKind::Grpc, "canary", Some("cart-v1")).beyond_limit());
}
