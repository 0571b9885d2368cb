use serde_json::json;

use super::*;

/// Metrics page of a proxy after `calls` calls: 90 % over TLS, 5 % with an error, half within 5 ms and all within 10
/// ms.
fn page(calls: u64) -> Scrape {
    let lines = [
        format!(
            "request_total{{direction=\"inbound\",target_port=\"80\",tls=\"true\",client_id=\"a\"}} {}",
            calls * 9 / 10
        ),
        format!("request_total{{direction=\"inbound\",target_port=\"80\",tls=\"no_identity\"}} {}", calls / 10),
        "request_total{direction=\"outbound\"} 99999".to_owned(),
        format!(
            "response_total{{direction=\"inbound\",classification=\"success\",status_code=\"200\"}} {}",
            calls * 19 / 20
        ),
        format!(
            "response_total{{direction=\"inbound\",classification=\"failure\",status_code=\"503\"}} {}",
            calls / 20
        ),
        format!("response_latency_ms_bucket{{direction=\"inbound\",le=\"4.0\"}} {}", 0),
        format!("response_latency_ms_bucket{{direction=\"inbound\",le=\"5.0\"}} {}", calls / 2),
        format!("response_latency_ms_bucket{{direction=\"inbound\",le=\"10.0\"}} {calls}"),
        format!("response_latency_ms_bucket{{direction=\"inbound\",le=\"+Inf\"}} {calls}"),
        "tcp_open_connections{direction=\"inbound\",peer=\"src\"} 3".to_owned(),
        "tcp_open_connections{direction=\"inbound\",peer=\"dst\"} 8".to_owned(),
    ];
    Scrape::parse(&lines.join("\n"))
}

/// The inbound traffic between two pages.
fn between(before: &Scrape, after: &Scrape) -> Traffic {
    Traffic::of(&after.since(before), after, |sample| View::Inbound(None).has(sample))
}

fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-9)
}

#[test]
fn what_grew_in_the_window_is_what_counts() {
    let figures = between(&page(1_000), &page(1_200)).figures(Duration::from_secs(10));
    assert_eq!(figures.calls_per_second, 20.0);
    assert!(close(figures.success_rate, 0.95), "{figures:?}");
    assert!(close(figures.tls_share, 0.9), "{figures:?}");
    assert!(close(figures.p50_ms, 5.0) && close(figures.p99_ms, 9.9), "{figures:?}");
    assert_eq!(figures.tcp_connections, 3.0);
}

#[test]
fn pods_are_added_up_before_anything_is_divided() {
    let quiet = between(&page(1_000), &page(1_000));
    let sum = between(&page(0), &page(400)).plus(&quiet);
    let figures = sum.figures(Duration::from_secs(10));
    assert_eq!((figures.calls_per_second, figures.tcp_connections), (40.0, 6.0));
    assert!(close(figures.success_rate, 0.95), "{figures:?}");
}

#[test]
fn without_calls_there_are_no_rates_and_no_latencies() {
    let figures = between(&page(1_000), &page(1_000)).figures(Duration::from_secs(10));
    let nothing = Figures {
        calls_per_second: 0.0,
        success_rate: None,
        p50_ms: None,
        p99_ms: None,
        tls_share: None,
        tcp_connections: 3.0,
    };
    assert_eq!(figures, nothing);
}

#[test]
fn latencies_beyond_the_last_bound_count_as_that_bound() {
    let latencies = [(1_000, 1.0), (50_000_000, 1.0), (u64::MAX, 100.0)].into();
    let traffic = Traffic { latencies, ..Traffic::default() };
    assert!(close(traffic.quantile_ms(0.99), 50_000.0));
    assert!(close(traffic.quantile_ms(0.005), 0.5));
}

#[test]
fn a_workload_without_a_proxy_is_shown_with_nothing_measured() {
    let pod = |name: &str, container: &str| {
        let metadata = json!({"namespace": "shop", "name": name});
        let spec = json!({"containers": [{"name": container, "image": "leno-proxy:1"}]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Pod")
    };
    let pods = vec![pod("web-1", "leno-proxy"), pod("web-2", "app")];
    let group = Group { namespace: "shop".to_owned(), name: "web".to_owned(), pods };
    let key = ("shop".to_owned(), "web-1".to_owned());
    let (before, after) = ([(key.clone(), page(0))].into(), [(key, page(100))].into());
    let (view, window) = (View::Inbound(None), Duration::from_secs(10));
    let mut all = rows(&group, &view, &before, &after, window);
    all.extend(rows(&group, &view, &Pages::new(), &Pages::new(), window));
    let text = table(&all, &view, window);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "NAMESPACE   NAME   MESHED   CALLS/S   SUCCESS   P50 MS   P99 MS       TLS   TCP");
    assert_eq!(lines[1], "shop        web    1/2         10.0   95.00 %      5.0      9.9   90.00 %     3");
    assert_eq!(lines[2], "shop        web    1/2            -         -        -        -         -     -");
}

#[test]
fn a_window_is_between_a_second_and_an_hour() {
    assert_eq!(parse_window("10s"), Ok(Duration::from_secs(10)));
    for text in ["0s", "999ms", "2h", "ten"] {
        parse_window(text).expect_err(text);
    }
}

fn echo_group() -> (Group, (String, String)) {
    let pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-1"}, "spec": {"containers": [{"name": "leno-proxy", "image": "leno-proxy:1"}]},
    }));
    let pods = vec![pod.expect("a Pod")];
    (Group { namespace: "shop".to_owned(), name: "web".to_owned(), pods }, ("shop".to_owned(), "web-1".to_owned()))
}

#[test]
fn the_clients_view_has_a_line_for_each_destination() {
    let (group, key) = echo_group();
    let echo = |calls: u64| {
        let to = "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"echo\",dst_port=\"50051\",tls=\"true\"";
        Scrape::parse(&format!(
            "request_total{{{to},server_id=\"a\"}} {calls}\nrequest_total{{{to},server_id=\"b\"}} {calls}\n\
             response_total{{{to},classification=\"success\"}} {calls}\n\
             request_total{{direction=\"outbound\",tls=\"no_identity\"}} {calls}\nrequest_total{{direction=\"inbound\"}} 7000\n\
             tcp_open_connections{{peer=\"dst\",{to}}} 2\ntcp_open_connections{{peer=\"src\",direction=\"outbound\"}} 9"
        ))
    };
    let (before, after) = ([(key.clone(), echo(0))].into(), [(key, echo(100))].into());
    let window = Duration::from_secs(10);
    let all = View::Outbound(None);
    let text = table(&rows(&group, &all, &before, &after, window), &all, window);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "NAMESPACE   NAME   TO                MESHED   CALLS/S    SUCCESS   P50 MS   P99 MS        TLS   TCP"
    );
    assert_eq!(
        lines[1],
        "shop        web    echo.shop:50051   1/1         20.0   100.00 %        -        -   100.00 %     2"
    );
    assert_eq!(
        lines[2],
        "shop        web    other addresses   1/1         10.0          -        -        -     0.00 %     0"
    );
    let one = View::Outbound(Some("echo".parse().expect("a Service")));
    assert_eq!(rows(&group, &one, &before, &after, window).len(), 1);
    let none = View::Outbound(Some("cart".parse().expect("a Service")));
    assert!(
        table(&rows(&group, &none, &before, &after, window), &none, window)
            .starts_with("no proxy here has sent a call")
    );
}

#[test]
fn calls_of_one_client_can_be_shown_and_probes_are_none() {
    let (group, key) = echo_group();
    let page = |calls: u64| {
        Scrape::parse(&format!(
            "request_total{{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\"}} {calls}\n\
             request_total{{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"no_tls_from_remote\"}} {calls}\n\
             request_total{{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"probe\"}} {calls}"
        ))
    };
    let (before, after) = ([(key.clone(), page(0))].into(), [(key, page(100))].into());
    let calls = |from: Option<&str>| {
        let view = View::Inbound(from.map(|from| from.parse().expect("a caller")));
        let row = rows(&group, &view, &before, &after, Duration::from_secs(10)).remove(0);
        row.traffic.expect("it is measured").calls_per_second
    };
    assert_eq!((calls(None), calls(Some("cart")), calls(Some("-")), calls(Some("web"))), (20.0, 10.0, 10.0, 0.0));
}
