//! `leno stat streams`: shows the calls that are open now, with their messages per second. If the client or the server
//! of a call does not read the data that waits for it, the table names which one.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use clap::Args;
use leno_model::settings::parse_duration;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::counts::number;
use super::{Names, side};
use crate::cluster::block_on;
use crate::cluster::clock::BootInstant;
use crate::cluster::connect::ClusterError;
use crate::cluster::progress::sign_of_life;
use crate::cluster::source::{ProxyAt, Source};
use crate::cluster::table::{Output, Table, show};

/// Minimum time between the two readings of a proxy from which the messages per second are computed.
pub(crate) const BETWEEN: Duration = Duration::from_secs(1);

/// Options of `leno stat streams`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Show only calls that have been open for longer than this
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_age)]
    longer_than: Duration,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

/// The page `/calls` of a proxy.
#[derive(Debug, Default, Deserialize)]
struct Page {
    calls: Vec<Call>,
    omitted: usize,
    /// Numbers of the workers that did not answer the proxy in time. The page lacks their calls.
    #[serde(default)]
    silent_workers: Vec<usize>,
}

/// An open call on a proxy's page `/calls`.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Call {
    id: u64,
    worker: usize,
    direction: String,
    client: String,
    client_id: Option<String>,
    target: Option<String>,
    method: String,
    endpoint: Option<String>,
    progress: String,
    age_ms: u64,
    time_left_ms: Option<u64>,
    attempts: u32,
    request_messages: u32,
    response_messages: u32,
    request_bytes: u64,
    response_bytes: u64,
    request_queued_bytes: u64,
    response_queued_bytes: u64,
}

/// A row of the table of open calls.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    namespace: String,
    name: String,
    #[serde(flatten)]
    call: Call,
    /// Request and response messages per second between the two readings; `None` for a call that was not in the first
    /// reading.
    messages_per_second: Option<f64>,
    /// `client` or `server`, whichever stalls the call: data waits for it, but it read no data between the two
    /// readings.
    stalled_by: Option<&'static str>,
}

/// All rows, and how much is missing.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Streams {
    pub(crate) calls: Vec<Row>,
    /// Number of calls that the proxies omitted.
    pub(crate) omitted: usize,
    /// Number of workers that did not answer their proxies in time. The list does not contain the calls of these workers.
    pub(crate) silent_workers: usize,
}

/// A page of a proxy, for example `/calls`, and when the page arrived.
pub(crate) type Reading = (ProxyAt, BootInstant, String);

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let streams = block_on(self.read())??;
        show(self.output, &streams, |streams| table(streams, self.longer_than))?;
        Ok(())
    }

    async fn read(&self) -> Result<Streams, ClusterError> {
        let proxies = self.source.proxies().await?;
        let progress = sign_of_life(format!("reading the open calls of {} proxies", proxies.len()));
        let start = Instant::now();
        // Do not filter the first reading by age: a call may reach the minimum age between the two readings.
        let first = proxies.read("/calls").await;
        sleep_until(start + BETWEEN).await;
        let second = proxies.read(&format!("/calls?longer_than={}ms", self.longer_than.as_millis())).await;
        progress.finish_and_clear();
        let (streams, unreadable) = streams(&owned(first), &owned(second));
        unreadable.iter().for_each(|error| eprintln!("leno: {error}"));
        Ok(streams)
    }
}

fn owned(pages: Vec<(&ProxyAt, BootInstant, String)>) -> Vec<Reading> {
    pages.into_iter().map(|(proxy, at, page)| (proxy.clone(), at, page)).collect()
}

/// Returns the calls of the second reading, the oldest call first, each compared with the same call in the first
/// reading. Also returns an error for each page of the second reading that could not be parsed.
pub(crate) fn streams<'a>(
    first: impl IntoIterator<Item = &'a Reading>,
    second: &[Reading],
) -> (Streams, Vec<ClusterError>) {
    let mut before = HashMap::new();
    for (proxy, at, page) in first {
        let calls = page_of(proxy, page).map(|page| page.calls).unwrap_or_default();
        before.extend(calls.into_iter().map(|call| ((proxy, call.worker, call.id), (call, *at))));
    }
    let (mut streams, mut unreadable) = (Streams::default(), Vec::new());
    for (proxy, at, page) in second {
        let Page { calls, omitted, silent_workers } = match page_of(proxy, page) {
            Ok(page) => page,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        streams.omitted += omitted;
        streams.silent_workers += silent_workers.len();
        streams.calls.extend(calls.into_iter().map(|call| {
            let earlier = before.get(&(proxy, call.worker, call.id));
            Row::new(proxy, call, earlier.map(|(call, then)| (call, *at - *then)))
        }));
    }
    streams.calls.sort_by_key(|row| std::cmp::Reverse(row.call.age_ms));
    (streams, unreadable)
}

fn page_of(proxy: &ProxyAt, page: &str) -> Result<Page, ClusterError> {
    serde_json::from_str(page).map_err(|error| {
        let what = format!("the page /calls of {} is not as expected: {error}", proxy.name);
        ClusterError::new(what, "the proxy may have another version; leno version shows the versions")
    })
}

impl Row {
    /// Creates the row of a call. `earlier` is the same call in the first reading, with the time between the two
    /// readings.
    fn new(proxy: &ProxyAt, call: Call, earlier: Option<(&Call, Duration)>) -> Self {
        let messages = |call: &Call| f64::from(call.request_messages) + f64::from(call.response_messages);
        let rate =
            |(earlier, elapsed): (&Call, Duration)| (messages(&call) - messages(earlier)) / elapsed.as_secs_f64();
        let messages_per_second = earlier.map(rate);
        let earlier = earlier.map(|(call, _)| call);
        // The client or the server stalls if data waited for it in both readings, and it read no data in between. The
        // number of bytes that it has read is the number that has arrived for it, minus the number that still waits.
        let stalls = |queued: fn(&Call) -> u64, arrived: fn(&Call) -> u64| {
            let taken = |call: &Call| arrived(call) - queued(call).min(arrived(call));
            queued(&call) > 0 && earlier.is_some_and(|earlier| queued(earlier) > 0 && taken(earlier) == taken(&call))
        };
        let client = stalls(|call| call.response_queued_bytes, |call| call.response_bytes);
        // The server cannot stall a call that the proxy has not yet sent: such a call waits for a connection.
        let was_sent = call.progress != "waiting";
        let server = was_sent && stalls(|call| call.request_queued_bytes, |call| call.request_bytes);
        Self {
            namespace: proxy.namespace.clone(),
            name: proxy.name.clone(),
            messages_per_second,
            stalled_by: match (client, server) {
                (true, _) => Some("client"),
                (false, true) => Some("server"),
                (false, false) => None,
            },
            call,
        }
    }
}

fn table(streams: &Streams, longer_than: Duration) -> String {
    let longer_than = longer_than.as_millis();
    let missing = missing(streams);
    if streams.calls.is_empty() {
        return format!(
            "no call has been open for longer than {longer_than} ms{missing}; -n NAME or -A looks elsewhere\n"
        );
    }
    let names = Names::of(streams.calls.iter().map(|row| &*row.namespace));
    let figures =
        ["", "METHOD", "TO", "ENDPOINT", "STATE", "#AGE S", "#MSG/S", "#REQ", "#RESP", "#LEFT S", "STALLED BY"];
    let mut table = Table::new(&[names.heads(), &figures].concat());
    for row in &streams.calls {
        let call = &row.call;
        let seconds = |ms: u64| format!("{:.1}", ms as f64 / 1_000.0);
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let mut cells = names.cells(&row.namespace, &row.name);
        cells.extend([side(&call.direction).to_owned(), call.method.clone()]);
        cells.extend([or_none(call.target.as_deref()), or_none(call.endpoint.as_deref()), call.progress.clone()]);
        cells.extend([seconds(call.age_ms), number(row.messages_per_second)]);
        cells.extend([call.request_messages.to_string(), call.response_messages.to_string()]);
        cells.push(call.time_left_ms.map_or_else(|| "-".to_owned(), seconds));
        cells.push(or_none(row.stalled_by));
        table.row(cells);
    }
    format!(
        "{table}\n{} calls open for longer than {longer_than} ms{missing}; REQ, RESP: messages so far; STALLED BY: the side \
         that took no content between two readings, a second apart\n",
        streams.calls.len()
    )
}

/// Names what is missing in `streams`, each part after `; `.
fn missing(streams: &Streams) -> String {
    let omitted = match streams.omitted {
        0 => String::new(),
        omitted => format!("; {omitted} younger calls are left out"),
    };
    let silent = match streams.silent_workers {
        0 => String::new(),
        1 => "; the calls of 1 worker are missing: it did not answer its proxy in time".to_owned(),
        count => format!("; the calls of {count} workers are missing: they did not answer their proxies in time"),
    };
    omitted + &silent
}

fn parse_age(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration, for example 500ms or 10s".to_owned())
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
