use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// The namespaces of a fake API server, by name. If a name has two namespaces, the second one replaces the first one
/// after the first request for it.
type Namespaces = Arc<Mutex<BTreeMap<String, Vec<Namespace>>>>;

fn namespace(name: &str, uid: &str) -> Namespace {
    let metadata = ObjectMeta { name: Some(name.to_owned()), uid: Some(uid.to_owned()), ..ObjectMeta::default() };
    Namespace { metadata, ..Namespace::default() }
}

fn api(namespaces: &Namespaces) -> Client {
    let namespaces = Arc::clone(namespaces);
    let server = tower::service_fn(move |request: Request<Body>| {
        let namespaces = Arc::clone(&namespaces);
        async move {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let is_deletion = request.method() == Method::DELETE;
            let body = request.into_body().collect_bytes().await.expect("a body");
            let options: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (code, content) = answer(&mut namespaces.lock().expect("no panic"), &name, is_deletion, &options);
            let response = Response::builder().status(code).body(Body::from(content.to_string().into_bytes()));
            Ok::<_, Infallible>(response.expect("an answer"))
        }
    });
    Client::new(server, "default")
}

fn answer(
    namespaces: &mut BTreeMap<String, Vec<Namespace>>,
    name: &str,
    is_deletion: bool,
    options: &Value,
) -> (u16, Value) {
    let failure = |code: u16, reason: &str| (code, json!({"kind": "Status", "reason": reason, "code": code}));
    let Some(of_name) = namespaces.get_mut(name) else { return failure(404, "NotFound") };
    if !is_deletion {
        let found = if of_name.len() > 1 { of_name.remove(0) } else { of_name[0].clone() };
        return (200, serde_json::to_value(found).expect("JSON"));
    }
    let uid = options["preconditions"]["uid"].as_str();
    if uid.is_some_and(|uid| of_name[0].metadata.uid.as_deref() != Some(uid)) {
        return failure(409, "Conflict");
    }
    namespaces.remove(name);
    (200, json!({"kind": "Status", "code": 200}))
}

fn names(namespaces: &Namespaces) -> Vec<String> {
    namespaces.lock().expect("no panic").keys().cloned().collect()
}

#[tokio::test]
async fn a_run_deletes_only_the_namespaces_that_it_has_created() {
    let (ours, others) = (RunId::random(), RunId::random());
    let all = [
        ("leno-lab-none", ours.mark(namespace("leno-lab-none", "1"))),
        ("leno-lab-leno", others.mark(namespace("leno-lab-leno", "2"))),
        ("leno-lab-kuma", namespace("leno-lab-kuma", "3")),
    ];
    let namespaces: Namespaces =
        Arc::new(Mutex::new(all.into_iter().map(|(name, it)| (name.to_owned(), vec![it])).collect()));
    let wanted = ["leno-lab-none", "leno-lab-leno", "leno-lab-kuma", "leno-lab-istio"];
    let deleted = delete_namespaces(&api(&namespaces), &wanted, |it| ours.has_made(it)).await;
    deleted.expect("the API server allows it");
    assert_eq!(names(&namespaces), ["leno-lab-kuma", "leno-lab-leno"]);
}

#[tokio::test]
async fn a_namespace_that_gets_the_same_name_meanwhile_stays() {
    let (ours, others) = (RunId::random(), RunId::random());
    let (first, second) = (ours.mark(namespace("leno-lab-leno", "1")), others.mark(namespace("leno-lab-leno", "2")));
    let namespaces: Namespaces = Arc::new(Mutex::new([("leno-lab-leno".to_owned(), vec![first, second])].into()));
    let deletion = delete_namespaces(&api(&namespaces), &["leno-lab-leno"], |it| ours.has_made(it)).await;
    deletion.expect("the namespace of this run is gone");
    assert_eq!(names(&namespaces), ["leno-lab-leno"]);
}
