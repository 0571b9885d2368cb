//! The Pods of a world (one simulated run): servers, some with a proxy of their own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fastrand::Rng;
use leno_model::proxy::TUNNEL_PORT;
use leno_model::spiffe::SpiffeId;

use crate::arrival::{From, To};
use crate::listener::Listener;
use crate::log::Seen;
use crate::mesh::{Access, Endpoint, Mirror, OPAQUE_PORTS, mesh_of_server};
use crate::net::{CableId, Net};
use crate::parts::{Part, Parts};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::shell::Listen;

/// The address of the clients and their proxy.
pub(crate) const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));

/// A Pod: its servers, its policies and, for about half of the Pods, a proxy in front of the servers.
pub(crate) struct Pod {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) applications: Applications,
    pub(crate) policies: Policies,
}

/// The policies of a Pod's proxy, over time.
pub(crate) struct Policies {
    access: Access,
    /// Whether a change of the policies may deny the clients.
    may_deny: bool,
    change_at: Option<Instant>,
    /// Whether callers without an identity were allowed at some time.
    pub(crate) were_open: bool,
    /// Whether the clients were denied at some time.
    pub(crate) have_denied: bool,
}

impl Policies {
    /// Creates policies. If `do_change` is true, they may restrict access and change over time; otherwise they allow
    /// every caller.
    fn new(do_change: bool, net: &mut Net) -> Self {
        let access = if do_change && net.random.bool() { Access::Clients } else { Access::Everyone };
        let change_at = (do_change && net.random.u8(..3) > 0).then(|| net.now + Self::pause(net));
        let may_deny = net.random.bool();
        Self { access, may_deny, change_at, were_open: access == Access::Everyone, have_denied: false }
    }

    fn pause(net: &mut Net) -> Duration {
        Duration::from_micros(net.random.u64(1..200_000))
    }

    /// Changes the policies if a change is due. Returns whether they were changed.
    fn change(&mut self, net: &mut Net) -> bool {
        if self.change_at.is_none_or(|at| at > net.now) {
            return false;
        }
        self.access = match net.random.u8(..3) {
            0 if self.may_deny => Access::Nobody,
            1 => Access::Everyone,
            _ => Access::Clients,
        };
        self.were_open |= self.access == Access::Everyone;
        self.have_denied |= self.access == Access::Nobody;
        self.change_at = net.random.bool().then(|| net.now + Self::pause(net));
        true
    }
}

/// The servers of a Pod: one speaks HTTP, the other an opaque protocol.
pub(crate) struct Applications {
    pub(crate) server: Server,
    pub(crate) listener: Listener,
}

impl Listen for Applications {
    fn accept(&mut self, address: SocketAddr, _: Option<&SpiffeId>, cable: CableId, net: &mut Net) -> bool {
        match OPAQUE_PORTS.contains(&address.port()) {
            true => self.listener.accept(address, cable, net),
            false => self.server.accept(address, cable, net),
        }
    }
}

impl Pod {
    /// Creates a Pod with the identity `own`. Its servers behave as `parts` allow.
    pub(crate) fn new(
        number: u8,
        own: Option<&SpiffeId>,
        speaks_first: bool,
        parts: Parts,
        random: &mut Rng,
        net: &mut Net,
    ) -> Self {
        let has_proxy = random.bool() && net.parts.has(Part::InboundProxies);
        let policies = Policies::new(has_proxy && own.is_some() && net.parts.has(Part::Policies), net);
        let proxy = has_proxy.then(|| Proxy::new(mesh_of_server(policies.access), own.cloned(), net));
        let server = Server::new(number, parts, net);
        let listener = Listener::new(server.address.ip(), speaks_first, u64::from(number) << 20, net);
        Self { proxy, applications: Applications { server, listener }, policies }
    }

    fn ip(&self) -> IpAddr {
        self.server().address.ip()
    }

    /// Returns the Pod as an endpoint. `have_identities` is true if the proxies of this world have identities.
    pub(crate) fn endpoint(&self, have_identities: bool) -> Endpoint {
        Endpoint { ip: self.ip(), has_identity: have_identities && self.proxy.is_some() }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.applications.server
    }

    pub(crate) fn run(&mut self, net: &mut Net, seen: &mut Seen) -> Result<(), String> {
        if let Some(proxy) = &mut self.proxy {
            if self.policies.change(net) {
                proxy.set_mesh(mesh_of_server(self.policies.access), net);
            }
            proxy.turn(net, &mut self.applications)?;
            if self.policies.access == Access::Nobody && proxy.calls() > 0 {
                return Err(format!("the policies deny every caller, and {} calls are in flight", proxy.calls()));
            }
        }
        self.applications.server.run(net, seen)?;
        self.applications.listener.run(net)
    }

    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        let Applications { server, listener } = &self.applications;
        let proxy = self.proxy.as_ref().and_then(|proxy| proxy.next(net));
        proxy.into_iter().chain(server.next(net)).chain(listener.next(net)).chain(self.policies.change_at).min()
    }
}

/// The Pod that gets copies of requests, and the copies that it has received.
pub(crate) struct MirrorPod {
    pub(crate) pod: Pod,
    pub(crate) seen: Seen,
    /// The configuration that copies requests to this Pod.
    pub(crate) mirror: Mirror,
}

impl MirrorPod {
    pub(crate) fn new(pod: Pod, have_identities: bool, net: &mut Net) -> Self {
        let mirror = Mirror::new(pod.endpoint(have_identities), net);
        Self { pod, seen: Seen { are_copies: true, ..Seen::default() }, mirror }
    }
}

/// All pods that a client's proxy can reach.
pub(crate) struct Pods<'a> {
    pub(crate) servers: &'a mut [Pod],
    pub(crate) mirror: Option<&'a mut Pod>,
}

impl Listen for Pods<'_> {
    fn accept(&mut self, address: SocketAddr, from: Option<&SpiffeId>, cable: CableId, net: &mut Net) -> bool {
        let mut pods = self.servers.iter_mut().chain(self.mirror.as_deref_mut());
        let Some(pod) = pods.find(|pod| pod.ip() == address.ip()) else { return false };
        let to = if address.port() == TUNNEL_PORT { To::Tunnel(address) } else { To::Application(address) };
        match &mut pod.proxy {
            Some(proxy) => proxy.accept(cable, From { ip: CLIENTS, identity: from }, to, net),
            None => pod.applications.accept(address, from, cable, net),
        }
    }
}
