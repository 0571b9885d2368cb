//! `leno run`: an unmodified program in a network namespace of its own, with a proxy before it: a sidecar without
//! Kubernetes.
//!
//! - [`options`] says what is asked for; [`error`] what can go wrong.
//! - [`mesh`] is what all runs share, and removes dead ones; [`member`] joins it: a number in [`state`], a place on the [`network`], copies ([`mirror`]) of what the
//!   proxy reads, [`manifests`] that others find it by, and [`hosts`] by which it finds others.
//! - [`process`] starts proxy and program, both through [`enter`]; [`supervise`] goes along until the program ends.
//!
//! The namespaces reach each other and the machine itself, which is their gateway; nothing is changed that would let
//! them go further. A run that was killed is removed by the next one, or by `leno run --clean`.

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
mod state;
mod supervise;
mod user;

use std::process::ExitCode;

use error::{Error, Result, io};
use member::{Member, PROXY_UID};
use mesh::Mesh;
pub(crate) use options::Options;
use process::Proxy;
use supervise::Signals;
use user::User;

use crate::intercept;

/// Runs the program to its end, and ends as it did.
///
/// # Errors
/// When it cannot be given a place in the mesh.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let mesh = Mesh::open(options)?;
    let removed = mesh.clean()?;
    let Some(service) = options.service.as_deref() else {
        println!("dead runs removed: {removed}");
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(io("starting the supervisor"))?.block_on(run_service(&mesh, options, service))
}

async fn run_service(mesh: &Mesh, options: &Options, service: &str) -> Result<ExitCode> {
    let mut signals = Signals::take()?;
    let mut member = Member::join(mesh, options, service)?;
    let mut proxy = Proxy::start(&member)?;
    mesh.network.inside(member.run, || intercept::up(PROXY_UID))??;
    if let Some(signal) = signals.ending().await {
        return Ok(ExitCode::from(supervise::exit_code_of(signal)));
    }
    let (address, name) = (mesh.network.address(member.run), mesh.network.name(member.run));
    let log = member.proxy_log();
    eprintln!("leno: {service} is {address} in the network namespace {name}; its proxy's log is {}", log.display());
    let mut program = process::start_program(&member, User::behind_sudo()?, &options.program)?;
    let status = supervise::supervise(&mut member, &mut signals, &mut proxy, &mut program).await;
    if status.is_err() {
        // Without its proxy it can neither call nor be called.
        let _ = program.kill();
        let _ = program.wait();
    }
    let status = status?;
    member.withdraw()?;
    proxy.drain();
    Ok(ExitCode::from(supervise::exit_code(status)))
}
