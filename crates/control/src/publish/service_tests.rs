use std::convert::Infallible;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use futures_util::stream::poll_fn;
use http_body_util::{BodyExt, Full, StreamBody};
use leno_xds::Kind;
use tonic::codec::Streaming;
use tower_service::Service as _;

use super::super::fixtures::{ack, names, service, state, state_with, subscribe};
use super::super::limits::{Capacity, REQUESTS_BURST};
use super::super::subject::Subject;
use super::*;
use crate::accept::Presence;

const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

fn control_plane() -> Service {
    Service { state: Arc::new(state(&service("echo", &["10.0.0.1"]))) }
}

/// The response to a call.
async fn call(request: Request<body::Body>) -> Response<body::Body> {
    control_plane().call(request).await.expect("it answers everybody")
}

/// A request for a method, with a body.
fn request(path: &str, body: body::Body) -> Request<body::Body> {
    let mut request = Request::post(path).body(body).expect("a request");
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Peer { address, identity: None, presence: Presence::default() };
    request.extensions_mut().insert(peer);
    request
}

/// A body of these messages, after which the call is half-closed.
fn messages(messages: &[DeltaDiscoveryRequest]) -> body::Body {
    let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message).expect("short enough")).collect();
    body::Body::new(Full::new(Bytes::from(bytes)))
}

/// A body that the test sends message by message.
fn conversation() -> (mpsc::Sender<Result<Frame<Bytes>, Infallible>>, body::Body) {
    let (sender, mut frames) = mpsc::channel(4);
    (sender, body::Body::new(StreamBody::new(poll_fn(move |cx| frames.poll_recv(cx)))))
}

async fn send(sender: &mpsc::Sender<Result<Frame<Bytes>, Infallible>>, message: DeltaDiscoveryRequest) {
    let frame = Frame::data(framed(&message).expect("short enough"));
    sender.send(Ok(frame)).await.expect("the stream is open");
}

fn introduction() -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { node: Some(Node::default()), ..subscribe(Kind::Cluster, &["echo.default:80"]) }
}

fn grpc_status(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status").and_then(|status| status.to_str().ok())
}

#[test]
fn a_message_takes_as_much_room_as_it_is_long() {
    let message = subscribe(Kind::Cluster, &["echo.default:80"]);
    let bytes = framed(&message).expect("short enough");
    let (prefix, body) = bytes.split_at(PREFIX_BYTES);
    assert_eq!(prefix[0], 0, "not compressed");
    assert_eq!(prefix[1..], u32::try_from(body.len()).expect("short").to_be_bytes());
    assert_eq!(DeltaDiscoveryRequest::decode(body), Ok(message));
    let length = bytes.len();
    assert_eq!(bytes.try_into_mut().map(|bytes| bytes.capacity()), Ok(length));
}

#[tokio::test]
async fn a_stream_is_answered_and_ends_well_when_the_client_has_said_all() {
    let (sender, body) = conversation();
    send(&sender, introduction()).await;
    let mut service = control_plane();
    let response = service.call(request(DELTA, body)).await.expect("it answers everybody");
    assert_eq!(response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes), Some(&b"application/grpc"[..]));

    let decoder = ProstDecoder::<DeltaDiscoveryResponse>::default();
    let status = response.status();
    let mut responses = Streaming::new_response(decoder, response.into_body(), status, None, None);
    let first = responses.message().await.expect("no error").expect("a response");
    assert_eq!(names(&first), ["echo.default:80"]);
    send(&sender, ack(&first)).await;
    drop(sender);
    assert!(responses.message().await.expect("it ends well").is_none());
    assert_eq!(service.state.clients.count(), 0);
}

#[tokio::test]
async fn a_stream_that_is_refused_ends_with_the_reason_in_its_trailers() {
    let nobody = DeltaDiscoveryRequest { node: None, ..introduction() };
    let response = call(request(DELTA, messages(&[nobody]))).await;
    let collected = response.into_body().collect().await.expect("it ends well");
    let trailers = collected.trailers().expect("a gRPC response has them");
    assert_eq!(grpc_status(trailers), Some("3"), "{trailers:?}");
}

#[tokio::test]
async fn a_request_that_is_too_long_ends_its_stream() {
    let mut body = vec![0];
    body.extend(u32::try_from(REQUEST_MAX_BYTES + 1).expect("short").to_be_bytes());
    let response = call(request(DELTA, body::Body::new(Full::new(Bytes::from(body))))).await;
    let collected = response.into_body().collect().await.expect("it ends well");
    assert_eq!(collected.trailers().and_then(grpc_status), Some("8"), "{collected:?}");
}

#[tokio::test]
async fn a_client_that_goes_is_forgotten() {
    let (sender, body) = conversation();
    send(&sender, introduction()).await;
    let mut service = control_plane();
    let mut response = service.call(request(DELTA, body)).await.expect("it answers everybody");
    assert!(response.body_mut().frame().await.is_some());
    assert_eq!(service.state.clients.count(), 1);
    drop(response);
    while service.state.clients.count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn unknown_methods_and_compressed_requests_are_not_implemented() {
    let response = call(request("/envoy.service.discovery.v3.AggregatedDiscoveryService/Other", messages(&[]))).await;
    assert_eq!(grpc_status(response.headers()), Some("12"));

    let mut compressed = request(DELTA, messages(&[introduction()]));
    compressed.headers_mut().insert(GRPC_ENCODING, HeaderValue::from_static("gzip"));
    let response = call(compressed).await;
    assert_eq!(grpc_status(response.headers()), Some("12"));
    assert_eq!(response.headers().get(GRPC_ACCEPT_ENCODING).map(HeaderValue::as_bytes), Some(&b"identity"[..]));
}

#[tokio::test]
async fn a_stream_too_many_of_an_account_is_refused_and_another_account_displaces_one() {
    let capacity = Capacity { streams_max: 2, names_max: 1_000, bytes_max: 1_000_000 };
    let mut service = Service { state: Arc::new(state_with(&service("echo", &["10.0.0.1"]), capacity)) };
    let (first_sender, body) = conversation();
    send(&first_sender, introduction()).await;
    let mut first = service.call(request(DELTA, body)).await.expect("it answers everybody");
    assert!(first.body_mut().frame().await.is_some());
    let (second_sender, body) = conversation();
    send(&second_sender, introduction()).await;
    let mut second = service.call(request(DELTA, body)).await.expect("it answers everybody");
    assert!(second.body_mut().frame().await.is_some());

    let refused = service.call(request(DELTA, messages(&[introduction()]))).await.expect("it answers everybody");
    assert_eq!(grpc_status(refused.headers()), Some("8"), "{refused:?}");
    let message = refused.headers().get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    assert!(message.contains("streams_max"), "{message}");
    assert_eq!(service.state.clients.count(), 2);

    let mut other = request(DELTA, messages(&[introduction()]));
    let peer =
        Peer { address: "127.0.0.2:1".parse().expect("an address"), identity: None, presence: Presence::default() };
    other.extensions_mut().insert(peer);
    let mut served = service.call(other).await.expect("it answers everybody");
    assert!(served.body_mut().frame().await.is_some_and(|frame| frame.is_ok_and(|frame| frame.is_data())));

    let collected = first.into_body().collect().await.expect("it ends well");
    let trailers = collected.trailers().expect("a gRPC response has them");
    assert_eq!(grpc_status(trailers), Some("8"), "the older stream is displaced: {trailers:?}");
    let message = trailers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    assert!(message.contains("streams_max"), "{message}");
    drop((first_sender, second_sender, second));
}

#[tokio::test]
async fn a_request_that_does_not_end_is_refused_when_it_takes_more_than_is_left_for_others() {
    let capacity = Capacity { streams_max: 10, names_max: 1_000, bytes_max: 200_000 };
    let mut service = Service { state: Arc::new(state_with("", capacity)) };
    let (sender, body) = conversation();
    let response = service.call(request(DELTA, body)).await.expect("it answers everybody");
    let mut begun = vec![0];
    begun.extend(u32::try_from(REQUEST_MAX_BYTES).expect("short").to_be_bytes());
    sender.send(Ok(Frame::data(Bytes::from(begun)))).await.expect("the stream is open");
    for _ in 0..10 {
        // The call may have ended.
        let _ = sender.send(Ok(Frame::data(Bytes::from(vec![0; 10_000])))).await;
    }
    let collected = response.into_body().collect().await.expect("it ends well");
    let trailers = collected.trailers().expect("a gRPC response has them");
    assert_eq!(grpc_status(trailers), Some("8"), "{trailers:?}");
    let message = trailers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    assert!(message.contains("bytes_max"), "{message}");
}

#[tokio::test]
async fn a_client_that_asks_faster_than_it_may_is_read_later_and_loses_nothing() {
    const MORE: u32 = 300;
    let (sender, body) = conversation();
    let mut service = control_plane();
    let response = service.call(request(DELTA, body)).await.expect("it answers everybody");
    let state = service.state.clone();
    let asks = tokio::spawn(async move {
        send(&sender, introduction()).await;
        for number in 0..REQUESTS_BURST + MORE {
            send(&sender, subscribe(Kind::Cluster, &[&format!("s{number}.default:80")])).await;
        }
        let last = format!("s{}.default:80", REQUESTS_BURST + MORE - 1);
        let subject = Subject::of(Kind::Cluster, &last, "default", "cluster.local").expect("a cluster's name");
        while !state.subscribers.has(&subject) {
            tokio::task::yield_now().await;
        }
    });
    let collected = response.into_body().collect().await.expect("it ends well");
    asks.await.expect("all was read");
    assert_eq!(collected.trailers().and_then(grpc_status), Some("0"), "{:?}", collected.trailers());
}
