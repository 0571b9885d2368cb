//! Combinations of options that are impossible, or have no effect.

use super::cases::SLOW_FOR;
use super::options::{Options, Rate, Usual, refuse};
use super::record::{Protocol, Scenario, TargetKind};
use super::traffic_options::refuse_impossible_traffic;
use crate::error::{Error, Result};

/// Scenario `recover`: shortest measured time. The part after the slow time shows whether the backend gets its fair
/// share again within 5 s, and keeps it.
const LEAST_RECOVER_S: u32 = 10;

/// Fails if the options request something impossible or meaningless.
pub(super) fn refuse_impossible(options: &Options) -> Result<()> {
    refuse_doubles("--targets", options.targets.as_deref())?;
    refuse_doubles("--skew-ms", options.skew_ms.as_deref())?;
    refuse_doubles("--connections", options.connections.as_deref())?;
    refuse_doubles("--rate", options.rate.as_deref())?;
    refuse_wrong_targets(options)?;
    if options.protocol() == Protocol::Http1 {
        refuse_impossible_http1(options)?;
    }
    refuse_impossible_traffic(options)?;
    let limit = "only capacity searches a rate below a limit";
    refuse(
        options.max_p99_ms.is_some() && options.scenario != Scenario::Capacity,
        "--max-p99-ms",
        options.scenario,
        limit,
    )?;
    match options.scenario {
        Scenario::SlowPod | Scenario::Connections | Scenario::Ladder | Scenario::Crowd => Ok(()),
        Scenario::Capacity => {
            refuse(options.rate.is_some(), "--rate", Scenario::Capacity, "it searches the rate itself")
        }
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
    if options.concurrency.is_some() && options.rates().is_some_and(|rates| rates.contains(&Rate::Max)) {
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
    let duration_s = options.duration_s.unwrap_or(Usual::of(Scenario::Recover).duration_s);
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
