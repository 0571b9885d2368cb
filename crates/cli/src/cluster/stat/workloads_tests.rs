use super::*;
use crate::cluster::prometheus::tests::recorded;
use crate::cluster::source::tests::measured;

const WINDOW: Duration = Duration::from_secs(10);

#[test]
fn a_workload_without_a_proxy_is_shown_with_nothing_measured() {
    let inbound = "request_total{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\"} 90\n\
                   request_total{direction=\"inbound\",tls=\"true\",client_id=\"\"} 4\n\
                   request_total{direction=\"inbound\",tls=\"no_identity\"} 6\n\
                   response_total{direction=\"inbound\",classification=\"success\"} 95\n\
                   response_total{direction=\"inbound\",classification=\"failure\"} 5\n\
                   inbound_http_authz_deny_total{tls=\"true\"} 40\n\
                   inbound_tcp_authz_deny_total{tls=\"true\"} 1\n\
                   inbound_tcp_authz_deny_total{tls=\"no_identity\",no_tls_reason=\"probe\"} 99\n\
                   response_latency_ms_bucket{direction=\"inbound\",le=\"5.0\"} 50\n\
                   response_latency_ms_bucket{direction=\"inbound\",le=\"10.0\"} 100\n\
                   response_latency_ms_bucket{direction=\"inbound\",le=\"+Inf\"} 100\n\
                   tcp_open_connections{direction=\"inbound\",peer=\"src\"} 3\n\
                   tcp_open_connections{direction=\"inbound\",peer=\"dst\"} 8";
    let web = Measured { pods: Some(2), ..measured(inbound) };
    let silent = Measured { pods: Some(2), proxies: Vec::new(), ..measured("") };
    let view = View::Inbound(None);
    let of_web = |web: &Measured| table(&rows(web, &view, WINDOW), &view, WINDOW);
    assert_eq!(of_web(&recorded(&web, &INBOUND)), of_web(&web));
    let all: Vec<Row> = [web, silent].iter().flat_map(|measured| rows(measured, &view, WINDOW)).collect();
    let text = table(&all, &view, WINDOW);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "NAMESPACE   NAME   MESHED   CALLS/S   SUCCESS   P50 MS   P99 MS   DENIED/S       TLS   TCP");
    assert_eq!(lines[1], "shop        web    1/2         10.0   95.00 %      5.0      9.9        4.1   90.00 %     3");
    assert_eq!(lines[2], "shop        web    1/2            -         -        -        -          -         -     -");
}

#[test]
fn the_clients_view_has_a_line_for_each_destination() {
    let to = "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"echo\",dst_port=\"50051\",tls=\"true\"";
    let page = format!(
        "request_total{{{to},server_id=\"a\"}} 100\nrequest_total{{{to},server_id=\"b\"}} 100\n\
         response_total{{{to},classification=\"success\",status_code=\"200\",grpc_status=\"0\"}} 90\n\
         response_total{{{to},classification=\"success\",status_code=\"200\",grpc_status=\"7\"}} 9\n\
         response_total{{{to},classification=\"success\",status_code=\"403\",grpc_status=\"\"}} 1\n\
         inbound_http_authz_deny_total 70\n\
         request_total{{direction=\"outbound\",tls=\"no_identity\"}} 100\nrequest_total{{direction=\"inbound\"}} 7000\n\
         tcp_open_connections{{peer=\"dst\",{to}}} 2\ntcp_open_connections{{peer=\"src\",direction=\"outbound\"}} 9"
    );
    let web = measured(&page);
    let all = View::Outbound(None);
    let text = table(&rows(&web, &all, WINDOW), &all, WINDOW);
    assert_eq!(table(&rows(&recorded(&web, &OUTBOUND), &all, WINDOW), &all, WINDOW), text);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "NAMESPACE   NAME   TO                MESHED   CALLS/S    SUCCESS   P50 MS   P99 MS   DENIED/S        TLS   TCP"
    );
    assert_eq!(
        lines[1],
        "shop        web    echo.shop:50051   1/1         20.0   100.00 %        -        -        1.0   100.00 %     2"
    );
    assert_eq!(
        lines[2],
        "shop        web    other addresses   1/1         10.0          -        -        -        0.0     0.00 %     0"
    );
    let one = View::Outbound(Some("echo".parse().expect("a Service")));
    assert_eq!(rows(&web, &one, WINDOW).len(), 1);
    let none = View::Outbound(Some("cart".parse().expect("a Service")));
    assert!(table(&rows(&web, &none, WINDOW), &none, WINDOW).starts_with("no proxy here has sent a call"));
}

#[test]
fn calls_of_one_client_can_be_shown_and_probes_are_none() {
    let web = measured(
        "request_total{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\"} 100\n\
         request_total{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"no_tls_from_remote\"} 100\n\
         request_total{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"probe\"} 100",
    );
    let calls = |from: Option<&str>| {
        let view = View::Inbound(from.map(|from| from.parse().expect("a caller")));
        let row = rows(&web, &view, WINDOW).remove(0);
        row.traffic.expect("it is measured").figures.calls_per_second
    };
    assert_eq!((calls(None), calls(Some("cart")), calls(Some("-")), calls(Some("web"))), (20.0, 10.0, 10.0, 0.0));
}
