//! A world (one simulated run): clients, one proxy for all of them, and servers, some with a proxy of their own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fastrand::Rng;
use leno_http2::Windows;
use leno_model::spiffe::SpiffeId;

use crate::arrival::{From, To};
use crate::caller::Caller;
use crate::intruder::Intruder;
use crate::line::{CUT_SHORT, ENDED, Endings, Http1, Lost, Request, STRANGE};
use crate::listener::Listener;
use crate::log::Seen;
use crate::mesh::{CLIENT, ECHO, Hedges, OPAQUE_PORTS, Repeats, Retries, SERVER, TALK, mesh_of};
use crate::net::{CableId, Net};
use crate::parts::{Part, Parts};
use crate::pod::{CLIENTS, MirrorPod, Pod, Pods};
use crate::proxy::Proxy;
use crate::speaker::Fate;
use crate::talker::Talker;

/// Longest virtual time of a world. Every client leaves after half a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// The value of `Lost::why` for a call that the policies of a server's proxy denied.
const DENIED: &str = "denied";
/// Maximum number of steps of a world.
const STEPS_MAX: u64 = 200_000;
/// The number of the Pod that gets copies of requests.
const MIRROR: u8 = 200;

const APPLICATION: From = From { ip: CLIENTS, identity: None };
const INTRUDERS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 66, 0, 1));

/// The results of one or more worlds.
#[derive(Default)]
pub(crate) struct Total {
    pub(crate) calls: u64,
    pub(crate) endings: Endings,
    pub(crate) steps: u64,
    pub(crate) virtual_time: Duration,
    /// Number of worlds in which no call may be lost.
    pub(crate) calm_worlds: u64,
    /// Number of hedges (attempts that start while an earlier attempt of the same call goes on) that reached a server.
    /// Worlds with retries add nothing, because a server cannot distinguish hedges from retries.
    pub(crate) hedges: u64,
    /// Number of relays that had finished all calls while clients were still connected. The state of these relays was
    /// checked.
    pub(crate) settled_relays: u64,
    /// Number of connections whose flow-control windows were compared on both sides, while they were still open.
    pub(crate) compared_windows: u64,
    /// Number of opaque connections. `whole_talks` counts those over which both sides received everything.
    pub(crate) talks: u64,
    pub(crate) whole_talks: u64,
    /// Number of worlds in which policies have denied all calls of intruders.
    pub(crate) guarded_worlds: u64,
    /// Number of calls that policies have denied.
    pub(crate) denied: u64,
    /// Number of opaque connections that went through a tunnel between relays.
    pub(crate) tunnelled: u64,
    /// Number of copies of requests that reached the mirror.
    pub(crate) copies: u64,
    /// Number of discovery requests that the clients' proxy sent.
    pub(crate) questions: u64,
    /// Number of answers to these requests that the control plane withdrew because the proxy did not use them.
    pub(crate) forgotten: u64,
}

impl Total {
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.endings.add(&other.endings);
        self.steps += other.steps;
        self.virtual_time += other.virtual_time;
        self.calm_worlds += other.calm_worlds;
        self.hedges += other.hedges;
        self.settled_relays += other.settled_relays;
        self.compared_windows += other.compared_windows;
        self.guarded_worlds += other.guarded_worlds;
        self.denied += other.denied;
        self.talks += other.talks;
        self.whole_talks += other.whole_talks;
        self.tunnelled += other.tunnelled;
        self.copies += other.copies;
        self.questions += other.questions;
        self.forgotten += other.forgotten;
    }
}

struct World {
    start: Instant,
    random: Rng,
    net: Net,
    have_identities: bool,
    pods: Vec<Pod>,
    mirror: Option<MirrorPod>,
    /// The proxy of the clients.
    proxy: Proxy,
    callers: Vec<Caller>,
    /// Clients of the opaque protocol.
    talkers: Vec<Talker>,
    intruders: Vec<Intruder>,
    next_id: u64,
    seen: Seen,
    change_at: Option<Instant>,
    suspend_at: Option<Instant>,
    was_suspended: bool,
    steps: u64,
}

/// Runs a world to its end. Returns an error if an invariant is broken.
pub(crate) fn run(seed: u64, parts: Parts) -> Result<Total, String> {
    let mut world = World::new(seed, parts);
    while !world.is_quiet() {
        world.steps += 1;
        let time = world.net.now - world.start;
        if time > LONGEST || world.steps > STEPS_MAX {
            return Err(format!("the world does not come to an end: {} steps in {time:?}", world.steps));
        }
        world.change();
        world.step()?;
        world.sleep();
    }
    world.end()
}

impl World {
    fn new(seed: u64, parts: Parts) -> Self {
        let mut random = Rng::with_seed(seed);
        // In a third of the worlds, leave out the parts that may prevent an answer to a call.
        let obstacles =
            [Part::ServerFaults, Part::SmallLimits, Part::SmallBudgets, Part::Suspension, Part::LostAnswers];
        let is_calm = random.u8(..3) == 0;
        let all_parts = parts;
        let parts = obstacles.into_iter().filter(|_| is_calm).fold(parts, Parts::without);
        let start = Instant::now();
        let mut net = Net::new(start, random.fork(), parts);
        let servers = if parts.has(Part::ManyServers) { random.u8(1..5) } else { 1 };
        let speaks_first = random.bool();
        let have_identities = random.bool() && parts.has(Part::Identities);
        let id_of = |workload: &str| {
            let id = format!("spiffe://cluster.local/{workload}");
            have_identities.then(|| id.parse::<SpiffeId>().expect("an identity"))
        };
        let own = id_of(SERVER);
        let mut pod = |number, parts| Pod::new(number, own.as_ref(), speaks_first, parts, &mut random, &mut net);
        let mut pods: Vec<_> = (1..=servers).map(|number| pod(number, parts)).collect();
        // The mirror may have faults in a calm world, too: whatever it does, no call of a client may be lost.
        let mirror_pod = pod(MIRROR, all_parts);
        let has_mirror = random.u8(..4) == 0 && parts.has(Part::Mirrors);
        let mut mirror = has_mirror.then(|| MirrorPod::new(mirror_pod, have_identities, &mut net));
        let endpoints: Vec<_> = pods.iter().map(|pod| pod.endpoint(have_identities)).collect();
        let has_retries = !random.bool() && parts.has(Part::Retries);
        let has_hedges = random.u8(..3) == 0 && parts.has(Part::Hedges);
        let retries = has_retries.then(|| Retries::new(&mut net));
        let repeats = Repeats { retries, hedges: has_hedges.then(|| Hedges::new(&mut net)) };
        let proxies = pods.iter_mut().filter_map(|pod| pod.proxy.as_mut());
        proxies.for_each(|proxy| proxy.log.may_repeat = !repeats.are_none() || have_identities);
        let copying = mirror.as_mut().map(|mirror| {
            mirror.pod.proxy.iter_mut().for_each(|proxy| proxy.log.may_repeat = true);
            &mirror.mirror
        });
        let proxy = Proxy::new(mesh_of(&endpoints, &repeats, copying), id_of(CLIENT), &mut net);
        let clients = if parts.has(Part::ManyClients) { random.u8(1..5) } else { 1 };
        let mut callers: Vec<_> = (0..clients).map(|_| Caller::new(&mut net, random.u32(1..40))).collect();
        for caller in callers.iter_mut().filter(|caller| caller.is_late) {
            // The first server stays in the mesh, so connect to its address or to the Service.
            let server = pods.first().filter(|_| random.bool()).map(|pod| pod.server().address);
            caller.to = Some(server.unwrap_or(SocketAddr::from((ECHO, 80))));
            caller.unread_for = proxy.unread_for();
        }
        let talkers = Self::talkers(speaks_first, &mut random, &mut net);
        let intruders = Self::intruders(&mut random, &mut net, &pods);
        // Only the last server turns hostile. So the first server, which always stays in the mesh, is well-behaved
        // unless it is the only server.
        if random.u8(..4) == 0 && parts.has(Part::HostileServers) {
            pods.iter_mut().last().into_iter().for_each(|pod| pod.applications.server.turn_hostile());
            callers.iter_mut().for_each(|caller| caller.outcome.may_be_strange = true);
        }
        if random.u8(..4) == 0 && parts.has(Part::HostileServers) {
            mirror.iter_mut().for_each(|mirror| mirror.pod.applications.server.turn_hostile());
        }
        let change_at = random.bool().then(|| start + Duration::from_millis(random.u64(1..200)));
        let suspend_at = (random.u8(..10) == 0).then(|| start + Duration::from_millis(random.u64(1..200)));
        Self {
            start,
            random,
            net,
            have_identities,
            pods,
            mirror,
            proxy,
            callers,
            talkers,
            intruders,
            next_id: 1,
            seen: Seen { repeats, ..Seen::default() },
            change_at: change_at.filter(|_| parts.has(Part::Changes)),
            suspend_at: suspend_at.filter(|_| parts.has(Part::Suspension)),
            was_suspended: false,
            steps: 0,
        }
    }

    /// Creates clients of the opaque protocol.
    fn talkers(speaks_first: bool, random: &mut Rng, net: &mut Net) -> Vec<Talker> {
        let number = if random.u8(..3) == 0 && net.parts.has(Part::Opaque) { random.u64(1..8) } else { 0 };
        let mut talker = |id| {
            let port = random.choice(OPAQUE_PORTS).unwrap_or_default();
            Talker::new(2 * id + 1, SocketAddr::from((TALK, port)), speaks_first && random.bool(), net)
        };
        (0..number).map(&mut talker).collect()
    }

    /// Creates hostile clients. Each connects to the clients' proxy or to the proxy of a server.
    fn intruders(random: &mut Rng, net: &mut Net, pods: &[Pod]) -> Vec<Intruder> {
        let number = if random.u8(..4) == 0 && net.parts.has(Part::HostileClients) { random.u8(1..4) } else { 0 };
        let proxies: Vec<_> = pods.iter().filter(|pod| pod.proxy.is_some()).map(|pod| pod.server().address).collect();
        let mut to = || random.bool().then(|| random.choice(proxies.iter().copied())).flatten();
        (0..number).map(|_| Intruder::new(net, to())).collect()
    }

    fn is_quiet(&self) -> bool {
        self.callers.iter().all(Caller::is_done)
            && self.talkers.iter().all(|talker| talker.is_gone)
            && self.intruders.iter().all(|intruder| intruder.is_gone)
    }

    /// Changes the mesh if that is due.
    fn change(&mut self) {
        if self.change_at.is_none_or(|at| at > self.net.now) {
            return;
        }
        let (random, now) = (&mut self.random, self.net.now);
        let endpoints: Vec<_> = self.pods.iter().map(|pod| pod.endpoint(self.have_identities)).collect();
        // Never remove the first endpoint.
        let some: Vec<_> = endpoints.iter().skip(1).filter(|_| random.bool()).chain(endpoints.first()).collect();
        let some: Vec<_> = some.into_iter().copied().collect();
        let mirror = self.mirror.as_ref().map(|mirror| &mirror.mirror).filter(|_| random.bool());
        self.proxy.set_mesh(mesh_of(&some, &self.seen.repeats, mirror), &self.net);
        self.change_at = random.bool().then(|| now + Duration::from_millis(random.u64(1..200)));
    }

    fn step(&mut self) -> Result<(), String> {
        let (net, proxy) = (&mut self.net, &mut self.proxy);
        for caller in &mut self.callers {
            let to = caller.to;
            caller.run(net, &mut self.next_id, |net| {
                let cable = net.open();
                proxy.accept(cable, APPLICATION, To::Mesh(to), net).then_some(cable)
            })?;
        }
        for talker in &mut self.talkers {
            let to = Some(talker.to);
            talker.run(net, |net| {
                let cable = net.open();
                proxy.accept(cable, APPLICATION, To::Mesh(to), net).then_some(cable)
            })?;
        }
        for intruder in &mut self.intruders {
            let to = intruder.to;
            let inbound = self.pods.iter_mut().find(|pod| Some(pod.server().address) == to);
            let target = inbound.and_then(|pod| pod.proxy.as_mut()).unwrap_or(proxy);
            intruder.run(net, |net| {
                let cable = net.open();
                let to = to.map_or(To::Mesh(None), To::Application);
                target.accept(cable, From { ip: INTRUDERS, identity: None }, to, net).then_some(cable)
            })?;
        }
        let mirror = self.mirror.as_mut().map(|mirror| &mut mirror.pod);
        proxy.turn(net, &mut Pods { servers: &mut self.pods, mirror })?;
        if proxy.has_told_all() && !self.callers.iter().all(Caller::knows_of_drain) {
            return Err("a relay drains, and a client does not know it".to_owned());
        }
        self.mirror.iter_mut().try_for_each(|MirrorPod { pod, seen, .. }| pod.run(net, seen))?;
        self.pods.iter_mut().try_for_each(|pod| pod.run(net, &mut self.seen))
    }

    /// Advances the time to the next action.
    fn sleep(&mut self) {
        let net = &self.net;
        let due = self.callers.iter().filter_map(|caller| caller.next(net));
        let due = due.chain(self.talkers.iter().filter_map(|talker| talker.next(net)));
        let due = due.chain(self.intruders.iter().filter_map(|intruder| intruder.next(net)));
        let due = due.chain(self.all_pods().filter_map(|pod| pod.next(net)));
        let due = due.chain(net.next()).chain(self.proxy.next(net)).chain(self.change_at).chain(self.suspend_at).min();
        let mut next = due.map_or(net.now, |at| at.max(net.now + Duration::from_micros(1)));
        if self.suspend_at.take_if(|at| *at <= next).is_some() {
            let by = Duration::from_secs(self.random.u64(1..20));
            next += by;
            self.was_suspended = true;
            self.callers.iter_mut().for_each(|caller| caller.suspend(next, by));
            self.talkers.iter_mut().for_each(|talker| talker.suspend(by));
            self.intruders.iter_mut().for_each(|intruder| intruder.wake(next));
        }
        self.net.now = next;
    }

    fn rest(&mut self, turns: u32, pause: Duration) -> Result<(), String> {
        for _ in 0..turns {
            self.net.now += pause;
            self.step()?;
        }
        Ok(())
    }

    fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().chain(self.mirror.iter().map(|mirror| &mirror.pod))
    }

    /// Returns the proxies on the path of clients' calls: the clients' proxy and the servers' proxies.
    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.pods.iter().filter_map(|pod| pod.proxy.as_ref()).chain([&self.proxy])
    }

    /// Returns all proxies, including the mirror's proxy.
    fn all_proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.all_pods().filter_map(|pod| pod.proxy.as_ref()).chain([&self.proxy])
    }

    /// Returns whether the policies of a server's proxy have denied the clients at some time.
    fn have_denied(&self) -> bool {
        self.pods.iter().any(|pod| pod.policies.have_denied)
    }

    /// Returns whether a call is lost because the policies of a server's proxy have denied it.
    fn is_denied(&self, lost: &Lost) -> bool {
        // If a change of policies denies a call whose HTTP/1 response has begun, the relay cannot send the reason, and
        // cuts the response.
        let is_cut = lost.request.http1.is_some() && lost.why == CUT_SHORT;
        let has_recorded = |proxy: &Proxy| proxy.log.denied.contains(&lost.attempt);
        self.have_denied() && (lost.why == DENIED || is_cut) && self.proxies().any(has_recorded)
    }

    /// Returns whether nothing in this world could cause the loss of a call, so that each lost call is a fault.
    fn is_calm(&self) -> bool {
        self.is_calm_apart_from_policies() && !self.have_denied()
    }

    /// Returns whether nothing in this world, except a denial by a policy, could cause the loss of a call.
    fn is_calm_apart_from_policies(&self) -> bool {
        // The first server stays in the mesh, so calls can always reach it, except while its proxy drains.
        let drains = |proxy: &Proxy| proxy.has_drained;
        let is_reachable = self.pods.first().is_some_and(|pod| !pod.proxy.as_ref().is_some_and(drains));
        is_reachable
            && !self.was_suspended
            && self.seen.repeats.retries.is_none_or(|retries| retries.attempt_ms.is_none())
            && self.pods.first().is_some_and(|pod| !pod.server().is_hostile())
            && self.proxies().all(Proxy::is_calm)
            && self.pods.iter().all(|pod| !pod.server().has_faults())
    }

    fn end(mut self) -> Result<Total, String> {
        // In these 300 ms, bytes in transit arrive. The remaining clients keep their connections.
        self.rest(30, Duration::from_millis(10))?;
        let settled_relays = self.check_settled()?;
        let compared_windows = self.check_windows()?;
        self.callers.iter_mut().for_each(|caller| caller.leave(&mut self.net));
        // In these 500 ms, bytes in transit arrive, and the relays end the remaining calls. Then servers give up: a relay
        // does not read the rest of an HTTP/1 request while the server takes no content, so it may notice only then that
        // the client has left.
        self.rest(50, Duration::from_millis(10))?;
        let pods = self.pods.iter_mut().chain(self.mirror.iter_mut().map(|mirror| &mut mirror.pod));
        pods.for_each(|pod| pod.applications.server.stop(&mut self.net));
        self.rest(100, Duration::from_millis(10))?;
        // A call may wait up to `max_wait_ms` for a connection. In the server's proxy, each attempt may also wait up to
        // `discovery_timeout_ms` for the control plane.
        let turns = if self.proxies().any(Proxy::has_lost_answers) { 400 } else { 150 };
        self.rest(turns, Duration::from_millis(100))?;
        let mut total = Total {
            steps: self.steps,
            virtual_time: self.net.now - self.start,
            settled_relays,
            compared_windows,
            ..Total::default()
        };
        for caller in &self.callers {
            total.calls += caller.begun;
            total.endings.add(&caller.outcome.endings);
            total.denied += caller.outcome.lost.iter().filter(|lost| self.is_denied(lost)).count() as u64;
        }
        let fates = self.talkers.iter().filter_map(Talker::fate);
        total.talks = self.talkers.len() as u64;
        total.copies = self.mirror.as_ref().map_or(0, |mirror| mirror.seen.attempts.len()) as u64;
        (total.questions, total.forgotten) = (self.proxy.questions, self.proxy.forgotten);
        total.tunnelled = self.proxies().map(|proxy| proxy.log.tunnelled).sum();
        total.whole_talks = fates.filter(|fate| *fate == Fate::Whole).count() as u64;
        if total.calls != total.endings.all() {
            return Err(format!("{} calls have begun, and {:?} have ended", total.calls, total.endings));
        }
        self.check_recorded()?;
        self.all_proxies().try_for_each(Proxy::check_calls_over)?;
        self.proxy.check_clients_gone()?;
        total.calm_worlds = u64::from(self.is_calm());
        total.hedges = if self.seen.repeats.retries.is_none() { self.seen.repeated } else { 0 };
        self.check_none_lost()?;
        self.check_none_hangs()?;
        self.check_sent_whole()?;
        self.check_talks()?;
        total.guarded_worlds = u64::from(self.check_guarded()?);
        self.net.reset_all();
        self.rest(20, Duration::from_millis(10))?;
        self.all_proxies().try_for_each(Proxy::check_empty)?;
        Ok(total)
    }

    /// Checks that no relay keeps state of ended calls, and that each copy of their requests is complete or cancelled.
    /// Returns the number of relays without calls.
    fn check_settled(&self) -> Result<u64, String> {
        // The mirror's proxy may still wait for the answer of its control plane.
        let may_wait = |pod: &&Pod| pod.proxy.as_ref().is_some_and(|proxy| proxy.discovers);
        let mirror = self.mirror.as_ref().map(|mirror| &mirror.pod).filter(|pod| !may_wait(pod)).map(Pod::server);
        if let Some(mirror) = mirror.filter(|server| !server.is_hostile() && !self.was_suspended) {
            if let Some(id) = mirror.incomplete() {
                return Err(format!("call {id} is over, and the rest of its copy is neither sent nor cancelled"));
            }
            if mirror.has_output() {
                return Err("all calls are over, and the responses to their copies are not read".to_owned());
            }
        }
        self.all_proxies().map(|proxy| proxy.check_settled().map(u64::from)).sum()
    }

    /// Checks that both sides of each open connection count the same flow-control windows. Returns the number of
    /// connections.
    fn check_windows(&mut self) -> Result<u64, String> {
        let mut compared = 0;
        let mut check = |(cable, peer): (CableId, Windows), proxy: &mut Proxy| {
            let Some(relay) = proxy.windows(cable) else { return Ok(()) };
            compared += 1;
            let is_whole =
                |side: Windows| side.receive_bytes + i64::from(side.owed_bytes) == i64::from(side.whole_bytes);
            let are_equal = relay.send_bytes == peer.receive_bytes && peer.send_bytes == relay.receive_bytes;
            match are_equal && is_whole(relay) && is_whole(peer) {
                true => Ok(()),
                false => Err(format!("windows do not add up: {relay:?} of the relay and {peer:?} of its peer")),
            }
        };
        for windows in self.callers.iter().flat_map(|caller| caller.windows(&self.net)) {
            check(windows, &mut self.proxy)?;
        }
        // Exclude hostile servers: they announce and use credit that their own engine does not count.
        let pods = self.pods.iter_mut().chain(self.mirror.iter_mut().map(|mirror| &mut mirror.pod));
        for pod in pods.filter(|pod| !pod.server().is_hostile()) {
            let windows = pod.server().windows(&self.net);
            let proxy = pod.proxy.as_mut().unwrap_or(&mut self.proxy);
            windows.into_iter().try_for_each(|windows| check(windows, proxy))?;
        }
        Ok(compared)
    }

    fn check_recorded(&self) -> Result<(), String> {
        let ended = self.callers.iter().flat_map(|caller| &caller.outcome.ended);
        let copied = self.mirror.iter().flat_map(|mirror| &mirror.seen.attempts);
        let begun = self.seen.attempts.iter().chain(copied);
        // Exclude late clients, which are silent at first: a server may close the connection during the silence, and
        // then no relay records the client's requests.
        let sent = self.callers.iter().filter(|caller| !caller.is_late).flat_map(|caller| &caller.outcome.sent);
        // After a suspension, a relay may close a connection that has been silent for too long while a request is on
        // its way.
        let sent = sent.filter(|_| self.proxy.records_all() && !self.was_suspended);
        match ended.chain(begun).chain(sent).find(|id| !self.proxy.log.recorded.contains(id)) {
            Some(id) => Err(format!("attempt {id} is not recorded")),
            None => Ok(()),
        }
    }

    fn check_none_lost(&self) -> Result<(), String> {
        let is_fault = |lost: &&Lost| !self.may_be_lost(lost) && !may_be_lost(&lost.request, &lost.why);
        for caller in &self.callers {
            if let Some(Lost { request, why, .. }) = caller.outcome.lost.iter().find(is_fault) {
                return Err(format!("nothing stood in the way of {request:?}, and it is lost: {why}"));
            }
        }
        Ok(())
    }

    /// Checks that no call hung. When its client left, no old call may have been open, and the client must have made
    /// all its calls.
    fn check_none_hangs(&self) -> Result<(), String> {
        for caller in &self.callers {
            let hangs = |request: &&Request| !self.may_hang(request);
            if let Some(request) = caller.outcome.unanswered.iter().find(hangs) {
                return Err(format!("{request:?} hangs"));
            }
            if caller.outcome.has_unmade_calls && !self.may_starve() {
                return Err("a client cannot make all its calls".to_owned());
            }
        }
        Ok(())
    }

    /// Checks that the whole request of each answered call has reached the server.
    fn check_sent_whole(&self) -> Result<(), String> {
        // If a call goes to several servers, only the server that answers first gets the whole request.
        if !self.is_calm() || !self.seen.repeats.are_none() {
            return Ok(());
        }
        let mut sent = self.callers.iter().flat_map(|caller| &caller.outcome.sent_whole);
        match sent.find(|id| self.seen.incomplete.contains(id)) {
            Some(id) => Err(format!("the server has answered call {id}, and does not get the rest of the request")),
            None => Ok(()),
        }
    }

    /// Checks that no request of an intruder has reached a server. The check applies if all intruders call servers'
    /// proxies, and these proxies have always denied callers without an identity. Returns whether it applies.
    fn check_guarded(&self) -> Result<bool, String> {
        let are_open = self.pods.iter().any(|pod| pod.proxy.is_some() && pod.policies.were_open);
        if are_open || self.intruders.is_empty() || self.intruders.iter().any(|intruder| intruder.to.is_none()) {
            return Ok(false);
        }
        match self.seen.strange {
            0 => Ok(true),
            strange => Err(format!("{strange} requests of callers that the policies deny have reached a server")),
        }
    }

    /// Checks how the opaque connections have ended.
    fn check_talks(&self) -> Result<(), String> {
        let listeners = || self.pods.iter().map(|pod| &pod.applications.listener);
        let of_clients: Vec<_> = self.talkers.iter().filter_map(Talker::fate).collect();
        let of_servers: Vec<_> = listeners().flat_map(|listener| listener.fates.iter().copied()).collect();
        let have = |fate: Fate| of_clients.contains(&fate) || of_servers.contains(&fate);
        let fates = format!("clients: {of_clients:?}, servers: {of_servers:?}");
        if have(Fate::Short) {
            return Err(format!("an opaque connection ends in order before everything has arrived: {fates}"));
        }
        // A server receives nothing if its client leaves early. A relay may close a connection on which neither side
        // has sent anything: when the relay drains, or when another connection needs the memory or the slot in the
        // listener.
        let may_close = |proxy: &Proxy| proxy.has_drained || proxy.have_yielded || !proxy.is_calm();
        let may_be_closed = self.proxies().any(may_close) || self.have_denied();
        if of_clients.contains(&Fate::Unheard) && !may_be_closed {
            return Err(format!("an opaque connection ends in order, and the client has heard nothing: {fates}"));
        }
        let is_calm = self.is_calm() && !may_be_closed && !listeners().any(Listener::has_faults);
        if is_calm && !have(Fate::Broken) && of_clients.iter().any(|fate| *fate != Fate::Whole) {
            return Err(format!("nothing stood in the way of an opaque connection, and it is cut: {fates}"));
        }
        let heard = self.talkers.iter().filter(|talker| talker.has_heard()).count();
        let recorded = self.proxy.log.opaque;
        if heard > recorded {
            return Err(format!("{heard} clients have heard a server, and {recorded} opaque connections are recorded"));
        }
        Ok(())
    }

    /// Returns whether a server may have left this call without an answer, so that a call without a deadline never
    /// ends.
    fn may_hang(&self, request: &Request) -> bool {
        // A hostile server may never answer. If the relay repeats a call, the hostile server may get a call that
        // another server has already got.
        let may_have_reached_hostile = self.pods.iter().any(|pod| pod.server().is_hostile())
            && (!self.seen.calls.contains_key(&request.id)
                || !self.seen.repeats.are_none()
                || request.http1.is_some_and(Http1::is_idempotent));
        self.seen.never_answered.contains(&request.id) || may_have_reached_hostile
    }

    /// Returns whether a client may be unable to make its next call because it gets no connection.
    fn may_starve(&self) -> bool {
        // A call that never ends occupies a connection, which counts against the listener's connection limit. A
        // draining relay accepts no connection.
        let is_shut = |proxy: &Proxy| proxy.has_drained || proxy.have_yielded;
        self.proxies().any(is_shut)
            || self.pods.iter().any(|pod| pod.server().has_faults() || pod.server().is_hostile())
    }

    /// Returns whether an event in this world may have caused the loss of a call. A well-behaved server answers all
    /// calls that it has received.
    fn may_be_lost(&self, lost: &Lost) -> bool {
        let Lost { request, why, .. } = lost;
        let was_seen = self.seen.calls.contains_key(&request.id);
        let is_idempotent = request.http1.is_some_and(Http1::is_idempotent);
        if why == STRANGE {
            // After a well-behaved server has received a request, a relay may still repeat it at a hostile server: if
            // the request is idempotent, or if the Service has retries or hedging.
            return !was_seen || is_idempotent || !self.seen.repeats.are_none();
        }
        let has_hostile = self.pods.iter().any(|pod| pod.server().is_hostile());
        // If a call is hedged, a hostile server may answer faster than a well-behaved server.
        let is_outrun = has_hostile && self.seen.repeats.hedges.is_some();
        // If the listener is full, a relay may close a connection without calls to make room for another connection,
        // while a request is on its way.
        let have_yielded = self.proxies().any(|proxy| proxy.have_yielded);
        // An HTTP/1 connection may end while a request is on its way. Then a relay repeats an idempotent request, except
        // in two cases:
        // - The relay has opened the connection for this request. Such a connection ends if the server's proxy drains, and
        //   has not read from the connection yet.
        // - A policy allows a single retry, and the retry's connection has ended in the same way.
        let has_drained = self.proxies().any(|proxy| proxy.has_drained);
        let is_lost = !is_idempotent || has_drained || self.seen.repeats.retries.is_some();
        let is_race = request.http1.is_some() && (why == ENDED || (why == "connection-closed" && is_lost));
        !self.is_calm_apart_from_policies()
            || self.is_denied(lost)
            || is_outrun
            || (!was_seen && (has_hostile || have_yielded || is_race))
    }
}

/// Returns whether a call may be lost for the reason `why` even in a calm world.
fn may_be_lost(request: &Request, why: &str) -> bool {
    match why {
        "deadline-exceeded" => true,
        // The relay buffers at most this many bytes of a request to send it again, so it cannot repeat a longer
        // request.
        "refused" => request.request_bytes > 65_536,
        "connection-closed" => request.http1.is_some() && request.request_bytes > 65_536,
        _ => false,
    }
}
