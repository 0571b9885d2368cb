//! One run: one target under one load for some seconds.

use std::thread;
use std::time::{Duration, Instant};

use super::cases::{Case, SLOW_FOR};
use super::meter::Meter;
use super::options::Settings;
use super::record::{Fault, Footprint, Run, Scenario};
use super::recovery::recovered_after_s;
use super::rollout::rollout_of;
use super::schedule::Turn;
use super::steady::steady_after_s;
use crate::backends::{Backends, Trouble};
use crate::error::Result;
use crate::load::{Exchange, Load, Plan, SLICE, Snapshot, WINDOW};
use crate::targets::Target;

/// During calls: interval between two checks that the programs still run.
const WATCH: Duration = Duration::from_millis(200);
/// Time from the reading of the proxies' memory under the load to the end of the measured time, at which the load's
/// connections begin to close.
const MEMORY_BEFORE_END: Duration = Duration::from_millis(50);
/// Interval between checks for the end of the warm-up.
const NOTICE: Duration = Duration::from_millis(1);

/// The target, the backends and the calls of one run.
pub(super) struct Stage<'a> {
    pub(super) settings: &'a Settings,
    pub(super) backends: &'a mut Backends,
    /// The target, freshly started for this run.
    pub(super) target: Target,
    /// The kind of exchange that clients make.
    pub(super) exchange: Exchange,
    /// The names that the servers put into their answers.
    pub(super) servers: Vec<String>,
}

impl Stage<'_> {
    /// Makes the calls of the planned run `turn`, and measures their cost.
    ///
    /// # Errors
    /// If a program ends early, or the target refuses connections. Failed calls are counted instead.
    pub(super) fn measure(&mut self, turn: &Turn) -> Result<Run> {
        self.measure_beside(turn, None).map(|(run, _)| run)
    }

    /// Does the same as [`Stage::measure`] while the load `other` calls the same target. The CPU time for each call is
    /// the CPU time divided by the calls of both loads. Also returns how many calls of `other` ended while CPU time was
    /// measured.
    ///
    /// # Errors
    /// The same errors as [`Stage::measure`].
    pub(super) fn measure_beside(&mut self, turn: &Turn, other: Option<&Load>) -> Result<(Run, u64)> {
        let others = || other.map_or(0, |load| load.snapshot().sent_since_start());
        self.trouble(turn)?;
        let idle = self.target.total_memory()?;
        let load = Load::start(self.plan(turn, self.settings.warm_up, self.settings.measured));
        self.wait_until_measuring(&load, self.settings.warm_up)?;
        self.target.forget_peaks();
        let start = Instant::now();
        let (before, counts_before, others_before) = (self.meter()?, self.backends.counts()?, others());
        let restarts = self.intervene(turn, &load, start)?;
        self.stay(&load, start + self.settings.measured.saturating_sub(MEMORY_BEFORE_END))?;
        let loaded = self.target.total_memory()?;
        self.stay(&load, start + self.settings.measured)?;
        let (after, counts_after, others_after) = (self.meter()?, self.backends.counts()?, others());
        let others = others_after.saturating_sub(others_before);
        let numbers = load.finish()?;
        self.ensure_running()?;
        let reached = since(&counts_after.calls, &counts_before.calls);
        let messages = since(&counts_after.messages, &counts_before.messages);
        let footprint = idle.zip(loaded).map(|((proxies, idle_bytes), (_, loaded_bytes))| Footprint {
            proxies,
            idle_bytes,
            loaded_bytes,
            ..Footprint::default()
        });
        let rollout = (self.settings.scenario == Scenario::Rollout)
            .then(|| rollout_of(self.settings.measured, &numbers.timeline, restarts));
        let messages_per_s = match self.settings.scenario {
            Scenario::Streams => {
                messages.into_iter().map(|count| count as f64 / after.seconds_since(&before)).collect()
            }
            _ => Vec::new(),
        };
        let sent = numbers.sent() + others;
        let run = self.record(turn, numbers, (&before, &after), (sent, &reached))?;
        // Check the encryption after all measurements: the check costs the proxies memory.
        self.target.ensure_encrypted()?;
        Ok((Run { footprint, rollout, messages_per_s, ..run }, others))
    }

    /// Gives the backends their faults at the beginning of the run.
    fn trouble(&self, turn: &Turn) -> Result<()> {
        match turn.case.condition.fault {
            Fault::None => self.backends.set(turn.troubled, trouble(self.settings.scenario, turn.case)),
            Fault::SlowAtTimes { percent, slow_ms } => {
                self.backends.set(turn.troubled, Trouble::SlowAtTimes { percent, slow_ms })
            }
            Fault::AllSlowAtTimes { percent, slow_ms } => {
                self.backends.set_all(Trouble::SlowAtTimes { percent, slow_ms })
            }
            Fault::Failing { percent } => self.backends.set_all(Trouble::Failing { percent }),
            Fault::Chain | Fault::ForwardingChain | Fault::TracedChain => {
                self.backends.set_all(Trouble::Failing { percent: 100 })
            }
        }
    }

    /// Changes the backends during the measured time, which began at `start`. Returns the number of restarts in each
    /// half of this time.
    fn intervene(&mut self, turn: &Turn, load: &Load, start: Instant) -> Result<[u32; 2]> {
        match self.settings.scenario {
            Scenario::Recover => {
                self.stay(load, start + SLOW_FOR)?;
                self.backends.set(turn.troubled, Trouble::NONE)?;
                Ok([0; 2])
            }
            Scenario::Rollout => self.restart_all_twice(load, start),
            _ => Ok([0; 2]),
        }
    }

    /// Waits until the load has connected and its warm-up has ended, or until the load ends early.
    pub(super) fn wait_until_measuring(&mut self, load: &Load, warm_up: Duration) -> Result<()> {
        self.stay(load, Instant::now() + warm_up)?;
        while load.snapshot().measured.is_zero() && !load.is_finished() {
            thread::sleep(NOTICE);
        }
        Ok(())
    }

    pub(super) fn plan(&self, turn: &Turn, warm_up: Duration, measured: Duration) -> Plan {
        Plan {
            clients: self.target.clients(turn.case.connections, &mut fastrand::Rng::with_seed(turn.seed)),
            servers: self.servers.clone(),
            exchange: self.exchange.clone(),
            traffic: self.settings.traffic,
            pattern: turn.case.pattern(),
            warm_up,
            measured,
            cpus: self.settings.cpus.others.clone(),
            seed: turn.seed,
        }
    }

    /// Waits until `end`, or until the load ends early because it cannot connect.
    pub(super) fn stay(&mut self, load: &Load, end: Instant) -> Result<()> {
        while !load.is_finished() {
            self.ensure_running()?;
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => thread::sleep(left.min(WATCH)),
            }
        }
        Ok(())
    }

    /// Returns an error if the target or a backend has ended.
    pub(super) fn ensure_running(&mut self) -> Result<()> {
        self.target.ensure_running()?;
        self.backends.ensure_running()
    }

    pub(super) fn meter(&self) -> Result<Meter> {
        Meter::read(&self.target, self.backends)
    }

    /// Combines the measurements into the record of the run. `sent` is the number of calls that cost the proxies CPU
    /// time between the two meter readings. `reached` is the number of calls that reached each backend.
    pub(super) fn record(
        &self,
        turn: &Turn,
        numbers: Snapshot,
        (before, after): (&Meter, &Meter),
        (sent, reached): (u64, &[u64]),
    ) -> Result<Run> {
        let (memory, server_memory) = (self.target.memory()?, self.target.server_memory()?);
        let per_call = |cpu| per_call_us(cpu, sent);
        let costs = Costs {
            cpu_us_per_call: after.proxy_since(before).map(per_call),
            server_cpu_us_per_call: after.server_proxy_since(before).map(per_call),
            peak_bytes: memory.map(|memory| memory.peak_bytes()),
            server_peak_bytes: server_memory.map(|memory| memory.peak_bytes()),
            after_bytes: memory.map(|memory| memory.resident_bytes()),
            foreign_cpu: after.foreign_since(before),
        };
        Ok(run_of(self.settings, turn, numbers, reached, costs))
    }
}

/// The costs of the proxies in a run: CPU time and memory. A field is `None` without a proxy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    /// CPU time of all proxies for each call.
    pub(super) cpu_us_per_call: Option<f64>,
    /// The part of `cpu_us_per_call` that a mesh's proxies in front of the servers used.
    pub(super) server_cpu_us_per_call: Option<f64>,
    /// Peak of the memory of the proxy beside the client.
    pub(super) peak_bytes: Option<u64>,
    /// Peak of the memory of the largest proxy in front of the servers.
    pub(super) server_peak_bytes: Option<u64>,
    /// Memory of the proxy beside the client after the calls.
    pub(super) after_bytes: Option<u64>,
    /// CPUs that programs outside the experiment used.
    pub(super) foreign_cpu: f64,
}

/// Returns the CPU time divided by the number of calls, in us.
pub(super) fn per_call_us(cpu: Duration, calls: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / calls.max(1) as f64
}

/// Calls of the measured time that were not answered with OK.
fn failed(numbers: &Snapshot) -> u64 {
    numbers.timeline.iter().map(|slice| slice.failed).sum()
}

/// The record of a run. `reached` is the number of calls that reached each server.
pub(super) fn run_of(settings: &Settings, turn: &Turn, numbers: Snapshot, reached: &[u64], costs: Costs) -> Run {
    let Case { skew_ms, connections, concurrency, rate_per_s, condition } = turn.case;
    let has_condition = settings.scenario.has_conditions() || !condition.is_usual();
    let errors = failed(&numbers);
    let calls = numbers.total.calls;
    let known = |ms: f64| (numbers.total.max_ms > 0.0).then_some(ms);
    let recovery_slice = (SLOW_FOR.as_millis() / SLICE.as_millis()) as usize;
    let warm_up_windows = (settings.warm_up.as_secs() / WINDOW.as_secs()) as usize;
    Run {
        scenario: settings.scenario,
        target: turn.target,
        skew_ms,
        condition,
        connections,
        concurrency,
        rate_per_s,
        repeat: turn.repeat,
        calls,
        errors,
        server_calls: has_condition.then(|| reached.iter().sum()),
        rps: numbers.calls_per_second(),
        min_ms: known(numbers.total.min_ms),
        mean_ms: known(numbers.total.mean_ms),
        std_dev_ms: known(numbers.total.std_dev_ms),
        p50_ms: numbers.total.p50_ms,
        p90_ms: numbers.total.p90_ms,
        p99_ms: numbers.total.p99_ms,
        p999_ms: numbers.total.p999_ms,
        max_ms: numbers.total.max_ms,
        slow_share: match settings.scenario {
            Scenario::FastFail | Scenario::Memory | Scenario::RetryStorm | Scenario::Tail => {
                share(reached, turn.troubled)
            }
            Scenario::Tcp | Scenario::Handshakes => 0.0,
            _ => numbers.shares().get(turn.troubled).copied().unwrap_or_default(),
        },
        proxy_cpu_us_per_call: costs.cpu_us_per_call,
        server_proxy_cpu_us_per_call: costs.server_cpu_us_per_call,
        proxy_rss_peak_bytes: costs.peak_bytes,
        server_proxy_rss_peak_bytes: costs.server_peak_bytes,
        proxy_rss_after_bytes: costs.after_bytes,
        foreign_cpu: costs.foreign_cpu,
        at_ceiling: false,
        late: numbers.late,
        held_up_ms: numbers.held_up.as_secs_f64() * 1000.0,
        recovered_after_s: match settings.scenario {
            Scenario::Recover => recovered_after_s(&numbers.timeline, turn.troubled, recovery_slice),
            _ => None,
        },
        throughput: None,
        proxy_rss_before_bytes: None,
        steady_after_s: steady_after_s(&numbers.windows, warm_up_windows),
        footprint: None,
        capacity: None,
        rollout: None,
        messages_per_s: Vec::new(),
        slow_method: None,
        control_plane: None,
        error_classes: numbers.classes.iter().map(|(class, count)| (class.to_string(), *count)).collect(),
        // If no call of the measured time failed, leave out the first failure: it belongs to the warm-up, which this
        // record does not count.
        first_error: numbers.first_failure.filter(|_| errors > 0),
        curve: numbers.curve,
    }
}

/// Returns the fault that the scenario gives to one backend, if the case's condition sets no fault.
pub(super) fn trouble(scenario: Scenario, case: Case) -> Trouble {
    match scenario {
        Scenario::FastFail => Trouble::Failing { percent: 100 },
        _ => Trouble::Slow(case.skew_ms),
    }
}

/// Returns the number of calls that reached each backend between two counts.
pub(super) fn since(later: &[u64], earlier: &[u64]) -> Vec<u64> {
    later.iter().zip(earlier).map(|(later, earlier)| later.saturating_sub(*earlier)).collect()
}

/// The fraction of the calls that reached one backend. The backends count the calls themselves, because a proxy may
/// hide at which backend a call failed, or retry the call at another backend. A call that the proxy sent twice counts
/// twice.
fn share(reached: &[u64], backend: usize) -> f64 {
    let all: u64 = reached.iter().sum();
    reached[backend] as f64 / all.max(1) as f64
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
