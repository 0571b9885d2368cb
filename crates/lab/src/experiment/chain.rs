//! Three proxies in a row, for the scenario `retry-storm`: the load calls a service, which calls a second service,
//! which calls the backends. Every caller has a proxy that may retry.

use super::graph::name;
use super::measure::Stage;
use super::record::{Fault, Run};
use super::runner::Runner;
use super::schedule::Turn;
use crate::child::free_address;
use crate::error::Result;
use crate::load::Exchange;
use crate::targets::{LenoSidecars, Target};

/// Number of services before the backends.
pub(super) const SERVICES: u32 = 2;

impl Runner {
    /// Starts the chain from its end, and calls its first service.
    ///
    /// # Errors
    /// If a program does not start or ends early, or if a target refuses connections. Failed calls are counted instead.
    pub(super) fn run_chain(&mut self, turn: &Turn) -> Result<Run> {
        let (chain, exchange) = match turn.case.condition.fault {
            Fault::TracedChain => (self.start_chain_of_sidecars(turn)?, Exchange::TracedGrpc),
            Fault::ForwardingChain => (self.start_chain(turn, &["--forward-pushback"])?, Exchange::Grpc),
            _ => (self.start_chain(turn, &[])?, Exchange::Grpc),
        };
        let stage = self.stage(chain, exchange);
        let run = Stage { servers: vec![name(0, 0)], ..stage }.measure(turn)?;
        // A chain has no separate figures for server-side proxies. Either all proxies are on the client side, or each
        // proxy process serves both the client side and the server side.
        Ok(Run { server_proxy_cpu_us_per_call: None, server_proxy_rss_peak_bytes: None, ..run })
    }

    /// Starts the chain's services with these options. The load calls the first service, each service calls the next
    /// one, and the last service calls the backends. Each of these callers has its own target, which relays its calls.
    fn start_chain(&self, turn: &Turn, options: &[&str]) -> Result<Target> {
        let mut chain = self.start_target_of(turn, "backends", self.backends.addresses())?;
        let mut services = Vec::new();
        for level in (0..SERVICES).rev() {
            let (service, target) = self.start_service(turn, &name(level, 0), &[chain.address()], options)?;
            services.push(service);
            // The load connects to the target that was started last.
            chain = target.with(chain);
        }
        Ok(chain.with_services(services))
    }

    /// Starts services, each with one Leno proxy beside it. This proxy relays both the requests that its service
    /// receives and the calls that its service makes.
    fn start_chain_of_sidecars(&self, turn: &Turn) -> Result<Target> {
        let mut proxies = LenoSidecars::before_backends(turn.target, self.setting(turn, self.backends.addresses()))?;
        let mut services = Vec::new();
        for level in (0..SERVICES).rev() {
            let (name, address) = (name(level, 0), free_address()?);
            let next = proxies.add(&name, address)?;
            services.push(self.start_service_at(address, &name, &[next], &[])?);
        }
        Ok(proxies.start_client_side()?.with_services(services))
    }
}
