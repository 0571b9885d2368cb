//! The proxy watches its configuration directory: edits take effect, and mistakes do no harm.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};

/// Longest time until an edit takes effect.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_come_and_go_without_a_failed_call() {
    let backends = [Backend::start().await, Backend::start().await, Backend::start().await];
    let [a, b, c] = backends.each_ref().map(Backend::address);
    let proxy = Proxy::start(&[Service::echo(&[a])]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;

    let load = clients.keep_calling(8);
    load.wait_for_more(100, SOON).await;
    for endpoints in [&[a, b][..], &[b, c], &[a, b, c], &[c], &[a, c], &[b]] {
        proxy.directory().put(&Service::echo(endpoints));
        wait_until_endpoints_are(&proxy, endpoints);
        load.wait_for_more(100, SOON).await;
    }
    load.finish().await.assert_nothing_lost();
    assert!(backends.iter().all(|backend| backend.calls() > 0), "some server was never used");

    // After a moment, b gets all calls.
    clients.busy_until_shares_are([0, 100, 0], backends.each_ref(), SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_to_a_removed_endpoint_finishes() {
    let (stays, goes) = (Backend::start().await, Backend::start().await);
    let proxy = Proxy::start(&[Service::echo(&[goes.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let call = Call::new("Echo").with("delay-ms", "5000");
    let in_flight = tokio::spawn(async move { client.call(&call, b"hello").await });
    wait_for("the server has the call", SOON, || (goes.calls() == 1).then_some(()));
    proxy.directory().put(&Service::echo(&[stays.address()]));
    wait_until_endpoints_are(&proxy, &[stays.address()]);
    assert!(!in_flight.is_finished(), "the edit took longer than the call");
    let answer = in_flight.await.expect("the call does not panic");
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    assert_eq!((stays.calls(), goes.calls()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_keeps_the_last_good_state_and_says_where_it_is_bad() {
    let backend = Backend::start().await;
    let service = Service::echo(&[backend.address()]);
    let proxy = Proxy::start(std::slice::from_ref(&service));
    let client = Client::connect(proxy.outbound(), ECHO).await;
    assert!(proxy.scrape().has("leno_config_problems"));

    let bad = service.to_yaml().replace("port: 50051", "port: 70000");
    let line = 1 + bad.lines().position(|line| line.contains("70000")).expect("the bad line");
    proxy.directory().write("echo.yaml", &bad);
    let problem = proxy.wait_for_log(&[&format!("echo.yaml:{line}"), "spec.ports[0].port", "70000"]);
    assert!(problem.contains("65535"), "it should say how to fix it: {problem}");
    wait_for("the metric counts it", SOON, || (proxy.scrape().sum("leno_config_problems", &[]) == 1.0).then_some(()));
    assert_eq!(client.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0), "the good state is lost");
    let (status, _) = proxy.get("/ready").expect("the admin listener answers");
    assert_eq!(status, 200, "a bad edit is no reason to take the proxy out of service");

    proxy.directory().write("echo.yaml", &bad.replace("70000", "50052"));
    wait_for("the metric is 0 again", SOON, || (proxy.scrape().sum("leno_config_problems", &[]) == 0.0).then_some(()));
    let fixed = client.call(&Call::new("Echo").to("echo.default:50052"), b"hello").await;
    assert_eq!(fixed.grpc_status(), Some(0), "the fix is not in force: {fixed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_does_not_hold_up_its_neighbours() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[]);
    proxy.directory().write("broken.yaml", "apiVersion: v1\nkind: Service\nmetadata: [\n");
    proxy.wait_for_log(&["broken.yaml:"]);
    proxy.directory().put(&Service::echo(&[backend.address()]));
    wait_until_served(&proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_file_takes_its_service_away() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    wait_until_served(&proxy).await;
    proxy.directory().remove("echo.yaml");
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let mut status = Some(0);
    for _ in 0..100 {
        status = client.call(&Call::new("Echo"), b"hello").await.grpc_status();
        if status == Some(12) {
            return;
        }
        tokio::time::sleep(SOON / 100).await;
    }
    panic!("the deleted service still answers, with {status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_taken_in_whenever_they_come() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[]);
    // Once a second, the proxy's control thread does other work. If this work begins while the thread waits until a
    // change is complete, the thread must not lose the change. To provoke this, make each change shortly before a
    // second has passed.
    let since_start = [950, 970, 990];
    for (number, ms) in since_start.into_iter().enumerate() {
        let reloads = || proxy.scrape().sum("leno_config_reloads_total", &[]);
        let before = reloads();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        proxy.directory().put(&Service::new(&format!("echo-{number}"), &[backend.address()]));
        wait_for("the change is in force", SOON, || (reloads() > before).then_some(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_takes_the_place_of_the_first_is_watched_too() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[]);
    let path = proxy.directory().path();
    let aside = path.with_extension("aside");
    std::fs::rename(path, &aside).and_then(|()| std::fs::create_dir(path)).expect("the directory is ours");
    let reloads = || proxy.scrape().sum("leno_config_reloads_total", &[]);
    let before = reloads();
    proxy.directory().put(&Service::echo(&[backend.address()]));
    wait_until_served(&proxy).await;
    // This reload proves nothing, because the replacement of the directory may have caused it. So change the new
    // directory once more: only a watch of the new directory finds this change.
    let (after, another) = (reloads(), Service::new("another", &[backend.address()]));
    assert!(after > before, "the new directory is read");
    proxy.directory().put(&another);
    wait_for("a change in the new directory is read", SOON, || (reloads() > after).then_some(()));
    std::fs::remove_dir(&aside).expect("it is empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_loaded_can_be_asked_for() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    wait_until_served(&proxy).await;
    for path in ["/config", "/balancer"] {
        let (status, body) = proxy.get(path).expect("the admin listener answers");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
        assert!(body.contains(&backend.address().to_string()), "{path} does not know the endpoint: {body}");
    }
}

/// Waits until every worker has exactly these endpoints of the Service `echo`.
fn wait_until_endpoints_are(proxy: &Proxy, endpoints: &[SocketAddr]) {
    let expected: BTreeSet<String> = endpoints.iter().map(ToString::to_string).collect();
    wait_for(&format!("the endpoints are {expected:?}"), SOON, || {
        let (_, body) = proxy.get("/balancer").expect("the admin listener answers");
        let balancer: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
        let clusters = balancer["clusters"].as_array().expect("a list");
        let of_echo = clusters.iter().filter(|cluster| cluster["cluster"] == ECHO);
        let known = of_echo.map(|cluster| {
            let endpoints = cluster["endpoints"].as_array().expect("a list").iter();
            endpoints.map(|endpoint| endpoint["address"].as_str().expect("an address").to_owned()).collect()
        });
        let known: Vec<BTreeSet<String>> = known.collect();
        (!known.is_empty() && known.iter().all(|known| *known == expected)).then_some(())
    });
}

/// Waits until calls to the Service `echo` succeed.
async fn wait_until_served(proxy: &Proxy) {
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for _ in 0..100 {
        if client.call(&Call::new("Echo"), b"hello").await.grpc_status() == Some(0) {
            return;
        }
        tokio::time::sleep(SOON / 100).await;
    }
    panic!("calls do not succeed after {SOON:?}");
}
