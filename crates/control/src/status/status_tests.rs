use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::client::Body;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::fixtures::{Warnings, client_of};
use crate::index::Observed;

/// The time that the API server takes for each request.
const TAKES: Duration = Duration::from_secs(1);

/// An API server that returns the same object for each name, and records the method and the last part of the path of
/// each request.
#[derive(Clone)]
struct ApiServer {
    object: Arc<Value>,
    /// The answer to each write.
    written: http::StatusCode,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ApiServer {
    fn new(uid: &str, status: &Value) -> Self {
        let object = json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "AuthorizationPolicy",
            "metadata": { "name": "web", "namespace": "shop", "uid": uid, "generation": 1, "resourceVersion": "7" },
            "spec": {},
            "status": status,
        });
        Self { object: Arc::new(object), written: http::StatusCode::OK, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panicked").clone()
    }

    fn client(&self) -> Client {
        let server = self.clone();
        client_of(move |request| server.clone().answer(request))
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        let last = request.uri().path().rsplit('/').next().unwrap_or_default();
        self.asked.lock().expect("nobody panicked").push(format!("{} {last}", request.method()));
        sleep(TAKES).await;
        match request.method() == http::Method::PATCH && self.written != http::StatusCode::OK {
            true => {
                let code = self.written.as_u16();
                (code, json!({ "status": "Failure", "message": "", "reason": "Invalid", "code": code }))
            }
            false => (200, Value::clone(&self.object)),
        }
    }
}

/// The results for policies with these names, each the first generation of the object with the UID `a`.
fn judged(names: &[&str]) -> Judged {
    let observed = Observed { revision: Revision { uid: "a".into(), generation: 1 }, problem: None, missing: None };
    let place = |name: &&str| ((Kind::AuthorizationPolicy, Name::new("shop", name)), observed.clone());
    Judged { observed: names.iter().map(place).collect(), ..Judged::default() }
}

/// Leads for the time `leads_for` and writes the statuses of these policies, then waits much longer as a follower.
/// Returns all requests that the API server got.
async fn asked(server: &ApiServer, names: &[&str], leads_for: Duration) -> Vec<String> {
    let (leader, leads) = watch::channel(true);
    let (_news, news) = watch::channel(judged(names));
    let client = server.client();
    let keeping = tokio::spawn(async move { match keep_statuses(client, leads, news).await {} });
    sleep(leads_for).await;
    leader.send_replace(false);
    sleep(Duration::from_secs(60)).await;
    keeping.abort();
    server.asked()
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_no_longer_leads_writes_nothing_more() {
    let server = ApiServer::new("a", &json!({}));
    let asked = asked(&server, &["a", "b", "c"], TAKES * 2 + TAKES / 2).await;
    assert_eq!(asked, ["GET a", "PATCH status", "GET b"]);
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_gets_no_status_of_the_old_one() {
    let server = ApiServer::new("b", &json!({}));
    assert_eq!(asked(&server, &["a"], TAKES * 30).await, ["GET a"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_starts_does_not_write_a_status_that_the_object_has() {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": reason, "message": "",
        })
    };
    let conditions = [condition("Accepted", "Accepted"), condition("ResolvedRefs", "ResolvedRefs")];
    let server = ApiServer::new("a", &json!({ "observedGeneration": 1, "conditions": conditions }));
    assert_eq!(asked(&server, &["a"], TAKES * 30).await, ["GET a"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_api_server_rejects_is_not_sent_again() {
    let server = ApiServer { written: http::StatusCode::UNPROCESSABLE_ENTITY, ..ApiServer::new("a", &json!({})) };
    assert_eq!(asked(&server, &["a"], TAKES * 30).await, ["GET a", "PATCH status"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_sent_again_less_and_less_often() {
    let server = ApiServer { written: http::StatusCode::FORBIDDEN, ..ApiServer::new("a", &json!({})) };
    let asked = asked(&server, &["a"], TAKES * 300).await;
    // Ten attempts with two requests each, at 0, 3, 7, 13, 23, 41, 75, 137, 199 and 261 s.
    assert_eq!(asked.len(), 20, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_newer_results_cut_short_does_not_end_the_series_of_failures() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer { written: http::StatusCode::FORBIDDEN, ..ApiServer::new("a", &json!({})) };
    // The API server has another object `a`, so that each pass reads it and does not write its status.
    let mut results = judged(&["a", "b"]);
    let other = Revision { uid: "x".into(), generation: 1 };
    results.observed.get_mut(&(Kind::AuthorizationPolicy, Name::new("shop", "a"))).expect("an object").revision = other;
    let (_leader, leads) = watch::channel(true);
    let (news_sender, news) = watch::channel(results);
    let changing = async {
        // The first pass fails at 3 s. The second pass reads `a` from 4 s to 5 s, and the newer results cut it short.
        sleep(TAKES * 9 / 2).await;
        news_sender.send_modify(|_| {});
        // The third pass fails at 8 s, and the fourth begins 2 s later.
        sleep(TAKES * 6).await;
    };
    tokio::select! {
        never = keep_statuses(server.client(), leads, news) => match never {},
        () = changing => {}
    }
    let asked = server.asked();
    let pass = ["GET a", "GET b", "PATCH status"];
    assert_eq!(asked, [&pass[..], &pass[..1], &pass[..], &pass[..1]].concat());
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("could not be written"), "{warning}");
}
