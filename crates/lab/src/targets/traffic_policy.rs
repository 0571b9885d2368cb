//! Leno's TrafficPolicy for the Service under test.

use crate::echo::SERVICE;
use crate::experiment::record::CallPolicy;

/// Maximum number of retries of one call.
pub(super) const RETRIES: u32 = 2;
/// The largest value that a retry budget allows in `minPerSecond`.
const MIN_PER_SECOND_MAX: u32 = 1_000;

/// Returns the manifest of a TrafficPolicy for `service`; empty if `policy` is [`CallPolicy::Once`].
pub(super) fn traffic_policy(service: &str, policy: CallPolicy) -> String {
    let retry = format!("  retry: {{grpcCodes: [UNAVAILABLE], attempts: {RETRIES}}}\n");
    let parts = match policy {
        CallPolicy::Once => return String::new(),
        CallPolicy::Retry => retry,
        CallPolicy::RetryUnlimited => {
            format!("{retry}  budget: {{percent: 100, minPerSecond: {MIN_PER_SECOND_MAX}}}\n")
        }
        CallPolicy::Hedge(delay) => format!("  hedge: {{delay: {delay}, methods: [{SERVICE}/*]}}\n"),
    };
    format!(
        "\
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata:
  name: {service}
  namespace: default
spec:
  targetRefs:
  - {{kind: Service, name: {service}}}
{parts}"
    )
}

#[cfg(test)]
#[path = "traffic_policy_tests.rs"]
mod tests;
