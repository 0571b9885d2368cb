//! h2spec in strict mode: the common conformance suite for HTTP/2 servers and proxies.

use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::manifests::Service;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, free_address};

/// Number of h2spec 2.6's cases in strict mode. The test fails if fewer cases run, because fewer cases would prove
/// less.
const STRICT_CASES: u32 = 146;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2spec_finds_nothing_in_strict_mode() {
    let backend = Backend::start().await;
    let outbound = free_address();
    let proxy = Proxy::start_with(outbound, &[Service::echo(&[backend.address()]).at(outbound)], &[]);

    let port = proxy.outbound().port().to_string();
    // h2spec checks how the answer's DATA is sent, so the answer must have a body.
    let arguments = ["-S", "-h", "127.0.0.1", "-p", &port, "-P", "/test.Test/Text", "-o", "4"];
    let printed = programs::run("h2spec", &arguments, Duration::from_secs(300));
    let printed = programs::text(&printed);

    let [tests, passed, skipped, failed] = totals(&printed).unwrap_or_else(|| panic!("no totals in {printed}"));
    assert_eq!(failed, 0, "{printed}");
    assert_eq!(skipped, 0, "{printed}");
    assert_eq!(tests, passed, "{printed}");
    assert!(tests >= STRICT_CASES, "only {tests} cases: {printed}");
}

/// The numbers of h2spec's last line: `146 tests, 146 passed, 0 skipped, 0 failed`.
fn totals(printed: &str) -> Option<[u32; 4]> {
    let line = printed.lines().rev().find(|line| line.contains(" tests, "))?;
    let numbers: Vec<u32> = line.split(", ").filter_map(|part| part.split(' ').next()?.parse().ok()).collect();
    numbers.try_into().ok()
}
