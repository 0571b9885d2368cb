//! Whether every change arrived at every proxy that subscribed to its Service, and how soon.
//!
//! A change counts as arrived when it, or a newer one of the same Service, has: the control plane sends the latest
//! state, not a history.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::load::{Latency, histogram, us};

/// A change that was written into the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) service: u32,
    /// Newer changes have larger numbers.
    pub(super) serial: u32,
    /// Just before it was sent to the API server.
    pub(super) sent: Instant,
    /// When the API server had answered.
    pub(super) acknowledged: Instant,
}

/// What a proxy got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) proxy: u32,
    pub(super) service: u32,
    pub(super) serial: u32,
    pub(super) at: Instant,
}

/// What came of all changes. A delivery is one change at one proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    /// From just before each change was sent.
    pub(super) since_sent: Latency,
    /// From the API server's answer; a change may arrive before that.
    pub(super) since_acknowledged: Latency,
    /// Deliveries that there had to be.
    pub(super) expected: u64,
    /// Of these, those for which a newer change arrived instead.
    pub(super) coalesced: u64,
    /// And those for which nothing did.
    pub(super) lost: u64,
    /// Time in which at least one change was on its way.
    pub(super) busy: Duration,
}

/// Judges changes by what arrived; `subscribers` are the proxies of each Service.
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

/// The changes of each Service, ascending.
fn by_service(writes: &[Write]) -> HashMap<u32, Vec<Write>> {
    let mut services: HashMap<u32, Vec<Write>> = HashMap::new();
    for write in writes {
        services.entry(write.service).or_default().push(*write);
    }
    services.values_mut().for_each(|writes| writes.sort_by_key(|write| write.serial));
    services
}

/// What each proxy got of each Service, where it was newer than all before.
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

/// How much time lies in at least one of these spans.
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
