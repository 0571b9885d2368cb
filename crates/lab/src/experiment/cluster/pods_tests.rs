use super::*;

fn pod(status: &serde_json::Value) -> Pod {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "backend-0"}, "status": status})).expect("a Pod")
}

fn waiting(reason: &str) -> Pod {
    pod(&serde_json::json!({"containerStatuses": [{
        "name": "leno", "image": "leno:0.1.0", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
    }]}))
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_with_the_option_that_changes_it() {
    let why = hopeless(&waiting("ImagePullBackOff")).expect("a reason");
    assert_eq!(why, "ImagePullBackOff in its container leno with the image leno:0.1.0; --image names another one");
    let why = hopeless(&waiting("CrashLoopBackOff")).expect("a reason");
    assert_eq!(why, "CrashLoopBackOff in its container leno with the image leno:0.1.0");
}

#[test]
fn a_container_that_is_being_created_may_still_start() {
    assert_eq!(hopeless(&waiting("ContainerCreating")), None);
    assert_eq!(hopeless(&pod(&serde_json::json!({}))), None);
}

#[test]
fn a_pod_that_is_about_to_end_is_not_ready() {
    let mut ready = pod(&serde_json::json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert!(is_ready(&ready));
    let now = serde_json::from_value(serde_json::json!("2026-01-02T03:04:05Z")).expect("a time");
    ready.metadata.deletion_timestamp = Some(now);
    assert!(!is_ready(&ready));
}
