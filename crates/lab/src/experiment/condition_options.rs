//! The options of `leno lab run` for random faults and for hedging, and the conditions that follow from these options.

use super::condition::{CallPolicy, Condition, Fault, HedgeDelay, parse_hedge};
use super::options::{Options, refuse};
use super::record::{Protocol, Scenario, TargetKind};
use crate::error::{Error, Result};

/// Scenario `retry-storm`: default percentage of the calls that every server fails.
const USUAL_FAIL_PERCENT: u32 = 50;
/// Scenario `tail`: default percentage of a slow server's calls that the server delays.
const USUAL_SLOW_PERCENT: u32 = 1;
const USUAL_SLOW_MS: u32 = 200;
/// Scenario `tail`: the default policies.
const USUAL_HEDGES: [CallPolicy; 4] = [
    CallPolicy::Once,
    CallPolicy::Hedge(HedgeDelay::Percentile(950)),
    CallPolicy::Hedge(HedgeDelay::Percentile(970)),
    CallPolicy::Hedge(HedgeDelay::Percentile(990)),
];

/// Options for the faults of the servers and the hedges of the proxies.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConditionOptions {
    /// Hedging by Leno's proxies: the delay, such as p95 or 30ms, after which they send a call to a second endpoint; off
    /// sends each call once [default: off; in tail off,p95,p97,p99]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_hedge)]
    pub hedge: Option<Vec<CallPolicy>>,
    /// Scenario retry-storm: percentage of the calls, chosen at random, that every server fails with UNAVAILABLE
    /// [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub fail_percent: Option<u32>,
    /// Scenario tail: percentage of a slow server's calls, chosen at random, that take --slow-ms longer [default: 1]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub slow_percent: Option<u32>,
    /// Scenario tail: additional duration of the calls of --slow-percent, in ms [default: 200]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slow_ms: Option<u32>,
}

impl ConditionOptions {
    /// The conditions under which each case of `scenario` is measured.
    pub(super) fn conditions(&self, scenario: Scenario) -> Vec<Condition> {
        match scenario {
            Scenario::RetryStorm => self.of_retry_storm(),
            Scenario::Tail => self.of_tail(),
            _ => self
                .hedges(&[CallPolicy::Once])
                .iter()
                .map(|&policy| Condition { policy, ..Condition::default() })
                .collect(),
        }
    }

    fn of_retry_storm(&self) -> Vec<Condition> {
        let failing = Fault::Failing { percent: self.fail_percent.unwrap_or(USUAL_FAIL_PERCENT) };
        let policies = [CallPolicy::Once, CallPolicy::Retry, CallPolicy::RetryUnlimited];
        let each = [Fault::None, failing, Fault::Chain].into_iter();
        let mut conditions: Vec<_> =
            each.flat_map(|fault| policies.map(|policy| Condition { fault, policy })).collect();
        // In these two chains, the services copy the header fields by which proxies stop the retries of other proxies.
        // Without retries, the copies have no effect, so measure these chains only with retries.
        let retries = [CallPolicy::Retry, CallPolicy::RetryUnlimited];
        let protected = [Fault::ForwardingChain, Fault::TracedChain].into_iter();
        conditions.extend(protected.flat_map(|fault| retries.map(|policy| Condition { fault, policy })));
        conditions
    }

    fn of_tail(&self) -> Vec<Condition> {
        let percent = self.slow_percent.unwrap_or(USUAL_SLOW_PERCENT);
        let slow_ms = self.slow_ms.unwrap_or(USUAL_SLOW_MS);
        let faults = [Fault::SlowAtTimes { percent, slow_ms }, Fault::AllSlowAtTimes { percent, slow_ms }];
        let policies = self.hedges(&USUAL_HEDGES);
        let slow = faults.into_iter().flat_map(|fault| policies.iter().map(move |&policy| Condition { fault, policy }));
        std::iter::once(Condition::default()).chain(slow).collect()
    }

    fn hedges<'a>(&'a self, usual: &'a [CallPolicy]) -> &'a [CallPolicy] {
        self.hedge.as_deref().unwrap_or(usual)
    }
}

/// Rejects faults and hedges that have no effect in the scenario. Also rejects targets that support no condition of the
/// experiment.
pub(super) fn refuse_impossible_conditions(options: &Options) -> Result<()> {
    let (scenario, conditions) = (options.scenario, &options.conditions);
    let storm = "only retry-storm has servers that fail at random";
    refuse(conditions.fail_percent.is_some() && scenario != Scenario::RetryStorm, "--fail-percent", scenario, storm)?;
    let is_slow = conditions.slow_percent.is_some() || conditions.slow_ms.is_some();
    let tail = "only tail has servers that are slow at random";
    refuse(is_slow && scenario != Scenario::Tail, "--slow-percent or --slow-ms", scenario, tail)?;
    let Some(hedges) = &conditions.hedge else { return Ok(()) };
    refuse(!scenario.has_calls(), "--hedge", scenario, "it makes no calls")?;
    refuse(scenario == Scenario::RetryStorm, "--hedge", scenario, "it compares retries")?;
    let is_grpc = options.protocol() == Protocol::Grpc;
    refuse(!is_grpc, "--hedge", scenario, "the lab hedges only the methods of its gRPC service")?;
    let others = |kind: &&TargetKind| !kind.is_leno();
    match options.targets().iter().find(others) {
        // The scenario `tail` needs no check: there, each target also runs with healthy servers and without hedges.
        Some(kind) if !hedges.contains(&CallPolicy::Once) && scenario != Scenario::Tail => Err(Error::Usage(format!(
            "--hedge has no effect on {kind}, which would have no run; add off to the list, or use --targets leno or \
                 leno-mesh"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "condition_options_tests.rs"]
mod tests;
