use super::*;

#[test]
fn a_label_is_found_by_its_whole_name() {
    let line = r#"connections_total{peer="dst",tls_reason="none",tls="true"} 1"#;
    assert_eq!(label(line, "tls"), Some("true"));
    assert_eq!(label(line, "peer"), Some("dst"));
    assert_eq!(label(line, "reason"), None);
    assert_eq!(label("connections_total 1", "tls"), None);
}
