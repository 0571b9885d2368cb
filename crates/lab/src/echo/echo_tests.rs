use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::proto::echo_client::EchoClient;
use super::proto::{CountRequest, EchoRequest, EchoResponse, SetDelayRequest, SetFailureRequest};
use super::*;

/// Starts a server that lives as long as the test's runtime. Returns its address.
pub(crate) async fn start_server(name: &str, delay_ms: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let work = Arc::new(Work::new(delay_ms, 0));
    tokio::spawn(serve_on(listener, name.to_owned(), work, Upstreams::default(), std::future::pending()));
    address
}

/// Like [`start_server`], for HTTP/1.1.
pub(crate) async fn start_http1_server(name: &str, delay_ms: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    tokio::spawn(http1::serve(listener, name.to_owned(), Arc::new(Work::new(delay_ms, 0))));
    address
}

async fn client_of_a_new_server() -> EchoClient<Channel> {
    let address = start_server("s1", 0).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a valid address");
    EchoClient::new(endpoint.connect().await.expect("the server listens"))
}

fn request(payload: &str) -> EchoRequest {
    EchoRequest { payload: payload.into(), ..EchoRequest::default() }
}

fn response(number: u32, payload: &str) -> EchoResponse {
    EchoResponse { server: "s1".to_owned(), payload: payload.into(), number }
}

#[tokio::test]
async fn unary_echoes_the_payload_and_names_the_server() {
    let mut client = client_of_a_new_server().await;
    let answer = client.unary(request("hello")).await.expect("an answer");
    assert_eq!(answer.into_inner(), response(0, "hello"));
}

#[tokio::test]
async fn response_bytes_replaces_the_payload_by_zeros() {
    let mut client = client_of_a_new_server().await;
    let asked = EchoRequest { response_bytes: 3, ..request("hello") };
    let answer = client.unary(asked).await.expect("an answer");
    assert_eq!(answer.into_inner().payload, [0; 3]);
}

#[tokio::test]
async fn a_field_out_of_range_is_refused_by_name() {
    let mut client = client_of_a_new_server().await;
    let asked = EchoRequest { response_bytes: MAX_PAYLOAD_BYTES + 1, ..EchoRequest::default() };
    let status = client.unary(asked).await.expect_err("over the limit");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "response_bytes is 16777217; use 0 to 16777216");
}

#[tokio::test]
async fn server_stream_sends_its_messages_and_then_the_status_asked_for() {
    let mut client = client_of_a_new_server().await;
    let asked = EchoRequest { messages: 2, fail_with: Code::Aborted as u32, ..request("x") };
    let mut answers = client.server_stream(asked).await.expect("an answer").into_inner();
    assert_eq!(answers.message().await.expect("a message"), Some(response(0, "x")));
    assert_eq!(answers.message().await.expect("a message"), Some(response(1, "x")));
    let status = answers.message().await.expect_err("the end that was asked for");
    assert_eq!(status.code(), Code::Aborted);
}

#[tokio::test]
async fn client_stream_joins_the_payloads() {
    let mut client = client_of_a_new_server().await;
    let requests = stream::iter([request("a"), request("b"), request("c")]);
    let answer = client.client_stream(requests).await.expect("an answer");
    assert_eq!(answer.into_inner(), response(0, "abc"));
}

#[tokio::test]
async fn bidi_answers_each_message_before_the_next_is_sent() {
    let mut client = client_of_a_new_server().await;
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let requests =
        stream::unfold(receive, |mut receive| async { receive.recv().await.map(|request| (request, receive)) });
    send.send(request("0")).await.expect("room");
    let mut answers = client.bidi(requests.boxed()).await.expect("an answer").into_inner();
    for number in 0..3u32 {
        let answer = answers.message().await.expect("a message");
        assert_eq!(answer, Some(response(number, &number.to_string())));
        send.send(request(&(number + 1).to_string())).await.expect("room");
    }
}

#[tokio::test]
async fn set_delay_slows_the_calls_that_follow() {
    let mut client = client_of_a_new_server().await;
    let delay = SetDelayRequest { delay_ms: 40, ..SetDelayRequest::default() };
    client.set_delay(delay).await.expect("an answer");
    let start = Instant::now();
    client.unary(request("")).await.expect("an answer");
    assert!(start.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn set_failure_fails_calls_at_once_until_it_is_taken_back() {
    let mut client = client_of_a_new_server().await;
    let failure = |code| SetFailureRequest { code, percent: 0 };
    client.set_failure(failure(Code::Unavailable as u32)).await.expect("an answer");
    let start = Instant::now();
    let asked = EchoRequest { delay_ms: 10_000, ..request("") };
    let status = client.unary(asked).await.expect_err("it fails");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(start.elapsed() < Duration::from_secs(5), "it took the time of a good call");

    client.set_failure(failure(0)).await.expect("an answer");
    client.unary(request("")).await.expect("it answers again");
    let status = client.set_failure(failure(17)).await.expect_err("there is no such status");
    assert!(status.message().contains("code is 17"), "{status}");
}

#[tokio::test]
async fn count_has_the_failed_calls_too_and_none_of_its_own() {
    let mut client = client_of_a_new_server().await;
    client.unary(request("")).await.expect("an answer");
    client.set_failure(SetFailureRequest { code: Code::Internal as u32, percent: 0 }).await.expect("an answer");
    client.unary(request("")).await.expect_err("it fails");
    let count = client.count(CountRequest {}).await.expect("an answer").into_inner();
    // The failed call counts as a call. Its message does not count: the server failed the call before it processed the
    // message.
    assert_eq!((count.calls, count.messages), (2, 1));
}

#[tokio::test]
async fn a_share_of_the_calls_is_slower_and_a_share_fails() {
    let mut client = client_of_a_new_server().await;
    let delay = SetDelayRequest { slow_percent: 100, slow_ms: 40, ..SetDelayRequest::default() };
    client.set_delay(delay).await.expect("an answer");
    let start = Instant::now();
    client.unary(request("")).await.expect("an answer");
    assert!(start.elapsed() >= Duration::from_millis(40));

    client.set_delay(SetDelayRequest::default()).await.expect("an answer");
    client.set_failure(SetFailureRequest { code: Code::Unavailable as u32, percent: 50 }).await.expect("an answer");
    let mut failed = 0;
    for _ in 0..400 {
        failed += u32::from(client.unary(request("")).await.is_err());
    }
    // The range is eight standard deviations wide on each side. So a correct server fails this test only once in
    // 10^15 runs.
    assert!((120..=280).contains(&failed), "{failed} of 400 calls failed");
    let status = client.set_failure(SetFailureRequest { code: 14, percent: 101 }).await.expect_err("over 100");
    assert!(status.message().contains("percent is 101; use 0 to 100"), "{status}");
}
