use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use futures_util::FutureExt;
use k8s_openapi::ByteString;
use leno_install::inject::Options;
use rustls::pki_types::DnsName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::accept::FIRST_REQUEST_MAX;
use crate::index::{Change, Kind, Namespace};
use crate::issuer::Signing;
use crate::webhooks::fixtures::{ApiServer, signing};
use crate::webhooks::namespaces::Namespaces;

const NAME: &str = "leno-control.leno.svc";

/// Webhooks on loopback, in a cluster with the namespaces `shop`, whose Pods get a proxy, and `quiet`.
struct Webhooks {
    address: SocketAddr,
    signing: Arc<Signing>,
    counts: Arc<Counts>,
    changes: mpsc::Receiver<(Kind, Change)>,
    trusting: watch::Sender<BTreeSet<Box<str>>>,
    phase: watch::Sender<Phase>,
    _options: watch::Sender<Arc<Options>>,
}

impl Webhooks {
    async fn start() -> Self {
        let shop = Namespace::new([("leno.dev/inject".to_owned(), "enabled".to_owned())].into());
        let namespaces = BTreeMap::from([("shop".into(), shop), ("quiet".into(), Namespace::default())]);
        let (_, known) = watch::channel(Arc::new(namespaces));
        let (sender, changes) = mpsc::channel(8);
        let (options, receiver) = watch::channel(Arc::default());
        let client = ApiServer::default().client();
        let (trusting, known_to_trust) = watch::channel(BTreeSet::default());
        let namespaces = Namespaces::new(known, client);
        let reviewer = Reviewer { namespaces, options: receiver, changes: sender, trusting: known_to_trust };
        let (signing, counts) = (signing(), Arc::new(Counts::default()));
        let names = [DnsName::try_from(NAME).expect("a DNS name")];
        let (_, certificate) = watch::channel(Arc::new(signing.certify_server(&names).expect("a certificate").0));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (phase, phases) = watch::channel(Phase::Serving);
        tokio::spawn(Server::new(reviewer, counts.clone()).serve(listener, certificate, phases));
        Self { address, signing, counts, changes, trusting, phase, _options: options }
    }

    /// A connection without TLS from 127.0.0.`last`.
    async fn connect_from(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, last], 0).into()).expect("a loopback address");
        socket.connect(self.address).await.expect("it listens")
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.signing.trust().bundle.anchors().to_vec());
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let name = NAME.try_into().expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
    }

    /// Sends one request on its own connection; returns the status and the body.
    async fn ask(&self, line: &str, content_type: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect().await;
        send(&mut stream, line, &format!("Content-Type: {content_type}\r\nConnection: close\r\n"), body).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
    }

    async fn inject(&self, request: &Value) -> Value {
        let (status, body) = self.ask("POST /inject?timeout=5s", "application/json", &review(request)).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).expect("JSON")["response"].take()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        self.counts.write_metrics(&mut text);
        text
    }
}

/// Sends the head of a review without its body. `more` has further header fields.
async fn send_head(stream: &mut TlsStream<TcpStream>, length: u32, more: &str) {
    let head = format!(
        "POST /inject HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
}

async fn send(stream: &mut TlsStream<TcpStream>, line: &str, headers: &str, body: &str) {
    let head = format!("{line} HTTP/1.1\r\nHost: {NAME}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).await.expect("it reads");
}

fn review(request: &Value) -> String {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string()
}

/// A Pod as a controller creates it: without a namespace and a name of its own.
fn pod(namespace: &str, annotations: &Value) -> Value {
    let metadata = json!({ "generateName": "web-", "annotations": annotations });
    let object = json!({ "kind": "Pod", "metadata": metadata, "spec": { "containers": [{ "name": "web" }] } });
    json!({ "uid": "7", "operation": "CREATE", "namespace": namespace, "object": object })
}

#[tokio::test]
async fn pods_are_answered_by_the_annotations_of_their_namespace_and_their_own() {
    let mut webhooks = Webhooks::start().await;
    let patch = |response: &Value| {
        let patch: ByteString = serde_json::from_value(response["patch"].clone()).expect("a patch");
        String::from_utf8(patch.0).expect("text")
    };
    for namespace in ["shop", "young"] {
        let response = webhooks.inject(&pod(namespace, &json!({}))).await;
        assert!(response["allowed"] == true && patch(&response).contains("leno-init"), "{namespace}: {response}");
    }
    let response = webhooks.inject(&pod("quiet", &json!({}))).await;
    assert_eq!(response, json!({ "uid": "7", "allowed": true }));
    let response = webhooks.inject(&pod("shop", &json!({ "leno.dev/inject": "perhaps" }))).await;
    assert!(response["allowed"] == false && response["status"]["message"].as_str().is_some(), "{response}");
    // The webhook reported no namespace to the index. It reports a namespace only if a Pod in it gets a proxy and the
    // namespace lacks the trust bundle.
    assert!(webhooks.changes.try_recv().is_err());
    let name = "leno_control_webhook_requests_total{webhook=\"inject\",answer=";
    for (answer, number) in [("injected", 2), ("skipped", 1), ("refused", 1), ("error", 0)] {
        let line = format!("{name}\"{answer}\"}} {number}\n");
        assert!(webhooks.metrics().contains(&line), "{line}: {}", webhooks.metrics());
    }
}

#[tokio::test]
async fn a_pod_that_asks_itself_is_announced_but_not_on_a_dry_run() {
    let mut webhooks = Webhooks::start().await;
    let mut request = pod("quiet", &json!({ "leno.dev/inject": "enabled" }));
    request["dryRun"] = json!(true);
    assert!(webhooks.inject(&request).await["patch"].is_string());
    assert!(webhooks.changes.try_recv().is_err());
    request["dryRun"] = json!(false);
    assert!(webhooks.inject(&request).await["patch"].is_string());
    let announced = webhooks.changes.try_recv().expect("a change");
    assert!(matches!(&announced, (Kind::Pod, Change::Expected(namespace)) if &**namespace == "quiet"), "{announced:?}");
}

#[tokio::test]
async fn what_is_no_review_gets_a_clear_refusal() {
    let webhooks = Webhooks::start().await;
    let json = "application/json; charset=utf-8";
    for (line, content_type, body, status, said) in [
        ("POST /", json, "{}", 404, "there are /inject and /validate"),
        ("GET /inject", json, "", 405, "webhooks take POST"),
        ("POST /validate", "application/yaml", "{}", 415, "send the review as application/json"),
        ("POST /validate", json, "{", 400, "the body is not an AdmissionReview"),
        ("POST /inject", json, &review(&pod("shop/pods", &json!({}))), 400, "is not the name of a namespace"),
        ("POST /inject", json, &review(&pod("gone", &json!({}))), 503, "did not return the namespace gone"),
    ] {
        let (found, answer) = webhooks.ask(line, content_type, body).await;
        assert!(found == status && answer.contains(said) && answer.ends_with('\n'), "{line}: {found} {answer}");
    }
    assert!(webhooks.metrics().contains("{webhook=\"validate\",answer=\"error\"} 2\n"), "{}", webhooks.metrics());
}

#[tokio::test]
async fn a_client_that_sends_no_review_loses_its_connection() {
    let webhooks = Webhooks::start().await;
    let version = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    for (line, body) in [
        ("POST /", "{}"),
        ("GET /inject", ""),
        ("POST /inject", "{"),
        ("POST /validate", "{"),
        ("POST /validate", version),
        ("POST /inject", &review(&pod("shop/pods", &json!({})))),
    ] {
        let mut stream = webhooks.connect().await;
        send(&mut stream, line, "Content-Type: application/json\r\n", body).await;
        let mut answer = String::new();
        let read = timeout(FIRST_REQUEST_MAX, stream.read_to_string(&mut answer));
        read.await.expect("the connection ends").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 4"), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_review_that_would_be_huge_once_parsed_is_refused() {
    let webhooks = Webhooks::start().await;
    let object = format!("[{}0]", r#"{"":0},"#.repeat(20_000));
    let body = review(&json!({ "uid": "7", "object": "OBJECT" })).replace("\"OBJECT\"", &object);
    let (status, answer) = webhooks.ask("POST /validate", "application/json", &body).await;
    assert!(status == 413 && answer.contains("once parsed"), "{status} {answer}");
}

#[tokio::test]
async fn a_review_that_is_too_large_is_refused_before_it_is_read() {
    let webhooks = Webhooks::start().await;
    let mut stream = webhooks.connect().await;
    send_head(&mut stream, REVIEW_MAX_BYTES + 1, "").await;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).await.expect("an answer");
    assert!(answer[..length].starts_with(b"HTTP/1.1 413 "), "{:?}", String::from_utf8_lossy(&answer[..length]));
}

#[tokio::test]
async fn a_large_object_with_what_it_was_is_read() {
    let webhooks = Webhooks::start().await;
    let mut request = pod("quiet", &json!({ "example.org/notes": "x".repeat(1 << 20) }));
    request["oldObject"] = request["object"].clone();
    assert_eq!(webhooks.inject(&request).await["allowed"], true);
}

#[tokio::test]
async fn whoever_is_slow_to_send_large_reviews_holds_up_no_small_one() {
    let webhooks = Webhooks::start().await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = webhooks.connect().await;
        send_head(&mut stream, REVIEW_MAX_BYTES, "").await;
        slow.push(stream);
    }
    let started = Instant::now();
    assert_eq!(webhooks.inject(&pod("quiet", &json!({}))).await["allowed"], true);
    assert!(started.elapsed() < REQUEST_MAX / 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_namespace_that_is_told_of_already_is_not_told_of_again() {
    let mut webhooks = Webhooks::start().await;
    let request = pod("quiet", &json!({ "leno.dev/inject": "enabled" }));
    assert!(webhooks.inject(&request).await["patch"].is_string());
    assert!(webhooks.changes.try_recv().is_ok());
    webhooks.trusting.send_replace(["quiet".into()].into());
    assert!(webhooks.inject(&request).await["patch"].is_string());
    assert!(webhooks.changes.try_recv().is_err());
}

#[tokio::test]
async fn connections_that_ask_nothing_keep_no_api_server_out() {
    let webhooks = Webhooks::start().await;
    // Some clients never begin a TLS handshake, some are silent after the handshake, and some never finish a review.
    let mut idle = Vec::new();
    for last in [2, 3] {
        for _ in 0..CONNECTIONS_MAX * 3 / 4 {
            idle.push(webhooks.connect_from(last).await);
        }
    }
    let (mut silent, mut slow) = (Vec::new(), Vec::new());
    for number in 0..32 {
        let mut stream = webhooks.connect().await;
        match number % 2 {
            0 => silent.push(stream),
            _ => {
                send_head(&mut stream, SMALL_MAX_BYTES, "").await;
                slow.push(stream);
            }
        }
    }
    let started = Instant::now();
    for _ in 0..3 {
        assert_eq!(webhooks.inject(&pod("quiet", &json!({}))).await["allowed"], true);
    }
    // The other clients can hold a connection for FIRST_REQUEST_MAX or longer. The reviews took less time, so none
    // waited for these clients.
    assert!(started.elapsed() < FIRST_REQUEST_MAX, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_after_seconds_and_an_idle_one_is_not() {
    let webhooks = Webhooks::start().await;
    let mut used = webhooks.connect().await;
    reviewed(&mut used).await;
    let mut answer = [0; 1024];
    let mut unused = webhooks.connect().await;
    let started = Instant::now();
    let ended = tokio::time::timeout(4 * FIRST_REQUEST_MAX, unused.read(&mut answer)).await.expect("it is closed");
    assert!(ended.is_err() || ended.is_ok_and(|length| length == 0));
    assert!(started.elapsed() > FIRST_REQUEST_MAX / 2, "{:?}", started.elapsed());
    reviewed(&mut used).await;
}

#[tokio::test]
async fn large_reviews_that_never_end_hold_up_no_large_one() {
    let webhooks = Webhooks::start().await;
    let mut slow = Vec::new();
    let places = Door::of_memory(process_memory()).large_reviews;
    for _ in 0..2 {
        for _ in 0..places {
            let mut stream = webhooks.connect().await;
            send_head(&mut stream, REVIEW_MAX_BYTES, "Expect: 100-continue\r\n").await;
            slow.push(stream);
        }
        // The server asks for the content of a review once the review has a place. So the reviews of this round have
        // replaced the reviews of the round before.
        for stream in slow.iter_mut().rev().take(places) {
            let mut answer = [0; 25];
            stream.read_exact(&mut answer).await.expect("a place");
            assert_eq!(&answer[..], b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
    // The answer shows that the review took the place of a slow one: the server rejects a review that has waited for
    // LARGE_WAIT_MAX, and the slow ones may last for REQUEST_MAX.
    const { assert!(LARGE_WAIT_MAX.as_millis() < REQUEST_MAX.as_millis()) };
    let request = pod("quiet", &json!({ "example.org/notes": "x".repeat(1 << 20) }));
    assert_eq!(webhooks.inject(&request).await["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn a_large_review_keeps_its_place_when_reviews_that_arrived_earlier_enter_after_it() {
    let (_, known) = watch::channel(Arc::default());
    let (_, options) = watch::channel(Arc::default());
    let (_, trusting) = watch::channel(BTreeSet::default());
    let (changes, _) = mpsc::channel(1);
    let namespaces = Namespaces::new(known, ApiServer::default().client());
    let server = Server::new(Reviewer { namespaces, options, changes, trusting }, Arc::default());
    let source = Source::of(Ipv4Addr::LOCALHOST.into());
    let mut held = Vec::new();
    for _ in 0..server.door.large_reviews {
        held.push(server.large_place(source).await.expect("a free place"));
    }
    let mut early: Vec<_> = held.iter().map(|_| Box::pin(server.large_place(source))).collect();
    for waiting in &mut early {
        assert!(waiting.now_or_never().is_none(), "it waits");
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    let mut late = Box::pin(server.large_place(source));
    assert!((&mut late).now_or_never().is_none(), "it waits");
    // The process stalls until all have waited long enough. Then the last to arrive is the first to run.
    tokio::time::advance(LARGE_PATIENCE).await;
    let mut place = late.now_or_never().expect("its wait is over").expect("an incomplete review yields");
    for waiting in early {
        held.push(waiting.now_or_never().expect("its wait is over").expect("an incomplete review yields"));
    }
    assert!(place.hold(pending::<()>()).now_or_never().is_none(), "it has lost its place");
}

/// Has a Pod reviewed on a connection. Returns the answer.
async fn reviewed(stream: &mut TlsStream<TcpStream>) -> String {
    let body = review(&pod("quiet", &json!({})));
    send(stream, "POST /inject", "Content-Type: application/json\r\n", &body).await;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let webhooks = Webhooks::start().await;
    let mut stream = webhooks.connect().await;
    for _ in 0..3 {
        reviewed(&mut stream).await;
    }
}

#[tokio::test]
async fn a_replica_that_ends_answers_every_request_and_keeps_no_connection() {
    let webhooks = Webhooks::start().await;
    let (mut used, mut idle) = (webhooks.connect().await, webhooks.connect().await);
    for stream in [&mut used, &mut idle] {
        let answer = reviewed(stream).await;
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    webhooks.phase.send_replace(Phase::Ending);
    let answer = reviewed(&mut used).await;
    assert!(answer.contains("connection: close"), "{answer}");
    let mut late = webhooks.connect().await;
    let answer = reviewed(&mut late).await;
    assert!(answer.contains("connection: close"), "{answer}");
    for stream in [&mut used, &mut late, &mut idle] {
        let ended = timeout(10 * IDLE_AT_END, stream.read(&mut [0; 1])).await.expect("it is closed");
        assert_eq!(ended.expect("without an error"), 0);
    }
}
