//! Whole relays between simulated clients and servers, one or two in a row, over a simulated network and in virtual time.
//! Everything that happens follows from one seed.
//!
//! Checked all the time: each call ends exactly once, and not long after its deadline; content arrives whole, in order
//! and once, in both directions; no call is sent again that a server may have processed; both sides keep to HTTP/2.
//! Checked in the end: every call is over and recorded once, and the relay holds nothing of it any more.
//!
//! Each seed is a world of its own. `LENO_SEED=7` repeats a world; `LENO_WORLDS=4000..100000` runs through those.

mod caller;
mod content;
mod net;
mod server;
mod shell;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;

use caller::{Caller, Endings};
use net::{CableId, Net};
use server::Server;
use shell::{Listen, Shell, mesh_of};

/// The seeds of a usual run.
const WORLDS: Range<u64> = 0..4_000;
/// Longest virtual time of a world. Every client leaves after half a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// Most steps of a world.
const STEPS_MAX: u64 = 5_000_000;

/// What has happened in a world, or in several.
#[derive(Default)]
struct Total {
    calls: u64,
    endings: Endings,
    steps: u64,
    virtual_time: Duration,
}

/// A server, and in half of the cases the proxy before it.
struct Pod {
    proxy: Option<Shell>,
    server: Server,
}

impl Pod {
    fn new(number: u8, random: &mut Rng, net: &mut Net) -> Self {
        let proxy = random.bool().then(|| Shell::new(mesh_of(&[]), net));
        Self { proxy, server: Server::new(number, net) }
    }

    fn run(&mut self, net: &mut Net, begun: &mut BTreeSet<u64>) -> Result<(), String> {
        if let Some(proxy) = &mut self.proxy {
            proxy.turn(net, &mut self.server);
        }
        self.server.run(net, begun)
    }

    fn next(&self, net: &Net) -> Option<Instant> {
        let proxy = self.proxy.as_ref().map(|proxy| proxy.next(net));
        proxy.into_iter().chain(self.server.next(net)).min()
    }
}

/// All pods that a client's proxy can reach.
struct Pods<'a>(&'a mut [Pod]);

impl Listen for Pods<'_> {
    fn accept(&mut self, address: SocketAddr, cable: CableId, net: &Net) -> bool {
        let Some(pod) = self.0.iter_mut().find(|pod| pod.server.address == address) else { return false };
        match &mut pod.proxy {
            Some(proxy) => {
                proxy.accept(cable, Some(address), net);
                true
            }
            None => pod.server.accept(address, cable, net),
        }
    }
}

fn run(seed: u64) -> Result<Total, String> {
    let mut random = Rng::with_seed(seed);
    let start = Instant::now();
    let mut net = Net::new(start, random.fork());
    let mut pods: Vec<Pod> = (1..=random.u8(1..5)).map(|number| Pod::new(number, &mut random, &mut net)).collect();
    let addresses: Vec<_> = pods.iter().map(|pod| pod.server.address).collect();
    let mut shell = Shell::new(mesh_of(&addresses), &mut net);
    let mut callers = Vec::new();
    for _ in 0..random.u8(1..5) {
        let cable = net.open();
        shell.accept(cable, None, &net);
        let calls = random.u32(1..40);
        callers.push(Caller::new(cable, &mut net, calls));
    }
    let (mut next_id, mut begun, mut steps) = (1, BTreeSet::new(), 0);
    let mut change_at = random.bool().then(|| start + Duration::from_millis(random.u64(1..200)));
    let mut jump_at = (random.u8(..10) == 0).then(|| start + Duration::from_millis(random.u64(1..200)));
    while callers.iter().any(|caller| !caller.is_gone) {
        steps += 1;
        if net.now - start > LONGEST || steps > STEPS_MAX {
            return Err(format!("the world does not come to an end: {steps} steps in {:?}", net.now - start));
        }
        if change_at.is_some_and(|at| at <= net.now) {
            // At least one endpoint stays.
            let some: Vec<_> = addresses.iter().skip(1).filter(|_| random.bool()).chain(addresses.first()).collect();
            let some: Vec<_> = some.into_iter().copied().collect();
            shell.relay.set_now(net.now);
            shell.relay.dispatch();
            shell.relay.set_mesh(&mesh_of(&some));
            change_at = random.bool().then(|| net.now + Duration::from_millis(random.u64(1..200)));
        }
        for caller in &mut callers {
            caller.run(&mut net, &mut next_id)?;
        }
        shell.turn(&mut net, &mut Pods(&mut pods));
        for pod in &mut pods {
            pod.run(&mut net, &mut begun)?;
        }
        let due = callers.iter().filter_map(|caller| caller.next(&net));
        let due = due.chain(pods.iter().filter_map(|pod| pod.next(&net)));
        let due = due.chain(net.next()).chain([shell.next(&net)]).chain(change_at).chain(jump_at).min();
        let mut next = due.map_or(net.now, |at| at.max(net.now + Duration::from_micros(1)));
        if jump_at.is_some_and(|at| at <= next) {
            // The machine was suspended.
            next += Duration::from_secs(random.u64(1..20));
            jump_at = None;
            callers.iter_mut().for_each(|caller| caller.wake(next));
        }
        net.now = next;
    }
    // What is on its way arrives, and the relay ends what is left.
    for _ in 0..400 {
        net.now += Duration::from_millis(10);
        shell.turn(&mut net, &mut Pods(&mut pods));
        for pod in &mut pods {
            pod.run(&mut net, &mut begun)?;
        }
    }
    let mut total = Total { steps, virtual_time: net.now - start, ..Total::default() };
    for caller in &callers {
        total.calls += caller.begun;
        total.endings += caller.endings;
    }
    if total.calls != total.endings.all() {
        return Err(format!("{} calls have begun, and {:?} have ended", total.calls, total.endings));
    }
    let ended = callers.iter().flat_map(|caller| &caller.ended);
    if let Some(id) = ended.chain(&begun).find(|id| !shell.recorded.contains(id)) {
        return Err(format!("call {id} is not recorded"));
    }
    if !shell.relay.has_no_clients() {
        return Err("clients are left".to_owned());
    }
    check_over(&shell)?;
    pods.iter().filter_map(|pod| pod.proxy.as_ref()).try_for_each(check_over)?;
    Ok(total)
}

/// Checks that the relay holds nothing of its calls any more, and has recorded each once.
fn check_over(shell: &Shell) -> Result<(), String> {
    if let Some(id) = shell.recorded_twice {
        return Err(format!("call {id} is recorded twice"));
    }
    if shell.is_over_budget {
        return Err("a relay has held more memory than its budget".to_owned());
    }
    for cluster in shell.relay.explain() {
        let waiting: usize = cluster.endpoints.iter().map(|endpoint| endpoint.waiting).sum();
        if cluster.calls > 0 || waiting > 0 {
            return Err(format!("{} calls are left, and {waiting} wait", cluster.calls));
        }
        let in_flight: Vec<_> = cluster.endpoints.iter().map(|endpoint| endpoint.balancer.in_flight).collect();
        if in_flight.iter().any(|calls| *calls > 0) {
            return Err(format!("picks that were not finished: {in_flight:?}"));
        }
    }
    Ok(())
}

fn worlds() -> Range<u64> {
    let Ok(text) = std::env::var("LENO_WORLDS") else { return WORLDS };
    let range = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or_else(|| panic!("LENO_WORLDS={text} is not a range like 0..100"))
}

#[test]
fn every_call_ends_once_whatever_clients_servers_and_networks_do() {
    let (mut worlds_run, mut total) = (0, Total::default());
    for seed in leno_testing::seeds(worlds()) {
        let Total { calls, endings, steps, virtual_time } = run(seed).unwrap_or_else(|why| panic!("{why}"));
        worlds_run += 1;
        total.calls += calls;
        total.endings += endings;
        total.steps += steps;
        total.virtual_time += virtual_time;
    }
    let Total { calls, endings, steps, virtual_time } = total;
    println!("{worlds_run} worlds, {calls} calls, {endings:?}, {steps} steps, {virtual_time:?} of virtual time");
    if !leno_testing::is_repeated() {
        assert!(endings.answered > calls / 3, "{endings:?}: hardly any call is answered");
    }
}
