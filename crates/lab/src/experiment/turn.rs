//! One planned run ("turn") of an experiment: starts its target, and measures the target as the scenario requires.

use std::net::SocketAddr;

use super::capacity::{confirmations_max, is_confirmed, is_limited_by_the_load, rate_to_confirm};
use super::cases::Case;
use super::measure::Stage;
use super::record::{Capacity, Run, Scenario};
use super::runner::Runner;
use super::schedule::Turn;
use crate::error::Result;
use crate::load::bulk::BulkServer;
use crate::load::{Exchange, Hello, NAMELESS};
use crate::targets::{ServerSide, Setting, Target};
use crate::tls::{SERVER, client_config};

impl Runner {
    /// Runs one turn.
    ///
    /// # Errors
    /// If a program does not start or ends early, or if the target refuses connections.
    pub(super) fn run_one(&mut self, turn: &Turn) -> Result<Run> {
        match self.settings.scenario {
            Scenario::Tcp => self.run_bytes(turn),
            Scenario::Handshakes => self.run_handshakes(turn),
            Scenario::Capacity => self.run_capacity(turn),
            Scenario::Memory => self.fresh_stage(turn)?.measure_memory(turn),
            Scenario::Footprint => self.fresh_stage(turn)?.measure_footprint(turn),
            Scenario::Graph => self.run_graph(turn, self.settings.graph.unwrap_or_default()),
            Scenario::Methods => self.fresh_stage(turn)?.measure_methods(turn),
            Scenario::RetryStorm if turn.case.condition.fault.is_chain() => self.run_chain(turn),
            _ => {
                let run = self.fresh_stage(turn)?.measure(turn)?;
                let at_ceiling = run.rate_per_s.is_none() && self.experiment.ceiling.is_near(run.rps);
                Ok(Run { at_ceiling, ..run })
            }
        }
    }

    /// Searches for the highest rate that the target sustains, and confirms it with newly started targets.
    fn run_capacity(&mut self, turn: &Turn) -> Result<Run> {
        // No target can reach the ceiling, so a quarter of it is a good first rate. The search also works if the result
        // is far from the first rate.
        let first_per_s = (self.experiment.ceiling.lowest_rps() / 4.0) as u32;
        let (found_per_s, trials) = self.fresh_stage(turn)?.search_capacity(turn, first_per_s)?;
        let mut confirmations = 0;
        loop {
            let rate = rate_to_confirm(found_per_s, confirmations);
            let case = Case { rate_per_s: Some(rate), ..turn.case };
            let mut stage = self.fresh_stage(turn)?;
            let run = stage.measure(&Turn { case, ..*turn })?;
            let is_confirmed = is_confirmed(found_per_s, &run, stage.conditions());
            confirmations += 1;
            if !is_confirmed && confirmations < confirmations_max(found_per_s) {
                continue;
            }
            let rate_per_s = is_confirmed.then_some(rate);
            let capacity = Some(Capacity { rate_per_s, found_per_s, trials, confirmations });
            let at_ceiling = self.experiment.ceiling.is_near(run.rps) || is_limited_by_the_load(&run);
            // Leave out the rate: it differs between the repeats of a case, so it cannot identify the case.
            return Ok(Run { rate_per_s: None, capacity, at_ceiling, ..run });
        }
    }

    /// A stage with a newly started target in front of the backends.
    fn fresh_stage(&mut self, turn: &Turn) -> Result<Stage<'_>> {
        let target = Target::start(turn.target, &self.setting(turn, self.backends.addresses()))?;
        let exchange = self.settings.exchange();
        Ok(self.stage(target, exchange))
    }

    fn run_bytes(&mut self, turn: &Turn) -> Result<Run> {
        let server = BulkServer::start(&self.settings.cpus.others)?;
        let target = Target::start(turn.target, &self.setting(turn, &[server.address]))?;
        self.stage(target, Exchange::Grpc).measure_bytes(turn, &server)
    }

    fn run_handshakes(&mut self, turn: &Turn) -> Result<Run> {
        let backend = self.backends.addresses()[turn.troubled];
        let side = Target::start_server_side(turn.target, &self.setting(turn, &[]), backend)?;
        let ServerSide { target, server_name, client, alpn } = side;
        let hello = Hello::new(client_config(&client, SERVER, alpn)?, &server_name)?;
        self.stage(target, Exchange::Handshake(hello)).measure(turn)
    }

    pub(super) fn setting<'a>(&'a self, turn: &Turn, backends: &'a [SocketAddr]) -> Setting<'a> {
        Setting {
            backends,
            protocol: self.settings.protocol,
            policy: turn.case.condition.policy,
            dir: &self.logs,
            cpus: &self.settings.cpus.proxy,
            programs: &self.settings.programs,
        }
    }

    pub(super) fn stage(&mut self, target: Target, exchange: Exchange) -> Stage<'_> {
        let servers = if exchange.has_server_names() { self.backends.names() } else { vec![NAMELESS.to_owned()] };
        Stage { settings: &self.settings, backends: &mut self.backends, target, exchange, servers }
    }
}
