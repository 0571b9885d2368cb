//! Computes, for each target, the one figure that shows how well the target copes with a scenario.

use crate::chart::number::significant;
use crate::experiment::record::{CallPolicy, Fault, Scenario, TargetKind};

use super::figures::{self, Figure};
use super::group::{Group, Load, Results};
use super::ratio::ratio;
use super::spread::Spread;

/// The figure that shows how well a target copes with the scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The figure as a number. A larger number is worse; in the scenario `capacity`, a larger number is better.
    pub(super) value: f64,
    /// The figure with its unit.
    pub(super) figure: String,
    /// The text beside the figure: the quantity that was measured, and its circumstances.
    pub(super) detail: String,
    pub(super) certainty: Certainty,
}

/// Whether the repeats are enough to be certain of an outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Certainty {
    /// The figure is certain.
    Told,
    /// The figure cannot be distinguished from its reference: the result without a fault, or over the fewest
    /// connections. The value is the uncertainty of the ratio of the figure to its reference, as a fraction: 0.1 is 10
    /// %.
    Same(f64),
    /// Undecided: too few repeats.
    TooFew,
}

/// If the faulty backend's share of the calls varies between repeats by more than this many percent of the calls,
/// chance decides the share. The reason is that the target balances connections, not calls.
const ALL_OR_NOTHING_PERCENT: f64 = 50.0;

/// The name of the figure that [`outcome`] returns.
pub(super) fn outcome_name(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SlowPod => "tail under failure",
        Scenario::Connections => "tail with more connections",
        Scenario::FastFail => "calls that fail",
        Scenario::Recover => "recovery",
        Scenario::Memory => "memory kept",
        Scenario::Tcp => "CPU per MB, up",
        Scenario::Handshakes => "CPU per handshake",
        Scenario::Ladder => "tail at the highest rate",
        Scenario::Capacity => "sustained",
        Scenario::Crowd => "memory per connection",
        Scenario::Footprint => "memory under the load",
        Scenario::Steady => "until steady",
        Scenario::Rollout => "lost gracefully",
        Scenario::Streams => "busiest backend",
        Scenario::Methods => "tail of the fast method",
        Scenario::Graph => "tail of a whole call",
        Scenario::RetryStorm => "failed with retries",
        Scenario::Tail => "tail with hedges",
    }
}

/// The worst outcome of `target` among its groups under `load`. In the scenario `connections`, among all groups with
/// the same rate as `load`.
pub(super) fn outcome(results: &Results, scenario: Scenario, load: Load, target: TargetKind) -> Option<Outcome> {
    worst(results, scenario, load, target).map(|(_, outcome)| outcome)
}

/// Returns the outcome that [`outcome`] returns, and the group that has this outcome.
pub(super) fn worst<'r, 'a>(
    results: &'r Results<'a>,
    scenario: Scenario,
    load: Load,
    target: TargetKind,
) -> Option<(&'r Group<'a>, Outcome)> {
    let groups = compared(results, scenario, load, target);
    let outcomes = groups.filter_map(|group| Some((group, of_group(results, group)?)));
    outcomes.max_by(|(_, a), (_, b)| match scenario {
        Scenario::Capacity => b.value.total_cmp(&a.value),
        _ => a.value.total_cmp(&b.value),
    })
}

/// The groups whose outcomes [`outcome`] compares in order to find the worst.
pub(super) fn compared<'r, 'a>(
    results: &'r Results<'a>,
    scenario: Scenario,
    load: Load,
    target: TargetKind,
) -> impl Iterator<Item = &'r Group<'a>> {
    let same_load = move |group: &Group| match scenario {
        Scenario::Connections => group.load.rate_per_s == load.rate_per_s,
        // Only hedged calls have an outcome, which is a ratio to the healthy run.
        Scenario::Tail => group.load == load && (is_hedged(group) || group.condition.fault == Fault::None),
        _ => group.load == load,
    };
    results.of(scenario).filter(move |group| group.target == target && same_load(group))
}

fn is_hedged(group: &Group) -> bool {
    matches!(group.condition.policy, CallPolicy::Hedge(_))
}

/// The outcome of one group; `None` if its runs lack the figure.
fn of_group(results: &Results, group: &Group) -> Option<Outcome> {
    match group.scenario {
        Scenario::SlowPod | Scenario::Methods => tail(results, group),
        Scenario::Connections => tail_beside_fewest(results, group),
        Scenario::FastFail => {
            let spread = group.spread(figures::share_percent)?;
            if spread.max - spread.min > ALL_OR_NOTHING_PERCENT {
                return Some(Outcome::share_by_luck(spread));
            }
            Some(Outcome::plain(spread, format!("{}\u{a0}%", significant(spread.median)), "of the calls reach it"))
        }
        // Include runs in which no call succeeds: such a run is the worst result of the scenarios recover, steady and
        // rollout. Its server never recovers, its latency never becomes steady, and it loses all calls.
        Scenario::Recover => {
            Some(Outcome::of_seconds(group.spread_of_all(figures::recovered_s)?, "until its fair share"))
        }
        Scenario::Memory => {
            let spread = group.spread(figures::kept)?;
            Some(Outcome::plain(spread, format!("{}\u{a0}×", significant(spread.median)), "of the memory before"))
        }
        Scenario::Tcp => Outcome::of_cpu(group.spread(figures::up_cpu_us_per_mb)?),
        Scenario::Handshakes => Outcome::of_cpu(group.spread(figures::cpu_us)?),
        Scenario::Ladder | Scenario::Graph => Outcome::with_unit(group.spread(figures::p99_ms)?, "ms", "p99"),
        // Include runs in which no call succeeds. Such a run confirmed no rate, so its rate is 0.
        Scenario::Capacity => Some(Outcome::of_capacity(group.spread_of_all(figures::sustained_or_none_per_s)?)),
        Scenario::Crowd => {
            Outcome::with_unit(group.spread(figures::kb_per_connection)?, "KB", "of all proxies together")
        }
        Scenario::Footprint => Outcome::with_unit(group.spread(figures::loaded_mb)?, "MB", "of all proxies together"),
        Scenario::Steady => {
            Some(Outcome::of_seconds(group.spread_of_all(figures::steady_or_never_s)?, "after the start"))
        }
        Scenario::RetryStorm => {
            let is_shown =
                matches!(group.condition.fault, Fault::Failing { .. }) && group.condition.policy == CallPolicy::Retry;
            let spread = group.spread_of_all(figures::errors_percent).filter(|_| is_shown)?;
            Outcome::with_unit(spread, "%", "of the calls, with retries within the default limit")
        }
        Scenario::Tail => {
            let healthy = results.healthy(group).filter(|_| is_hedged(group))?;
            Outcome::of_ratio(healthy, group, ("p99.9", figures::p999_ms), &format!("with {}", group.condition.policy))
        }
        Scenario::Rollout => {
            let detail = "of the calls, while backends restart gracefully";
            Outcome::with_unit(group.spread_of_all(figures::lost_gracefully_percent)?, "%", detail)
        }
        Scenario::Streams => {
            Outcome::with_unit(group.spread(figures::busiest_over_mean)?, "×", "the mean backend’s messages")
        }
    }
}

impl Outcome {
    fn plain(spread: Spread, figure: String, detail: &str) -> Self {
        let certainty = if spread.interval.is_some() { Certainty::Told } else { Certainty::TooFew };
        Self { value: spread.median, figure, detail: detail.to_owned(), certainty }
    }

    /// Creates an outcome from a median and its unit. Always returns `Some`, for the `match` in [`of_group`].
    fn with_unit(spread: Spread, unit: &str, detail: &str) -> Option<Self> {
        Some(Self::plain(spread, format!("{}\u{a0}{unit}", significant(spread.median)), detail))
    }

    /// Creates an outcome from the seconds until an event. The time is infinite in a repeat in which the event never
    /// happened.
    fn of_seconds(spread: Spread, detail: &str) -> Self {
        let never = spread.median.is_infinite();
        let figure = if never { "never".to_owned() } else { format!("{}\u{a0}s", significant(spread.median)) };
        Self::plain(spread, figure, detail)
    }

    /// Creates an outcome from the confirmed rates. The rate is 0 in a repeat that confirmed no rate.
    fn of_capacity(spread: Spread) -> Self {
        let none = spread.median == 0.0;
        let figure = if none { "none".to_owned() } else { format!("{}\u{a0}calls/s", significant(spread.median)) };
        let detail = match spread.min {
            0.0 => "fewer than 0.1 % errors; not every repeat confirmed a rate",
            _ => "fewer than 0.1 % errors",
        };
        Self::plain(spread, figure, detail)
    }

    fn of_cpu(spread: Spread) -> Option<Self> {
        Some(Self::plain(spread, format!("{}\u{a0}µs", significant(spread.median)), "of all proxies together"))
    }

    /// The p99 of `group` divided by the p99 of `base`.
    fn of_p99(base: &Group, group: &Group, place: &str) -> Option<Self> {
        Self::of_ratio(base, group, ("p99", figures::p99_ms), place)
    }

    /// A latency of `group` divided by the same latency of `base`.
    fn of_ratio(base: &Group, group: &Group, (name, latency): (&str, Figure), place: &str) -> Option<Self> {
        let ratio = ratio(group, base, latency)?;
        let [from, to] = [base, group].map(|group| figures::median(group.spread(latency)));
        Some(Self {
            value: ratio.value,
            figure: format!("{}\u{a0}×", significant(ratio.value)),
            detail: format!("{name} {from} → {to}\u{a0}ms {place}"),
            certainty: match ratio.plus_minus() {
                None => Certainty::TooFew,
                Some(part) if ratio.may_be(1.0) => Certainty::Same(part),
                Some(_) => Certainty::Told,
            },
        })
    }

    /// Creates an outcome from the repeat in which the faulty backend received the largest share of the calls. The
    /// median would be misleading, because most connections avoid the faulty backend.
    fn share_by_luck(spread: Spread) -> Self {
        let [least, most] = [spread.min, spread.max].map(significant);
        Self {
            value: spread.max,
            figure: format!("up to {most}\u{a0}%"),
            detail: format!("{least} to {most}\u{a0}%, by luck"),
            certainty: Certainty::Told,
        }
    }
}

/// The p99 at a skew above 0, divided by the p99 while all backends are healthy.
fn tail(results: &Results, group: &Group) -> Option<Outcome> {
    let healthy = results.healthy(group).filter(|_| group.skew_ms > 0)?;
    if is_request_level(results, group.target) == Some(false) {
        return by_luck(healthy, group);
    }
    Outcome::of_p99(healthy, group, &format!("at {}\u{a0}ms", group.skew_ms))
}

/// The p99 divided by the p99 over the fewest connections. `None` if the target balances connections: over few
/// connections, chance then decides whether any of them leads to the slow backend.
fn tail_beside_fewest(results: &Results, group: &Group) -> Option<Outcome> {
    let fewest = results.fewest_connections(group).filter(|fewest| fewest.load != group.load)?;
    let share = fewest.spread(figures::share_percent)?;
    let by_luck = share.max - share.min > ALL_OR_NOTHING_PERCENT;
    let place = format!("over {} → {} connections", fewest.load.connections, group.load.connections);
    Outcome::of_p99(fewest, group, &place).filter(|_| !by_luck)
}

/// The p99 in the worst repeat, for a target that balances connections. The median would be misleading, because most
/// connections avoid the slow backend.
fn by_luck(healthy: &Group, group: &Group) -> Option<Outcome> {
    let (base, spread) = (healthy.spread(figures::p99_ms)?.median, group.spread(figures::p99_ms)?);
    let value = spread.max / base;
    let [from, to] = [spread.min, spread.max].map(significant);
    Some(Outcome {
        value,
        figure: format!("up to {}\u{a0}×", significant(value)),
        detail: format!("p99 {from} to {to}\u{a0}ms at {}\u{a0}ms, by luck", group.skew_ms),
        certainty: Certainty::Told,
    })
    .filter(|_| value.is_finite())
}

/// Whether the runs show that a target distributes the calls of one connection over the backends.
///
/// Only a run with a single connection and healthy backends can show this, and only if the answers name their servers.
/// `None` without such a run.
pub(super) fn is_request_level(results: &Results, target: TargetKind) -> Option<bool> {
    if results.experiment.workload.is_some() {
        return None;
    }
    let tells = |group: &&Group| {
        let well = matches!(group.scenario, Scenario::SlowPod | Scenario::Connections) && group.skew_ms == 0;
        group.target == target && group.load.connections == 1 && well
    };
    let group = results.groups.iter().find(tells)?;
    // With two or more backends, a share of nearly 0 or nearly 1 means that the target chooses a backend for each
    // connection, not for each call.
    let spread = |share: f64| (0.01..0.99).contains(&share);
    group.alive().next()?;
    Some(group.alive().all(|run| spread(run.slow_share)))
}
