use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::*;
use crate::fixtures::{Warnings, client_of, refusal};

fn pods(count: usize) -> Vec<Unmeshed> {
    (0..count).map(|i| pod(&format!("web-{i:03}"), &format!("uid-{i:03}"))).collect()
}

fn pod(name: &str, uid: &str) -> Unmeshed {
    Unmeshed { name: name.into(), uid: uid.into(), lacking: Lacking::Proxy }
}

fn shop(count: usize) -> ByNamespace {
    [("shop".into(), pods(count))].into()
}

#[test]
fn each_pod_is_reported_once_and_of_many_only_the_first() {
    let mut reported = Reported::default();
    let due = reported.due(&shop(2));
    assert_eq!(due["shop"].iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["web-000", "web-001"]);
    reported.events.extend(due.values().flatten().map(Unmeshed::key));
    assert!(reported.due(&shop(2)).is_empty());
    assert_eq!(reported.due(&shop(10_000))["shop"].len(), EVENTS_PER_NAMESPACE_MAX - 2);
    reported.due(&shop(0));
    assert!(reported.events.is_empty(), "what is gone is forgotten");
}

#[test]
fn the_log_tells_when_a_namespace_has_more_of_them() {
    let mut reported = Reported::default();
    assert!(reported.rises(&shop(0)).is_empty(), "all Pods of the namespace have a proxy");
    assert_eq!(reported.rises(&shop(2)), [(Box::<str>::from("shop"), 2)]);
    for count in [2, 1] {
        assert!(reported.rises(&shop(count)).is_empty());
    }
    assert_eq!(reported.rises(&shop(2)), [(Box::<str>::from("shop"), 2)]);
}

#[test]
fn an_event_is_about_the_pod_and_fits_whatever_its_name() {
    let pod = pod(&"n".repeat(253), "0123456789");
    let event = event("shop", &pod, Timestamp::UNIX_EPOCH);
    assert!(event.metadata.name.expect("a name").len() <= 253);
    assert_eq!(event.involved_object.uid.as_deref(), Some("0123456789"));
    assert_eq!((event.reason.as_deref(), event.type_.as_deref()), (Some("WithoutProxy"), Some("Warning")));
}

#[test]
fn an_event_names_what_the_pod_lacks() {
    let of = |lacking| {
        let event = event("shop", &Unmeshed { lacking, ..pod("web", "1") }, Timestamp::UNIX_EPOCH);
        (event.reason.unwrap_or_default(), event.message.unwrap_or_default())
    };
    let (reason, message) = of(Lacking::Proxy);
    assert_eq!(reason, "WithoutProxy");
    assert!(message.contains("runs without a proxy") && message.contains("not encrypted"), "{message}");
    // If the annotation changes, the Pod gets another Event.
    let mut reported = Reported::default();
    reported.events.insert(("1".into(), Lacking::GrpcSidecar));
    assert_eq!(reported.due(&[("shop".into(), vec![pod("web", "1")])].into()).len(), 1);
    let (reason, message) = of(Lacking::GrpcSidecar);
    assert_eq!(reason, "WithoutGrpcSidecar");
    assert!(message.contains("runs without the gRPC sidecar") && message.contains("no identity"), "{message}");
}

/// If each Pod were compared with each other Pod, this test would take minutes.
#[test]
fn many_namespaces_are_reported_in_a_short_time() {
    let of = |namespace: usize| {
        let pod = |i: usize| pod(&format!("{namespace}-{i}"), &format!("{namespace}-{i}"));
        (format!("ns-{namespace}").into(), (0..EVENTS_PER_NAMESPACE_MAX).map(pod).collect())
    };
    let all: ByNamespace = (0..8_000).map(of).collect();
    let mut reported = Reported::default();
    let due = reported.due(&all);
    reported.events.extend(due.values().flatten().map(Unmeshed::key));
    let start = std::time::Instant::now();
    assert!(reported.due(&all).is_empty());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// An API server that refuses the Events of the namespace `closed`, answers the Events of `broken` with 500, and never
/// answers the Events of `hung`. In the namespace `partly`, it answers only the Event of Pod web-000 with 500. Records the
/// namespace of each Event, and the seconds since the start.
#[derive(Clone)]
struct ApiServer {
    start: Instant,
    asked: Arc<Mutex<Vec<(String, u64)>>>,
}

impl ApiServer {
    fn new() -> Self {
        Self { start: Instant::now(), asked: Arc::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        client_of(move |request| server.clone().answer(request))
    }

    /// The seconds at which this namespace got Events.
    fn asked_s(&self, namespace: &str) -> Vec<u64> {
        let asked = self.asked.lock().expect("nobody panicked");
        asked.iter().filter(|(of, _)| of == namespace).map(|(_, at_s)| *at_s).collect()
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let event: Value = serde_json::from_slice(&body).expect("an Event");
        let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        self.asked.lock().expect("nobody panicked").push((namespace.clone(), self.start.elapsed().as_secs()));
        match &*namespace {
            "closed" => refusal(403),
            "broken" => refusal(500),
            "partly" if event["involvedObject"]["name"] == "web-000" => refusal(500),
            "hung" => std::future::pending().await,
            _ => (201, event),
        }
    }
}

/// Reports the Pods of one namespace, and another Pod of the namespace `open` each second, for 300 s.
async fn report_while_pods_come(server: &ApiServer, (namespace, pods): (&str, Vec<Unmeshed>)) {
    let (_leader, leads) = watch::channel(true);
    let (all, unmeshed) = watch::channel(ByNamespace::from([(namespace.into(), pods)]));
    let changing = async {
        for second in 0..300 {
            let pod = pod("web", &format!("uid-{second}"));
            all.send_modify(|all| drop(all.insert("open".into(), vec![pod])));
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        never = report_unmeshed(server.client(), leads, unmeshed) => match never {},
        () = changing => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_refuses_events_is_tried_less_and_less_often_and_others_get_theirs_at_once() {
    let (warnings, _guard) = Warnings::collect();
    let server = ApiServer::new();
    report_while_pods_come(&server, ("closed", pods(1))).await;
    assert_eq!(server.asked_s("open"), (0..300).collect::<Vec<u64>>());
    assert_eq!(server.asked_s("closed"), [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
    let warnings: Vec<_> = warnings.lines().into_iter().filter(|line| line.contains("could not be written")).collect();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("closed") && warning.contains("Pod web-000"), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_never_answers_delays_no_other() {
    let server = ApiServer::new();
    report_while_pods_come(&server, ("hung", pods(2))).await;
    assert_eq!(server.asked_s("open"), (0..300).collect::<Vec<u64>>());
    assert_eq!(server.asked_s("hung"), [0], "one Event at a time");
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_the_other_pods_get_their_events_and_after_another_failure_they_wait() {
    let server = ApiServer::new();
    for (namespace, asked) in [("closed", 3), ("broken", 1), ("open", 3)] {
        let written = report(server.client(), namespace.into(), pods(3)).await;
        assert_eq!(server.asked_s(namespace).len(), asked, "{namespace}");
        assert_eq!(written.events.len(), if namespace == "open" { 3 } else { 0 });
        let failed = written.worst.map(|(pod, _)| pod);
        assert_eq!(failed.as_deref(), (namespace != "open").then_some("web-000"), "the first failure is reported");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_event_fails_each_time_does_not_keep_the_later_pods_from_theirs() {
    let server = ApiServer::new();
    report_while_pods_come(&server, ("partly", pods(3))).await;
    // The first pass ends at web-000. The second one writes the Events of the others before its next attempt.
    assert_eq!(server.asked_s("partly"), [0, 1, 1, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
}
