//! Upstream connections: shared, opened on demand, closed when idle.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_share_one_connection() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    Clients::connect(proxy.outbound(), ECHO, 50).await.busy(500, 50).await.assert_nothing_lost();
    let connections = backend.seen().connections.load(Ordering::Relaxed);
    assert!(connections <= 2, "{connections} connections for 50 calls in flight");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_opened_before_it_is_needed() {
    let backend = Backend::start().await;
    let _proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(backend.seen().connections.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_stream_limit_is_kept_with_more_connections() {
    let delay = Duration::from_millis(20);
    let backend = Backend::start_with(Settings { delay, max_streams: Some(10), ..Settings::default() }).await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    Clients::connect(proxy.outbound(), ECHO, 4).await.busy(2000, 60).await.assert_nothing_lost();
    let connections = backend.seen().connections.load(Ordering::Relaxed);
    assert!((2..=20).contains(&connections), "{connections} connections for 60 calls in flight, 10 on each");
    assert!(backend.seen().punishments().is_empty(), "the limit was not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed_and_opened_again() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()]).annotated("leno.dev/idle-timeout", "1s")]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 1).await;
    for _ in 0..2 {
        clients.busy(10, 2).await.assert_nothing_lost();
        let closed = || (backend.seen().open_connections.load(Ordering::Relaxed) == 0).then_some(());
        wait_for("the idle connection is closed", Duration::from_secs(20), closed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_a_removed_endpoint_are_closed() {
    let (stays, goes) = (Backend::start().await, Backend::start().await);
    let proxy = Proxy::start(&[Service::echo(&[goes.address()])]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 2).await;
    clients.busy(10, 2).await.assert_nothing_lost();
    assert!(goes.seen().open_connections.load(Ordering::Relaxed) > 0);
    proxy.directory().put(&Service::echo(&[stays.address()]));
    let closed = || (goes.seen().open_connections.load(Ordering::Relaxed) == 0).then_some(());
    wait_for("the removed endpoint's connections are closed", Duration::from_secs(20), closed);
    clients.busy(10, 2).await.assert_nothing_lost();
}
