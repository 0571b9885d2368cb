//! Hedge delays: the current values of delays that are percentiles, for `/balancer` and `/explain`.

use std::time::{Duration, Instant};

use leno_model::balance::Method;
use leno_model::traffic::{HedgeDelay, KnownPercentile};
use serde::Serialize;

use crate::metrics::MethodName;
use crate::target::cluster::ClusterState;

/// The delay of a method on one worker.
#[derive(Debug, Serialize)]
pub struct HedgeDelayExplanation {
    /// The method, in the form `shop.v1.Cart/GetItems`. For calls that are not gRPC: `GET`, `HEAD` or `OPTIONS`.
    method: String,
    /// The delay in the notation of policies, for example `p95`.
    delay: HedgeDelay,
    /// The current value of the delay, in milliseconds. `None` while too few calls were made; then no call is hedged.
    delay_ms: Option<f64>,
    /// Number of calls of the last 30 to 60 s.
    calls: u64,
    /// Number of calls that are needed before the delay is known.
    calls_needed: u64,
}

impl ClusterState {
    /// Describes the delays of all methods that metrics name and whose delay is a percentile.
    pub(crate) fn explain_hedge_delays(&self, now: Instant) -> Vec<HedgeDelayExplanation> {
        let Some(hedging) = &self.hedging else { return Vec::new() };
        let describe = |name: String, method: Method| {
            let permille = hedging.latencies().latest_permille(method)?;
            let KnownPercentile { value, calls, calls_needed } = hedging.latencies().describe(method, permille, now);
            let delay = HedgeDelay::Percentile(permille);
            Some(HedgeDelayExplanation { method: name, delay, delay_ms: value.map(ms), calls, calls_needed })
        };
        let named = self.methods.names().filter_map(|name| match name {
            MethodName::Grpc(name) => describe(name.to_string(), Method::of_path(format!("/{name}").as_bytes())),
            MethodName::Http(method, _) => describe((*method).to_owned(), Method::of_path(method.as_bytes())),
            MethodName::Other => None,
        });
        let mut delays: Vec<_> = named.collect();
        delays.sort_by(|a, b| a.method.cmp(&b.method));
        // An HTTP method has a series for each route, but only one delay.
        delays.dedup_by(|a, b| a.method == b.method);
        delays
    }

    /// Describes the current value of `delay` for the calls of one method; `None` if the delay is fixed. `name` is the
    /// method's name in policies.
    pub(crate) fn tell_hedge_delay(&self, delay: HedgeDelay, name: &[u8], now: Instant) -> Option<String> {
        let HedgeDelay::Percentile(permille) = delay else { return None };
        let unused = Default::default();
        let latencies = self.hedging.as_ref().map_or(&unused, |hedging| hedging.latencies());
        let KnownPercentile { value, calls, calls_needed } = latencies.describe(Method::of_path(name), permille, now);
        Some(match value {
            Some(value) => format!("{delay} is {:.1} ms now, from {calls} calls", ms(value)),
            None => format!("{delay} is not known yet, so calls are not hedged: {calls} of {calls_needed} calls"),
        })
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
