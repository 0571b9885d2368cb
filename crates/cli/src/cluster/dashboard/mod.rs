//! `leno dashboard`: a page in the browser with the Services, their calls and their problems.
//!
//! - `find` chooses the proxies, and `cluster::reader` reads them periodically.
//! - `collect` turns the readings into the figures that the page shows: `mesh` (Services and edges), `objective`,
//!   `denials`, `problems` (with `configuration`, `slow` and `validity`), `history`. `proxies` has a row for each proxy.
//! - `guard` checks the page's requests, and `pages` answers them.
//! - `live` and `watch` read the current state of proxies (endpoints, open calls, calls that end), only while the page
//!   shows it. `earlier` keeps the earlier readings of the open calls.
//! - The browser runs the files in `page/`.
//!
//! The dashboard runs on one thread of the user's machine. It installs no component in the cluster.

mod browser;
mod collect;
mod configuration;
mod denials;
mod detail;
mod earlier;
mod find;
mod guard;
mod history;
mod live;
mod mesh;
mod objective;
mod pages;
mod policies;
mod problems;
mod proxies;
mod serve;
mod slow;
mod state;
mod validity;
mod watch;

use std::error::Error;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use leno_accept::listen;
use leno_model::settings::{format_duration, parse_duration};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use super::block_on;
use super::connect::ClusterError;
use super::printable::proxies;
use super::progress::sign_of_life_or_line;
use super::source::Source;
use guard::{Guard, new_token};
use state::State;

pub(crate) use collect::Found;
pub(crate) use problems::{Problem, Severity};

/// The port that the dashboard tries first.
const PORT: u16 = 4195;
/// Time between two readings of a proxy while [`find_problems`] watches.
const PROBLEMS_EVERY: Duration = Duration::from_secs(2);
const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(60);

/// Options of `leno dashboard`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Loopback address of the page [default: 127.0.0.1:4195, or a free port]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Only print the URL
    #[arg(long)]
    no_browser: bool,
    /// Time between two readings of a proxy: 1s to 1m
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_every)]
    every: Duration,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        block_on(LocalSet::new().run_until(self.show()))?
    }

    /// Serves the page until Ctrl-C.
    async fn show(self) -> Result<(), Box<dyn Error>> {
        let proxies = find::proxies(&self.source).await?;
        let listener = self.listen().await?;
        let address = listener.local_addr()?;
        let token = new_token()?;
        let url = format!("http://{address}/?token={token}");
        writeln!(io::stdout(), "{url}")?;
        if proxies.len() == 0 {
            eprintln!("leno: no proxy was found there yet; -n NAMESPACE or -A looks elsewhere");
        }
        eprintln!("leno: the dashboard reads {} proxies; open the URL above, and end with Ctrl-C", proxies.len());
        if !self.no_browser
            && let Err(why) = browser::open(&url)
        {
            eprintln!("leno: no browser could be started ({why}); open the URL yourself");
        }
        let options = find::options(&self.source, &proxies);
        let state = Rc::new(State::new(proxies, options, self.every, None));
        let guard = Rc::new(Guard::new(address, token));
        tokio::select! {
            never = collect::collect(&self.source, &state) => match never {},
            never = serve::serve(listener, guard, state.clone()) => match never {},
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        }
    }

    async fn listen(&self) -> Result<TcpListener, String> {
        let failed = |address: SocketAddr, error: std::io::Error| {
            format!("the dashboard cannot listen on {address}: {error}; choose another address with --listen")
        };
        if let Some(address) = self.listen {
            return listen(address).map_err(|error| failed(address, error));
        }
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        listen(loopback(PORT)).or_else(|_| listen(loopback(0))).map_err(|error| failed(loopback(0), error))
    }
}

/// Reads the proxies for at least `window`, and returns the problems that their counts of this period show.
///
/// # Errors
/// If the named cluster does not answer, or no proxy was found.
pub(crate) async fn find_problems(source: &Source, window: Duration) -> Result<Found, ClusterError> {
    let found = find::proxies(source).await?;
    let count = found.len();
    if count == 0 {
        return Err(ClusterError::new(
            "no proxy runs in the selected namespaces",
            "-n NAMESPACE or -A looks elsewhere",
        ));
    }
    let options = find::options(source, &found);
    let state = State::new(found, options, PROBLEMS_EVERY, Some(window));
    let progress = sign_of_life_or_line(&format!("watching {} for {}", proxies(count), format_duration(window)));
    let found = collect::collect_for(source, &state, window).await;
    progress.finish_and_clear();
    Ok(found)
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "write an address with a port, for example 127.0.0.1:4195".to_owned())?;
    if !address.ip().is_loopback() {
        return Err("use a loopback address: the page shows private data; from another machine, forward the port, as \
                    ssh -L 4195:127.0.0.1:4195 HOST"
            .to_owned());
    }
    Ok(address)
}

fn parse_every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text).filter(|every| (EVERY_MIN..=EVERY_MAX).contains(every));
    every.ok_or_else(|| "write a duration of 1s to 1m, for example 2s".to_owned())
}
