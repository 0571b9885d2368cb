//! `leno intercept`: redirects the TCP connections of a network namespace to the proxy that runs in it.
//!
//! - Inbound (PREROUTING): connections from outside to an address of this namespace go to the inbound port.
//! - Outbound (OUTPUT): connections of every user except the proxy's user go to the outbound port.
//! - Guards (INPUT and OUTPUT): new connections that should have been redirected and have not been are dropped.
//!
//! Loopback traffic is not redirected in either direction: as without a mesh, an application that calls 127.0.0.1 or
//! its own address reaches itself. Calls to the application's own Service do pass the proxy, because a Service's
//! address is never an address of the namespace. UDP, and so DNS over UDP, is never redirected.
//!
//! [`options`] parses the command line, [`leno_intercept`] (for nf_tables) or [`iptables`] creates the rules, and
//! [`apply`] loads them. Only [`apply`] changes the system.

mod apply;
mod iptables;
mod options;

use std::io::{self, Write};

use clap::Subcommand;
use leno_intercept::SamePort;
use leno_intercept::kernel::LoadError;

use crate::program::ProgramError;

/// Actions on the interception.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Redirect this network namespace's TCP connections to the proxy; a second call replaces the rules of the first
    Up(options::Options),
    /// Remove all rules that `up` has loaded, from nf_tables and from iptables
    Down,
    /// Show the rules that are in force
    Show,
}

/// The reason why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The calling user may not change netfilter rules.
    #[error("changing netfilter rules needs CAP_NET_ADMIN; run it as root: sudo leno intercept ..")]
    NotPermitted,
    /// The inbound port and the outbound port of the proxy are the same.
    #[error(transparent)]
    SamePort(#[from] SamePort),
    /// No backend could load the rules.
    #[error(
        "the kernel accepted no rules ({0}); load the modules of nf_tables (modprobe -a nft_redir nft_fib_inet) or of \
         ip_tables (modprobe -a iptable_nat iptable_security ip6table_nat ip6table_security); a kernel without both \
         cannot redirect connections"
    )]
    NoBackend(String),
    /// iptables-save failed, so it is not known whether our rules are in force.
    #[error(
        "cannot read the rules that {program} has loaded: {source}; repair {program}, or uninstall it, and repeat the \
         command"
    )]
    Unreadable { program: &'static str, source: ProgramError },
    #[error(transparent)]
    Kernel(#[from] LoadError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Writing the output failed, for example because its reader closed the pipe or the disk is full.
    #[error("standard output: {0}")]
    Write(#[source] io::Error),
}

/// Redirects the connections of the calling thread's network namespace to the default ports, except connections of the
/// user `proxy_uid`.
///
/// # Errors
/// The errors of `leno intercept up`.
pub(crate) fn up(proxy_uid: u32) -> Result<(), Error> {
    apply::up(&options::Options::new(proxy_uid))
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), Error> {
        match self {
            Self::Up(options) => {
                options.redirection.check()?;
                if options.dry_run {
                    return print(&apply::preview(options));
                }
                apply::up(options)
            }
            Self::Down => apply::down(),
            Self::Show => print(&apply::show()?),
        }
    }
}

fn print(text: &str) -> Result<(), Error> {
    io::stdout().write_all(text.as_bytes()).map_err(Error::Write)
}
