//! The duration of a command that reads many proxies.

use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::run_well;
use leno_tests::proxy::Proxy;
use leno_tests::xds::Control;
use serde_json::Value;

const PROXIES: usize = 200;
/// Number of methods that each proxy counts: the maximum number that it keeps for a Service.
const METHODS: usize = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// Longest time that the command may take in addition to its window. The goal is 3 s on an idle machine with two cores
/// (docs/performance.md); a debug build on a busy machine may take ten times as long.
const BEYOND_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_stat_methods_reads_200_proxies_in_seconds() {
    let backend = Backend::start().await;
    // Use a control plane in place of configuration directories: the kernel lets a user watch fewer directories than
    // there are proxies.
    let control = Control::start(&[Service::echo(&[backend.address()])]);
    let mut proxies = Vec::new();
    for _ in 0..PROXIES {
        let proxy = tokio::task::block_in_place(|| Proxy::start_asking(control.xds(), &[]));
        let client = Client::connect(proxy.outbound(), ECHO).await;
        for method in 0..METHODS {
            client.call(&Call::new(&format!("Method{method}")), b"hello").await;
        }
        proxies.push(proxy);
    }
    let addresses: Vec<String> = proxies.iter().map(|proxy| proxy.admin().to_string()).collect();
    let (_, page) = proxies[0].get("/metrics").expect("the proxy answers");
    let words = ["stat", "methods", "--all", "-o", "json", "--window", "1s", "--admin", &addresses.join(",")];
    let (printed, took) = tokio::task::block_in_place(|| {
        let began = Instant::now();
        (run_well("leno", &words, Duration::from_secs(120)), began.elapsed())
    });
    let beyond = took.saturating_sub(WINDOW);
    println!("{PROXIES} proxies with {} KiB of metrics each: {beyond:.1?} beyond the window", page.len() >> 10);
    // Read only the first value: the output ends with standard error, which may have a line about the progress.
    let mut values = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    let rows = values.next().expect("output").expect("JSON");
    assert_eq!(rows.as_array().expect("rows").len(), PROXIES * METHODS);
    assert!(beyond <= BEYOND_MAX, "{beyond:?}");
}
