//! The cases of an experiment, and the combinations of options that are impossible.

use std::time::Duration;

use super::options::{Options, Rate, USUAL_DURATION_S, refuse};
use super::record::{Protocol, Scenario, TargetKind};
use crate::error::{Error, Result};

/// One load with one state of the backends; every target gets each case in each repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    /// Additional latency of one backend.
    pub(super) skew_ms: u32,
    /// Client connections.
    pub(super) connections: u32,
    /// Calls in flight, all connections together.
    pub(super) concurrency: u32,
    /// Calls per second of an open loop; `None` for a closed loop.
    pub(super) rate_per_s: Option<u32>,
}

/// Scenario `recover`: how long the backend stays slow while calls are counted.
pub(super) const SLOW_FOR: Duration = Duration::from_secs(3);
/// Scenario `recover`: shortest measured time. The part after the slow time shows whether the backend gets its fair
/// share again within 5 s, and keeps it.
const LEAST_RECOVER_S: u32 = 10;
/// Scenario `memory`: calls in flight on each connection in the burst.
pub(super) const BURST_CALLS: u32 = 10;
/// Default for the maximum number of calls in flight in an open loop. If a target leaves more calls unanswered, further
/// calls fail.
const OPEN_CONCURRENCY: u32 = 1000;
const CLOSED_CONCURRENCY: u32 = 200;
/// Number of calls in flight in scenarios without calls.
const NO_CALLS: u32 = 0;

/// All cases: each skew with each number of connections and each rate.
pub(super) fn of(options: &Options) -> Result<Vec<Case>> {
    let scenario = options.scenario;
    let skews = options.skew_ms.clone().unwrap_or_else(|| usual_skews_ms(scenario).to_vec());
    let connections =
        options.connections.clone().unwrap_or_else(|| usual_connections(scenario, options.protocol).to_vec());
    let rates = options.rate.clone().unwrap_or_else(|| vec![Rate::Max]);
    let mut cases = Vec::new();
    for &rate in &rates {
        for &skew_ms in &skews {
            for &connections in &connections {
                cases.push(case(options, skew_ms, connections, rate)?);
            }
        }
    }
    Ok(cases)
}

fn case(options: &Options, skew_ms: u32, connections: u32, rate: Rate) -> Result<Case> {
    let (rate_per_s, usual) = match rate {
        Rate::Max => (None, CLOSED_CONCURRENCY),
        Rate::PerSecond(rate) => (Some(rate), OPEN_CONCURRENCY),
    };
    let one_each = options.protocol == Protocol::Http1 && rate == Rate::Max;
    let concurrency = match options.scenario {
        Scenario::Memory => connections * BURST_CALLS,
        Scenario::Tcp | Scenario::Handshakes => NO_CALLS,
        _ if one_each => connections,
        _ => options.concurrency.unwrap_or(usual),
    };
    if options.scenario.has_calls() && concurrency < connections {
        let what = format!(
            "--concurrency {concurrency} is less than --connections {connections}: each connection needs a call; use \
             --concurrency {connections} or more"
        );
        return Err(Error::Usage(what));
    }
    Ok(Case { skew_ms, connections, concurrency, rate_per_s })
}

fn usual_skews_ms(scenario: Scenario) -> &'static [u32] {
    match scenario {
        Scenario::SlowPod => &[0, 50, 200],
        Scenario::Connections | Scenario::Recover => &[50],
        Scenario::FastFail | Scenario::Memory | Scenario::Tcp | Scenario::Handshakes => &[0],
    }
}

fn usual_connections(scenario: Scenario, protocol: Protocol) -> &'static [u32] {
    match scenario {
        Scenario::SlowPod | Scenario::FastFail | Scenario::Recover if protocol == Protocol::Http1 => &[200],
        Scenario::Tcp => &[1],
        Scenario::Handshakes => &[16],
        Scenario::SlowPod | Scenario::FastFail | Scenario::Recover => &[1],
        Scenario::Connections => &[1, 2, 4, 8],
        Scenario::Memory => &[10_000],
    }
}

/// Fails if the options request something impossible or meaningless.
pub(super) fn refuse_impossible(options: &Options) -> Result<()> {
    refuse_doubles("--targets", options.targets.as_deref())?;
    refuse_doubles("--skew-ms", options.skew_ms.as_deref())?;
    refuse_doubles("--connections", options.connections.as_deref())?;
    refuse_doubles("--rate", options.rate.as_deref())?;
    refuse_wrong_targets(options)?;
    if options.protocol == Protocol::Http1 {
        refuse_impossible_http1(options)?;
    }
    match options.scenario {
        Scenario::SlowPod | Scenario::Connections => Ok(()),
        Scenario::Tcp => refuse_calls(options, "it sends bytes, not calls"),
        Scenario::Handshakes => refuse_calls(options, "it makes connections, not calls"),
        Scenario::FastFail => {
            let why = "the failing backend is not slow but fails at once";
            refuse(options.skew_ms.is_some(), "--skew-ms", options.scenario, why)
        }
        Scenario::Recover => refuse_impossible_recovery(options),
        Scenario::Memory => refuse_impossible_memory(options),
    }
}

fn refuse_doubles<T: PartialEq + std::fmt::Debug>(flag: &str, values: Option<&[T]>) -> Result<()> {
    let values = values.unwrap_or_default();
    let doubled = values.iter().enumerate().any(|(index, value)| values[..index].contains(value));
    if doubled { Err(Error::Usage(format!("{flag} names something twice; name it once"))) } else { Ok(()) }
}

/// Rejects targets that do not fit the scenario: a tunnel does not balance, and only targets with TLS have handshakes.
fn refuse_wrong_targets(options: &Options) -> Result<()> {
    let scenario = options.scenario;
    let fits = |kind: TargetKind| match scenario {
        Scenario::Handshakes => kind.has_tls(),
        Scenario::Tcp => true,
        _ => kind != TargetKind::Tunnel,
    };
    match options.targets.iter().flatten().find(|&&kind| !fits(kind)) {
        Some(kind) => {
            let what =
                format!("--targets {kind} cannot be measured in {scenario}: it is {}; leave it out", kind.what());
            Err(Error::Usage(what))
        }
        None => Ok(()),
    }
}

fn refuse_impossible_http1(options: &Options) -> Result<()> {
    if options.scenario == Scenario::Memory || !options.scenario.has_calls() {
        let what = format!("--protocol http1 means nothing in {}; leave it out", options.scenario);
        return Err(Error::Usage(what));
    }
    if options.concurrency.is_some() && options.rate.as_ref().is_none_or(|rates| rates.contains(&Rate::Max)) {
        let what = "--concurrency means nothing with --protocol http1: each connection has one request at a time; use \
                    --connections";
        return Err(Error::Usage(what.to_owned()));
    }
    Ok(())
}

/// Rejects options about calls, in a scenario without calls.
fn refuse_calls(options: &Options, why: &str) -> Result<()> {
    for (given, flag) in [
        (options.skew_ms.is_some(), "--skew-ms"),
        (options.concurrency.is_some(), "--concurrency"),
        (options.rate.is_some(), "--rate"),
    ] {
        refuse(given, flag, options.scenario, why)?;
    }
    Ok(())
}

fn refuse_impossible_recovery(options: &Options) -> Result<()> {
    if options.skew_ms.as_ref().is_some_and(|skews| skews.contains(&0)) {
        let what = "--skew-ms 0 leaves nothing to recover from; use 10 or more in recover";
        return Err(Error::Usage(what.to_owned()));
    }
    let duration_s = options.duration_s.unwrap_or(USUAL_DURATION_S);
    if duration_s < LEAST_RECOVER_S {
        let what = format!(
            "--duration-s {duration_s} is too short for recover: the backend is slow for {} s and then has to show \
             that it recovers; use {LEAST_RECOVER_S} or more",
            SLOW_FOR.as_secs()
        );
        return Err(Error::Usage(what));
    }
    Ok(())
}

fn refuse_impossible_memory(options: &Options) -> Result<()> {
    if let Some(kind) = options.targets.iter().flatten().find(|kind| !kind.is_proxy()) {
        let what = format!("--targets {kind} has no proxy whose memory could be measured; leave {kind} out in memory");
        return Err(Error::Usage(what));
    }
    let burst = "it opens connections, makes one burst of calls, and leaves";
    for (given, flag) in [
        (options.skew_ms.is_some(), "--skew-ms"),
        (options.concurrency.is_some(), "--concurrency"),
        (options.rate.is_some(), "--rate"),
        (options.duration_s.is_some(), "--duration-s"),
        (options.warm_up_s.is_some(), "--warm-up-s"),
    ] {
        refuse(given, flag, Scenario::Memory, burst)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "cases_tests.rs"]
mod tests;
