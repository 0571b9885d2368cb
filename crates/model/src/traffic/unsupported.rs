//! The parts of a call policy that programs without a proxy ignore.
//!
//! gRPC clients and Envoy can get the same routes and clusters over xDS as the mesh's proxies do. If xDS has a field
//! for a part of the policy, `leno_xds` sets the field. The programs ignore all other parts, and all parts in mode
//! Audit.

use std::fmt;
use std::sync::Arc;

use super::{CallPolicy, Mode, Setting};
use crate::balance::BudgetSettings;

/// Maximum number of retries of one call in gRPC clients, even if their configuration allows more (gRFC A6). grpc-go
/// applies this limit only to a service config, not to a retry policy from xDS.
const GRPC_RETRIES_MAX: u8 = 4;

/// A program that reads routes and clusters over xDS, and has no proxy of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdsClient {
    /// A program with gRPC's own xDS client (gRFC A31, A44), in any language.
    Grpc,
    /// A program with grpc-go's xDS client, which ignores fewer parts.
    GrpcGo,
    Envoy,
}

/// A part of a policy that a client ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The field, as a TrafficPolicy names it.
    part: &'static str,
    /// Whether the client ignores the part because the part is only audited.
    is_audited: bool,
    /// The object that sets the part.
    pub set_by: Arc<str>,
}

impl fmt::Display for Unsupported {
    /// Writes the part, for example `hedge` or `retry in mode Audit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.part)?;
        if self.is_audited { f.write_str(" in mode Audit") } else { Ok(()) }
    }
}

/// Returns the parts of a policy and of a retry budget that `client` ignores.
pub fn unsupported(
    client: XdsClient,
    policy: &CallPolicy,
    budget: Option<&Setting<BudgetSettings>>,
) -> Vec<Unsupported> {
    let CallPolicy { request_timeout, backend_request_timeout, stream_idle_timeout, retry, hedge } = policy;
    let is_grpc = matches!(client, XdsClient::Grpc | XdsClient::GrpcGo);
    let has_retry_limit = client == XdsClient::Grpc;
    let retry = retry.as_ref();
    let enforced = retry.filter(|retry| retry.mode == Mode::Enforce).map(|retry| &retry.value);
    let of_retry = |is_ignored: bool, part| part_of(retry.filter(|_| is_ignored), part, true);
    let shared = budget.filter(|budget| !is_grpc && !budget.is_audited());
    let parts = [
        part_of(request_timeout.as_ref(), "timeouts.request", false),
        // Without enforced retries, a call has only one attempt. `leno_xds` then sends the attempt's time limit as the
        // time limit of the call.
        part_of(backend_request_timeout.as_ref(), "timeouts.backendRequest", is_grpc && enforced.is_some()),
        part_of(stream_idle_timeout.as_ref(), "timeouts.streamIdle", is_grpc),
        of_retry(retry.is_some_and(Setting::is_audited), "retry"),
        of_retry(enforced.is_some_and(|retry| !retry.is_known_to_grpc()), "some of retry.grpcCodes"),
        of_retry(is_grpc && enforced.is_some_and(|retry| !retry.http_codes.is_empty()), "retry.httpCodes"),
        of_retry(
            has_retry_limit && enforced.is_some_and(|retry| retry.attempts > GRPC_RETRIES_MAX),
            "retry.attempts above 4",
        ),
        part_of(hedge.as_ref(), "hedge", true),
        part_of(budget.filter(|_| is_grpc || shared.is_none()), "budget", true),
        // Envoy ignores the interval: it applies the percentage to the requests in flight.
        part_of(shared, "budget.interval", true),
        part_of(shared.filter(|budget| budget.value.min_per_second > 0), "budget.minPerSecond", true),
    ];
    parts.into_iter().flatten().collect()
}

/// Returns the part if the client ignores it. A client ignores every audited part. It ignores an enforced part if
/// `is_ignored` is true.
fn part_of<T>(setting: Option<&Setting<T>>, part: &'static str, is_ignored: bool) -> Option<Unsupported> {
    let setting = setting?;
    let is_audited = setting.is_audited();
    let is_ignored = is_audited || is_ignored && setting.mode == Mode::Enforce;
    is_ignored.then(|| Unsupported { part, is_audited, set_by: setting.set_by.clone() })
}

#[cfg(test)]
#[path = "unsupported_tests.rs"]
mod tests;
