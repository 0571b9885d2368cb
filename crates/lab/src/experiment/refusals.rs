//! Combinations of options that are impossible, or have no effect.

use super::cases::SLOW_FOR;
use super::condition_options::refuse_impossible_conditions;
use super::graph::SERVICES_MAX;
use super::options::{Options, Rate, Usual, refuse};
use super::record::{GraphShape, Protocol, Scenario, TargetKind};
use super::traffic_options::refuse_impossible_traffic;
use crate::error::{Error, Result};

/// Scenario `recover`: shortest measured time. Enough time must remain after the backend was slow, to see whether the
/// backend gets its fair share again within 5 s, and keeps it.
const LEAST_RECOVER_S: u32 = 10;
/// Scenario `steady`: shortest measured time. A shorter run has too few windows of 1 s to distinguish a trend of the
/// latency from noise.
const LEAST_STEADY_S: u32 = 10;

/// Returns an error if the options are impossible together, or if an option has no effect.
pub(super) fn refuse_impossible(options: &Options) -> Result<()> {
    refuse_doubles("--targets", options.targets.as_deref())?;
    refuse_doubles("--skew-ms", options.skew_ms.as_deref())?;
    refuse_doubles("--connections", options.connections.as_deref())?;
    refuse_doubles("--rate", options.rate.as_deref())?;
    refuse_doubles("--hedge", options.conditions.hedge.as_deref())?;
    refuse_doubles("--mesh", options.cluster.mesh.as_deref())?;
    if options.cluster.cluster {
        super::cluster::refuse_impossible(options)?;
    }
    refuse_wrong_targets(options)?;
    refuse_impossible_protocol(options)?;
    refuse_impossible_traffic(options)?;
    refuse_impossible_conditions(options)?;
    let limit = "only capacity searches a rate below a limit";
    refuse(
        options.max_p99_ms.is_some() && options.scenario != Scenario::Capacity,
        "--max-p99-ms",
        options.scenario,
        limit,
    )?;
    let of_graph = options.graph.depth.is_some() || options.graph.fan_out.is_some();
    let why = "only graph has services that call services";
    refuse(of_graph && options.scenario != Scenario::Graph, "--depth or --fan-out", options.scenario, why)?;
    match options.scenario {
        Scenario::SlowPod | Scenario::Connections | Scenario::Ladder | Scenario::Crowd => Ok(()),
        Scenario::Capacity => {
            refuse(options.rate.is_some(), "--rate", Scenario::Capacity, "it searches the rate itself")
        }
        Scenario::Footprint => {
            refuse_without_proxy(options)?;
            refuse(
                options.skew_ms.is_some(),
                "--skew-ms",
                Scenario::Footprint,
                "it measures memory, which a slow backend does not change",
            )
        }
        Scenario::Steady => refuse_impossible_steady(options),
        Scenario::Rollout => refuse_impossible_rollout(options),
        Scenario::Streams => Ok(()),
        Scenario::Methods => refuse_impossible_methods(options),
        Scenario::Graph => refuse_impossible_graph(options),
        Scenario::RetryStorm => refuse_impossible_retry_storm(options),
        Scenario::Tail => refuse_impossible_tail(options),
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
        // A graph has several services. It cannot use netfilter, because the lab's rules balance only the connections
        // to one address.
        Scenario::Graph => kind == TargetKind::Direct || (kind.is_proxy() && kind != TargetKind::Tunnel),
        Scenario::RetryStorm => kind.can_retry(),
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

fn refuse_impossible_protocol(options: &Options) -> Result<()> {
    let scenario = options.scenario;
    // The scenario `footprint` needs gRPC only with the lab's own servers. On a user's workload, it makes the same
    // connections and calls with each protocol.
    let is_grpc_only = match scenario {
        Scenario::Footprint => options.cluster.workload.service.is_none(),
        _ => scenario == Scenario::Memory || !scenario.has_calls(),
    };
    if let Some(protocol @ (Protocol::Http1 | Protocol::Http2)) = options.protocol
        && is_grpc_only
    {
        return usage(format!("--protocol {} means nothing in {scenario}; leave it out", protocol.name()));
    }
    let is_closed = options.rates().is_some_and(|rates| rates.contains(&Rate::Max));
    if options.protocol() == Protocol::Http1 && options.concurrency.is_some() && is_closed {
        let what = "--concurrency means nothing with --protocol http1: each connection has one request at a time; use \
                    --connections";
        return usage(what.to_owned());
    }
    Ok(())
}

/// Rejects options that only concern calls. The scenario makes no calls.
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
    refuse_without_proxy(options)?;
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

/// Rejects targets without a proxy process. The scenario measures the memory of that process.
fn refuse_without_proxy(options: &Options) -> Result<()> {
    let Some(kind) = options.targets.iter().flatten().find(|kind| !kind.is_proxy()) else { return Ok(()) };
    let scenario = options.scenario;
    usage(format!("--targets {kind} has no proxy whose memory could be measured; leave {kind} out in {scenario}"))
}

fn refuse_impossible_steady(options: &Options) -> Result<()> {
    let why = "it looks for the end of the warm-up itself";
    refuse(options.warm_up_s.is_some(), "--warm-up-s", Scenario::Steady, why)?;
    refuse(options.traffic.warm_up_rate.is_some(), "--warm-up-rate", Scenario::Steady, why)?;
    match options.duration_s {
        Some(duration_s) if duration_s < LEAST_STEADY_S => usage(format!(
            "--duration-s {duration_s} is too short for steady: the second half is the reference for the first; use \
             {LEAST_STEADY_S} or more"
        )),
        _ => Ok(()),
    }
}

fn refuse_impossible_rollout(options: &Options) -> Result<()> {
    let why = "its backends are not slow, but restart";
    refuse(options.skew_ms.is_some(), "--skew-ms", Scenario::Rollout, why)?;
    refuse_without_grpc(options, "only the gRPC server finishes its calls when it ends")?;
    let usual = Usual::of(Scenario::Rollout);
    let least_s = options.backends.unwrap_or(usual.backends) * 2;
    match options.duration_s() {
        duration_s if duration_s < least_s => usage(format!(
            "--duration-s {duration_s} is too short for rollout: each backend restarts twice, a second apart; use {least_s} \
             or more"
        )),
        _ => Ok(()),
    }
}

fn refuse_impossible_methods(options: &Options) -> Result<()> {
    refuse_without_grpc(options, "it compares gRPC methods")?;
    let is_closed = options.rates().is_some_and(|rates| rates.contains(&Rate::Max));
    refuse(is_closed, "--rate max", Scenario::Methods, "both methods have a rate")
}

fn refuse_impossible_graph(options: &Options) -> Result<()> {
    let scenario = Scenario::Graph;
    refuse_without_grpc(options, "only gRPC servers call further services")?;
    refuse(options.skew_ms.is_some(), "--skew-ms", scenario, "it has no slow service")?;
    refuse(options.backends.is_some(), "--backends", scenario, "--depth and --fan-out determine its services")?;
    refuse(options.traffic.exchange.is_some(), "--exchange", scenario, "only unary calls reach further services")?;
    let shape = options.graph.shape();
    let (GraphShape { depth, fan_out }, services) = (shape, shape.services());
    if services <= SERVICES_MAX {
        return Ok(());
    }
    usage(format!(
        "--depth {depth} with --fan-out {fan_out} has {services} services; use fewer levels or a lower fan-out, for at \
         most {SERVICES_MAX} services"
    ))
}

fn refuse_impossible_retry_storm(options: &Options) -> Result<()> {
    let scenario = Scenario::RetryStorm;
    refuse_without_grpc(options, "its servers fail with a gRPC status")?;
    refuse(options.skew_ms.is_some(), "--skew-ms", scenario, "its servers are not slow, but fail")?;
    refuse(options.traffic.exchange.is_some(), "--exchange", scenario, "only unary calls reach the end of its chain")?;
    let is_closed = options.rates().is_some_and(|rates| rates.contains(&Rate::Max));
    refuse(is_closed, "--rate max", scenario, "retries would slow the calls down that cause them")
}

fn refuse_impossible_tail(options: &Options) -> Result<()> {
    refuse_without_grpc(options, "the lab hedges only the methods of its gRPC service")?;
    refuse(options.skew_ms.is_some(), "--skew-ms", Scenario::Tail, "its slow server is slow at random")?;
    match options.backends {
        Some(1) => usage("--backends 1 leaves no second server for a hedge; use 2 or more".to_owned()),
        _ => Ok(()),
    }
}

/// Rejects every protocol except gRPC.
fn refuse_without_grpc(options: &Options, why: &str) -> Result<()> {
    let protocol = options.protocol();
    let flag = format!("--protocol {}", protocol.name());
    refuse(protocol != Protocol::Grpc, &flag, options.scenario, why)
}

fn usage(what: String) -> Result<()> {
    Err(Error::Usage(what))
}
