//! Sends probes to all attacked Pods, as a kubelet does, and measures the time until each answer.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::at;

/// Time limit of a probe: Kubernetes' default of `timeoutSeconds`.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// Probes until `until`, then prints JSON: the number of probes, the number of unanswered probes, the longest sequence
/// of unanswered probes of one page, and the median and the 99th percentile of the times in microseconds. The time of
/// an unanswered probe is [`PATIENCE`].
pub(super) async fn probe(until: Instant, proxies: &[IpAddr], controls: &[IpAddr]) {
    let mut probes = JoinSet::new();
    for address in [at(proxies, 4191), at(controls, 4191), at(controls, 15021)].concat() {
        for path in ["/live", "/ready"] {
            probes.spawn(probe_one(until, address, path));
        }
    }
    let pages: Vec<Vec<Option<Duration>>> = probes.join_all().await;
    let in_a_row = pages.iter().map(|times| longest_without_answer(times)).max().unwrap_or_default();
    let mut times = pages.concat();
    let unanswered = times.iter().filter(|time| time.is_none()).count();
    times.sort_unstable_by_key(|time| time.unwrap_or(PATIENCE));
    let part =
        |percent: usize| times.get(times.len() * percent / 100).copied().flatten().unwrap_or(PATIENCE).as_micros();
    let (asked, median, p99) = (times.len(), part(50), part(99));
    println!(
        r#"{{"asked":{asked},"unanswered":{unanswered},"in_a_row":{in_a_row},"median_us":{median},"p99_us":{p99}}}"#
    );
}

fn longest_without_answer(times: &[Option<Duration>]) -> usize {
    times.split(Option::is_some).map(<[_]>::len).max().unwrap_or_default()
}

async fn probe_one(until: Instant, address: SocketAddr, path: &'static str) -> Vec<Option<Duration>> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let is_well = timeout(PATIENCE, ask(address, path)).await.is_ok_and(|answer| answer.is_some());
        times.push(is_well.then(|| began.elapsed()));
        tokio::time::sleep(PAUSE).await;
    }
    times
}

/// Returns `Some` if the answer has the status 200, and `None` for other answers and errors.
async fn ask(address: SocketAddr, path: &str) -> Option<()> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    answer.starts_with(b"HTTP/1.1 200 ").then_some(())
}
