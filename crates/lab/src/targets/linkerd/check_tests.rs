use super::*;

const CLIENT: &str =
    r#"tcp_open_total{direction="outbound",peer="src",target_addr="10.96.0.50:1",tls="no_identity"} 1"#;
const SECURE: &str = r#"tcp_open_total{direction="outbound",peer="dst",target_addr="10.244.0.2:1",tls="true"} 1"#;
const CLEAR: &str = r#"tcp_open_total{direction="outbound",peer="dst",target_addr="10.244.0.3:1",tls="no_identity",no_tls_reason="loopback"} 1"#;
const LOCAL: &str = r#"tcp_open_total{direction="inbound",peer="dst",target_addr="127.0.0.1:1",tls="no_identity"} 1"#;

#[test]
fn only_connections_to_endpoints_need_tls() {
    assert_eq!(in_the_clear(&[CLIENT, SECURE, LOCAL].join("\n")), None);
}

#[test]
fn one_connection_without_tls_is_found_with_the_reason() {
    let clear = Connection { endpoint: "10.244.0.3:1", reason: "loopback" };
    assert_eq!(in_the_clear(&[CLIENT, SECURE, CLEAR].join("\n")), Some(clear));
}
