//! Checks that every change arrived at every subscribed proxy, and measures the latency.
//!
//! A change counts as arrived once the change itself or a newer change of the same Service has arrived: the control
//! plane sends the latest state, not a history.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::load::{Latency, histogram, us};

/// A change that the lab wrote to the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) service: u32,
    /// Newer changes have larger numbers.
    pub(super) serial: u32,
    /// Time just before the request to the API server.
    pub(super) sent: Instant,
    /// Time of the API server's answer.
    pub(super) acknowledged: Instant,
}

/// An update that a proxy received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) proxy: u32,
    pub(super) service: u32,
    pub(super) serial: u32,
    pub(super) at: Instant,
}

/// The result for all changes. A delivery is one change at one proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    /// Latency of the deliveries, from just before each request to the API server.
    pub(super) since_sent: Latency,
    /// Latency of the deliveries, from the API server's answer; 0 for a change that arrives before the answer.
    pub(super) since_acknowledged: Latency,
    /// Expected deliveries.
    pub(super) expected: u64,
    /// Deliveries for which a newer change arrived instead.
    pub(super) coalesced: u64,
    /// Deliveries for which neither the change nor a newer change arrived.
    pub(super) lost: u64,
    /// Time during which at least one change was in flight.
    pub(super) busy: Duration,
}

/// Compares changes with arrivals; `subscribers` lists the proxies that subscribe to each Service.
pub(super) fn judge(writes: &[Write], arrivals: &[Arrival], subscribers: &[Vec<u32>]) -> Judged {
    let arrivals = by_subscription(arrivals);
    let (mut since_sent, mut since_acknowledged) = (histogram(), histogram());
    let mut judged = Judged::default();
    let mut on_their_way = Vec::new();
    for (service, writes) in by_service(writes) {
        let mut last_arrivals: Vec<Instant> = writes.iter().map(|write| write.sent).collect();
        for &proxy in subscribers.get(service as usize).into_iter().flatten() {
            let mut arrivals = arrivals.get(&(proxy, service)).map_or(&[][..], Vec::as_slice);
            for (write, last) in writes.iter().zip(&mut last_arrivals) {
                judged.expected += 1;
                let older = arrivals.iter().take_while(|(serial, _)| *serial < write.serial).count();
                arrivals = &arrivals[older..];
                let Some(&(serial, at)) = arrivals.first() else {
                    judged.lost += 1;
                    continue;
                };
                judged.coalesced += u64::from(serial > write.serial);
                since_sent.saturating_record(us(at.saturating_duration_since(write.sent)));
                since_acknowledged.saturating_record(us(at.saturating_duration_since(write.acknowledged)));
                *last = at.max(*last);
            }
        }
        on_their_way.extend(writes.iter().map(|write| write.sent).zip(last_arrivals));
    }
    judged.since_sent = Latency::of(&since_sent);
    judged.since_acknowledged = Latency::of(&since_acknowledged);
    judged.busy = covered(on_their_way);
    judged
}

/// The changes of each Service, ascending by serial number.
fn by_service(writes: &[Write]) -> HashMap<u32, Vec<Write>> {
    let mut services: HashMap<u32, Vec<Write>> = HashMap::new();
    for write in writes {
        services.entry(write.service).or_default().push(*write);
    }
    services.values_mut().for_each(|writes| writes.sort_by_key(|write| write.serial));
    services
}

/// Groups the received updates by Service and proxy. Drops an update that is not newer than an earlier one.
fn by_subscription(arrivals: &[Arrival]) -> HashMap<(u32, u32), Vec<(u32, Instant)>> {
    let mut subscriptions: HashMap<_, Vec<(u32, Instant)>> = HashMap::new();
    for arrival in arrivals {
        let known = subscriptions.entry((arrival.proxy, arrival.service)).or_default();
        if known.last().is_none_or(|(serial, _)| *serial < arrival.serial) {
            known.push((arrival.serial, arrival.at));
        }
    }
    subscriptions
}

/// Returns the length of the union of the spans: time in several spans counts once.
fn covered(mut spans: Vec<(Instant, Instant)>) -> Duration {
    spans.sort();
    let mut total = Duration::ZERO;
    let mut until: Option<Instant> = None;
    for (from, to) in spans {
        let from = until.map_or(from, |until| from.max(until));
        total += to.saturating_duration_since(from);
        until = Some(until.map_or(to, |until| to.max(until)));
    }
    total
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
