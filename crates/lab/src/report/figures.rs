//! Selects and formats the figures of a run, with their unit and their uncertainty.

use crate::chart::number::{NONE, significant};
use crate::experiment::record::{Footprint, Restarts, Run, SECOND_PHASE};
use crate::units::{BYTES_PER_KB, mb};

use super::mean::Mean;
use super::spread::{Estimate, LEAST_REPEATS, Spread};

/// The class of failed calls that the load never sent.
const NOT_SENT: &str = "not sent";

/// A function that returns a figure of a run; `None` if the run lacks the figure.
pub(super) type Figure = fn(&Run) -> Option<f64>;

pub(crate) fn p50_ms(run: &Run) -> Option<f64> {
    Some(run.p50_ms)
}

pub(crate) fn p99_ms(run: &Run) -> Option<f64> {
    Some(run.p99_ms)
}

pub(crate) fn p999_ms(run: &Run) -> Option<f64> {
    Some(run.p999_ms)
}

pub(crate) fn mean_ms(run: &Run) -> Option<f64> {
    run.mean_ms
}

pub(crate) fn max_ms(run: &Run) -> Option<f64> {
    Some(run.max_ms)
}

pub(crate) fn rps(run: &Run) -> Option<f64> {
    Some(run.rps)
}

pub(crate) fn cpu_us(run: &Run) -> Option<f64> {
    run.proxy_cpu_us_per_call
}

/// Peak memory of a proxy, in MB. If a run has several proxies, the peak of the largest.
pub(super) fn peak_mb(run: &Run) -> Option<f64> {
    run.proxy_rss_peak_bytes.max(run.server_proxy_rss_peak_bytes).map(mb)
}

/// CPU time per call, in us, of the mesh proxies in front of the backends (without the client's proxy).
pub(super) fn server_cpu_us(run: &Run) -> Option<f64> {
    run.server_proxy_cpu_us_per_call
}

/// Number of calls or handshakes that the proxies process in one second of CPU time.
pub(super) fn per_cpu_s(run: &Run) -> Option<f64> {
    Some(1e6 / run.proxy_cpu_us_per_call?).filter(|often| often.is_finite())
}

pub(super) fn up_mb_per_s(run: &Run) -> Option<f64> {
    Some(run.throughput?.up_mb_per_s)
}

pub(super) fn down_mb_per_s(run: &Run) -> Option<f64> {
    Some(run.throughput?.down_mb_per_s)
}

pub(super) fn up_cpu_us_per_mb(run: &Run) -> Option<f64> {
    run.throughput?.up_cpu_us_per_mb
}

pub(super) fn down_cpu_us_per_mb(run: &Run) -> Option<f64> {
    run.throughput?.down_cpu_us_per_mb
}

pub(super) fn before_mb(run: &Run) -> Option<f64> {
    run.proxy_rss_before_bytes.map(mb)
}

pub(super) fn after_mb(run: &Run) -> Option<f64> {
    run.proxy_rss_after_bytes.map(mb)
}

/// Percentage of the calls that the faulty backend received.
pub(super) fn share_percent(run: &Run) -> Option<f64> {
    Some(run.slow_share * 100.0)
}

/// Seconds from the recovery of the slow backend until it received its fair share of the calls again. Infinite if it
/// never did.
pub(super) fn recovered_s(run: &Run) -> Option<f64> {
    Some(run.recovered_after_s.unwrap_or(f64::INFINITY))
}

/// The proxy's memory after the burst, divided by its memory before the burst.
pub(super) fn kept(run: &Run) -> Option<f64> {
    Some(after_mb(run)? / before_mb(run)?)
}

/// Percentage of all calls that failed; `None` if there were no calls.
pub(crate) fn errors_percent(run: &Run) -> Option<f64> {
    let all = run.calls + run.errors;
    (all > 0).then(|| run.errors as f64 / all as f64 * 100.0)
}

/// Percentage of all calls that succeeded; `None` if there were no calls.
pub(super) fn success_percent(run: &Run) -> Option<f64> {
    Some(100.0 - errors_percent(run)?)
}

/// Calls that the servers received for each call that the load sent.
pub(super) fn attempts_per_call(run: &Run) -> Option<f64> {
    Some(run.server_calls? as f64 / sent(run).max(1) as f64)
}

/// Number of calls that the load sent and that were answered or failed.
///
/// In the scenario `methods`, only the calls of the fast method. In `footprint`, only the calls of the first load,
/// because the run's CPU time covers only the first load.
fn sent(run: &Run) -> u64 {
    let others = [NOT_SENT, SECOND_PHASE].iter().filter_map(|&class| run.error_classes.get(class)).sum();
    (run.calls + run.errors).saturating_sub(others)
}

/// Number of retries and hedges, in percent of the calls.
pub(super) fn further_attempts_percent(run: &Run) -> Option<f64> {
    Some((attempts_per_call(run)? - 1.0) * 100.0)
}

/// CPU time that all proxies use per second, in thousandths of a CPU.
pub(crate) fn millicores(run: &Run) -> Option<f64> {
    let of_other_method = run.slow_method.map_or(0, |slow| slow.calls_meanwhile);
    let all = (sent(run) + of_other_method) as f64 / run.calls.max(1) as f64;
    Some(run.proxy_cpu_us_per_call? * run.rps * all / 1000.0)
}

/// Memory of all proxies before the first connection.
pub(crate) fn idle_mb(run: &Run) -> Option<f64> {
    Some(mb(run.footprint?.idle_bytes))
}

/// Memory of all proxies under the load.
pub(crate) fn loaded_mb(run: &Run) -> Option<f64> {
    Some(mb(run.footprint?.loaded_bytes))
}

/// Mean memory of a proxy before the first connection.
pub(crate) fn idle_mb_per_proxy(run: &Run) -> Option<f64> {
    Some(idle_mb(run)? / f64::from(run.footprint?.proxies.max(1)))
}

/// Mean memory of a proxy under the load.
pub(crate) fn loaded_mb_per_proxy(run: &Run) -> Option<f64> {
    Some(loaded_mb(run)? / f64::from(run.footprint?.proxies.max(1)))
}

/// Memory for each client connection, in KB.
///
/// In the scenario `footprint`, this is the memory that the further connections added, divided by their number (in a
/// cluster, the further connections have a second load). In other scenarios, it is the memory that the load added,
/// divided by the number of the load's connections.
pub(crate) fn kb_per_connection(run: &Run) -> Option<f64> {
    let Footprint { idle_bytes, loaded_bytes, unloaded_bytes, connected_bytes, .. } = run.footprint?;
    let (without, with) = unloaded_bytes.zip(connected_bytes).unwrap_or((idle_bytes, loaded_bytes));
    Some((with as f64 - without as f64) / BYTES_PER_KB / f64::from(run.connections.max(1)))
}

/// Memory of all proxies after a burst of calls on many connections.
pub(super) fn after_burst_mb(run: &Run) -> Option<f64> {
    run.footprint?.after_burst_bytes.map(mb)
}

/// CPU use of all proxies in a cluster without a load, in thousandths of a CPU.
pub(super) fn idle_millicores(run: &Run) -> Option<f64> {
    Some(run.footprint?.idle_cpus? * 1000.0)
}

/// Memory of a mesh's control plane in a cluster.
pub(super) fn control_plane_mb(run: &Run) -> Option<f64> {
    Some(mb(run.control_plane?.memory_bytes))
}

/// CPU use of a mesh's control plane in a cluster during a run, in thousandths of a CPU.
pub(super) fn control_plane_millicores(run: &Run) -> Option<f64> {
    Some(run.control_plane?.cpus? * 1000.0)
}

/// Number of graceful restarts.
pub(super) fn graceful_restarts(run: &Run) -> Option<f64> {
    Some(run.rollout?.graceful.restarts.into())
}

/// Number of abrupt restarts.
pub(super) fn abrupt_restarts(run: &Run) -> Option<f64> {
    Some(run.rollout?.abrupt.restarts.into())
}

pub(super) fn lost_gracefully(run: &Run) -> Option<f64> {
    Some(run.rollout?.graceful.lost as f64)
}

pub(super) fn lost_abruptly(run: &Run) -> Option<f64> {
    Some(run.rollout?.abrupt.lost as f64)
}

/// Percentage of lost calls among all calls during graceful restarts.
pub(super) fn lost_gracefully_percent(run: &Run) -> Option<f64> {
    let Restarts { calls, lost, .. } = run.rollout?.graceful;
    Some(lost as f64 / (calls + lost).max(1) as f64 * 100.0)
}

/// Sum of the messages per second of all backends.
pub(super) fn messages_per_s(run: &Run) -> Option<f64> {
    Some(run.messages_per_s.iter().sum()).filter(|&sum: &f64| sum > 0.0)
}

/// Messages of the busiest backend, divided by the mean number of messages of a backend.
pub(super) fn busiest_over_mean(run: &Run) -> Option<f64> {
    let most = run.messages_per_s.iter().copied().fold(0.0, f64::max);
    Some(most * run.messages_per_s.len() as f64 / messages_per_s(run)?)
}

/// Messages of the quietest backend, divided by the mean number of messages of a backend.
pub(super) fn quietest_over_mean(run: &Run) -> Option<f64> {
    let least = run.messages_per_s.iter().copied().fold(f64::INFINITY, f64::min);
    Some(least * run.messages_per_s.len() as f64 / messages_per_s(run)?)
}

pub(super) fn slow_method_p99_ms(run: &Run) -> Option<f64> {
    Some(run.slow_method?.p99_ms)
}

/// Seconds from the start of the load until the latency became steady; `None` if the latency never became steady.
pub(crate) fn steady_s(run: &Run) -> Option<f64> {
    run.steady_after_s
}

/// Seconds from the start of the load until the latency became steady. Infinite if it never became steady, so that a
/// median over the runs includes such a run.
pub(super) fn steady_or_never_s(run: &Run) -> Option<f64> {
    Some(run.steady_after_s.unwrap_or(f64::INFINITY))
}

/// The highest rate that a separate run confirmed; `None` if no rate was confirmed.
pub(crate) fn sustained_per_s(run: &Run) -> Option<f64> {
    run.capacity?.rate_per_s.map(f64::from)
}

/// The highest rate that a separate run confirmed. 0 if no rate was confirmed, so that a median over the runs includes
/// such a run.
pub(super) fn sustained_or_none_per_s(run: &Run) -> Option<f64> {
    Some(run.capacity?.rate_per_s.map_or(0.0, f64::from))
}

/// The highest rate that the search found, whether or not a separate run confirmed it.
pub(super) fn found_per_s(run: &Run) -> Option<f64> {
    Some(run.capacity?.found_per_s.into())
}

/// Formats a median; returns a dash if there is no median.
pub(super) fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(|| NONE.to_owned(), |spread| significant(spread.median))
}

/// Formats a median and the standard deviation: `8.12 ± 0.20`.
pub(super) fn with_sd(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { median, sd: Some(sd), .. }) => format!("{} ± {}", significant(median), significant(sd)),
        spread => median(spread),
    }
}

/// Formats a median, and the smallest and the largest value: `26.1 [24.0 – 30.2]`.
pub(super) fn with_range(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { median, min, max, count, .. }) if count > 1 => {
            format!("{} [{} – {}]", significant(median), significant(min), significant(max))
        }
        spread => median(spread),
    }
}

/// Formats a mean and its 95 % interval: `8.12 [7.90 – 8.34]`.
pub(super) fn with_interval(mean: Option<Mean>) -> String {
    match mean {
        None => NONE.to_owned(),
        Some(Mean { value, plus_minus: None, .. }) => significant(value),
        Some(Mean { value, plus_minus: Some(half), .. }) => {
            format!("{} [{} – {}]", significant(value), significant(value - half), significant(value + half))
        }
    }
}

/// Formats a ratio. `≈` before the ratio: the repeats cannot distinguish the ratio from 1. `?` after the ratio: there
/// are too few repeats for a decision.
pub(super) fn ratio(estimate: Option<Estimate>) -> String {
    match estimate {
        None => NONE.to_owned(),
        Some(Estimate { value, interval: None, .. }) => format!("{} ?", significant(value)),
        Some(estimate) if estimate.may_be(1.0) => format!("≈ {}", significant(estimate.value)),
        Some(estimate) => significant(estimate.value),
    }
}

/// The legend of the signs `≈` and `?` that [`ratio`] writes.
pub(super) fn ratio_signs() -> String {
    format!("≈: the repeats cannot tell it from 1; ?: fewer than {LEAST_REPEATS} repeats, too few to tell")
}
