//! The scenario `graph`: a tree of services that call each other. Each service is behind a target of its own, so that
//! every call between two services passes proxies.

use std::fs;
use std::net::SocketAddr;

use super::measure::Stage;
use super::record::{GraphShape, Run};
use super::runner::Runner;
use super::schedule::Turn;
use crate::backends::{ServiceTime, start_server};
use crate::child::{Child, free_address};
use crate::error::{Result, io};
use crate::load::Exchange;
use crate::targets::{Setting, Target};

/// Default number of levels of services.
const USUAL_DEPTH: u32 = 3;
/// Default number of services that each service calls.
const USUAL_FAN_OUT: u32 = 2;
/// Maximum number of services: each is a process, and has at least one proxy.
pub(super) const SERVICES_MAX: u32 = 40;

/// Options of the scenario `graph`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GraphOptions {
    /// Scenario graph: levels of services [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub depth: Option<u32>,
    /// Scenario graph: number of services that each service calls, all at once [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub fan_out: Option<u32>,
}

impl GraphOptions {
    /// Fills in the defaults.
    pub(super) fn shape(&self) -> GraphShape {
        GraphShape { depth: self.depth.unwrap_or(USUAL_DEPTH), fan_out: self.fan_out.unwrap_or(USUAL_FAN_OUT) }
    }
}

impl Runner {
    /// Starts the services and their targets, and calls the first service.
    ///
    /// # Errors
    /// If a program does not start or ends early, or if a target refuses connections.
    pub(super) fn run_graph(&mut self, turn: &Turn, shape: GraphShape) -> Result<Run> {
        let target = self.start_graph(turn, shape)?;
        let stage = self.stage(target, Exchange::Grpc);
        let run = Stage { servers: vec![name(0, 0)], ..stage }.measure(turn)?;
        // A graph has no figures for proxies on the server side: its proxies have no separate server side.
        Ok(Run { server_proxy_cpu_us_per_call: None, server_proxy_rss_peak_bytes: None, ..run })
    }

    /// Starts the levels from the last to the first, because a service needs the addresses of the services that it
    /// calls.
    fn start_graph(&self, turn: &Turn, shape: GraphShape) -> Result<Target> {
        let mut below: Vec<SocketAddr> = Vec::new();
        let mut all: Vec<Target> = Vec::new();
        let mut services: Vec<Child> = Vec::new();
        for level in (0..shape.depth).rev() {
            let mut calls = below.chunks(shape.fan_out as usize);
            let mut addresses = Vec::new();
            for number in 0..shape.services_on(level) {
                let upstreams = calls.next().unwrap_or(&[]);
                let (service, target) = self.start_service(turn, &name(level, number), upstreams, &[])?;
                addresses.push(target.address());
                services.push(service);
                all.push(target);
            }
            below = addresses;
        }
        // The load connects to the first target of the list, so the first service's target must be first. That target
        // was started last, so reverse the list.
        all.into_iter().rev().reduce(Target::with).map(|target| target.with_services(services)).ok_or_else(no_service)
    }

    /// Starts a service and its target. The service calls `upstreams`, and gets further command line `options`.
    pub(super) fn start_service(
        &self,
        turn: &Turn,
        name: &str,
        upstreams: &[SocketAddr],
        options: &[&str],
    ) -> Result<(Child, Target)> {
        let address = free_address()?;
        let service = self.start_service_at(address, name, upstreams, options)?;
        Ok((service, self.start_target_of(turn, name, &[address])?))
    }

    /// Starts a service at `address`. The service calls `upstreams`, and gets further command line `options`.
    pub(super) fn start_service_at(
        &self,
        address: SocketAddr,
        name: &str,
        upstreams: &[SocketAddr],
        options: &[&str],
    ) -> Result<Child> {
        let ServiceTime { base_ms, spread_ms } = self.settings.service_time;
        let mut args =
            vec![format!("--name={name}"), format!("--delay-ms={base_ms}"), format!("--spread-ms={spread_ms}")];
        let list: Vec<String> = upstreams.iter().map(SocketAddr::to_string).collect();
        args.extend((!list.is_empty()).then(|| format!("--upstream={}", list.join(","))));
        args.extend(options.iter().map(|&option| option.to_owned()));
        let mut service = start_server(name, address, &args, &self.logs, &self.settings.cpus.others)?;
        service.wait_for_listener(address)?;
        Ok(service)
    }

    /// Starts the target in front of the service `name`, in a directory of its own: all targets write files of the same
    /// names.
    pub(super) fn start_target_of(&self, turn: &Turn, name: &str, addresses: &[SocketAddr]) -> Result<Target> {
        let dir = self.logs.join(format!("{name}-target"));
        fs::create_dir_all(&dir).map_err(io(format!("creating {}", dir.display())))?;
        Target::start(turn.target, &Setting { dir: &dir, ..self.setting(turn, addresses) })
    }
}

/// The name of a service in its answers.
pub(super) fn name(level: u32, number: u32) -> String {
    format!("service-{}-{}", level + 1, number + 1)
}

fn no_service() -> crate::error::Error {
    crate::error::Error::Usage("a graph needs at least one service; use --depth 1 or more".to_owned())
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
