//! Counts the outcomes of calls for one line of output.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::load::{histogram, us};

/// Maximum number of servers that a line lists separately; a Service may have thousands.
const SERVERS_MAX: usize = 16;

/// The outcome of a call.
pub(super) enum Outcome {
    Answered {
        server: String,
        latency: Duration,
    },
    /// The call failed; the text is the reason.
    Failed(String),
}

/// The outcomes of the calls since the last line of output.
pub(super) struct Count {
    latencies: Histogram<u64>,
    servers: BTreeMap<String, u64>,
    others: u64,
    failed: u64,
    /// Reason of the last failure.
    failure: Option<String>,
}

impl Default for Count {
    fn default() -> Self {
        Self { latencies: histogram(), servers: BTreeMap::new(), others: 0, failed: 0, failure: None }
    }
}

impl Count {
    pub(super) fn note(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered { server, latency } => {
                self.latencies.saturating_record(us(latency));
                if self.servers.len() < SERVERS_MAX || self.servers.contains_key(&server) {
                    *self.servers.entry(server).or_default() += 1;
                } else {
                    self.others += 1;
                }
            }
            Outcome::Failed(why) => {
                self.failed += 1;
                self.failure = Some(why);
            }
        }
    }

    /// Returns the line that reports the calls that failed before the first answer; `None` if no call failed.
    pub(super) fn line_before_the_first_answer(&self) -> Option<String> {
        let (failed, last) = (self.failed, self.last_failure()?);
        Some(format!("first answer after {failed} failed calls; {last}"))
    }

    /// Returns the text for the last failure. A server may have sent the reason, so escape it: a line break in it must
    /// not add a line to the output.
    fn last_failure(&self) -> Option<String> {
        self.failure.as_ref().map(|why| format!("the last with {}", printable(why)))
    }

    /// Returns the line that reports the calls of the last `time`.
    pub(super) fn line(&self, time: Duration) -> String {
        let answered = self.latencies.len();
        let mut parts = vec![format!("{} s: {} calls, {} failed", time.as_secs(), answered + self.failed, self.failed)];
        parts.extend(self.last_failure());
        if answered > 0 {
            let ms = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
            parts.push(format!("p50 {:.1} ms, p99 {:.1} ms", ms(0.5), ms(0.99)));
            let share = |count: u64| format!("{:.1} %", count as f64 * 100.0 / answered as f64);
            let others = (self.others > 0).then(|| format!("others {}", share(self.others)));
            let servers = self.servers.iter().map(|(name, count)| format!("{} {}", printable(name), share(*count)));
            parts.push(servers.chain(others).collect::<Vec<_>>().join(", "));
        }
        parts.join("; ")
    }
}

/// Escapes characters that a terminal does not show as they are, such as line breaks, and keeps quotes.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        match character {
            '\'' | '"' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}
