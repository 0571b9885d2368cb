//! Calls of all four kinds, cancellation by both sides, and back-pressure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use leno_tests::backend::Backend;
use leno_tests::client::{self, Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::messages;
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::scripted::{Reply, Scripted};
use leno_tests::wire::{self, code, flag};

/// A server, a proxy in front of it, and a client.
async fn one_of_each() -> (Backend, Proxy, Client) {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    (backend, proxy, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_every_size_come_back_unchanged() {
    let (_backend, _proxy, client) = one_of_each().await;
    // Sizes around the frame size (16,384), around the first window (65,535), and far beyond both.
    for size in [0, 1, 16_378, 16_379, 16_380, 65_530, 65_531, 1 << 20, 16 << 20] {
        let payload: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let answer = client.call(&Call::new("Echo"), &payload).await;
        assert_eq!(answer.grpc_status(), Some(0), "{size} bytes");
        assert!(answer.body == messages::message(&payload), "{size} bytes came back as {}", answer.body.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_small_messages_arrive_in_a_server_stream() {
    let (_backend, _proxy, client) = one_of_each().await;
    let answer = client.call(&Call::new("Many").with("reply-messages", "10000").with("reply-bytes", "7"), b"").await;
    assert_eq!(answer.grpc_status(), Some(0), "{:?}", answer.trailers);
    assert_eq!(messages::payloads(answer.body), vec![Bytes::from_static(b"xxxxxxx"); 10_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_small_messages_arrive_in_a_client_stream() {
    let (_backend, _proxy, client) = one_of_each().await;
    let (response, mut request) = client.open(&Call::new("Echo")).await.expect("the call begins");
    let message = messages::message(b"payload");
    for _ in 0..10_000 {
        messages::send(&mut request, message.clone(), false).await.expect("it is sent");
    }
    messages::send(&mut request, Bytes::new(), true).await.expect("the stream ends");
    let answer = client::answer(response).await.expect("an answer");
    assert_eq!(answer.grpc_status(), Some(0), "{:?}", answer.trailers);
    assert_eq!(messages::payloads(answer.body), vec![Bytes::from_static(b"payload"); 10_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_back_and_forth_without_delay() {
    let (_backend, _proxy, client) = one_of_each().await;
    let (response, mut request) = client.open(&Call::new("Bidi")).await.expect("the call begins");
    // The response's headers arrive although the request has sent no content yet.
    let mut body = response.await.expect("headers").into_body();
    let talk = async {
        for number in 0..500_u32 {
            let message = messages::message(&number.to_be_bytes());
            messages::send(&mut request, message.clone(), false).await?;
            assert_eq!(client::read_at_least(&mut body, message.len()).await?, message);
        }
        messages::send(&mut request, Bytes::new(), true).await?;
        messages::read(&mut body).await?;
        body.trailers().await
    };
    // A round trip takes well below a millisecond, but 40 ms if one of the programs delays bytes.
    let trailers = tokio::time::timeout(Duration::from_secs(15), talk).await.expect("500 turns in fifteen seconds");
    let trailers = trailers.expect("no reset").expect("trailers");
    assert_eq!(trailers.get("grpc-status").map(http::HeaderValue::as_bytes), Some(&b"0"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trailers_only_answer_stays_one() {
    let (_backend, _proxy, client) = one_of_each().await;
    let answer = client.call(&Call::new("Echo").with("reply-status", "5"), b"hello").await;
    assert_eq!(answer.headers.get("grpc-status").map(http::HeaderValue::as_bytes), Some(&b"5"[..]), "{answer:?}");
    assert!(answer.trailers.is_empty() && answer.body.is_empty(), "{answer:?}");
    assert!(!answer.headers.contains_key("leno-proxy-error"), "the server's own error: {answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_cancels_is_heard_by_the_server() {
    let (backend, proxy, client) = one_of_each().await;
    let (response, mut request) = client.open(&Call::new("Hang")).await.expect("the call begins");
    messages::send(&mut request, messages::message(b"hello"), true).await.expect("it is sent");
    wait_for("the server has the call", Duration::from_secs(20), || (backend.calls() == 1).then_some(()));
    request.send_reset(h2::Reason::CANCEL);
    drop(response);

    let heard = || (backend.seen().resets.load(Ordering::Relaxed) == 1).then_some(());
    wait_for("the server hears of it", Duration::from_secs(20), heard);
    assert!(proxy.scrape().sum("leno_cancelled_total", &[]) >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hangs_up_cancels_all_its_calls() {
    let (backend, proxy, client) = one_of_each().await;
    let other = Client::connect(proxy.outbound(), ECHO).await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        let (response, mut request) = client.open(&Call::new("Hang")).await.expect("the call begins");
        messages::send(&mut request, messages::message(b"hello"), true).await.expect("it is sent");
        calls.push((response, request));
    }
    wait_for("the server has the calls", Duration::from_secs(20), || (backend.calls() == 5).then_some(()));
    drop(calls);
    drop(client);

    let heard = || (backend.seen().resets.load(Ordering::Relaxed) == 5).then_some(());
    wait_for("the server hears of all five", Duration::from_secs(20), heard);
    assert_eq!(other.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0));
    assert!(backend.seen().punishments().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cancels_is_heard_by_the_caller_with_its_code() {
    let cancelling = Scripted::start(|begun| {
        let headers = wire::headers(begun.stream, flag::NONE, &wire::answer_block(&[]));
        Reply::Send([headers, wire::reset(begun.stream, code::CANCEL)].concat())
    });
    let proxy = Proxy::start(&[Service::echo(&[cancelling.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (response, _request) = client.open(&Call::new("Echo")).await.expect("the call begins");
    let error = client::answer(response).await.expect_err("the server cancelled");
    assert_eq!(error.reason(), Some(h2::Reason::CANCEL), "{error}");
    assert_eq!(cancelling.requests(), 1, "an answer that has begun cannot be asked for again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_pauses_holds_the_server_back_and_not_the_proxy_full() {
    let (_backend, proxy, client) = one_of_each().await;
    let total = 100 << 20;
    let call = Call::new("Many").with("reply-messages", "100").with("reply-bytes", &(1 << 20).to_string());
    let (response, mut request) = client.open(&call).await.expect("the call begins");
    messages::send(&mut request, Bytes::new(), true).await.expect("it is sent");
    let mut body = response.await.expect("headers").into_body();
    client::read_at_least(&mut body, 1).await.expect("the first bytes");
    let before_kib = proxy.resident_kib();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grown_kib = proxy.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 4 * 1024, "the proxy holds {grown_kib} KiB for a caller that does not read");

    // Other calls are not blocked, although they share the connection to the server.
    let other = Client::connect(proxy.outbound(), ECHO).await;
    let answer = other.call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(0));
    let rest = messages::read(&mut body).await.expect("the rest arrives once it is read");
    assert!(rest.len() > total - (1 << 20), "only {} bytes of {total}", rest.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_read_holds_the_caller_back() {
    // The server never enlarges its flow-control windows, so it accepts only the first 65,535 bytes.
    let silent = Scripted::start(|_| Reply::Send(Vec::new()));
    let proxy = Proxy::start(&[Service::echo(&[silent.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (_response, mut request) = client.open(&Call::new("Echo")).await.expect("the call begins");
    let before_kib = proxy.resident_kib();
    let all = messages::send(&mut request, Bytes::from(vec![0; 64 << 20]), true);
    let sent = tokio::time::timeout(Duration::from_secs(1), all).await;
    assert!(sent.is_err(), "64 MiB went into a proxy whose server reads nothing");
    let grown_kib = proxy.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 4 * 1024, "the proxy holds {grown_kib} KiB for a server that does not read");
}
