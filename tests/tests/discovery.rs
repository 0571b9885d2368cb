//! A real `leno-proxy` that gets the resources for its calls from a real `leno-control`.

mod connections;
mod forgetting;
mod limits;
mod policies;

use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::xds::Control;

/// Longest time until an edit takes effect: the proxy's longest pause before it retries the control plane is 15 s, and
/// the machine may be busy.
const SOON: Duration = Duration::from_secs(40);

/// Makes a call. Returns the gRPC status and the proxy's error.
async fn call(client: &Client) -> (Option<u8>, Option<String>) {
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    (answer.grpc_status(), answer.field("leno-proxy-error").map(str::to_owned))
}

/// Makes calls until `is_done` returns true. No call may fail.
async fn call_until(client: &Client, mut is_done: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !is_done() {
        assert_eq!(call(client).await, (Some(0), None));
        assert!(tokio::time::Instant::now() < deadline, "it did not come true in {SOON:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_asks_for_what_its_calls_need_and_follows_changes_without_losing_one() {
    let (a, b) = (Backend::start().await, Backend::start().await);
    let unused = Service::new("unused", &[b.address()]);
    let control = Control::start(&[Service::echo(&[a.address()]), unused]);
    let proxy = Proxy::start_asking(control.xds(), &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    assert_eq!(call(&client).await, (Some(0), None));
    let (_, config) = proxy.get("/config").expect("the admin listener answers");
    assert!(config.contains("echo.default") && !config.contains("unused"), "it holds only what is used: {config}");

    control.directory().put(&Service::echo(&[a.address(), b.address()]));
    call_until(&client, || b.calls() > 0).await;
    control.directory().put(&Service::echo(&[b.address()]));
    let mut before = a.calls();
    let mut quiet = 0;
    call_until(&client, || {
        quiet = if a.calls() == before { quiet + 1 } else { 0 };
        before = a.calls();
        quiet >= 50
    })
    .await;
    control.directory().remove("echo.yaml");
    wait_for("the Service is gone", SOON, || {
        let runtime = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| runtime.block_on(call(&client)));
        (outcome == (Some(12), Some("no-route".to_owned()))).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_holds_while_the_control_plane_is_gone_and_news_come_when_it_is_back() {
    let (a, b) = (Backend::start().await, Backend::start().await);
    let mut control = Control::start(&[Service::echo(&[a.address()]), Service::new("later", &[b.address()])]);
    let proxy = Proxy::start_asking(control.xds(), &["--limit", "discovery_timeout_ms=500"]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    assert_eq!(call(&client).await, (Some(0), None));

    control.kill();
    for _ in 0..200 {
        assert_eq!(call(&client).await, (Some(0), None));
    }
    let stranger = Client::connect(proxy.outbound(), "later.default:50051").await;
    assert_eq!(call(&stranger).await, (Some(14), Some("unanswered".to_owned())));

    control.directory().put(&Service::echo(&[a.address(), b.address()]));
    control.restart();
    call_until(&client, || b.calls() > 0).await;
    // The proxy has requested the Service `later` for the failed call above. The control plane may have answered the
    // request already. Otherwise it answers while one of the following calls waits.
    wait_for("the other Service is known", SOON, || {
        let runtime = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| runtime.block_on(call(&stranger)));
        (outcome == (Some(0), None)).then_some(())
    });
}
