//! `leno intercept`: redirects the TCP connections of a network namespace to the proxy that runs in it.
//!
//! - Inbound (PREROUTING): what comes from elsewhere to an address of this namespace goes to the inbound port.
//! - Outbound (OUTPUT): what anybody but the proxy's own user calls goes to the outbound port.
//!
//! What stays on loopback is left alone in both directions: an application that calls 127.0.0.1, or its own address,
//! talks to itself, as it does without a mesh. A Service's address is never one of the namespace's own, so calls to
//! one's own Service do go through the proxy. UDP, and with it DNS, is never touched.
//!
//! [`options`] -> text ([`nft`] or [`iptables`]) -> [`apply`], the only file that changes anything.

mod apply;
mod iptables;
mod nft;
mod options;

use clap::Subcommand;
use leno_intercept::SamePort;

use crate::program::ProgramError;

/// What can be done about interception.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Redirect this network namespace's TCP connections to the proxy; a second time replaces the first
    Up(options::Options),
    /// Remove every rule that `up` made, whichever backend it used
    Down,
    /// Show the rules that are in force
    Show,
}

/// Why connections are not intercepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The caller may not change rules.
    #[error("changing netfilter rules needs CAP_NET_ADMIN; run it as root: sudo leno intercept ..")]
    NotPermitted,
    /// Both sides cannot share a port.
    #[error(transparent)]
    SamePort(#[from] SamePort),
    /// None of the backends took the rules.
    #[error(
        "the kernel took no rules ({0}); it needs nf_tables, or ip_tables, with NAT: modprobe nft_redir nft_fib_inet"
    )]
    NoBackend(String),
    /// A program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Redirects the connections of the namespace that the calling thread is in, all but those of `proxy_uid`, to the
/// usual ports.
///
/// # Errors
/// As `leno intercept up`.
pub(crate) fn up(proxy_uid: u32) -> Result<(), Error> {
    apply::up(&options::Options::new(proxy_uid))
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// When the caller may not, or no backend works.
    pub(crate) fn run(&self) -> Result<(), Error> {
        match self {
            Self::Up(options) => {
                options.redirection.check()?;
                if options.dry_run {
                    print!("{}", apply::preview(options));
                    return Ok(());
                }
                apply::up(options)
            }
            Self::Down => apply::down(),
            Self::Show => {
                print!("{}", apply::show()?);
                Ok(())
            }
        }
    }
}
