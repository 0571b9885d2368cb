//! Many connections that each stay within their own limits, but together ask for more memory than a proxy has.

use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::wire::{self, call_block, flag};

const INITIAL_WINDOW_SIZE: u16 = 4;
const CONNECTIONS: usize = 150;
/// Each keeps 32 KiB in the proxy: 75 MiB in all.
const STREAMS: usize = 16;
const BUDGET_KIB: u64 = 8 << 10;

/// Longest time for a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_take_no_responses_never_hold_more_than_the_budget_together() {
    let backend = Backend::start().await;
    let services = [Service::echo(&[backend.address()])];
    let proxy = Proxy::start_with(free_address(), &services, &["--limit", "memory_budget_kib=8192"]);
    let good = Client::connect(proxy.outbound(), ECHO).await;
    assert_eq!(good.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0));
    let idle_kib = proxy.resident_kib();

    let until = Instant::now() + PATIENCE;
    let block = call_block(ECHO, "Many", &[("reply-bytes", "65536"), ("reply-messages", "64")]);
    let mut attackers = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(mut attacker) = Attacker::connect_deaf(proxy.outbound(), until) else { continue };
        let calls: Vec<u8> = wire::client_streams()
            .take(STREAMS)
            .flat_map(|stream| wire::headers(stream, flag::END_STREAM, &block))
            .collect();
        // The proxy may close the connection at any moment.
        let _ = attacker.greet(&[(INITIAL_WINDOW_SIZE, 0)]).and_then(|()| attacker.send(&calls));
        attackers.push(attacker);
        let answer = good.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "a client that holds little loses nothing: {answer:?}");
    }
    wait_for("the heaviest connections go", PATIENCE, || {
        let scrape = proxy.scrape();
        let is_within = scrape.sum("leno_held_bytes", &[]) <= (BUDGET_KIB * 1_024) as f64;
        (is_within && scrape.sum("leno_abuse_closed_total", &[r#"kind="memory_budget""#]) > 0.0).then_some(())
    });
    let grown_kib = proxy.peak_kib().saturating_sub(idle_kib);
    assert!(grown_kib <= 3 * BUDGET_KIB, "{grown_kib} KiB beside a budget of {BUDGET_KIB}");
    assert!(!good.is_closed());
}
