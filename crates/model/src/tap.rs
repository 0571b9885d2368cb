//! The request of `leno tap` to a proxy: the selection of calls that a user watches.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::parse_duration;
use crate::traffic::{GrpcCodes, HedgeDelay};

/// Selects the calls that a tap shows. A call must meet every condition; a condition that is not set accepts every
/// call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TapSelection {
    /// The direction of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<TapSide>,
    /// A gRPC method, for example `shop.v1.Cart/Add`; all methods of a gRPC service, for example `shop.v1.Cart`; or the
    /// beginning of an HTTP path, for example `/items`. Matches whole segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The name of the route that the call matched, for example `canary` or `shop/canary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The service account of the peer, for example `cart` or `shop/cart`. The peer is the caller of an inbound call,
    /// or the server of an outbound call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The call ended with one of these statuses. An empty list accepts every status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<TapStatus>,
    /// Only calls that failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Only calls that took longer than this, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_ms: Option<u64>,
    /// Only calls that took longer than this percentile of the latest calls of the same method. The unit is a tenth of
    /// a percent: 990 is the time within which 99 % of the calls end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_permille: Option<u16>,
    /// Shows a random sample of the calls that meet the conditions: one in `one_in` of them. 0 and 1 show all of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub one_in: u32,
    /// Maximum number of calls that each worker shows in a second; 0 means [`TapSelection::DEFAULT_RATE`].
    #[serde(skip_serializing_if = "is_zero")]
    pub rate: u32,
    /// Shows the header fields too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub headers: bool,
}

/// The direction of a call, as seen from the proxy's workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TapSide {
    /// Calls to the workload.
    Inbound,
    /// Calls that the workload makes.
    Outbound,
}

/// The latency above which a tap shows a call: a time or a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowerThan {
    Time(Duration),
    /// A percentile of the latencies of the call's method, in tenths of a percent: 500 to 999.
    Percentile(u16),
}

/// A status of gRPC or HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TapStatus {
    /// The number of a gRPC status code.
    Grpc(u8),
    /// An HTTP status code.
    Http(u16),
}

impl TapSelection {
    /// The rate if the user sets no rate, in calls per second on each worker.
    pub const DEFAULT_RATE: u32 = 100;
    /// The highest rate, in calls per second on each worker.
    pub const MAX_RATE: u32 = 10_000;

    /// Sets the condition on the time of a call: a fixed time, a percentile, or no condition.
    #[must_use]
    pub fn slower_than(mut self, than: Option<SlowerThan>) -> Self {
        (self.slower_than_ms, self.slower_than_permille) = match than {
            None => (None, None),
            Some(SlowerThan::Time(time)) => (Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), None),
            Some(SlowerThan::Percentile(permille)) => (None, Some(permille)),
        };
        self
    }

    /// The maximum number of calls that each worker shows in a second.
    pub fn rate(&self) -> u32 {
        if self.rate == 0 { Self::DEFAULT_RATE } else { self.rate.min(Self::MAX_RATE) }
    }

    /// Whether a call to this `:path`, without its query, meets the condition on the method.
    pub fn has_method(&self, path: &[u8]) -> bool {
        let Some(wanted) = &self.method else { return true };
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let wanted = wanted.as_bytes().strip_prefix(b"/").unwrap_or(wanted.as_bytes());
        let rest = path.strip_prefix(wanted);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(b"/") || wanted.is_empty() || wanted.ends_with(b"/")
        })
    }

    /// Whether a call that matched this route meets the condition on the route.
    pub fn has_route(&self, route: Option<(&str, &str)>) -> bool {
        let Some(wanted) = &self.route else { return true };
        route.is_some_and(|(namespace, name)| is_named(wanted, namespace, name))
    }

    /// Whether a call with this peer, given as namespace and service account, meets the condition `peer`.
    pub fn has_peer(&self, peer: Option<(&str, &str)>) -> bool {
        let Some(wanted) = &self.peer else { return true };
        peer.is_some_and(|(namespace, account)| is_named(wanted, namespace, account))
    }

    /// Whether a call with these statuses meets the condition on statuses.
    pub fn has_status(&self, http: Option<u16>, grpc: Option<u8>) -> bool {
        let is_it = |wanted: &TapStatus| match wanted {
            TapStatus::Grpc(code) => grpc == Some(*code),
            TapStatus::Http(status) => http == Some(*status),
        };
        self.statuses.is_empty() || self.statuses.iter().any(is_it)
    }

    /// Whether a call that took this long meets the conditions on the time. `percentile` returns the latency at a
    /// percentile of the call's method; its argument is in tenths of a percent. It returns `None` if too few calls were
    /// made; then a condition on the percentile is not met.
    pub fn is_slow(&self, took: Duration, percentile: impl FnOnce(u16) -> Option<Duration>) -> bool {
        self.slower_than_ms.is_none_or(|ms| took > Duration::from_millis(ms))
            && self.slower_than_permille.is_none_or(|permille| percentile(permille).is_some_and(|usual| took > usual))
    }
}

/// Whether `wanted` is `name` or `namespace/name`.
fn is_named(wanted: &str, namespace: &str, name: &str) -> bool {
    match wanted.split_once('/') {
        Some((of, wanted)) => of == namespace && wanted == name,
        None => wanted == name,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl FromStr for SlowerThan {
    type Err = String;

    /// Parses a duration, for example `200ms`, or a percentile, for example `p99` or `p99.9`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.starts_with('p').then(|| text.parse()) {
            Some(Ok(HedgeDelay::Percentile(permille))) => Ok(Self::Percentile(permille)),
            Some(Err(why)) => Err(why.to_owned()),
            _ => parse_duration(text)
                .map(Self::Time)
                .ok_or_else(|| "write a duration, for example 200ms, or a percentile, for example p99".to_owned()),
        }
    }
}

impl FromStr for TapStatus {
    type Err = String;

    /// Parses the name or the number of a gRPC status, or an HTTP status.
    fn from_str(text: &str) -> Result<Self, String> {
        const GRPC_MAX: u16 = 16;
        let name = text.to_ascii_uppercase();
        match (GrpcCodes::code(&name), text.parse::<u16>()) {
            (Some(code), _) => Ok(Self::Grpc(code)),
            (None, Ok(code @ 0..=GRPC_MAX)) => Ok(Self::Grpc(code.try_into().unwrap_or(u8::MAX))),
            (None, Ok(status @ 100..=599)) => Ok(Self::Http(status)),
            _ => {
                Err("write a gRPC status, for example UNAVAILABLE or 14, or an HTTP status, for example 503".to_owned())
            }
        }
    }
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
