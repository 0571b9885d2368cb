//! An attack while well-behaved clients make calls. The attackers and the clients use the same proxy and the same
//! strict servers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::attacker::{Attacker, Heard};
use crate::backend::Backend;
use crate::load::{Clients, Report};
use crate::manifests::{ECHO, Service};
use crate::proxy::{Proxy, free_address};
use crate::scrape::Scrape;

/// Time for which the well-behaved clients are measured alone.
const CALM_TIME: Duration = Duration::from_millis(1_500);
/// Time for which the well-behaved clients are measured during the attack.
const ATTACK_TIME: Duration = Duration::from_secs(3);

/// Number of well-behaved clients.
const GOOD_CLIENTS: usize = 10;
/// Total rate of the calls of all well-behaved clients.
const GOOD_CALLS_PER_SECOND: u32 = 500;

/// Smallest value that the test uses as the p99 without an attack, even if the measured p99 is smaller. The attacker,
/// the clients and the servers share two cores with the proxy, so one scheduler slice (3 ms) is noise.
const CALM_FLOOR: Duration = Duration::from_millis(3);
/// Largest allowed ratio of the well-behaved clients' p99 during an attack to their p99 without an attack.
const P99_FACTOR: u32 = 5;

/// Maximum number of measurements. Other programs on the machine can only increase latencies, so one measurement with
/// the p99 within its bound suffices. No measurement may lose a call.
const SIEGES: usize = 3;

/// Largest amount by which the proxy's resident memory may stay increased after an attack.
const MEMORY_KEPT_KIB: u64 = 2 * 1024;
/// Longest time until the proxy has returned all memory above [`MEMORY_KEPT_KIB`] that an attack took.
const MEMORY_PATIENCE: Duration = Duration::from_secs(20);
/// Largest amount by which the proxy's resident memory may grow during an attack.
const MEMORY_PEAK_KIB: u64 = 64 * 1024;

/// A function with the actions of an attacker on one connection.
type Script = dyn Fn(&mut Attacker) -> io::Result<()> + Send + Sync;

/// The parameters of an attack.
#[derive(Debug, Clone)]
pub struct Plan {
    attackers: usize,
    deaf: bool,
    arguments: Vec<&'static str>,
}

impl Plan {
    /// Plans an attack by this many attackers at a time. Each attacker reconnects when the proxy has closed its
    /// connection.
    pub fn attackers(count: usize) -> Self {
        Self { attackers: count, deaf: false, arguments: Vec::new() }
    }

    /// Plans attackers that never read from their sockets.
    pub fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// Sets a limit of the proxy, as `name=value`. Use this only to make a slow defence act within the test's time.
    pub fn limit(mut self, limit: &'static str) -> Self {
        self.arguments.extend(["--limit", limit]);
        self
    }

    /// Measures the well-behaved clients alone, and then during an attack. Each attacker runs `script` on a connection
    /// until the script fails or ends. Repeats the measurement if the machine was too busy.
    pub async fn lay<S>(self, script: S) -> Siege
    where
        S: Fn(&mut Attacker) -> io::Result<()> + Send + Sync + 'static,
    {
        let script: Arc<Script> = Arc::new(script);
        for _ in 1..SIEGES {
            let siege = self.lay_once(&script).await;
            if siege.is_hardly_noticed() {
                return siege;
            }
            println!("good clients' p99: {:?}; once more", siege.p99_calm_and_beside());
            siege.assert_nothing_lost();
        }
        self.lay_once(&script).await
    }

    async fn lay_once(&self, script: &Arc<Script>) -> Siege {
        let backends = [Backend::start().await, Backend::start().await];
        let services = [Service::echo(&backends.each_ref().map(Backend::address))];
        let proxy = Proxy::start_with(free_address(), &services, &self.arguments);
        let good = Clients::connect(proxy.outbound(), ECHO, GOOD_CLIENTS).await;
        // Open the connections to the servers, and warm up every path.
        good.paced(GOOD_CALLS_PER_SECOND, Duration::from_millis(500)).await.assert_nothing_lost();
        let calm = good.paced(GOOD_CALLS_PER_SECOND, CALM_TIME).await;
        let (before, resident_kib) = (proxy.scrape(), proxy.resident_kib());

        let attackers = self.start_attackers(proxy.outbound(), script);
        let beside = good.paced(GOOD_CALLS_PER_SECOND, ATTACK_TIME).await;
        let heard = attackers.into_iter().flat_map(|thread| thread.join().expect("the attackers' threads end"));
        let heard = heard.collect();
        let (attackers, after) = (self.attackers, proxy.scrape());
        Siege { attackers, calm, beside, heard, before, after, resident_kib, backends, proxy, _good: good }
    }

    fn start_attackers(&self, target: SocketAddr, script: &Arc<Script>) -> Vec<JoinHandle<Vec<Heard>>> {
        let until = Instant::now() + ATTACK_TIME;
        let connect = if self.deaf { Attacker::connect_deaf } else { Attacker::connect };
        let patience = if self.deaf { Duration::ZERO } else { Duration::from_secs(1) };
        let start = |_| {
            let script = script.clone();
            thread::spawn(move || {
                let mut heard = Vec::new();
                while Instant::now() < until {
                    // An attacker whose connection is refused retries a little later.
                    if let Ok(mut attacker) = connect(target, until) {
                        // A script's error does not matter: the proxy's reactions are checked afterwards.
                        script(&mut attacker).ok();
                        heard.push(attacker.leave(patience));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                heard
            })
        };
        (0..self.attackers).map(start).collect()
    }
}

/// The result of an attack. The proxy, the servers and the well-behaved clients' connections still exist.
#[derive(Debug)]
pub struct Siege {
    attackers: usize,
    calm: Report,
    beside: Report,
    /// The proxy's frames on every connection of the attackers.
    pub heard: Vec<Heard>,
    before: Scrape,
    after: Scrape,
    resident_kib: u64,
    backends: [Backend; 2],
    proxy: Proxy,
    _good: Clients,
}

impl Siege {
    /// Asserts that:
    /// - the well-behaved clients lost nothing and were hardly slowed down;
    /// - the servers closed no connection of the proxy because of abuse;
    /// - the growth of the proxy's memory was limited, and the proxy returned most of it;
    /// - after the attack, new clients lose no call.
    pub async fn assert_harmless(&self) {
        self.assert_nothing_lost();
        let (calm, beside) = self.p99_calm_and_beside();
        println!("good clients' p99: {calm:?} calm, {beside:?} beside the attack");
        assert!(self.is_hardly_noticed(), "p99 was {calm:?} calm and {beside:?} beside the attack");

        self.assert_memory_is_given_back();
        let late = Clients::connect(self.proxy.outbound(), ECHO, GOOD_CLIENTS).await;
        late.paced(GOOD_CALLS_PER_SECOND, Duration::from_millis(200)).await.assert_nothing_lost();
    }

    fn assert_nothing_lost(&self) {
        let provoked: Vec<_> = self.backends.iter().flat_map(|backend| backend.seen().punishments()).collect();
        assert!(provoked.is_empty(), "the servers ended the proxy's connections: {provoked:?}");
        self.calm.assert_nothing_lost();
        self.beside.assert_nothing_lost();
    }

    fn p99_calm_and_beside(&self) -> (Duration, Duration) {
        (self.calm.p99_of_the_median_half_second(), self.beside.p99_of_the_median_half_second())
    }

    fn is_hardly_noticed(&self) -> bool {
        let (calm, beside) = self.p99_calm_and_beside();
        beside <= calm.max(CALM_FLOOR) * P99_FACTOR
    }

    fn assert_memory_is_given_back(&self) {
        let (before, peak) = (self.resident_kib, self.proxy.peak_kib());
        assert!(peak <= before + MEMORY_PEAK_KIB, "memory went from {before} to {peak} KiB during the attack");
        let deadline = Instant::now() + MEMORY_PATIENCE;
        loop {
            let now = self.proxy.resident_kib();
            if now <= before + MEMORY_KEPT_KIB {
                println!("memory: {before} KiB before, {peak} at most, {now} after");
                return;
            }
            let open = self.proxy.scrape().sum("tcp_open_connections", &[]);
            let memory = format!("{before} KiB before, {peak} at most, and still {now} with {open} connections");
            assert!(Instant::now() < deadline, "memory: {memory}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asserts that the proxy closed the attackers' connections with one of these GOAWAY codes, and counted them as
    /// `kind`.
    pub fn assert_closed(&self, kind: &str, codes: &[u32]) {
        self.assert_told(codes);
        self.assert_counted(kind);
    }

    /// Asserts that the proxy sent GOAWAY to attackers, with one of these codes and no other, and closed the
    /// connections.
    pub fn assert_told(&self, codes: &[u32]) {
        let Self { heard, .. } = self;
        let told: Vec<u32> = heard.iter().flat_map(|heard| heard.goaways.iter().copied()).collect();
        assert!(!told.is_empty(), "no attacker was told to go away: {heard:?}");
        assert!(told.iter().all(|code| codes.contains(code)), "GOAWAY with {told:?}, not one of {codes:?}");
        self.assert_hung_up_on();
    }

    /// Asserts that the proxy closed every connection of the attackers, except at most the last connection of each
    /// attacker.
    pub fn assert_hung_up_on(&self) {
        let (closed, all) = (self.heard.iter().filter(|heard| heard.closed).count(), self.heard.len());
        assert!(closed > 0 && closed + self.attackers >= all, "the proxy closed {closed} of {all} connections");
    }

    /// Asserts that `leno_abuse_closed_total` has grown for `kind`.
    pub fn assert_counted(&self, kind: &str) {
        let label = format!("kind=\"{kind}\"");
        let count = |scrape: &Scrape| scrape.sum("leno_abuse_closed_total", &[&label]);
        let (before, after) = (count(&self.before), count(&self.after));
        assert!(after > before, "leno_abuse_closed_total{{{label}}} stayed at {before}");
    }
}
