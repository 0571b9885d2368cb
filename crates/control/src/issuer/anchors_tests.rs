use std::sync::Mutex;
use std::time::Duration;

use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use leno_install::names::TRUST_BUNDLE;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::*;
use crate::fixtures::{Warnings, client_of, refusal};
use crate::issuer::fixtures::signing;
use crate::watch::Hearing;

/// An API server without ConfigMaps. Its watch reports only that another program has undone each write in the namespace
/// `undone`. It refuses writes in the namespace `closed` with this status; `None` accepts them. It never answers writes in
/// the namespace `hung`, and drops the content of what is written in the namespace `changed`. Records the namespace of
/// each write, and the seconds since the start.
#[derive(Clone)]
struct Server {
    start: Instant,
    refuses: Arc<Mutex<Option<u16>>>,
    undone: Arc<Notify>,
    written: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Server {
    fn new(refuses: u16) -> Self {
        let refuses = Arc::new(Mutex::new(Some(refuses)));
        Self { start: Instant::now(), refuses, undone: Arc::default(), written: Arc::default() }
    }

    fn api_server(&self) -> ApiServer {
        let server = self.clone();
        ApiServer::of(client_of(move |request| server.clone().answer(request)), Hearing::default())
    }

    /// The seconds at which this namespace got writes.
    fn written_s(&self, namespace: &str) -> Vec<u64> {
        let written = self.written.lock().expect("nobody panicked");
        written.iter().filter(|(of, _)| of == namespace).map(|(_, at_s)| *at_s).collect()
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        let (head, body) = request.into_parts();
        if head.method == http::Method::GET {
            if head.uri.query().is_some_and(|query| query.contains("watch=true")) {
                self.undone.notified().await;
                let version = self.written_s("undone").len().to_string();
                let metadata = json!({ "name": TRUST_BUNDLE, "namespace": "undone", "resourceVersion": version });
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {} });
                return (200, json!({ "type": "MODIFIED", "object": object }));
            }
            let metadata = json!({ "resourceVersion": "7" });
            return (200, json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": [] }));
        }
        let namespace = head.uri.path().split('/').nth(4).unwrap_or_default().to_owned();
        let body = body.collect().await.expect("a body").to_bytes();
        let mut object: Value = serde_json::from_slice(&body).expect("an object");
        object["metadata"]["namespace"] = namespace.as_str().into();
        let refuses = self.refuses.lock().expect("nobody panicked").filter(|_| namespace == "closed");
        let is_hung = namespace == "hung";
        let is_undone = namespace == "undone";
        if namespace == "changed" {
            object["data"] = json!({});
        }
        self.written.lock().expect("nobody panicked").push((namespace, self.start.elapsed().as_secs()));
        if is_undone {
            self.undone.notify_one();
        }
        if is_hung {
            std::future::pending::<()>().await;
        }
        refuses.map_or((200, object), refusal)
    }
}

type Needs = watch::Sender<BTreeSet<Box<str>>>;

/// Keeps the anchors in `first`, and in the namespaces that `changing` adds, until `changing` ends.
async fn keep_while(server: &Server, first: &str, changing: impl AsyncFnOnce(&Needs)) {
    let api_server = server.api_server();
    let (needs, needed) = watch::channel(BTreeSet::<Box<str>>::from([first.into()]));
    let (_leader, leads) = watch::channel(true);
    let (_signer, signing) = watch::channel(signing());
    tokio::select! {
        never = keep_anchors::<ConfigMap>(&api_server, TRUST_BUNDLE, needed, leads, signing) => match never {},
        () = changing(&needs) => {}
    }
}

/// Adds the namespaces `open-0` to `open-299`, one each second.
async fn add_one_each_second(needs: &Needs) {
    for second in 0..300 {
        needs.send_modify(|needed| {
            needed.insert(format!("open-{second}").into());
        });
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_refuses_the_anchors_is_tried_less_and_less_often_and_others_get_theirs_at_once() {
    for refuses in [403, 500] {
        let (warnings, _guard) = Warnings::collect();
        let server = Server::new(refuses);
        keep_while(&server, "closed", async |needs| {
            add_one_each_second(needs).await;
            *server.refuses.lock().expect("nobody panicked") = None;
            sleep(Duration::from_secs(60)).await;
        })
        .await;
        for second in 0..300 {
            assert_eq!(server.written_s(&format!("open-{second}")), [second], "{refuses}");
        }
        // The last write succeeds.
        assert_eq!(server.written_s("closed"), [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303], "{refuses}");
        let warnings = warnings.lines();
        let [warning] = &warnings[..] else { panic!("{refuses}: {warnings:?}") };
        assert!(warning.contains("closed") && warning.contains("could not be written"), "{warning}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_never_answers_delays_no_other() {
    let server = Server::new(403);
    keep_while(&server, "hung", add_one_each_second).await;
    for second in 0..300 {
        assert_eq!(server.written_s(&format!("open-{second}")), [second]);
    }
    assert_eq!(server.written_s("hung"), [0], "one write at a time");
}

#[tokio::test(start_paused = true)]
async fn anchors_that_another_program_changes_at_once_are_written_less_and_less_often() {
    let (warnings, _guard) = Warnings::collect();
    let server = Server::new(403);
    keep_while(&server, "changed", async |_| sleep(Duration::from_secs(20)).await).await;
    assert_eq!(server.written_s("changed"), [0, 1, 3, 7, 15]);
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("changed") && warning.contains("another program"), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn anchors_that_another_program_changes_again_and_again_are_written_at_most_once_a_second() {
    let (warnings, _guard) = Warnings::collect();
    let server = Server::new(403);
    keep_while(&server, "undone", async |_| sleep(Duration::from_millis(9_500)).await).await;
    assert_eq!(server.written_s("undone"), (0..10).collect::<Vec<u64>>());
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("undone") && warning.contains("another program"), "{warning}");
}
