//! Runs Leno's balancer exactly as the proxy does. Each endpoint's address encodes the number of a simulated server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use leno_model::balance::{Balancer, Method, Outcome, Policy};

use super::{Balance, Ticket};

const NETWORK: u32 = 0x0a00_0000;

pub(super) struct Leno(Balancer);

impl Leno {
    pub(super) fn new(policy: Policy, seed: u64) -> Self {
        Self(Balancer::new(policy, seed))
    }
}

fn address(server: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(NETWORK + server as u32), 50051))
}

fn server(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(address) => (u32::from(*address.ip()) - NETWORK) as usize,
        SocketAddr::V6(_) => unreachable!("servers have IPv4 addresses"),
    }
}

impl Balance for Leno {
    fn set_endpoints(&mut self, now: Instant, servers: &[usize]) {
        self.0.set_endpoints(now, servers.iter().map(|server| address(*server)));
    }

    fn pick(&mut self, now: Instant, method: u32) -> Ticket {
        let pick = self.0.pick(now, |_| true).expect("there are always endpoints");
        let pick = pick.of(Method::of_path(&method.to_le_bytes()));
        let server = server(self.0.address(pick.endpoint).expect("just picked"));
        Ticket { pick: Some(pick), ..Ticket::to(server) }
    }

    fn answered(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration) {
        if let Some(pick) = &mut ticket.pick {
            self.0.answered(now, pick, latency);
        }
    }

    fn finish(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        if let Some(pick) = ticket.pick {
            self.0.finish(now, pick, outcome);
        }
    }

    fn state(&self, now: Instant, server: usize) -> &'static str {
        let address = address(server);
        self.0.explain(now).into_iter().find(|it| it.address == address).map_or("", |it| it.state)
    }
}
