use serde_json::json;

use super::*;

/// A page of a proxy that has answered `calls` calls, all but one in ten over TLS, one in twenty of them with an error; half of them
/// within 5 ms and all within 10 ms.
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

fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-9)
}

#[test]
fn what_grew_in_the_window_is_what_counts() {
    let figures = Traffic::between(&page(1_000), &page(1_200)).figures(Duration::from_secs(10));
    assert_eq!(figures.calls_per_second, 20.0);
    assert!(close(figures.success_rate, 0.95), "{figures:?}");
    assert!(close(figures.tls_share, 0.9), "{figures:?}");
    assert!(close(figures.p50_ms, 5.0) && close(figures.p99_ms, 9.9), "{figures:?}");
    assert_eq!(figures.tcp_connections, 3.0);
}

#[test]
fn pods_are_added_up_before_anything_is_divided() {
    let quiet = Traffic::between(&page(1_000), &page(1_000));
    let sum = Traffic::between(&page(0), &page(400)).plus(&quiet);
    let figures = sum.figures(Duration::from_secs(10));
    assert_eq!((figures.calls_per_second, figures.tcp_connections), (40.0, 6.0));
    assert!(close(figures.success_rate, 0.95), "{figures:?}");
}

#[test]
fn without_calls_there_are_no_rates_and_no_latencies() {
    let figures = Traffic::between(&page(1_000), &page(1_000)).figures(Duration::from_secs(10));
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
    let row_with = row(&group, &before, &after, Duration::from_secs(10));
    let row_without = row(&group, &Pages::new(), &Pages::new(), Duration::from_secs(10));
    let text = table(&[row_with, row_without], Duration::from_secs(10));
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
