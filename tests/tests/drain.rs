//! On SIGTERM, the proxy sends GOAWAY, finishes the open calls, and ends in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, Signal, free_address, wait_for};
use leno_tests::wire::code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_finish_before_the_proxy_exits() {
    let backend = Backend::start().await;
    let mut proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Arc::new(Client::connect(proxy.outbound(), ECHO).await);
    let slow = || {
        let client = client.clone();
        tokio::spawn(async move { client.try_call(&Call::new("Echo").with("delay-ms", "1000"), b"hello").await })
    };
    let calls: Vec<_> = (0..20).map(|_| slow()).collect();
    wait_for("the server has the calls", Duration::from_secs(20), || (backend.calls() == 20).then_some(()));

    proxy.signal(Signal::TERM);
    for call in calls {
        let answer = call.await.expect("no panic").expect("an answer");
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    }
    let status = proxy.wait(Duration::from_secs(20)).expect("nothing is left to wait for");
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_proxy_is_not_ready_and_takes_no_new_calls() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (_response, _request) = client.open(&Call::new("Hang")).await.expect("a call that keeps the proxy alive");
    wait_for("the server has the call", Duration::from_secs(20), || (backend.calls() == 1).then_some(()));

    proxy.signal(Signal::TERM);
    let not_ready = || proxy.get("/ready").is_ok_and(|(status, _)| status == 503).then_some(());
    wait_for("GET /ready says 503", Duration::from_secs(20), not_ready);
    let deadline = Instant::now() + Duration::from_secs(20);
    // Wait until the GOAWAY reaches the client, which then opens no more calls on this connection.
    while client.open(&Call::new("Echo")).await.is_ok() {
        assert!(Instant::now() < deadline, "the client was never told to go elsewhere");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn an_idle_client_is_told_goaway_without_an_error() {
    let mut proxy = Proxy::start(&[]);
    let mut idle = Attacker::connect(proxy.outbound(), Instant::now() + Duration::from_secs(20)).expect("a connection");
    idle.greet(&[]).expect("the proxy listens");
    // Wait, so that the proxy has read the client's bytes before it gets the signal.
    wait_for("the client's settings are acknowledged", Duration::from_secs(20), || {
        idle.heard().settings_acknowledged.then_some(())
    });
    proxy.signal(Signal::TERM);
    let heard = idle.leave(Duration::from_secs(20));
    assert!(heard.closed, "{heard:?}");
    assert!(!heard.goaways.is_empty() && heard.goaways.iter().all(|told| *told == code::NO_ERROR), "{heard:?}");
    assert!(proxy.wait(Duration::from_secs(20)).is_some_and(|status| status.success()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grace_period_ends_calls_that_do_not() {
    let backend = Backend::start().await;
    let services = [Service::echo(&[backend.address()])];
    let mut proxy = Proxy::start_with(free_address(), &services, &["--grace", "1s"]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (_response, _request) = client.open(&Call::new("Hang")).await.expect("the call begins");
    wait_for("the server has the call", Duration::from_secs(20), || (backend.calls() == 1).then_some(()));

    let start = Instant::now();
    proxy.signal(Signal::TERM);
    proxy.wait(Duration::from_secs(20)).expect("the proxy leaves although a call does not end");
    assert!(start.elapsed() >= Duration::from_millis(900), "left after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_proxy_at_once() {
    let backend = Backend::start().await;
    let mut proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (_response, _request) = client.open(&Call::new("Hang")).await.expect("the call begins");
    wait_for("the server has the call", Duration::from_secs(20), || (backend.calls() == 1).then_some(()));

    proxy.signal(Signal::TERM);
    assert!(proxy.wait(Duration::from_millis(500)).is_none(), "the call in flight was cut off");
    proxy.signal(Signal::TERM);
    assert!(proxy.wait(Duration::from_secs(20)).is_some(), "the second signal was not obeyed");
}
