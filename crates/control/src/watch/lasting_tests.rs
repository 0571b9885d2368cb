use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::service_fn;

use super::*;
use crate::api_server::ApiServer;

const HOUR: Duration = Duration::from_secs(3_600);

/// What the API server does with requests to watch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Watches {
    /// The resource version has expired, and the status of the response says so.
    Expired,
    /// The resource version has expired, and an event says so.
    ExpiredEvent,
    /// The response begins, and then the connection is lost without a sign.
    Quiet,
    /// The first 20 requests fail. Then one watch lasts for a minute without an event.
    QuietOnce,
}

/// An API server with one empty list. It records each request (`list` or `watch`), and the time at which the request
/// arrived.
#[derive(Clone)]
struct Server {
    watches: Watches,
    can_list: bool,
    asked: Arc<Mutex<Vec<(&'static str, Instant)>>>,
}

impl Server {
    fn new(watches: Watches) -> Self {
        Self { watches, can_list: true, asked: Arc::default() }
    }

    /// Follows a watch for an hour. Returns the requests, and the events and failures.
    async fn in_an_hour(&self) -> (Vec<(&'static str, Instant)>, Vec<String>) {
        let (hearing, server) = (Hearing::default(), self.clone());
        let service = service_fn(move |request| server.clone().answer(request));
        let client = Client::new(hearing.listening(service), "default");
        let api_server = ApiServer::of(client.clone(), hearing);
        let mut watch = api_server.watch(Api::<Secret>::namespaced(client, "leno"), Config::default());
        let mut seen = Vec::new();
        let following = async {
            loop {
                // In the control plane, `next` is often dropped before it is ready, because the task also waits for
                // other work.
                let Ok(event) = timeout(Duration::from_millis(70), watch.next()).await else { continue };
                seen.push(match event {
                    Ok(Event::Init) => "init".to_owned(),
                    Ok(Event::InitDone) => "listed".to_owned(),
                    Ok(event) => panic!("{event:?}"),
                    Err(error) => status(&error).map_or("failed".to_owned(), |status| status.as_u16().to_string()),
                });
            }
        };
        timeout(HOUR, following).await.unwrap_or(());
        (self.asked.lock().expect("nobody panicked").clone(), seen)
    }

    async fn answer(
        self,
        request: http::Request<Body>,
    ) -> Result<http::Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let what = if is_watch { "watch" } else { "list" };
        let number = {
            let mut asked = self.asked.lock().expect("nobody panicked");
            asked.push((what, Instant::now()));
            asked.len()
        };
        let metadata = json!({ "resourceVersion": "7" });
        let list = json!({ "apiVersion": "v1", "kind": "SecretList", "metadata": metadata, "items": [] });
        let (status, body) = match (is_watch, self.watches) {
            (false, _) if self.can_list => (200, list),
            (false, _) => (503, failure(503)),
            (true, Watches::Expired) => (410, failure(410)),
            (true, Watches::ExpiredEvent) => (200, json!({ "type": "ERROR", "object": failure(410) })),
            (true, Watches::QuietOnce) if number == 22 => {
                let minute = stream::once(async {
                    sleep(Duration::from_secs(60)).await;
                    Ok(Frame::data(Bytes::new()))
                });
                return Ok(http::Response::new(StreamBody::new(minute).boxed_unsync()));
            }
            (true, Watches::QuietOnce) => (500, failure(500)),
            (true, Watches::Quiet) => {
                let silence = StreamBody::new(stream::pending());
                return Ok(http::Response::new(silence.boxed_unsync()));
            }
        };
        Ok(http::Response::builder()
            .status(status)
            .body(Full::from(format!("{body}\n")).boxed_unsync())
            .expect("a response"))
    }
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "status": "Failure", "message": "no", "reason": "Expired", "code": code })
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_resource_version_has_expired_begins_with_a_list_again_after_a_pause() {
    for watches in [Watches::Expired, Watches::ExpiredEvent] {
        let (asked, seen) = Server::new(watches).in_an_hour().await;
        assert_eq!(seen[..6], ["init", "listed", "410", "init", "listed", "410"], "{watches:?}");
        let kinds: Vec<_> = asked.iter().map(|(what, _)| *what).collect();
        assert_eq!(kinds[..4], ["list", "watch", "list", "watch"], "{watches:?}");
        let lists: Vec<_> = asked.iter().filter(|(what, _)| *what == "list").map(|(_, at)| *at).collect();
        assert!((720..1_600).contains(&lists.len()), "{watches:?}: {} lists in an hour", lists.len());
        let first = lists[1] - lists[0];
        assert!(first <= Duration::from_millis(150), "{watches:?}: the first list came after {first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_was_lost_without_a_sign_begins_again_within_minutes() {
    let (asked, seen) = Server::new(Watches::Quiet).in_an_hour().await;
    assert_eq!(seen, ["init", "listed"]);
    let pauses: Vec<_> = asked[1..].windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(pauses.len() >= 25, "{} watches in an hour", pauses.len());
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(126)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_repeated_with_growing_pauses() {
    let server = Server { can_list: false, ..Server::new(Watches::Quiet) };
    let (asked, seen) = server.in_an_hour().await;
    assert_eq!(seen[..4], ["init", "503", "init", "503"]);
    assert!((720..1_600).contains(&asked.len()), "{} requests in an hour", asked.len());
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(pauses[0] <= Duration::from_millis(110), "{:?}", pauses[0]);
    let longest = Duration::from_millis(5_100);
    assert!(pauses.iter().all(|pause| *pause <= longest), "{:?}", pauses.iter().max());
}

#[tokio::test(start_paused = true)]
async fn a_failure_long_after_the_last_is_a_new_outage_even_if_nothing_changed_meanwhile() {
    let (asked, _) = Server::new(Watches::QuietOnce).in_an_hour().await;
    let pause = |number: usize| asked[number + 1].1 - asked[number].1;
    assert!(pause(20) >= Duration::from_millis(2_500), "{:?}", pause(20));
    assert!(pause(21) >= Duration::from_secs(60), "the watch: {:?}", pause(21));
    assert!(pause(22) <= Duration::from_millis(150), "{:?}", pause(22));
}
