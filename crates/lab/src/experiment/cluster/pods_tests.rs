use super::*;

fn pod(status: &serde_json::Value) -> Pod {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "backend-0"}, "status": status})).expect("a Pod")
}

#[test]
fn a_pod_that_is_about_to_end_is_not_ready() {
    let mut ready = pod(&serde_json::json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert!(is_ready(&ready));
    let now = serde_json::from_value(serde_json::json!("2026-01-02T03:04:05Z")).expect("a time");
    ready.metadata.deletion_timestamp = Some(now);
    assert!(!is_ready(&ready));
}
