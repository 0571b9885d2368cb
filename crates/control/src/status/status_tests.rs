use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::*;
use crate::fixtures::{Warnings, client_of};
use crate::index::Observed;

/// The time that the API server takes for each read.
const TAKES: Duration = Duration::from_secs(1);
/// The time after which the API server no longer waits for an admission webhook.
const WEBHOOK_MAX: Duration = Duration::from_secs(30);

/// An API server that returns the same object for each name, and records each request.
#[derive(Clone)]
struct ApiServer {
    start: Instant,
    object: Arc<Value>,
    /// The time that a write takes, and its answer, for the path of the request.
    writes: fn(&str) -> (Duration, StatusCode),
    /// The time from which the API server knows the kind of the objects.
    knows_kind_at: Instant,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request that the API server got.
struct Asked {
    at_s: u64,
    method: String,
    path: String,
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
        let writes = |_: &str| (TAKES, StatusCode::OK);
        let start = Instant::now();
        Self { start, object: Arc::new(object), writes, knows_kind_at: start, asked: Arc::default() }
    }

    /// An API server whose objects have no status, and that answers writes as `writes` returns.
    fn answering(writes: fn(&str) -> (Duration, StatusCode)) -> Self {
        Self { writes, ..Self::new("a", &json!({})) }
    }

    /// The method and the last part of the path of each request.
    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("nobody panicked");
        let short =
            |Asked { method, path, .. }: &Asked| format!("{method} {}", path.rsplit('/').next().unwrap_or_default());
        asked.iter().map(short).collect()
    }

    /// The seconds at which a policy's status was sent.
    fn sent_s(&self, namespace: &str, name: &str) -> Vec<u64> {
        let asked = self.asked.lock().expect("nobody panicked");
        let end = format!("/namespaces/{namespace}/authorizationpolicies/{name}/status");
        let sent = asked.iter().filter(|asked| asked.method == "PATCH" && asked.path.ends_with(&end));
        sent.map(|asked| asked.at_s).collect()
    }

    fn client(&self) -> Client {
        let server = self.clone();
        client_of(move |request| server.clone().answer(request))
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let (takes, code) = match method.as_str() {
            _ if Instant::now() < self.knows_kind_at => (TAKES, StatusCode::NOT_FOUND),
            "PATCH" => (self.writes)(&path),
            _ => (TAKES, StatusCode::OK),
        };
        let asked = Asked { at_s: self.start.elapsed().as_secs(), method, path };
        self.asked.lock().expect("nobody panicked").push(asked);
        sleep(takes).await;
        match code {
            StatusCode::OK => (200, Value::clone(&self.object)),
            _ => {
                let code = code.as_u16();
                (code, json!({ "status": "Failure", "message": "", "reason": "Invalid", "code": code }))
            }
        }
    }
}

/// The results for policies of the namespace `shop`.
fn judged(names: &[&str]) -> Judged {
    let places: Vec<_> = names.iter().map(|name| ("shop", *name)).collect();
    judged_in(&places)
}

/// The results for policies, each the first generation of the object with the UID `a`.
fn judged_in(places: &[(&str, &str)]) -> Judged {
    let observed = Observed { revision: Revision { uid: "a".into(), generation: 1 }, problem: None, missing: None };
    let place = |(namespace, name): &(&str, &str)| (policy(namespace, name), observed.clone());
    Judged { observed: places.iter().map(place).collect(), ..Judged::default() }
}

fn policy(namespace: &str, name: &str) -> Place {
    (Kind::AuthorizationPolicy, Name::new(namespace, name))
}

/// Replaces the result for a policy.
fn change(news: &watch::Sender<Judged>, namespace: &str, name: &str, missing: &str) {
    news.send_modify(|results| {
        let observed = results.observed.get_mut(&policy(namespace, name)).expect("a policy");
        observed.missing = Some(missing.to_owned());
    });
}

/// Runs the leader's writer of statuses for these policies until `changing` ends. `changing` changes the results.
async fn write_while(server: &ApiServer, places: &[(&str, &str)], changing: impl AsyncFnOnce(watch::Sender<Judged>)) {
    let (_leader, leads) = watch::channel(true);
    let (sender, news) = watch::channel(judged_in(places));
    tokio::select! {
        never = keep_statuses(server.client(), leads, news) => match never {},
        () = changing(sender) => {}
    }
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
    let server = ApiServer::answering(|_| (TAKES, StatusCode::UNPROCESSABLE_ENTITY));
    assert_eq!(asked(&server, &["a"], TAKES * 30).await, ["GET a", "PATCH status"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_the_api_server_knows_the_kind() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer::new("a", &json!({}));
    let server = ApiServer { knows_kind_at: server.start + TAKES * 4, ..server };
    // The reads at 0 and 2 s fail. The delays after them are 1 and 2 s.
    assert_eq!(asked(&server, &["a"], TAKES * 30).await, ["GET a", "GET a", "GET a", "PATCH status"]);
    assert_eq!(server.sent_s("shop", "a"), [6]);
    assert!(warnings.lines().is_empty(), "{:?}", warnings.lines());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_asked_for_only_until_the_results_are_without_it() {
    let server = ApiServer::new("a", &json!({}));
    let server = ApiServer { knows_kind_at: server.start + TAKES * 1_000, ..server };
    write_while(&server, &[("shop", "gone")], async |news| {
        sleep(TAKES * 4).await;
        news.send_modify(|results| results.observed.clear());
        sleep(TAKES * 500).await;
    })
    .await;
    assert_eq!(server.asked(), ["GET gone", "GET gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_sent_again_less_and_less_often() {
    let server = ApiServer::answering(|_| (TAKES, StatusCode::FORBIDDEN));
    let asked = asked(&server, &["a"], TAKES * 300).await;
    // Ten attempts with two requests each, at 0, 3, 7, 13, 23, 41, 75, 137, 199 and 261 s.
    assert_eq!(asked.len(), 20, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_conflicts_is_repeated_without_a_warning() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer::answering(|_| (TAKES, StatusCode::CONFLICT));
    write_while(&server, &[("shop", "a")], async |_news| sleep(TAKES * 10).await).await;
    assert_eq!(server.sent_s("shop", "a"), [1, 4, 8]);
    assert!(warnings.lines().is_empty(), "{:?}", warnings.lines());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_writes_hang_delays_no_other() {
    let server = ApiServer::answering(|path| match path.contains("/hung/") {
        true => (WEBHOOK_MAX, StatusCode::INTERNAL_SERVER_ERROR),
        false => (TAKES, StatusCode::OK),
    });
    let places = [("hung", "a"), ("hung", "b"), ("open", "c")];
    write_while(&server, &places, async |news| {
        for result in 1..50 {
            sleep(TAKES * 4).await;
            change(&news, "open", "c", &result.to_string());
        }
    })
    .await;
    assert_eq!(server.sent_s("open", "c"), (0..49).map(|result| result * 4 + 1).collect::<Vec<u64>>());
    // One write at a time, with delays of 1, 2 and 4 s.
    assert_eq!(server.sent_s("hung", "a")[..2], [1, 66]);
    assert_eq!(server.sent_s("hung", "b")[..2], [33, 101]);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_writes_hang_delays_others_of_its_namespace_only_once() {
    let server = ApiServer::answering(|path| match path.contains("/a/") {
        true => (WEBHOOK_MAX, StatusCode::INTERNAL_SERVER_ERROR),
        false => (TAKES, StatusCode::OK),
    });
    asked(&server, &["a", "b", "c"], TAKES * 60).await;
    let sent = ["a", "b", "c"].map(|name| server.sent_s("shop", name));
    assert_eq!(sent, [vec![1, 37], vec![33], vec![35]]);
}

/// Refuses the statuses of objects whose name is `refused`.
fn refusing(path: &str) -> (Duration, StatusCode) {
    (TAKES, if path.contains("/refused/") { StatusCode::FORBIDDEN } else { StatusCode::OK })
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_does_not_delay_newer_results_in_its_namespace() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer::answering(refusing);
    write_while(&server, &[("shop", "refused"), ("shop", "web")], async |news| {
        sleep(TAKES * 50).await;
        change(&news, "shop", "web", "newer");
        sleep(TAKES * 50).await;
    })
    .await;
    assert_eq!(server.sent_s("shop", "web"), [3, 51]);
    // The attempt at 53 s was early, so the delay after it is 32 s again.
    assert_eq!(server.sent_s("shop", "refused"), [1, 6, 10, 16, 26, 44, 53, 87]);
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("AuthorizationPolicy shop/refused could not be written"), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn a_warning_has_the_number_of_statuses_that_could_not_be_written() {
    for (count, others) in [(2, " and 1 other status"), (3, " and 2 other statuses")] {
        let (warnings, _guard) = Warnings::collect();
        let server = ApiServer::answering(|_| (TAKES, StatusCode::FORBIDDEN));
        asked(&server, &["a", "b", "c"][..count], TAKES * 10).await;
        let warnings = warnings.lines();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.contains(&format!("shop/a{others} could not be written")), "{warning}");
    }
}

#[tokio::test(start_paused = true)]
async fn newer_results_cut_only_the_pass_of_their_own_namespace_short() {
    for (changed, sent_s) in
        [(("shop", "a"), [vec![1, 5], vec![3], vec![7]]), (("bank", "x"), [vec![1], vec![3], vec![5]])]
    {
        let server = ApiServer::new("a", &json!({}));
        let places = [("bank", "x"), ("shop", "a"), ("shop", "b"), ("shop", "c")];
        write_while(&server, &places, async |news| {
            sleep(TAKES * 5 / 2).await;
            change(&news, changed.0, changed.1, "newer");
            sleep(TAKES * 10).await;
        })
        .await;
        assert_eq!(["a", "b", "c"].map(|name| server.sent_s("shop", name)), sent_s, "{changed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_newer_results_cut_short_does_not_end_the_series_of_failures() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer::answering(refusing);
    write_while(&server, &[("shop", "a"), ("shop", "refused")], async |news| {
        // The attempts at 2 and 5 s fail. The pass for the first change begins at 8.5 s. The second change cuts it
        // short after the status of `a`.
        sleep(TAKES * 17 / 2).await;
        change(&news, "shop", "a", "newer");
        sleep(TAKES / 2).await;
        change(&news, "shop", "a", "newest");
        sleep(TAKES * 6).await;
    })
    .await;
    assert_eq!(server.sent_s("shop", "a"), [1, 9, 11]);
    assert_eq!(server.sent_s("shop", "refused"), [3, 6, 13]);
    let warnings = warnings.lines();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
