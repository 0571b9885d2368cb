//! `leno lab control-plane`: measures, in a large mesh, the resources that the control plane uses and the time until
//! changes reach the proxies.
//!
//! ```text
//! options -> plan -> cluster (objects) -> control -> identity -> proxies (grpc)
//!         -> changes -> arrivals -> record -> summary
//! ```
//!
//! The cluster is real; `leno-control` runs beside it on this machine. The Services have no Pods: the lab writes their
//! endpoints. The `proxies` are simulated, all on one thread; the proxy of `workload` is real.

mod arrivals;
mod changes;
mod cluster;
mod control;
mod grpc;
mod identity;
mod objects;
mod options;
mod plan;
mod proxies;
mod record;
mod summary;
mod usage;
mod workload;

use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub use options::{Options, Part};

use crate::error::{Error, Result};
use crate::experiment::record::Machine;
use crate::experiment::{Output, started, words};
use crate::foreground::Foreground;
use crate::load::allow_open_files;
use arrivals::Judged;
use changes::Changer;
use cluster::Cluster;
use control::Control;
use identity::{Credentials, certify};
use plan::{Plan, SMALL};
use proxies::{Proxies, World};
use record::{Changes, Experiment, Load, Record, Sent};
use usage::Usage;
use workload::{Called, Proxy};

/// Longest time until all simulated proxies have received all their resources.
const GATHER_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// Measures the requested parts, and writes a record after each measurement. Deletes the lab's objects from the
/// cluster, also after an error or Ctrl-C.
///
/// # Errors
/// If a program is not built or ends, the cluster rejects a request, or a simulated proxy loses its stream.
pub fn run(options: &Options) -> Result<()> {
    let plan = options.plan()?;
    let control = control::program(options.leno_control.as_deref())?;
    allow_open_files(plan.proxies)?;
    let output = Output::create(&options.out)?;
    output.describe(&experiment(plan))?;
    let mut foreground = Foreground::new()?;
    let cluster = foreground.wait(Cluster::connect(&options.kubeconfig))?;
    foreground.wait(cluster.ensure_free())?;
    let mut lab = Lab { options, plan, control, output, foreground, cluster, records: Vec::new() };
    let measured = lab.measure();
    lab.foreground.begin("deleting the lab's objects", 1);
    // A signal may have arrived in a step that does not react to signals, such as the start of a program. Forget this
    // signal: otherwise it would interrupt the deletion of the lab's objects.
    lab.foreground.forget_signals();
    let ended = lab.foreground.wait(lab.cluster.end());
    if let (Err(_), Err(left)) = (&measured, &ended) {
        lab.foreground.say(&format!("warning: {left}"))?;
    }
    measured.and(ended)?;
    let summary = summary::text(&lab.records);
    lab.output.write("summary.md", &summary)?;
    lab.foreground.say(&format!("\n{summary}"))
}

fn experiment(plan: Plan) -> Experiment {
    Experiment {
        scenario: "control-plane",
        command: words().collect::<Vec<_>>().join(" "),
        started: started(),
        plan,
        machine: Machine::here(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// One run of `leno lab control-plane`.
struct Lab<'a> {
    options: &'a Options,
    /// The large mesh.
    plan: Plan,
    /// The binary of leno-control.
    control: PathBuf,
    output: Output,
    foreground: Foreground,
    cluster: Cluster,
    records: Vec<Record>,
}

/// A mesh in the cluster, with its control plane and its simulated proxies.
struct Mesh {
    plan: Plan,
    control: Control,
    credentials: Credentials,
    proxies: Proxies,
}

impl Lab<'_> {
    fn measure(&mut self) -> Result<()> {
        if cfg!(debug_assertions) {
            self.foreground
                .say("warning: this is a debug build, whose figures say nothing; build it with --release")?;
        }
        let (measures_memory, measures_proxy) =
            (self.options.measures(Part::Memory), self.options.measures(Part::ProxyMemory));
        let called = if measures_proxy { Some(Called::start(&self.output.logs())?) } else { None };
        self.foreground.wait(self.cluster.begin())?;
        let mut cluster_ips = self.add(0..SMALL, called.as_ref())?;
        if measures_memory || measures_proxy {
            self.measure_mesh("small", self.plan.small(), &cluster_ips)?;
        }
        cluster_ips.extend(self.add(SMALL..self.plan.services, called.as_ref())?);
        self.measure_mesh("large", self.plan, &cluster_ips)
    }

    fn add(&mut self, services: Range<u32>, called: Option<&Called>) -> Result<Vec<Ipv4Addr>> {
        let bar = self.foreground.begin("Services made:", services.len() as u32);
        let served = called.map(|called| called.address);
        let adding = self.cluster.add(&self.plan, services, served, || bar.inc(1));
        self.foreground.wait(adding)
    }

    /// Measures the requested parts for a mesh. The caller has created the Services of the mesh.
    fn measure_mesh(&mut self, name: &'static str, plan: Plan, cluster_ips: &[Ipv4Addr]) -> Result<()> {
        let mut mesh = self.gather(name, plan, cluster_ips)?;
        if self.options.measures(Part::Memory) {
            self.settle()?;
            mesh.control.ensure_running()?;
            let memory = mesh.control.memory()?;
            self.record(Record::ControlMemory { mesh: plan, memory })?;
        }
        if self.options.measures(Part::ProxyMemory) {
            let name = format!("leno-proxy-{name}");
            let program = self.options.leno_proxy.as_deref();
            let mut proxy = Proxy::start(program, &mesh.control, &mesh.credentials, &name, &self.output.logs())?;
            proxy.call()?;
            self.settle()?;
            let memory = proxy.memory()?;
            self.record(Record::ProxyMemory { mesh: plan, memory })?;
        }
        if self.options.measures(Part::Changes) && plan == self.plan {
            self.change(&mesh)?;
        }
        Ok(())
    }

    /// Starts the control plane and the simulated proxies. Returns once the proxies have received all their resources.
    fn gather(&mut self, name: &'static str, plan: Plan, cluster_ips: &[Ipv4Addr]) -> Result<Mesh> {
        let log = format!("leno-control-{name}");
        let mut control = Control::start(&self.control, &self.options.kubeconfig, &log, &self.output.logs())?;
        let credentials = self.foreground.wait(self.cluster.credentials())?;
        let tls = self.foreground.wait(certify(&control.identity, &credentials))?;
        let world = World { plan, cluster_ips: cluster_ips.to_vec(), xds: control.xds.clone(), tls };
        let proxies = Proxies::start(world)?;
        let bar = self.foreground.begin("simulated proxies that have everything:", plan.proxies);
        self.foreground.wait(async {
            let end = Instant::now() + GATHER_TIMEOUT;
            loop {
                control.ensure_running()?;
                let ready = proxies.ready()?;
                bar.set_position(ready.into());
                if ready == plan.proxies {
                    return Ok(());
                }
                if Instant::now() > end {
                    let why = format!("{ready} proxies have everything after {} s", GATHER_TIMEOUT.as_secs());
                    return Err(Error::Cluster {
                        what: format!("not all of {} proxies have everything", plan.proxies),
                        why,
                    });
                }
                sleep(POLL).await;
            }
        })?;
        Ok(Mesh { plan, control, credentials, proxies })
    }

    fn change(&mut self, mesh: &Mesh) -> Result<()> {
        let Options { single_changes, changes_per_s, duration_s, seed, .. } = *self.options;
        let cluster = self.cluster.clone();
        let random = fastrand::Rng::with_seed(seed);
        let mut changer = Changer { cluster: &cluster, plan: mesh.plan, proxies: &mesh.proxies, serial: 0, random };

        let bar = self.foreground.begin("changes, one at a time:", single_changes);
        let before = Usage::read(&mesh.control)?;
        let outcome = self.foreground.wait(changer.single(single_changes, &bar))?;
        self.record_changes(mesh, Load::Single, &before, &outcome)?;

        let bar = self.foreground.begin("changes:", changes_per_s * duration_s);
        let before = Usage::read(&mesh.control)?;
        let time = Duration::from_secs(duration_s.into());
        let outcome = self.foreground.wait(changer.steady(changes_per_s, time, &bar))?;
        self.record_changes(mesh, Load::Steady { per_s: changes_per_s }, &before, &outcome)
    }

    /// Records the result of a load that has just ended.
    fn record_changes(&mut self, mesh: &Mesh, load: Load, before: &Usage, outcome: &(Sent, Judged)) -> Result<()> {
        let used = Usage::read(&mesh.control)?.since(before);
        let (sent, judged) = outcome;
        let changes = Changes::new(mesh.plan, load, sent, judged, &used, mesh.control.memory()?);
        self.record(Record::Changes(Box::new(changes)))
    }

    fn settle(&mut self) -> Result<()> {
        self.foreground.begin("memory settles, s:", self.options.settle_s);
        let time = self.options.settle();
        self.foreground.wait(async {
            sleep(time).await;
            Ok(())
        })
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.output.append(&record)?;
        self.foreground.say(&summary::line(&record))?;
        self.records.push(record);
        Ok(())
    }
}
