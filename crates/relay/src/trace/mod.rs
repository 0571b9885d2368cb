//! Traces: which calls are traced, and what happens to their spans.
//!
//! | file | what it does |
//! |---|---|
//! | `context` | reads and writes the context of a trace in the fields of a request |
//! | `sampler` | draws a share of the calls at random |
//! | `call/trace` | collects the span of a call and of its attempts while the call goes on |
//! | `finished` | a call that has ended, in the form that the exporter gets |
//! | `texts` | the texts of a call that has ended |
//! | `outbox` | the calls that wait for the exporter |
//!
//! A call without a trace costs a few comparisons. Where a call enters the mesh, the proxy begins a trace for a share
//! of the calls; everywhere else, the caller has decided whether the call is traced.

mod context;
mod finished;
mod outbox;
mod sampler;
mod texts;

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::FieldSection;

pub use context::TraceContext;
pub use finished::{FinishedAttempt, FinishedCall};
pub use outbox::{Dropped, Outbox};
use sampler::Sampler;
pub use texts::{Text, Texts};
pub(crate) use texts::{push_printable, push_trace_state};

const SECOND: Duration = Duration::from_secs(1);

/// Identifies a trace (W3C Trace Context section 3.2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(pub NonZeroU128);

/// Identifies a span within its trace (W3C Trace Context section 3.2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanId(pub NonZeroU64);

impl TraceId {
    /// Returns the id with this number; `None` for zero, which is no valid id.
    pub fn of(number: u128) -> Option<Self> {
        NonZeroU128::new(number).map(Self)
    }

    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        Self(NonZeroU128::new(random.u128(..)).unwrap_or(NonZeroU128::MIN))
    }
}

impl SpanId {
    /// Returns the id with this number; `None` for zero, which is no valid id, and for numbers above 64 bits.
    pub fn of(number: u128) -> Option<Self> {
        NonZeroU64::new(number.try_into().ok()?).map(Self)
    }

    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        Self(NonZeroU64::new(random.u64(..)).unwrap_or(NonZeroU64::MIN))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The rules that select the calls to be traced.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// The share of calls for which the proxy begins a trace, from 0 to 1. It applies to calls that arrive without a
    /// trace.
    pub ratio: f64,
    /// If set, a call that takes longer than this is exported even if it is not sampled.
    pub slower_than: Option<Duration>,
    /// Whether a call that fails is exported even if it is not sampled.
    pub failed: bool,
}

impl Sampling {
    /// Returns whether a call that is not sampled is exported if it turns out to be slow or to fail.
    fn watches(&self) -> bool {
        self.failed || self.slower_than.is_some()
    }
}

/// Configuration of a relay's traces.
#[derive(Debug, Clone)]
pub struct Tracing {
    pub sampling: Sampling,
    /// Takes the spans of calls that have ended.
    pub outbox: Arc<Outbox>,
}

/// Decides which calls of a worker are traced.
#[derive(Debug)]
pub(crate) struct Tracer {
    tracing: Option<Tracing>,
    sampler: Sampler,
    /// When the current second began, and how many calls were traced since.
    second: Instant,
    traced: u32,
}

impl Tracer {
    pub(crate) fn new(tracing: Option<Tracing>, now: Instant, random: &mut fastrand::Rng) -> Self {
        let ratio = tracing.as_ref().map_or(0.0, |tracing| tracing.sampling.ratio);
        Self { tracing, sampler: Sampler::new(ratio, random), second: now, traced: 0 }
    }

    /// Looks at the request of a call that begins. Returns `None` if the call is certainly not traced, otherwise
    /// whether the sampler has selected the call.
    #[inline]
    pub(crate) fn look_at(&mut self, request: &FieldSection, random: &mut fastrand::Rng) -> Option<bool> {
        let sampling = &self.tracing.as_ref()?.sampling;
        let is_drawn = self.sampler.draws(random);
        (is_drawn || sampling.watches() || TraceContext::may_be_in(request)).then_some(is_drawn)
    }

    pub(crate) fn outbox(&self) -> Option<&Arc<Outbox>> {
        self.tracing.as_ref().map(|tracing| &tracing.outbox)
    }

    /// Decides whether a call that begins is traced. Returns whether the call is sampled, and its context; `None` if
    /// the call is not traced. `is_decided`: the caller has a proxy that samples calls. If the request has no context,
    /// that proxy has decided against a trace.
    pub(crate) fn admit(
        &mut self,
        context: Option<TraceContext>,
        (is_drawn, is_decided): (bool, bool),
        max_per_second: u32,
        now: Instant,
    ) -> Option<(bool, TraceContext)> {
        let Tracing { sampling, outbox } = self.tracing.as_ref()?;
        let is_sampled = match context.and_then(|context| context.sampled) {
            Some(sampled) => sampled,
            None => is_drawn && !(is_decided && context.is_none()),
        };
        if !is_sampled {
            return sampling.watches().then(|| (false, context.unwrap_or_else(TraceContext::root)));
        }
        if now.saturating_duration_since(self.second) >= SECOND {
            (self.second, self.traced) = (now, 0);
        }
        if self.traced >= max_per_second {
            outbox.drop_call(Dropped::Rate);
            return None;
        }
        self.traced += 1;
        Some((true, context.unwrap_or_else(TraceContext::root)))
    }

    /// Returns whether a call that was not sampled is exported because of its duration, or because it has failed.
    pub(crate) fn keeps(&self, duration: Duration, has_failed: bool) -> bool {
        let sampling = self.tracing.as_ref().map(|tracing| tracing.sampling).unwrap_or_default();
        sampling.slower_than.is_some_and(|limit| duration > limit) || (sampling.failed && has_failed)
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
