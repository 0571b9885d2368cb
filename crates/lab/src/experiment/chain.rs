//! Three proxies in a row, for the scenario `retry-storm`: the load calls a service, which calls a second service, which calls
//! the backends. Every caller has a proxy that may retry.

use super::graph::name;
use super::measure::Stage;
use super::record::{Fault, Run};
use super::runner::Runner;
use super::schedule::Turn;
use crate::error::Result;
use crate::load::Exchange;

/// Number of services before the backends.
const SERVICES: u32 = 2;

impl Runner {
    /// Starts the chain from its end, and calls its first service.
    ///
    /// # Errors
    /// If a program does not start or ends early, or if a target refuses connections. Failed calls are counted instead.
    pub(super) fn run_chain(&mut self, turn: &Turn) -> Result<Run> {
        let options: &[&str] = match turn.case.condition.fault {
            Fault::ForwardingChain => &["--forward-pushback"],
            _ => &[],
        };
        let mut chain = self.start_target_of(turn, "backends", self.backends.addresses())?;
        let mut services = Vec::new();
        for level in (0..SERVICES).rev() {
            let (service, target) = self.start_service(turn, &name(level, 0), &[chain.address()], options)?;
            services.push(service);
            // The target that was started last is the one to which the load connects.
            chain = target.with(chain);
        }
        let stage = self.stage(chain.with_services(services), Exchange::Grpc);
        let run = Stage { servers: vec![name(0, 0)], ..stage }.measure(turn)?;
        // The proxies of a chain have no two sides.
        Ok(Run { server_proxy_cpu_us_per_call: None, server_proxy_rss_peak_bytes: None, ..run })
    }
}
