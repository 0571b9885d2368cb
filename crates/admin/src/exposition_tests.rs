use hyper::header::HeaderValue;

use super::*;

fn asked_for(accept: &[&'static str]) -> Exposition {
    let mut headers = HeaderMap::new();
    for value in accept {
        headers.append(ACCEPT, HeaderValue::from_static(value));
    }
    Exposition::asked_for(&headers)
}

#[test]
fn openmetrics_goes_only_to_those_who_name_it() {
    for text in [
        &[][..],
        &["*/*"],
        &["text/plain;version=0.0.4"],
        &["text/plain; version=0.0.4, */*;q=0.1"],
        &["application/json"],
        &["application/openmetrics-text;q=0"],
        &["application/openmetrics-text;q=0.3, text/plain;version=0.0.4;q=0.5"],
    ] {
        assert_eq!(asked_for(text), Exposition::Text, "{text:?}");
    }
    for open_metrics in [
        &["application/openmetrics-text"][..],
        &["application/OpenMetrics-Text; version=1.0.0"],
        &["text/plain", "application/openmetrics-text"],
        // The `Accept` headers that Prometheus 2 and Prometheus 3 send.
        &["application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
           text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
        &["application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
           application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;escaping=allow-utf-8;q=0.3,*/*;q=0.2"],
    ] {
        assert_eq!(asked_for(open_metrics), Exposition::OpenMetrics, "{open_metrics:?}");
    }
}

#[test]
fn counters_are_described_under_the_name_of_their_samples() {
    let open_metrics = "# HELP request Calls that began.\n# TYPE request counter\nrequest_total{a=\"# x\"} 1\n\
                        # HELP size_bytes Bytes.\n# TYPE size_bytes gauge\n# UNIT size_bytes bytes\nsize_bytes 2\n\
                        # HELP odd What is not known.\n# TYPE odd unknown\nodd 3\n# EOF\n";
    let text = "# HELP request_total Calls that began.\n# TYPE request_total counter\nrequest_total{a=\"# x\"} 1\n\
                # HELP size_bytes Bytes.\n# TYPE size_bytes gauge\nsize_bytes 2\n\
                # HELP odd What is not known.\n# TYPE odd untyped\nodd 3\n";
    assert_eq!(Exposition::Text.of_open_metrics(open_metrics.to_owned()), text);
    assert_eq!(Exposition::OpenMetrics.of_open_metrics(open_metrics.to_owned()), open_metrics);
}
