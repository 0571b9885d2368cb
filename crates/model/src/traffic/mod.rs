//! Policies for calls: time limits, retries and hedging.
//!
//! Routes and TrafficPolicies set the fields of a [`CallPolicy`]. A route can set only the fields that exist in Gateway
//! API. TrafficPolicies and XBackendTrafficPolicies set the retry budget of a Service. [`CallPolicy::or`] joins the
//! policies for a call; a more specific policy takes precedence.
//!
//! This module is pure: the relay owns the timers and the attempts.

mod hedge;
mod latencies;
mod objective;
mod policy_kind;
mod repeatable;
mod retry;
mod slow_share;
pub mod status;
mod unsupported;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::settings::milliseconds;

pub use hedge::{HEDGES_MAX, Hedge, HedgeDelay};
pub use latencies::{KnownPercentile, MethodLatencies};
pub use objective::{LatencyObjective, NotAnObjective, OBJECTIVE_LINES_MAX, Objective, Objectives, Share};
pub use policy_kind::PolicyKind;
pub use repeatable::{REPEATABLE_MAX, Repeatable};
pub use retry::{BACKOFF_MAX, DEFAULT_BACKOFF, GrpcCodes, KNOWN_TO_GRPC, RETRIES_MAX, Retry};
pub use slow_share::SlowShare;
pub use unsupported::{Unsupported, XdsClient, unsupported};

/// The policy for the calls of a route rule or of a Service. A field is `None` if no object sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallPolicy {
    /// Limit on the time from the request's header section to the end of the response (GEP-1742).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Setting<TimeLimit>>,
    /// Limit on the time of one attempt at one endpoint (GEP-1742).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request_timeout: Option<Setting<TimeLimit>>,
    /// Limit on the time in which neither side of a call sends content or a header section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle_timeout: Option<Setting<TimeLimit>>,
    /// The retry policy: the failures after which the proxy sends a call again, although an endpoint may have processed
    /// it (GEP-1731).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Setting<Retry>>,
    /// The hedging policy: the delay after which the proxy sends a call to another endpoint, although the first
    /// endpoint may still answer (gRFC A6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Setting<Hedge>>,
}

/// The value of a field in a [`CallPolicy`], its mode, and the object that sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting<T> {
    #[serde(flatten)]
    pub value: T,
    pub mode: Mode,
    /// The kind and name of the object that sets the field, for example `TrafficPolicy shop/cart`.
    pub set_by: Arc<str>,
}

/// The mode of a [`Setting`]: whether the proxy applies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// The proxy applies the setting.
    #[default]
    Enforce,
    /// The proxy does not apply the setting. It only counts and logs the cases in which the setting would have had an
    /// effect.
    Audit,
    /// The setting is switched off, even if a less specific object sets it. [`CallPolicy::without_off`] removes such
    /// settings.
    Off,
}

/// Shortest idle time that a policy may set. The relay checks a stream four times within its idle time.
pub const SHORTEST_IDLE: Duration = Duration::from_millis(100);
/// Upper bound of all time limits, 10 years: in effect no limit.
pub const LONGEST_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeLimit {
    #[serde(rename = "after_ms", serialize_with = "milliseconds")]
    pub after: Duration,
}

impl Mode {
    /// Every mode with its name in manifests.
    pub const NAMED: [(&str, Self); 3] = [("Enforce", Self::Enforce), ("Audit", Self::Audit), ("Off", Self::Off)];

    pub fn name(self) -> &'static str {
        match self {
            Self::Enforce => "Enforce",
            Self::Audit => "Audit",
            Self::Off => "Off",
        }
    }
}

impl<T> Setting<T> {
    /// Creates a setting that the proxy applies.
    pub fn enforced(value: T, set_by: &Arc<str>) -> Self {
        Self { value, mode: Mode::Enforce, set_by: set_by.clone() }
    }

    pub fn is_audited(&self) -> bool {
        self.mode == Mode::Audit
    }
}

impl CallPolicy {
    /// Returns this policy, completed by `other`: each setting that this policy lacks is taken from `other`, which is a
    /// less specific policy.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            request_timeout: self.request_timeout.or_else(|| other.request_timeout.clone()),
            backend_request_timeout: self.backend_request_timeout.or_else(|| other.backend_request_timeout.clone()),
            stream_idle_timeout: self.stream_idle_timeout.or_else(|| other.stream_idle_timeout.clone()),
            retry: self.retry.or_else(|| other.retry.clone()),
            hedge: self.hedge.or_else(|| other.hedge.clone()),
        }
    }

    /// Returns the policy without the settings in mode [`Mode::Off`]. Call it after the last [`Self::or`], because a
    /// setting in this mode hides the settings of less specific policies.
    #[must_use]
    pub fn without_off(self) -> Self {
        fn on<T>(part: Option<Setting<T>>) -> Option<Setting<T>> {
            part.filter(|part| part.mode != Mode::Off)
        }
        Self {
            request_timeout: on(self.request_timeout),
            backend_request_timeout: on(self.backend_request_timeout),
            stream_idle_timeout: on(self.stream_idle_timeout),
            retry: on(self.retry),
            hedge: on(self.hedge),
        }
    }

    /// Returns whether the policy sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the size of the policy's texts and lists, in bytes.
    pub fn size_bytes(&self) -> usize {
        fn named<T>(part: Option<&Setting<T>>, of: fn(&T) -> usize) -> usize {
            part.map_or(0, |part| part.set_by.len() + of(&part.value))
        }
        let limits = [&self.request_timeout, &self.backend_request_timeout, &self.stream_idle_timeout];
        let limits: usize = limits.into_iter().map(|limit| named(limit.as_ref(), |_| 0)).sum();
        limits + named(self.retry.as_ref(), Retry::size_bytes) + named(self.hedge.as_ref(), Hedge::size_bytes)
    }
}

#[cfg(test)]
mod tests;
