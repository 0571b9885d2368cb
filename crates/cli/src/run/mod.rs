//! `leno run`: runs an unmodified program in its own network namespace, behind a proxy: a sidecar without Kubernetes.
//!
//! - [`options`] parses the command line; [`error`] has the errors.
//! - [`mesh`] opens the state that all runs share, and removes dead runs. [`member`] joins a run to the mesh: the run
//!   gets a number in [`state`], an address on the [`network`], and copies ([`mirror`]) of the files that its proxy
//!   reads. Other runs find this run through its [`manifests`], and its program finds other runs through its [`hosts`]
//!   file.
//! - [`digest`] hashes names. Its values are the same in all builds of `leno`.
//! - [`running`] lists the runs, for commands that read their proxies.
//! - [`process`] starts the proxy and the program, both through [`enter`]; [`supervise`] watches them until the program
//!   ends.
//!
//! Programs in the namespaces can reach each other, and the machine, which is their gateway. `leno run` does not set up
//! forwarding or NAT, so they reach other machines only if the machine already forwards their packets. The next run, or
//! `leno run --clean`, removes what a killed run left behind.

mod digest;
pub(crate) mod enter;
mod error;
mod files;
mod hosts;
mod listening;
mod manifests;
mod member;
mod mesh;
mod mirror;
mod network;
mod options;
mod process;
pub(crate) mod running;
mod state;
mod supervise;
mod user;

use std::io::{Write, stdout};
use std::process::ExitCode;

use error::{Error, Result, io};
use leno_model::proxy;
use member::Member;
use mesh::Mesh;
pub(crate) use options::Options;
use process::Proxy;
use supervise::Signals;
use user::User;

use crate::intercept;

/// Runs the program to its end, and returns its exit code.
///
/// # Errors
/// If the run cannot join the mesh.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let mesh = Mesh::open(options)?;
    let removed = mesh.clean()?;
    let Some(service) = options.service.as_deref() else {
        writeln!(stdout(), "dead runs removed: {removed}").map_err(io("writing to standard output"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(io("starting the supervisor"))?.block_on(run_service(&mesh, options, service))
}

async fn run_service(mesh: &Mesh, options: &Options, service: &str) -> Result<ExitCode> {
    let mut signals = Signals::take()?;
    let mut member = Member::join(mesh, options, service)?;
    let mut proxy = Proxy::start(&member).await?;
    mesh.network.inside(member.run, || intercept::up(proxy::UID))??;
    if let Some(signal) = signals.ending().await {
        return Ok(ExitCode::from(supervise::exit_code_of(signal)));
    }
    let (address, name) = (mesh.network.address(member.run), mesh.network.name(member.run));
    let log = member.proxy_log();
    eprintln!("leno: {service} is {address} in the network namespace {name}; its proxy's log is {}", log.display());
    let mut program = process::start_program(&member, User::behind_sudo()?, &options.program)?;
    let status = supervise::supervise(&mut member, &mut signals, &mut proxy, &mut program).await;
    if status.is_err() {
        // Kill the program: without its proxy, it can neither make nor receive calls.
        let _ = program.kill();
        let _ = program.wait();
    }
    let status = status?;
    member.withdraw()?;
    proxy.drain();
    Ok(ExitCode::from(supervise::exit_code(status)))
}
