//! The scenario `methods`: a load calls a fast method of a service, while a second load calls a slow method.
//!
//! A balancer that keeps only one latency for each endpoint sees a mixture of both methods. A good balancer does not
//! avoid endpoints because of the slow method, and does not overlook a slow endpoint because of the fast method.

use std::time::Duration;

use super::measure::Stage;
use super::record::{Run, SlowMethod};
use super::schedule::Turn;
use crate::error::Result;
use crate::load::{Load, Pattern, Plan, Shape, Traffic};

/// Duration of the slow method, in addition to the backend's service time.
pub(super) const SLOW_METHOD_MS: u32 = 100;
/// Number of calls of the fast method for each call of the slow method.
const FAST_CALLS_EACH: u32 = 10;

impl Stage<'_> {
    /// Measures the fast method, with the case's rate, while a second load calls the slow method.
    ///
    /// # Errors
    /// If a program ends early, or the target refuses connections. Failed calls are counted instead.
    pub(super) fn measure_methods(&mut self, turn: &Turn) -> Result<Run> {
        let slow = Load::start(self.slow_plan(turn));
        let (run, calls_meanwhile) = self.measure_beside(turn, Some(&slow))?;
        let numbers = slow.finish()?;
        let slow_method = Some(SlowMethod {
            calls: numbers.total.calls,
            errors: numbers.errors(),
            calls_meanwhile,
            p50_ms: numbers.total.p50_ms,
            p99_ms: numbers.total.p99_ms,
        });
        Ok(Run { slow_method, ..run })
    }

    /// The load on the slow method. It calls another gRPC method, so that a balancer can distinguish the two methods.
    fn slow_plan(&self, turn: &Turn) -> Plan {
        let plan = self.plan(turn, self.settings.warm_up, self.settings.measured);
        let traffic =
            Traffic { shape: Shape::ServerStream, messages: 1, delay_ms: SLOW_METHOD_MS, ..self.settings.traffic };
        let pattern = match plan.pattern {
            Pattern::Open { rate_per_s, max_in_flight } => {
                Pattern::Open { rate_per_s: (rate_per_s / FAST_CALLS_EACH).max(1), max_in_flight }
            }
            closed @ Pattern::Closed { .. } => closed,
        };
        // The slow load starts before the fast load. It runs 1 s longer, so that it also ends after the fast load.
        let measured = plan.measured + Duration::from_secs(1);
        Plan { traffic, pattern, measured, ..plan }
    }
}
