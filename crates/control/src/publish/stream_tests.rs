use std::sync::atomic::{AtomicUsize, Ordering};

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use futures_util::stream::{StreamExt, iter, pending};
use http_body_util::StreamBody;
use hyper::body::Frame;
use leno_xds::limits::NAME_MAX_BYTES;
use tonic::body;
use tonic_prost::ProstDecoder;

use super::super::accounts::Holder;
use super::super::delta::Delta;
use super::super::fixtures::{service, state_with, subscribe};
use super::super::limits::{
    Capacity, READ_BURST_BYTES, READ_BYTES_PER_SECOND, REFUSED_NAMES_MAX, REFUSED_STREAM_MAX, REFUSED_WARNING_PAUSE,
    UNREAD_MAX,
};
use super::super::metered::Metered;
use super::super::service::PREFIX_BYTES;
use super::super::session::{Batch, Refusal, Variant};
use super::*;
use crate::accept::Presence;

/// Number of requests of [`Counted`] that have been dropped.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A request that increments [`DROPPED`] when it is dropped.
#[derive(Message)]
struct Request {
    #[prost(message, optional, tag = "1")]
    request: Option<DeltaDiscoveryRequest>,
}

impl Drop for Request {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Incremental xDS with requests of the type [`Request`].
struct Counted;

impl Exchange for Counted {
    type Request = Request;
    type Response = DeltaDiscoveryResponse;

    const VARIANT: Variant = Variant::Delta;

    fn node(request: &Request) -> Option<&Node> {
        Delta::node(request.request.as_ref()?)
    }

    fn names(request: &Request) -> usize {
        request.request.as_ref().map_or(0, Delta::names)
    }

    fn take(session: &mut Session, request: &Request, context: Context<'_>) -> Result<Option<(Kind, Answer)>, Refusal> {
        request.request.as_ref().map_or(Ok(None), |request| Delta::take(session, request, context))
    }

    fn respond(batch: Batch) -> DeltaDiscoveryResponse {
        Delta::respond(batch)
    }

    fn refuse(refused: &RefusedNames, nonce: String) -> Option<DeltaDiscoveryResponse> {
        Delta::refuse(refused, nonce)
    }
}

/// A control plane that allows few names.
fn control_plane() -> Arc<State> {
    let capacity = Capacity { streams_max: 100, names_max: 50, bytes_max: 1 << 20 };
    Arc::new(state_with(&service("echo", &["10.0.0.1"]), capacity))
}

fn account(state: &State) -> Account {
    let address = [127, 0, 0, 1].into();
    state.accounts.open(Holder::Address(address), address, Instant::now()).expect("there is room")
}

/// Opens a stream whose client sends these requests and then nothing; returns the stream's responses.
fn open<E: Exchange>(state: &Arc<State>, requests: &[&E::Request]) -> mpsc::Receiver<Response> {
    open_with::<E>(state, account(state), Presence::default(), requests)
}

/// Like [`open`], for an account and a connection.
fn open_with<E: Exchange>(
    state: &Arc<State>,
    account: Account,
    presence: Presence,
    requests: &[&E::Request],
) -> mpsc::Receiver<Response> {
    let frame = |request: &&E::Request| Ok::<_, Status>(Frame::data(framed(*request).expect("short enough")));
    let frames: Vec<_> = requests.iter().map(frame).collect();
    let frames = iter(frames).chain(pending());
    let body = Metered::new(body::Body::new(StreamBody::new(frames)), account.hold_requests());
    let meter = body.meter();
    let requests = Streaming::new_request(ProstDecoder::default(), body, None, None);
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Peer { address, identity: None, presence };
    let (sender, responses) = mpsc::channel(4);
    tokio::spawn(serve::<E>(state.clone(), account, peer, Requests { requests, meter }, sender));
    responses
}

fn introduced(names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { node: Some(Node::default()), ..subscribe(Kind::Cluster, names) }
}

#[tokio::test]
async fn the_first_request_is_not_kept_as_long_as_its_stream() {
    let request = Request { request: Some(introduced(&["echo.default:80"])) };
    let mut responses = open::<Counted>(&control_plane(), &[&request]);
    std::mem::forget(request);
    assert!(responses.recv().await.is_some_and(|response| response.is_ok()));
    assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_first_request_of_a_stream_waits_for_its_turn_too() {
    const WAIT: Duration = Duration::from_millis(100);
    let state = control_plane();
    let spent = READ_BURST_BYTES as usize + READ_BYTES_PER_SECOND as usize / 10;
    let other_stream = account(&state);
    let began = Instant::now();
    other_stream.paces().read.spend(spent, began);
    let mut responses = open::<Delta>(&state, &[&introduced(&["echo.default:80"])]);
    assert!(responses.recv().await.is_some_and(|response| response.is_ok()));
    assert!(began.elapsed() >= WAIT, "{:?}", began.elapsed());
}

fn response(framed: &[u8]) -> DeltaDiscoveryResponse {
    DeltaDiscoveryResponse::decode(framed.get(PREFIX_BYTES..).unwrap_or_default()).expect("a response")
}

#[tokio::test]
async fn a_stream_goes_on_without_the_names_above_a_limit() {
    let state = control_plane();
    let strangers: Vec<String> = (0..100).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = ["echo.default:80"].into_iter().chain(strangers.iter().map(String::as_str)).collect();
    let mut responses = open::<Delta>(&state, &[&introduced(&names)]);
    let refused = response(&responses.recv().await.expect("an answer").expect("the stream goes on"));
    assert_eq!(refused.resource_errors.len(), 51, "all clients may have 50 names");
    let first = response(&responses.recv().await.expect("an answer").expect("the stream goes on"));
    assert_eq!((first.resources.len(), first.removed_resources.len()), (1, 49));
    let text = state.metrics.export(1);
    assert!(text.contains("leno_xds_refused_names_total{kind=\"cluster\"} 51"), "{text}");
    assert!(text.contains("leno_xds_refused_streams_total 0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_refused_names_connects_again_after_a_while() {
    let state = control_plane();
    let strangers: Vec<String> = (0..60).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = strangers.iter().map(String::as_str).collect();
    let began = tokio::time::Instant::now();
    let mut responses = open::<Delta>(&state, &[&introduced(&names)]);
    let ended = loop {
        if let Err(status) = *responses.recv().await.expect("a status") {
            break status;
        }
    };
    assert_eq!(ended.code(), Code::Unavailable, "{}", ended.message());
    let passed = began.elapsed();
    assert!((REFUSED_STREAM_MAX / 2..REFUSED_STREAM_MAX + Duration::from_secs(1)).contains(&passed), "{passed:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_gets_only_so_many_answers_about_refused_names() {
    let state = Arc::new(state_with("", Capacity { streams_max: 100, names_max: 1, bytes_max: 100_000 }));
    let other_stream = account(&state);
    let unread = other_stream.hold(48_000);
    let names: Vec<String> = (0..100).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut responses = open::<Delta>(&state, &[&introduced(&names), &subscribe(Kind::Cluster, &names)]);
    let first = responses.recv().await.expect("an answer").expect("the stream goes on");
    let second = tokio::time::timeout(Duration::from_millis(300), responses.recv()).await;
    assert!(second.is_err(), "no further request is read while so much is unread");
    drop((first, unread));
    let second = loop {
        let answer = response(&responses.recv().await.expect("an answer").expect("the stream goes on"));
        if !answer.resource_errors.is_empty() {
            break answer;
        }
    };
    assert_eq!(second.resource_errors.len(), 99);
    drop(other_stream);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_displaced_for_its_bytes_loses_its_connection_at_once() {
    let other = Holder::Identity("spiffe://cluster.local/ns/shop/sa/web".parse().expect("a SPIFFE id"));
    for (streams_max, closes_after) in [(100, Duration::ZERO), (2, DISPLACED_MAX)] {
        let state = Arc::new(state_with("", Capacity { streams_max, names_max: 50, bytes_max: 1_000 }));
        let (slow, presence) = (account(&state), Presence::default());
        let unread = slow.hold(600);
        let mut responses = open_with::<Delta>(&state, slow, presence.clone(), &[&introduced(&["echo.default:80"])]);
        let _second_stream = account(&state);
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        let opened = state.accounts.open(other.clone(), [10, 0, 0, 1].into(), Instant::now());
        let displacer = opened.expect("there is room");
        let mut request = displacer.hold_requests();
        if closes_after.is_zero() {
            assert_eq!(request.grow(450), Ok(()));
        }
        let status = loop {
            if let Err(status) = *responses.recv().await.expect("a status") {
                break status;
            }
        };
        assert_eq!(status.code(), Code::ResourceExhausted, "{}", status.message());
        while presence.closing().is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        let passed = began.elapsed();
        assert!((closes_after..closes_after + Duration::from_secs(1)).contains(&passed), "{passed:?}");
        drop((unread, request));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_response_unread_loses_its_stream_and_then_its_connection() {
    let (state, presence) = (control_plane(), Presence::default());
    let began = tokio::time::Instant::now();
    let request = introduced(&["echo.default:80"]);
    let mut responses = open_with::<Delta>(&state, account(&state), presence.clone(), &[&request]);
    let unread = responses.recv().await.expect("a response").expect("the stream goes on");
    let status = (*responses.recv().await.expect("a status")).expect_err("the stream ends");
    assert_eq!(status.code(), Code::Unavailable, "{}", status.message());
    assert!(status.message().contains("has not read a response for 60 s"), "{}", status.message());
    let passed = began.elapsed();
    assert!((UNREAD_MAX..UNREAD_MAX + Duration::from_secs(1)).contains(&passed), "{passed:?}");
    while presence.closing().is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    let passed = began.elapsed() - UNREAD_MAX;
    assert!((DISPLACED_MAX..DISPLACED_MAX + Duration::from_secs(1)).contains(&passed), "{passed:?}");
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_keeps_its_stream() {
    let mut responses = open::<Delta>(&control_plane(), &[&introduced(&["echo.default:80"])]);
    let unread = responses.recv().await.expect("a response").expect("the stream goes on");
    sleep(UNREAD_MAX - Duration::from_secs(1)).await;
    drop(unread);
    assert!(tokio::time::timeout(UNREAD_MAX * 3, responses.recv()).await.is_err(), "nothing more is sent");
}

/// Otherwise a client could keep its responses unread by a request that ends its stream.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_response_unread_after_the_end_of_its_stream_loses_its_connection() {
    let (state, presence) = (control_plane(), Presence::default());
    let began = tokio::time::Instant::now();
    let long = "n".repeat(NAME_MAX_BYTES + 1);
    let requests = [&introduced(&["echo.default:80"]), &subscribe(Kind::Cluster, &[long.as_str()])];
    let mut responses = open_with::<Delta>(&state, account(&state), presence.clone(), &requests);
    let unread = responses.recv().await.expect("a response").expect("the stream goes on");
    (*responses.recv().await.expect("a status")).expect_err("the name is too long");
    while presence.closing().is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    let passed = began.elapsed();
    assert!((UNREAD_MAX..UNREAD_MAX + Duration::from_secs(1)).contains(&passed), "{passed:?}");
    drop(unread);
}

#[test]
fn a_warning_about_displaced_streams_is_rare_and_counts_them() {
    let (state, now) = (control_plane(), Instant::now());
    let later = [Duration::ZERO, REFUSED_WARNING_PAUSE / 3, REFUSED_WARNING_PAUSE / 2, REFUSED_WARNING_PAUSE];
    assert_eq!(later.map(|passed| state.displaced_to_warn_of(now + passed)), [Some(1), None, None, Some(3)]);
}

#[test]
fn a_warning_about_refused_names_is_rare() {
    let (state, now) = (control_plane(), Instant::now());
    assert!(state.may_warn_of_refused_names(now));
    assert!(!state.may_warn_of_refused_names(now + REFUSED_WARNING_PAUSE / 2));
    assert!(state.may_warn_of_refused_names(now + REFUSED_WARNING_PAUSE));
}

#[tokio::test]
async fn a_request_that_is_refused_is_paid_for() {
    let state = control_plane();
    let other_stream = account(&state);
    let names: Vec<String> = (0..10_000).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let started = Instant::now();
    other_stream.paces().read.spend(READ_BURST_BYTES as usize, started);
    let mut responses = open::<Delta>(&state, &[&introduced(&names)]);
    let refused = responses.recv().await.expect("an answer").expect("the stream goes on");
    assert_eq!(response(&refused).resource_errors.len(), REFUSED_NAMES_MAX);
    // An earlier time refills nothing. The stream may have refilled what the time of the answer was worth.
    let owed = other_stream.paces().read.wait(started).unwrap_or_default();
    assert!(owed + started.elapsed() > Duration::from_millis(50), "{owed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_the_first_requests_of_a_client_that_comes_back() {
    const GONE: &str = "gone.default:80";
    let versions = [(GONE.to_owned(), "0123".to_owned())].into();
    let request = DeltaDiscoveryRequest { initial_resource_versions: versions, ..introduced(&[GONE]) };
    let began = tokio::time::Instant::now();
    let mut responses = open::<Delta>(&control_plane(), &[&request]);
    let first = response(&responses.recv().await.expect("a response").expect("the stream goes on"));
    assert_eq!(first.removed_resources, [GONE]);
    assert!(began.elapsed() >= BEGINNING, "{:?}", began.elapsed());
}
