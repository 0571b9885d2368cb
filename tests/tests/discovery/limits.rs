//! A proxy that asks for more names than the control plane allows one client.

use std::thread;

use leno_tests::backend::Backend;
use leno_tests::client::Client;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::xds::Control;

use super::forgetting::{call_addresses, subscriptions};
use super::{SOON, call, call_until};

/// Maximum number of names of one kind to which the control plane lets one client subscribe.
const NAMES_MAX: usize = 20_000;
/// Number of connections that call the addresses at the same time. The proxy can then subscribe to many addresses in
/// one request.
const CALLERS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_too_many_stops_no_updates_of_the_other_names_and_is_known_once_there_is_room() {
    let (a, b) = (Backend::start().await, Backend::start().await);
    let control = Control::start(&[Service::echo(&[a.address()]), Service::new("late", &[b.address()])]);
    let proxy = Proxy::start_asking(
        control.xds(),
        &[
            "--limit",
            "max_subjects=30000",
            "--limit",
            "discovery_idle_ms=3600000",
            "--limit",
            "discovery_timeout_ms=2000",
        ],
    );
    let client = Client::connect(proxy.outbound(), ECHO).await;
    assert_eq!(call(&client).await, (Some(0), None));
    let unlisted = NAMES_MAX - subscriptions(&control, "listener").len();
    tokio::task::block_in_place(|| {
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (addresses, proxy) = ((caller..unlisted).step_by(CALLERS), &proxy);
                scope.spawn(move || call_addresses(proxy, addresses));
            }
        });
    });
    assert_eq!(subscriptions(&control, "listener").len(), NAMES_MAX);

    let stranger = Client::connect(proxy.outbound(), "late.default:50051").await;
    assert_eq!(call(&stranger).await, (Some(14), Some("unanswered".to_owned())));
    let (_, metrics) = proxy.get("/metrics").expect("the admin listener answers");
    assert!(metrics.contains("leno_control_plane_connected 1"), "{metrics}");
    assert!(metrics.contains("leno_control_plane_refused_names 1"), "{metrics}");
    let page = control.get("/metrics").expect("the page is there");
    assert!(page.contains("leno_xds_refused_streams_total 0"), "{page}");

    control.directory().put(&Service::echo(&[b.address()]));
    call_until(&client, || b.calls() > 0).await;

    // The proxy forgets addresses that no call has used for 30 s. It repeats the refused subscription after at most a
    // minute.
    wait_for("the proxy has forgotten an unused address", SOON * 3, || {
        let runtime = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| runtime.block_on(call(&stranger)));
        (outcome == (Some(0), None)).then_some(())
    });
}
