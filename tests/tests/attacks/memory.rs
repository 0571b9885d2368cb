//! Many connections that each stay within their own limits, but together need more memory than a proxy has.

use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::sockets::kernel_bytes;
use leno_tests::wire::{self, call_block, flag, kind};

const INITIAL_WINDOW_SIZE: u16 = 4;
const CONNECTIONS: usize = 150;
/// Number of streams on each connection. The proxy buffers up to 32 KiB for each stream. Without a budget, this would
/// be 75 MiB for all connections.
const STREAMS: usize = 16;
const BUDGET_KIB: u64 = 8 << 10;

/// Longest time for a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy with a small memory budget, and a well-behaved client, for which the proxy holds little memory.
struct Siege {
    _backend: Backend,
    proxy: Proxy,
    good: Client,
    idle_kib: u64,
}

impl Siege {
    async fn start() -> Self {
        let backend = Backend::start().await;
        let services = [Service::echo(&[backend.address()])];
        let proxy = Proxy::start_with(free_address(), &services, &["--limit", "memory_budget_kib=8192"]);
        let good = Client::connect(proxy.outbound(), ECHO).await;
        let siege = Self { _backend: backend, idle_kib: 0, proxy, good };
        siege.call().await;
        Self { idle_kib: siege.proxy.resident_kib(), ..siege }
    }

    async fn call(&self) {
        let answer = self.good.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "a client that holds little loses nothing: {answer:?}");
    }

    /// Asserts that the heaviest connections were closed, and that the proxy never took much more than its budget.
    fn end(&self) {
        wait_for("the heaviest connections go", PATIENCE, || {
            let scrape = self.proxy.scrape();
            let is_within = scrape.sum("leno_held_bytes", &[]) <= (BUDGET_KIB * 1_024) as f64;
            (is_within && scrape.sum("leno_abuse_closed_total", &[r#"kind="memory_budget""#]) > 0.0).then_some(())
        });
        let grown_kib = self.proxy.peak_kib().saturating_sub(self.idle_kib);
        assert!(grown_kib <= 3 * BUDGET_KIB, "{grown_kib} KiB beside a budget of {BUDGET_KIB}");
        assert!(!self.good.is_closed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_take_no_responses_never_hold_more_than_the_budget_together() {
    let siege = Siege::start().await;
    let until = Instant::now() + PATIENCE;
    let block = call_block(ECHO, "Many", &[("reply-bytes", "65536"), ("reply-messages", "64")]);
    let mut attackers = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(mut attacker) = Attacker::connect_deaf(siege.proxy.outbound(), until) else { continue };
        let calls: Vec<u8> = wire::client_streams()
            .take(STREAMS)
            .flat_map(|stream| wire::headers(stream, flag::END_STREAM, &block))
            .collect();
        // The proxy may close the connection at any moment.
        let _ = attacker.greet(&[(INITIAL_WINDOW_SIZE, 0)]).and_then(|()| attacker.send(&calls));
        attackers.push(attacker);
        siege.call().await;
    }
    siege.end();
}

/// Number of connections. Each opens many streams at once, and then ends all streams except one.
const BURSTS: usize = 100;
/// Number of streams of each of the [`BURSTS`] connections.
const BURST: usize = 3_000;

/// The proxy keeps the memory of ended streams for later streams of the same connection: about 700 KiB for each of
/// these connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_had_many_streams_never_hold_more_than_the_budget_together() {
    let siege = Siege::start().await;
    let until = Instant::now() + PATIENCE;
    let block = call_block(ECHO, "Echo", &[]);
    let mut attackers = Vec::new();
    for _ in 0..BURSTS {
        let Ok(mut attacker) = Attacker::connect(siege.proxy.outbound(), until) else { continue };
        let streams = || wire::client_streams().take(BURST);
        let opened: Vec<u8> = streams().flat_map(|stream| wire::headers(stream, flag::NONE, &block)).collect();
        let end = |stream| wire::frame(kind::DATA, flag::END_STREAM, stream, b"");
        let ended: Vec<u8> = streams().skip(1).flat_map(end).collect();
        // The proxy may close the connection at any moment.
        let _ = attacker.greet(&[]).and_then(|()| attacker.send(&opened)).and_then(|()| attacker.send(&ended));
        attackers.push(attacker);
        siege.call().await;
    }
    siege.end();
}

/// Maximum number of bytes that the kernel may hold for a client that reads nothing: the bytes that the proxy allows,
/// and the overhead of the kernel's buffers.
const KERNEL_MAX_BYTES: u64 = 512 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kernel_holds_little_for_a_client_that_does_not_read() {
    let backend = Backend::start().await;
    let services = [Service::echo(&[backend.address()])];
    let proxy = Proxy::start(&services);
    let mut attacker = Attacker::connect_deaf(proxy.outbound(), Instant::now() + PATIENCE).expect("it listens");
    let block = call_block(ECHO, "Many", &[("reply-bytes", "65536"), ("reply-messages", "128")]);
    let call = [wire::window_update(0, 1 << 30), wire::headers(1, flag::END_STREAM, &block)].concat();
    attacker.greet(&[(INITIAL_WINDOW_SIZE, 1 << 30)]).and_then(|()| attacker.send(&call)).expect("it is a client");

    let filter = format!("sport = :{}", proxy.outbound().port());
    let mut before = 0;
    let held = wait_for("the socket is full", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(300));
        let held = kernel_bytes(&filter);
        let has_stopped = held > 0 && std::mem::replace(&mut before, held) == held;
        has_stopped.then_some(held)
    });
    assert!(held <= KERNEL_MAX_BYTES, "{held} bytes");
}
