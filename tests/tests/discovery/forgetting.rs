//! The proxy and the control plane forget unused resources, and keep used resources.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client, answer};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::messages;
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::xds::Control;

use super::{SOON, call};

/// Maximum number of addresses that the proxy of the test keeps.
const SUBJECTS_MAX: usize = 3_000;
/// Number of connections that call the addresses.
const CALLERS: usize = 8;
/// Longest time for the answer to one call.
const PATIENCE: Duration = Duration::from_secs(60);
/// The resource name of `echo`, as the control plane and its clients use it.
const ECHO_NAME: &str = "echo.default:50051";

/// Returns an unused address of this machine.
fn address(number: usize) -> String {
    format!("127.77.{}.{}:9", number / 250, number % 250 + 1)
}

/// Calls addresses one after another over one connection; each call must be answered.
pub(super) fn call_addresses(proxy: &Proxy, addresses: impl Iterator<Item = usize>) {
    let stream = TcpStream::connect(proxy.outbound()).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    let mut writer = stream.try_clone().expect("a second handle");
    let mut reader = BufReader::new(stream);
    for number in addresses {
        write!(writer, "GET / HTTP/1.1\r\nhost: {}\r\n\r\n", address(number)).expect("the connection is open");
        let (mut line, mut length, mut status) = (String::new(), 0, String::new());
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).expect("an answer in time") > 0, "the proxy closed the connection");
            if status.is_empty() {
                status.clone_from(&line);
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content).expect("the content in time");
        let text = String::from_utf8_lossy(&content);
        assert!(status.starts_with("HTTP/1.1 404"), "{status}{text}");
    }
}

/// Returns the names of the resources of a kind to which the test's only proxy subscribes.
pub(super) fn subscriptions(control: &Control, kind: &str) -> Vec<String> {
    let clients: serde_json::Value =
        serde_json::from_str(&control.get("/clients").expect("the page is there")).expect("JSON");
    let kinds = clients[0]["kinds"].as_array().cloned().unwrap_or_default();
    let of_kind = kinds.iter().filter(|page| page["kind"] == kind);
    let resources = of_kind.flat_map(|page| page["resources"].as_array().cloned().unwrap_or_default());
    resources.filter_map(|resource| resource["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_found_at_once_after_more_addresses_were_called_than_are_kept() {
    let (used, unused) = (Backend::start().await, Backend::start().await);
    let control = Control::start(&[Service::echo(&[used.address()]), Service::new("late", &[unused.address()])]);
    let proxy = Proxy::start_asking(control.xds(), &["--limit", &format!("max_subjects={SUBJECTS_MAX}")]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    assert_eq!(call(&client).await, (Some(0), None));
    tokio::task::block_in_place(|| {
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let addresses = (caller..SUBJECTS_MAX + 800).step_by(CALLERS);
                let proxy = &proxy;
                scope.spawn(move || call_addresses(proxy, addresses));
            }
        });
    });
    let stranger = Client::connect(proxy.outbound(), "late.default:50051").await;
    assert_eq!(call(&stranger).await, (Some(0), None), "a Service that was not called before");
    assert_eq!(call(&client).await, (Some(0), None), "a Service that was");
    let kept = subscriptions(&control, "listener").len();
    assert!((SUBJECTS_MAX / 2..=SUBJECTS_MAX).contains(&kept), "{kept} are kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_call_uses_is_forgotten_by_proxy_and_control_plane_and_asked_again_by_the_next_call() {
    let backend = Backend::start().await;
    let control = Control::start(&[Service::echo(&[backend.address()])]);
    let proxy = Proxy::start_asking(control.xds(), &["--limit", "discovery_idle_ms=1000"]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for round in 0..3 {
        assert_eq!(call(&client).await, (Some(0), None), "round {round}");
        assert_eq!(call(&client).await, (Some(0), None), "round {round}");
        wait_for("the subscriptions are gone", SOON, || {
            let left = ["listener", "cluster", "endpoints", "route"].map(|kind| subscriptions(&control, kind));
            left.iter().all(Vec::is_empty).then_some(())
        });
        let (_, config) = proxy.get("/config").expect("the admin listener answers");
        assert!(!config.contains("echo.default"), "{config}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_open_call_uses_is_kept_however_long_it_is_silent() {
    let backend = Backend::start().await;
    let control = Control::start(&[Service::echo(&[backend.address()]), Service::new("other", &[backend.address()])]);
    let proxy = Proxy::start_asking(control.xds(), &["--limit", "discovery_idle_ms=500"]);
    let other = Client::connect(proxy.outbound(), "other.default:50051").await;
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let (response, mut request) = client.open(&Call::new("Echo")).await.expect("a stream of a new connection");
    let is_known = || subscriptions(&control, "cluster").iter().any(|name| name == ECHO_NAME);
    wait_for("the call's Service is known", SOON, || is_known().then_some(()));
    for _ in 0..3 {
        assert_eq!(call(&other).await, (Some(0), None));
        wait_for("what is not used is gone", SOON, || {
            let left = subscriptions(&control, "cluster");
            assert!(left.iter().any(|name| name == ECHO_NAME), "a call is open: {left:?}");
            (!left.iter().any(|name| name.starts_with("other"))).then_some(())
        });
    }
    messages::send(&mut request, messages::message(b"hello"), true).await.expect("the stream is open");
    let answer = answer(response).await.expect("an answer");
    assert_eq!(answer.grpc_status(), Some(0));
}
