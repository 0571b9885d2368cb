use super::*;

const SECURE: &str = r#"istio_tcp_connections_opened_total{reporter="source",destination_service="backends.lab.svc.cluster.local",connection_security_policy="mutual_tls"} 3"#;
const CLEAR: &str = r#"istio_tcp_connections_opened_total{reporter="source",destination_service="unknown",connection_security_policy="unknown"} 1"#;
const OTHER: &str = r#"istio_tcp_connections_closed_total{reporter="source",connection_security_policy="unknown"} 1"#;

#[test]
fn connections_with_hbone_only_are_right() {
    assert_eq!(what_is_wrong(&[SECURE, OTHER].join("\n"), "source"), None);
}

#[test]
fn one_connection_without_hbone_is_named_with_its_policy() {
    let wrong = what_is_wrong(&[SECURE, CLEAR].join("\n"), "source").expect("one in the clear");
    assert!(wrong.contains("without HBONE (connection_security_policy unknown)"), "{wrong}");
}

#[test]
fn a_ztunnel_that_relayed_nothing_was_not_on_the_path() {
    for metrics in ["", OTHER, SECURE] {
        let wrong = what_is_wrong(metrics, "destination").expect("no connection");
        assert!(wrong.contains("another path"), "{wrong}");
    }
}
