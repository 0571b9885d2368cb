use std::time::Duration;

use super::*;
use crate::cluster::source::tests::growth;

const WINDOW: Duration = Duration::from_secs(10);

/// The metrics page of a proxy after `calls` inbound calls: 90 % over TLS, 5 % with an error, half of them within 5 ms
/// and all within 10 ms.
fn page(calls: u64) -> String {
    let (most, half, share) = (calls * 9 / 10, calls / 2, calls / 20);
    format!(
        "request_total{{direction=\"inbound\",tls=\"true\",client_id=\"a\"}} {most}\n\
         request_total{{direction=\"inbound\",tls=\"no_identity\"}} {}\n\
         request_total{{direction=\"outbound\"}} {}\n\
         response_total{{direction=\"inbound\",classification=\"success\",status_code=\"200\"}} {}\n\
         response_total{{direction=\"inbound\",classification=\"failure\",status_code=\"503\"}} {share}\n\
         response_latency_ms_bucket{{direction=\"inbound\",le=\"4.0\"}} 0\n\
         response_latency_ms_bucket{{direction=\"inbound\",le=\"5.0\"}} {half}\n\
         response_latency_ms_bucket{{direction=\"inbound\",le=\"10.0\"}} {calls}\n\
         response_latency_ms_bucket{{direction=\"inbound\",le=\"+Inf\"}} {calls}",
        calls - most,
        calls * 7,
        calls - share
    )
}

/// The counts of the inbound calls between two readings of each proxy. Each pair has the number of calls at the first
/// and at the second reading of one proxy.
fn between(proxies: &[(u64, u64)]) -> Counts {
    let proxies: Vec<_> = proxies.iter().map(|(before, after)| growth(&page(*before), &page(*after))).collect();
    Counts::of(TRAFFIC, proxies.iter(), |sample| sample.label("direction") == "inbound")
}

fn is_close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-9)
}

#[test]
fn what_grew_in_the_window_is_what_counts() {
    let counts = between(&[(1_000, 1_200)]);
    let figures = counts.figures(WINDOW);
    assert_eq!(figures.calls_per_second, 20.0);
    assert!(is_close(figures.success_rate, 0.95), "{figures:?}");
    assert!(is_close(counts.tls_share(), 0.9), "{counts:?}");
    assert!(is_close(figures.p50_ms, 5.0) && is_close(figures.p99_ms, 9.9), "{figures:?}");
}

#[test]
fn calls_that_were_never_sent_do_not_lower_the_share_of_mutual_tls() {
    let page = "request_total{direction=\"outbound\",tls=\"true\"} 30\n\
                request_total{direction=\"outbound\",tls=\"no_identity\"} 10\n\
                request_total{direction=\"outbound\",tls=\"unknown\"} 60";
    let proxies = [growth("", page)];
    let counts = Counts::of(TRAFFIC, proxies.iter(), |_| true);
    assert_eq!((counts.calls, counts.tls_share()), (100.0, Some(0.75)));
}

#[test]
fn proxies_are_added_up_before_anything_is_divided() {
    let figures = between(&[(0, 400), (1_000, 1_000)]).figures(WINDOW);
    assert_eq!(figures.calls_per_second, 40.0);
    assert!(is_close(figures.success_rate, 0.95), "{figures:?}");
}

#[test]
fn without_calls_there_are_no_rates_and_no_latencies() {
    let figures = between(&[(1_000, 1_000)]).figures(WINDOW);
    assert_eq!(figures, Figures { calls_per_second: 0.0, success_rate: None, p50_ms: None, p99_ms: None });
}

#[test]
fn latencies_beyond_the_last_bound_count_as_that_bound() {
    let latencies = [(1_000, 1.0), (50_000_000, 1.0), (u64::MAX, 100.0)].into();
    let counts = Counts { latencies, ..Counts::default() };
    assert!(is_close(counts.quantile_ms(0.99), 50_000.0));
    assert!(is_close(counts.quantile_ms(0.005), 0.5));
}

#[test]
fn slow_calls_are_counted_exactly_and_a_quantile_has_the_bounds_of_its_bucket() {
    let latencies = [(200_000, 90.0), (500_000, 99.5), (u64::MAX, 100.0)].into();
    let counts = Counts { latencies, ..Counts::default() };
    assert!(is_close(counts.share_above(200.0), 0.1));
    assert!(is_close(counts.share_above(250.0), 0.005), "the next higher bound counts");
    assert!(is_close(counts.share_above(600.0), 0.0), "there is no higher bound");
    assert_eq!(counts.quantile_bounds_ms(0.99), Some((200.0, Some(500.0))));
    assert_eq!(counts.quantile_bounds_ms(0.999), Some((500.0, None)));
    assert_eq!((Counts::default().share_above(200.0), Counts::default().quantile_bounds_ms(0.5)), (None, None));
}

#[test]
fn rounding_hides_neither_a_failure_nor_a_success() {
    for (share, expected) in [
        (1.0, "100.00 %"),
        (0.99997, "99.99 %"),
        (0.5, "50.00 %"),
        (0.98765, "98.77 %"),
        (0.00003, "0.01 %"),
        (0.0, "0.00 %"),
        (0.1 + 0.2 + 0.7 - 1e-12, "100.00 %"),
    ] {
        assert_eq!(percent(Some(share)), expected);
    }
    assert_eq!(percent(None), "-");
}

#[test]
fn bounds_have_the_unit_of_their_metric() {
    let page =
        "leno_method_duration_seconds_bucket{le=\"0.005\"} 10\nleno_method_duration_seconds_bucket{le=\"+Inf\"} 10";
    let proxies = [growth("", page)];
    let counts = Counts::of(METHODS, proxies.iter(), |_| true);
    assert_eq!(counts.latencies.keys().copied().collect::<Vec<_>>(), [5_000, u64::MAX]);
}

#[test]
fn denied_calls_do_not_hide_failures_and_count_as_refused() {
    let page = "response_total{classification=\"failure\",status_code=\"200\",grpc_status=\"14\"} 4\n\
                response_total{classification=\"denied\",status_code=\"200\",grpc_status=\"7\"} 90\n\
                response_total{classification=\"denied\",status_code=\"403\",grpc_status=\"\"} 6";
    let proxies = [growth("", page)];
    let counts = Counts::of(TRAFFIC, proxies.iter(), |_| true);
    assert_eq!((counts.figures(WINDOW).success_rate, counts.refused), (Some(0.0), 96.0));
}

#[test]
fn cancelled_calls_are_no_responses() {
    let page = "leno_method_responses_total{classification=\"success\"} 8\n\
                leno_method_responses_total{classification=\"failure\"} 2\n\
                leno_method_responses_total{classification=\"cancelled\"} 90";
    let proxies = [growth("", page)];
    let figures = Counts::of(METHODS, proxies.iter(), |_| true).figures(WINDOW);
    assert!(is_close(figures.success_rate, 0.8), "{figures:?}");
}
