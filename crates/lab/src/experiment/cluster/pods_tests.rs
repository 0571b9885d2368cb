use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use kube::client::Body;

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

/// Pods of the namespace `leno-lab-leno` behind an API server that records the requests, and answers each with
/// `answer`.
fn recorded(answer: serde_json::Value, code: u16, nodes: &Nodes) -> (Pods, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let api = tower::service_fn(move |request: http::Request<Body>| {
        let (seen, answer) = (Arc::clone(&seen), answer.to_string());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            let body = String::from_utf8_lossy(&body).into_owned();
            let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            seen.lock().expect("no panic").push(format!("{} {} {kind} {body}", head.method, head.uri));
            let answer = http::Response::builder().status(code).body(Body::from(answer.into_bytes()));
            Ok::<_, Infallible>(answer.expect("a valid answer"))
        }
    });
    (Pods::new(Client::new(api, "default"), "leno-lab-leno", nodes), requests)
}

fn held() -> Pod {
    let spec = serde_json::json!({"containers": [], "schedulingGates": [{"name": "leno.dev/lab-placement"}]});
    serde_json::from_value(serde_json::json!({"metadata": {"name": "backend-0"}, "spec": spec})).expect("a Pod")
}

#[tokio::test]
async fn a_held_pod_is_placed_on_the_node_of_the_first_mesh() {
    let nodes = Nodes::default();
    let first = serde_json::json!({"metadata": {"name": "backend-0"}, "spec": {"nodeName": "node1", "containers": []}});
    nodes.fix(&[serde_json::from_value(first).expect("a Pod")]);
    let (pods, requests) = recorded(serde_json::json!({"metadata": {"name": "backend-0"}}), 200, &nodes);
    pods.place(&held()).await.expect("placed");
    // A Pod without the gate needs no request.
    pods.place(&pod(&serde_json::json!({}))).await.expect("placed");
    let requests = requests.lock().expect("no panic");
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let path = "PATCH /api/v1/namespaces/leno-lab-leno/pods/backend-0? application/strategic-merge-patch+json {";
    assert!(request.starts_with(path) && request.contains("\"node1\""), "{request}");
}

#[tokio::test]
async fn a_pod_that_was_deleted_before_it_was_placed_is_no_error() {
    let status =
        |code| serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "message": "no such Pod"});
    let (pods, _) = recorded(status(404), 404, &Nodes::default());
    pods.place(&held()).await.expect("it is gone");
    let (pods, _) = recorded(status(403), 403, &Nodes::default());
    let error = pods.place(&held()).await.expect_err("an error").to_string();
    assert!(error.starts_with("placing the Pod leno-lab-leno/backend-0: "), "{error}");
}

#[tokio::test]
async fn pods_that_a_webhook_rejects_are_reported_with_the_event() {
    let event = |second: u32, message: &str| {
        serde_json::json!({
            "metadata": {"name": format!("load.{second}"), "namespace": "leno-lab-leno"}, "involvedObject": {},
            "lastTimestamp": format!("2026-01-02T03:04:{second:02}Z"), "message": message,
        })
    };
    let events = [event(9, "failed calling webhook:\nno endpoints"), event(5, "older")];
    let list = serde_json::json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": events});
    let (pods, requests) = recorded(list, 200, &Nodes::default());
    let error = pods.not_created("app=load", 2).await.to_string();
    let wanted = "2 Pods with the label app=load are missing in the namespace leno-lab-leno: failed calling webhook: no \
        endpoints; see kubectl get events -n leno-lab-leno";
    assert_eq!(error, wanted);
    assert!(requests.lock().expect("no panic")[0].contains("fieldSelector=reason%3DFailedCreate"));
}
