//! The cost of relaying one call: measures Leno's proxy and other proxies, such as HAProxy, under the same load.
//!
//! The five backends, the proxy under test and `h2load` are separate processes. Each round measures every target once,
//! so that a minute in which the machine is slower affects all targets. On a machine with at least two CPUs, the proxy
//! has one CPU to itself. The proxy's CPU time, as the kernel counts it, shows how much of this CPU the proxy used.

mod backends;
mod h2load;
mod idle;
mod summary;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cpus::Cpus;
use crate::error::{Error, Result, io as io_error};
use crate::experiment::record::{CallPolicy, Protocol, TargetKind};
use crate::foreground::Foreground;
use crate::targets::{Programs, Setting, Target};

use backends::Backends;
use h2load::Load;
use summary::Sample;

/// The default targets.
const TARGETS: [TargetKind; 3] = [TargetKind::Direct, TargetKind::Leno, TargetKind::Haproxy];
/// Pause after the start of all targets, before the first call.
const SETTLE: Duration = Duration::from_millis(200);

/// The kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Unary calls at full speed
    Unary,
    /// Server streams of 10,000 small messages, each sent separately
    ServerStream,
    /// Memory of connections that made one call each and then stay open
    IdleConnections,
}

impl Scenario {
    /// Default number of calls in a round, which then takes a few seconds.
    fn usual_calls(self) -> u64 {
        match self {
            Self::Unary | Self::IdleConnections => 200_000,
            Self::ServerStream => 200,
        }
    }

    fn usual_concurrency(self) -> u32 {
        match self {
            Self::Unary | Self::IdleConnections => 200,
            Self::ServerStream => 10,
        }
    }
}

/// Options of `leno relay-cost`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Scenario
    #[arg(long, value_enum, default_value_t = Scenario::Unary)]
    pub scenario: Scenario,
    /// Targets of the calls; `direct` is one backend without a proxy; `ambient` has a bare tunnel in place of ztunnel
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = TARGETS)]
    pub targets: Vec<TargetKind>,
    /// Calls of each round [default: 200000, and 200 for server-stream]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub calls: Option<u64>,
    /// Rounds of each target
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Client connections [default: 1, and 10000 for idle-connections]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=19_000))]
    pub connections: Option<u32>,
    /// Calls in flight on each connection [default: 200, and 10 for server-stream]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub concurrency: Option<u32>,
    /// Size of each unary request and response, with the gRPC prefix of 5 bytes
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(5..=16 << 20))]
    pub body_bytes: u32,
    /// CPU of the proxy; the load and the backends use the other CPUs
    #[arg(long, default_value_t = 0)]
    pub proxy_cpu: usize,
    /// Let the system choose the CPUs
    #[arg(long)]
    pub no_pin: bool,
    /// The leno-proxy binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_proxy: Option<PathBuf>,
    /// File to which every round is written as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Options {
    fn cpus(&self) -> Result<Cpus> {
        if self.no_pin { Ok(Cpus::default()) } else { Cpus::split(self.proxy_cpu, "--proxy-cpu") }
    }
}

/// The resources of a measurement: signal handling, CPUs, backends, and their temporary directory. Dropping this value
/// ends the backends, and then removes the directory.
struct Stage {
    foreground: Foreground,
    cpus: Cpus,
    backends: Backends,
    dir: tempfile::TempDir,
}

impl Stage {
    fn set_up(options: &Options) -> Result<Self> {
        // Handle signals before the directory exists. A signal that ended the process at once would leave the directory
        // behind.
        let foreground = Foreground::new()?;
        let dir = tempfile::tempdir().map_err(io_error("making a temporary directory"))?;
        let cpus = options.cpus()?;
        let backends = match options.scenario {
            Scenario::ServerStream => Backends::streaming(dir.path(), &cpus.others),
            _ => Backends::unary(options.body_bytes, dir.path(), &cpus.others),
        }?;
        Ok(Self { foreground, cpus, backends, dir })
    }
}

/// Measures the scenario, and writes progress and tables to `out`.
///
/// # Errors
/// If a required program is missing or ends, if a call fails, or if a signal ends the measurement. A missing proxy is
/// no error: `run` skips it, and writes to `out` how to install it.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    match options.scenario {
        Scenario::Unary | Scenario::ServerStream => run_calls(options, out),
        Scenario::IdleConnections => idle::run(options, out),
    }
}

fn run_calls(options: &Options, out: &mut dyn Write) -> Result<()> {
    let load = Load::new(options)?;
    let mut stage = Stage::set_up(options)?;
    let mut lines = JsonLines::create(options)?;
    let mut targets = start_targets(options, &stage, out)?;
    for target in &targets {
        load.warm_up(target, &mut stage)?;
    }
    let mut samples = Vec::new();
    for round in 1..=options.repeat {
        for target in &mut targets {
            let sample = measure(target, &load, round, &mut stage)?;
            print(out, &format!("  {sample}"))?;
            lines.write(&sample)?;
            samples.push(sample);
        }
    }
    print(out, &summary::table(&samples))
}

fn start_targets(options: &Options, stage: &Stage, out: &mut dyn Write) -> Result<Vec<Target>> {
    // Start `ambient` without ztunnel, which needs a network namespace of its own. This command does not create one.
    let programs = Programs { leno_proxy: options.leno_proxy.clone(), without_ztunnel: true, ..Programs::default() };
    let mut targets = Vec::new();
    for &kind in &options.targets {
        let setting = Setting {
            backends: &stage.backends.addresses,
            protocol: Protocol::Grpc,
            policy: CallPolicy::Once,
            dir: stage.dir.path(),
            cpus: &stage.cpus.proxy,
            programs: &programs,
        };
        match Target::start(kind, &setting) {
            Ok(target) => targets.push(target),
            Err(error @ (Error::MissingProgram { .. } | Error::NotBuilt { .. })) => {
                print(out, &format!("  {kind} skipped: {error}"))?;
            }
            Err(error) => return Err(error),
        }
    }
    std::thread::sleep(SETTLE);
    Ok(targets)
}

fn measure(target: &mut Target, load: &Load, round: u32, stage: &mut Stage) -> Result<Sample> {
    target.ensure_running()?;
    target.forget_peaks();
    let cpu_before = target.cpu_time()?;
    let start = Instant::now();
    let calls_per_second = load.run(target, stage)?;
    let elapsed = start.elapsed();
    target.ensure_running()?;
    let cpu_after = target.cpu_time()?;
    let cpu = cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let memory = target.memory()?;
    Ok(Sample {
        target: target.kind,
        round,
        calls: load.calls,
        connections: load.connections,
        concurrency: load.concurrency,
        response_bytes: stage.backends.call.response_bytes,
        calls_per_second,
        cpu_us_per_call: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / load.calls as f64),
        cpu_busy: cpu.map(|cpu| cpu.as_secs_f64() / elapsed.as_secs_f64()),
        memory,
    })
}

fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "{text}").map_err(io_error("writing to the terminal"))
}

/// The file that `--out` names; `None` without `--out`.
struct JsonLines(Option<File>);

impl JsonLines {
    fn create(options: &Options) -> Result<Self> {
        let create = |path: &PathBuf| File::create(path).map_err(io_error(format!("--out {}", path.display())));
        options.out.as_ref().map(create).transpose().map(Self)
    }

    fn write(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let Some(file) = &mut self.0 else {
            return Ok(());
        };
        serde_json::to_writer(&mut *file, line)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(io_error("writing the file of --out"))
    }
}
