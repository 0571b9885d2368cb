use super::*;

#[test]
fn the_balancer_and_the_timeouts_are_ciliums_defaults() {
    let settings = settings();
    assert_eq!(settings.cluster["lb_policy"], "ROUND_ROBIN");
    assert_eq!(settings.cluster["connect_timeout"], "5s");
    assert_eq!(settings.manager["stream_idle_timeout"], "300s");
    assert_eq!(settings.upstream_http["common_http_protocol_options"]["idle_timeout"], "60s");
    assert!(settings.http_filters.is_empty(), "only the router");
}
