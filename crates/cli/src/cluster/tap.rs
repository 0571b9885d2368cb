//! `leno tap`: shows each call of the selected proxies when the call ends.

mod event;
mod watched;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use leno_model::settings::parse_duration;
use leno_model::tap::{SlowerThan, TapSelection, TapSide, TapStatus};
use tokio::time::sleep;

use super::block_on;
use super::connect::ClusterError;
use super::reader::LIST_EVERY;
use super::source::{Proxies, ProxyAt, Source, Tapped};
use event::Event;
use watched::{PROXIES_MAX, Watched};

/// Options of `leno tap`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Show only calls to the workloads (inbound), or only calls that they make (outbound)
    #[arg(long, value_name = "SIDE", value_enum)]
    direction: Option<Direction>,
    /// Show only calls of a gRPC method or service, as shop.v1.Cart/Add or shop.v1.Cart, or to an HTTP path, as /items
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Show only calls that matched this route, as canary or shop/canary
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    /// Show only calls whose peer has this service account, for example web or shop/web
    #[arg(long, value_name = "SERVICE-ACCOUNT")]
    peer: Option<String>,
    /// Show only calls with one of these gRPC or HTTP statuses, for example UNAVAILABLE,503
    #[arg(long, value_name = "STATUS,...", value_delimiter = ',')]
    status: Vec<TapStatus>,
    /// Show only calls that failed. Denied calls are not among them: --status PERMISSION_DENIED,403
    #[arg(long)]
    failed: bool,
    /// Show only calls that took longer than this, for example 200ms, or than a percentile of their own method, for example p99
    ///
    /// p50 to p99.9. The proxy begins to compare a method's calls once the tap has seen enough of them: 50 for p90, 500
    /// for p99.
    #[arg(long, value_name = "DURATION|PERCENTILE")]
    slower_than: Option<SlowerThan>,
    /// Show a random sample of the calls: on average, one of N
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
    /// Maximum number of calls that each worker of each proxy shows in a second; further calls are only counted
    #[arg(
        long, value_name = "N", default_value_t = TapSelection::DEFAULT_RATE,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TapSelection::MAX_RATE))
    )]
    rate: u32,
    /// Show the header fields of requests and responses, without secrets; the namespace must allow it with the annotation
    /// leno.dev/tap-headers: allowed
    #[arg(long)]
    headers: bool,
    /// End after this time; by default at Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_time)]
    duration: Option<Duration>,
    /// End after this many calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

/// The direction of calls, as the selected workloads see it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Direction {
    /// Calls to the workloads
    Inbound,
    /// Calls that the workloads make
    Outbound,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each call
    #[default]
    Lines,
    /// A JSON object for each call
    Json,
}

/// The end of a proxy's tap.
struct Ended {
    proxy: ProxyAt,
    is_error: bool,
    /// Whether the proxy has accepted the tap.
    has_begun: bool,
    /// Whether a tap of the proxy was open for as long as a useful tap is: the command may open another one.
    has_lasted: bool,
}

/// The results so far.
#[derive(Default)]
struct Shown {
    calls: Cell<u64>,
    dropped: Cell<u64>,
    /// The first error while writing to standard output, for example because the reader has closed the pipe.
    failed: RefCell<Option<io::Error>>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let shown = Shown::default();
        block_on(self.watch(&shown))??;
        if let Some(error) = shown.failed.take().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(error.into());
        }
        if shown.dropped.get() > 0 {
            let dropped = shown.dropped.get();
            eprintln!("leno: {dropped} further calls were not shown; raise --rate, or narrow the selection");
        }
        Ok(())
    }

    fn selection(&self) -> TapSelection {
        TapSelection {
            side: self.direction.map(|direction| match direction {
                Direction::Inbound => TapSide::Inbound,
                Direction::Outbound => TapSide::Outbound,
            }),
            method: self.method.clone(),
            route: self.route.clone(),
            peer: self.peer.clone(),
            statuses: self.status.clone(),
            failed: self.failed,
            one_in: self.one_in,
            rate: self.rate,
            headers: self.headers,
            ..TapSelection::default()
        }
        .slower_than(self.slower_than)
    }

    /// Shows calls until the duration has passed, the wanted number of calls was shown, the user presses Ctrl-C, or
    /// [`Self::read`] ends.
    async fn watch(&self, shown: &Shown) -> Result<(), ClusterError> {
        let proxies = self.source.proxies().await?;
        if proxies.len() > PROXIES_MAX {
            let what = format!("{} proxies are selected, and leno tap watches at most {PROXIES_MAX}", proxies.len());
            return Err(ClusterError::new(what, "select one workload or one Pod, as deploy/web or pods/web-1"));
        }
        let forever = Duration::from_secs(u64::from(u32::MAX));
        tokio::select! {
            result = self.read(&proxies, shown) => result,
            () = sleep(self.duration.unwrap_or(forever)) => Ok(()),
            _ = tokio::signal::ctrl_c() => Ok(()),
            () = self.is_enough(shown) => Ok(()),
        }
    }

    /// Reads the calls of all proxies. In a cluster, lists the proxies again and again, and also watches the proxies
    /// that start or restart later, so it ends only with an error. Without a cluster, ends when all taps have ended.
    ///
    /// # Errors
    /// If no proxy can be watched.
    async fn read(&self, proxies: &Proxies, shown: &Shown) -> Result<(), ClusterError> {
        if proxies.len() == 0 {
            let fix = "-n NAMESPACE or -A looks elsewhere; leno check --proxy lists the Pods without a proxy";
            return Err(ClusterError::new("no Pod that is selected has a running proxy", fix));
        }
        let json = serde_json::to_string(&self.selection())
            .map_err(|error| ClusterError::new(error.to_string(), "report this fault"))?;
        let json = json.as_str();
        let watch = move |proxy: ProxyAt| self.tap(proxies, proxy, json, shown);
        let source = &self.source;
        let mut lists = pin!(stream::unfold((), |()| async move {
            sleep(LIST_EVERY).await;
            Some((proxies.list_again(source).await, ()))
        }));
        let no_proxy = || ClusterError::new("no proxy can be watched", "see the reasons above");
        let mut watched = Watched::default();
        let mut taps: FuturesUnordered<_> = watched.list(proxies.iter().cloned()).into_iter().map(watch).collect();
        let (mut has_begun, mut has_ended_well, mut is_waiting) = (false, false, false);
        loop {
            tokio::select! {
                Some(ended) = taps.next() => {
                    has_begun |= ended.has_begun;
                    has_ended_well |= !ended.is_error;
                    watched.end(ended.proxy, ended.is_error && !ended.has_lasted);
                    // In a cluster, other proxies may replace the last one: wait for the next list.
                    if taps.is_empty() && !(proxies.are_of_cluster() && has_begun) {
                        return if has_ended_well { Ok(()) } else { Err(no_proxy()) };
                    }
                }
                Some(list) = lists.next(), if proxies.are_of_cluster() => {
                    let list = match list {
                        Ok(list) => list,
                        Err(error) if taps.is_empty() => return Err(error),
                        // Ignore the error while calls are shown. The next list may succeed.
                        Err(_) => continue,
                    };
                    let omitted = watched.omitted();
                    for proxy in watched.list(list.into_iter()) {
                        eprintln!("leno: opening a tap of {}; calls until then are not shown", proxy.instance());
                        taps.push(watch(proxy));
                    }
                    if watched.omitted() > omitted {
                        let omitted = watched.omitted();
                        eprintln!("leno: {omitted} more proxies run, and leno tap watches at most {PROXIES_MAX}");
                    }
                    if taps.is_empty() && watched.has_given_up() {
                        return Err(no_proxy());
                    }
                    if taps.is_empty() && !is_waiting {
                        eprintln!("leno: no selected Pod has a running proxy now; waiting for the next one");
                    }
                    is_waiting = taps.is_empty();
                }
            }
        }
    }

    /// Shows the calls of one proxy until its tap ends.
    async fn tap(&self, proxies: &Proxies, proxy: ProxyAt, json: &str, shown: &Shown) -> Ended {
        let (has_begun, has_lasted) = (Cell::new(false), Cell::new(false));
        let each = |tapped: Tapped<'_>| {
            has_begun.set(true);
            match tapped {
                Tapped::Line(line) => self.show(&proxy, line, shown),
                Tapped::Ended(ended) => {
                    has_lasted.set(true);
                    eprintln!("leno: {ended}");
                }
            }
        };
        let ended = proxies.tap(&proxy, json, each).await;
        // Report the error now, not after the taps of the other proxies: they may continue for a long time.
        let ended = ended.inspect_err(|error| eprintln!("leno: {error}"));
        Ended { proxy, is_error: ended.is_err(), has_begun: has_begun.get(), has_lasted: has_lasted.get() }
    }

    fn show(&self, proxy: &ProxyAt, line: &str, shown: &Shown) {
        if shown.failed.borrow().is_some() || self.has_enough(shown) {
            return;
        }
        let text = match Event::parse(line) {
            Some(Event::Dropped(count)) => return shown.dropped.set(shown.dropped.get() + count),
            Some(Event::Call(call)) if self.output == Output::Lines => call.text(proxy.pod().unwrap_or(&proxy.name)),
            Some(Event::Call(call)) => call.json(&proxy.name, proxy.pod()),
            None => return,
        };
        shown.calls.set(shown.calls.get() + 1);
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            shown.failed.replace(Some(error));
        }
    }

    fn has_enough(&self, shown: &Shown) -> bool {
        self.calls.is_some_and(|calls| shown.calls.get() >= calls)
    }

    async fn is_enough(&self, shown: &Shown) {
        const EVERY: Duration = Duration::from_millis(50);
        while !self.has_enough(shown) && shown.failed.borrow().is_none() {
            tokio::time::sleep(EVERY).await;
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration, for example 200ms or 10s".to_owned())
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
