//! The proxy enforces `grpc-timeout`, and forwards the remaining time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{self, Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::messages;
use leno_tests::proxy::{Proxy, wait_for};

const DEADLINE_EXCEEDED: u8 = 4;

/// Waits until the server counts a reset call.
fn wait_for_reset(backend: &Backend) {
    let reset = || (backend.seen().resets.load(Ordering::Relaxed) == 1).then_some(());
    wait_for("the server hears that the call is over", Duration::from_secs(20), reset);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_past_its_deadline_ends_for_the_caller_and_for_the_server() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;

    let start = Instant::now();
    let answer = client.call(&Call::new("Hang").with("grpc-timeout", "1S"), b"hello").await;
    let waited = start.elapsed();

    assert_eq!(answer.grpc_status(), Some(DEADLINE_EXCEEDED), "{answer:?}");
    assert!(answer.field("leno-proxy-error").is_some(), "{answer:?}");
    assert!(waited >= Duration::from_millis(990), "ended after {waited:?}, before its deadline");
    // Without the deadline, the call would hang until the client gives up after 20 seconds.
    assert!(waited < Duration::from_secs(6), "ended after {waited:?}, long after its deadline");
    wait_for_reset(&backend);
    assert!(proxy.scrape().sum("leno_deadline_exceeded_total", &[]) >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_holds_in_the_middle_of_a_stream() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;

    let call = Call::new("Bidi").with("grpc-timeout", "2S");
    let (response, mut request) = client.open(&call).await.expect("the call begins");
    let message = messages::message(b"hello");
    messages::send(&mut request, message.clone(), false).await.expect("it is sent");
    let mut body = response.await.expect("the answer begins").into_body();
    client::read_at_least(&mut body, message.len()).await.expect("the first message comes back");

    // The response has begun, so it ends with the status in trailers, or with a reset.
    let end = tokio::time::timeout(Duration::from_secs(10), async {
        messages::read(&mut body).await?;
        body.trailers().await
    });
    match end.await.expect("the stream ends at its deadline") {
        Ok(trailers) => {
            let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
            assert_eq!(status.map(http::HeaderValue::as_bytes), Some(&b"4"[..]), "{trailers:?}");
        }
        Err(error) => assert!(error.is_reset(), "{error}"),
    }
    wait_for_reset(&backend);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_told_what_is_left_of_the_time() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for (sent, at_most) in [("9500m", Duration::from_millis(9_500)), ("10S", Duration::from_secs(10))] {
        client.call(&Call::new("Echo").with("grpc-timeout", sent), b"hello").await;
        let passed_on = backend.seen().last_header("grpc-timeout").expect("a deadline is passed on");
        let left = grpc_timeout(&passed_on);
        assert!(left <= at_most, "{passed_on} is more than the {sent} that the caller gave");
        assert!(left > at_most - Duration::from_secs(5), "{passed_on} is much less than {sent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_a_deadline_waits() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let answer = client.call(&Call::new("Echo").with("delay-ms", "3000"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    assert_eq!(backend.seen().last_header("grpc-timeout"), None, "the proxy made a deadline up");
}

/// Parses a `grpc-timeout` as the gRPC protocol defines it.
fn grpc_timeout(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    assert!(number.len() <= 8, "{text}: at most 8 digits");
    let number: u64 = number.parse().expect("a number");
    match unit {
        "n" => Duration::from_nanos(number),
        "u" => Duration::from_micros(number),
        "m" => Duration::from_millis(number),
        "S" => Duration::from_secs(number),
        _ => panic!("{text}: a unit this test did not expect"),
    }
}
