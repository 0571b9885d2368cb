//! The options of `leno lab run`, and the settings that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use super::cases::{self, Case};
use super::cluster::ClusterOptions;
use super::condition_options::ConditionOptions;
use super::graph::GraphOptions;
use super::record::{GraphShape, Protocol, Scenario, TargetKind};
use super::refusals::refuse_impossible;
use super::traffic_options::{TrafficOptions, refuse_endless_calls};
use crate::backends::ServiceTime;
use crate::cpus::Cpus;
use crate::error::{Error, Result};
use crate::load::{Exchange, Traffic};
use crate::targets::Programs;

/// Default measured time of the scenario `rollout` in a cluster.
const CLUSTER_ROLLOUT_S: u32 = 120;

/// Options of `leno lab run`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Scenario: the fault of the backends
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// Protocol of clients and backends: gRPC, HTTP/2 without gRPC, or HTTP/1.1 with one request at a time on each
    /// connection [default: grpc; in ladder http1]
    #[arg(long, value_enum, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// Targets that the calls pass [default: those without TLS; in memory and footprint the proxies; in tcp and handshakes
    /// those with TLS]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub targets: Option<Vec<TargetKind>>,
    /// Additional latency of one backend, in ms [default: 0,50,200; in connections and recover 50; in methods 0,50;
    /// otherwise 0]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub skew_ms: Option<Vec<u32>>,
    /// Client connections [default: 1, and 200 for HTTP/1.1; in connections 1,2,4,8; in memory and crowd 10000; in
    /// footprint 1000; in ladder 64; in capacity, graph, handshakes, rollout and
    /// steady 16]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: Option<Vec<u32>>,
    /// Calls in flight, all connections together [default: 200, and one per connection for HTTP/1.1; with --rate at
    /// most 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub concurrency: Option<u32>,
    /// Calls per second, whether or not earlier calls were answered; max sends the next call after each answer
    /// [default: max; in ladder 100,500,1000,5000; in graph 500,600; in retry-storm 200; in crowd,
    /// footprint, methods, rollout, steady and tail 1000]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_rate)]
    pub rate: Option<Vec<Rate>>,
    /// Measured time of each run, in s [default: 10; in ladder 5; in rollout and tail 20; in steady 30; in rollout with
    /// --cluster 120]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub duration_s: Option<u32>,
    /// Time of each run before counting begins, in s [default: 3; in retry-storm 10; in steady 0]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(..=600))]
    pub warm_up_s: Option<u32>,
    /// Number of repeats of the whole measurement [default: 10; in tail 6; in crowd, graph, ladder, methods, retry-storm,
    /// rollout and streams 3; in capacity, footprint and steady 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Number of backends [default: 5; in ladder 10; in tail 2; graph has services instead]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub backends: Option<u32>,
    #[command(flatten)]
    pub traffic: TrafficOptions,
    #[command(flatten)]
    pub graph: GraphOptions,
    #[command(flatten)]
    pub conditions: ConditionOptions,
    /// Scenario capacity: also require that 99 of 100 calls take at most this, in ms
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub max_p99_ms: Option<u32>,
    /// Service time of a healthy backend, in ms, beside the backend's own work
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub work_ms: u32,
    /// Random addition to the service time: 0 to this, in ms
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub spread_ms: u32,
    /// Directory for the results, new or empty [default: lab-SCENARIO]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed for the order of the runs and for the slow backends [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Reserve CPU 0 for the proxy; the load and the backends use the others
    #[arg(long)]
    pub pin: bool,
    #[command(flatten)]
    pub programs: Programs,
    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// The pace of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// A closed loop: each answer triggers the next call.
    Max,
    /// An open loop: this number of calls per second, whether or not earlier calls were answered.
    PerSecond(u32),
}

/// The settings that follow from the options.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) scenario: Scenario,
    pub(super) protocol: Protocol,
    pub(super) traffic: Traffic,
    /// Number of backends.
    pub(super) backends: usize,
    /// The targets, in the requested order.
    pub(super) targets: Vec<TargetKind>,
    pub(super) cases: Vec<Case>,
    pub(super) repeat: u32,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    pub(super) service_time: ServiceTime,
    pub(super) out: PathBuf,
    pub(super) seed: u64,
    pub(super) cpus: Cpus,
    pub(super) programs: Programs,
    /// Scenario `capacity`: the highest p99 that a sustained rate may have, in ms.
    pub(super) max_p99_ms: Option<u32>,
    /// Scenario `graph`: the services.
    pub(super) graph: Option<GraphShape>,
}

impl Settings {
    /// The kind of exchange that clients make.
    pub(super) fn exchange(&self) -> Exchange {
        match self.protocol {
            Protocol::Http1 => Exchange::Http1,
            Protocol::Http2 => Exchange::Http2,
            Protocol::Grpc | Protocol::Tcp => Exchange::Grpc,
        }
    }
}

impl Options {
    /// Checks the options and fills in defaults.
    ///
    /// # Errors
    /// One line that names the option, if the combination is impossible.
    pub(super) fn settings(&self) -> Result<Settings> {
        refuse_impossible(self)?;
        let cases = cases::of(self)?;
        refuse_endless_calls(self, &cases)?;
        let usual = Usual::of(self.scenario);
        Ok(Settings {
            scenario: self.scenario,
            protocol: self.protocol(),
            traffic: self.traffic(),
            backends: self.backends.unwrap_or(usual.backends) as usize,
            targets: self.targets(),
            cases,
            repeat: self.repeat.unwrap_or(usual.repeat),
            warm_up: Duration::from_secs(self.warm_up_s.unwrap_or(usual.warm_up_s).into()),
            measured: Duration::from_secs(self.duration_s().into()),
            service_time: ServiceTime { base_ms: self.work_ms, spread_ms: self.spread_ms },
            out: self.out.clone().unwrap_or_else(|| format!("lab-{}", self.scenario).into()),
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            cpus: if self.pin { Cpus::split(0, "--pin")? } else { Cpus::default() },
            programs: self.programs.clone(),
            max_p99_ms: self.max_p99_ms,
            graph: (self.scenario == Scenario::Graph).then(|| self.graph.shape()),
        })
    }

    /// Returns the requested or default measured time of each run, in seconds. The default of `rollout` is longer in a
    /// cluster, where a restart takes longer.
    pub(super) fn duration_s(&self) -> u32 {
        let usual = match self.scenario {
            Scenario::Rollout if self.cluster.cluster => CLUSTER_ROLLOUT_S,
            scenario => Usual::of(scenario).duration_s,
        };
        self.duration_s.unwrap_or(usual)
    }

    /// Returns the requested targets, or else the scenario's default targets.
    pub(super) fn targets(&self) -> Vec<TargetKind> {
        self.targets.clone().unwrap_or_else(|| usual_targets(self.scenario))
    }

    /// Returns the requested traffic; the scenario's defaults replace missing options. For a user's workload, the lab
    /// adds no payload, because the load sends the user's own request.
    fn traffic(&self) -> Traffic {
        let traffic = self.traffic.traffic(self.scenario);
        match self.cluster.workload.service {
            Some(_) => Traffic { request_bytes: 0, response_bytes: 0, ..traffic },
            None => traffic,
        }
    }

    /// Returns the requested protocol, or else the default of the scenario or of the user's workload.
    pub(super) fn protocol(&self) -> Protocol {
        if let Some(protocol) = self.cluster.workload.protocol(self.protocol) {
            return protocol;
        }
        match self.scenario {
            Scenario::Tcp => Protocol::Tcp,
            Scenario::Ladder => self.protocol.unwrap_or(Protocol::Http1),
            _ => self.protocol.unwrap_or_default(),
        }
    }

    /// Returns the requested rates, or else the scenario's defaults; `None` if the scenario chooses its rates itself.
    pub(super) fn rates(&self) -> Option<Vec<Rate>> {
        let usual: &[Rate] = match self.scenario {
            Scenario::Capacity => return None,
            Scenario::Ladder => &[100, 500, 1000, 5000].map(Rate::PerSecond),
            Scenario::Graph => &[500, 600].map(Rate::PerSecond),
            Scenario::RetryStorm => &[Rate::PerSecond(200)],
            Scenario::Crowd | Scenario::Footprint | Scenario::Steady => &[Rate::PerSecond(1000)],
            Scenario::Rollout | Scenario::Methods | Scenario::Tail => &[Rate::PerSecond(1000)],
            _ => &[Rate::Max],
        };
        Some(self.rate.clone().unwrap_or_else(|| usual.to_vec()))
    }
}

/// Defaults of a scenario.
pub(super) struct Usual {
    pub(super) warm_up_s: u32,
    pub(super) duration_s: u32,
    pub(super) repeat: u32,
    pub(super) backends: u32,
}

impl Usual {
    pub(super) fn of(scenario: Scenario) -> Self {
        let usual = Self { warm_up_s: 3, duration_s: 10, repeat: 10, backends: 5 };
        match scenario {
            Scenario::Ladder => Self { duration_s: 5, repeat: 3, backends: 10, ..usual },
            Scenario::Capacity | Scenario::Footprint => Self { repeat: 2, ..usual },
            Scenario::Crowd | Scenario::Streams | Scenario::Methods => Self { repeat: 3, ..usual },
            Scenario::Steady => Self { warm_up_s: 0, duration_s: 30, repeat: 2, ..usual },
            Scenario::Rollout => Self { duration_s: 20, repeat: 3, ..usual },
            // The calls go to the graph's services. The only backend serves to measure the ceiling of the lab itself.
            Scenario::Graph => Self { repeat: 3, backends: 1, ..usual },
            // A new proxy has its whole retry budget, and may use it at once. So the warm-up is as long as the budget's
            // interval: then these first retries are not counted.
            Scenario::RetryStorm => Self { warm_up_s: 10, repeat: 3, ..usual },
            Scenario::Tail => Self { duration_s: 20, repeat: 6, backends: 2, ..usual },
            _ => usual,
        }
    }
}

fn usual_targets(scenario: Scenario) -> Vec<TargetKind> {
    let fits = |kind: &TargetKind| match scenario {
        Scenario::Tcp => *kind == TargetKind::Direct || kind.has_tls(),
        Scenario::Handshakes => kind.has_tls(),
        Scenario::Graph => *kind != TargetKind::L4 && !kind.has_tls(),
        Scenario::Memory | Scenario::Footprint => kind.is_proxy() && !kind.has_tls(),
        Scenario::RetryStorm => kind.can_retry() && !kind.has_tls(),
        Scenario::Tail => *kind == TargetKind::Leno,
        _ => !kind.has_tls(),
    };
    TargetKind::ALL.into_iter().filter(|kind| fits(kind) && !kind.is_published_condition()).collect()
}

fn parse_rate(text: &str) -> std::result::Result<Rate, String> {
    const FORM: &str = "write max, or calls per second from 1 to 1000000";
    match text {
        "max" => Ok(Rate::Max),
        number => match number.parse() {
            Ok(rate @ 1..=1_000_000) => Ok(Rate::PerSecond(rate)),
            _ => Err(FORM.to_owned()),
        },
    }
}

/// Returns an error if the user gave the option `flag`, which has no effect in the scenario.
pub(super) fn refuse(given: bool, flag: &str, scenario: Scenario, why: &str) -> Result<()> {
    if given { Err(Error::Usage(format!("{flag} means nothing in {scenario}: {why}; leave it out"))) } else { Ok(()) }
}
