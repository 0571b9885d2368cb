//! The objects that a policy selects (GEP-713).

use super::route::Spot;
use super::{DNS_SUBDOMAIN_RULE, is_dns_subdomain};
use crate::manifest::Review;
use crate::problem::quoted;
use crate::traffic::status::TargetRef;

/// Maximum number of targets of a policy.
const TARGETS_MAX: usize = 16;
/// Gateway API's other name for the group of Services.
pub(super) const CORE: &str = "core";
/// The field of a policy that names its targets.
const FIELD: &str = "spec.targetRefs";

/// An object that a policy selects.
#[derive(Clone, Debug)]
pub struct PolicyTarget {
    pub reference: TargetRef,
    /// Where the reference is written.
    pub spot: Spot,
}

/// Reads the targets of a policy. `read` reads one target, given its field. `missing` is the fix for a policy without
/// targets.
pub(super) fn targets<T>(
    written: Vec<T>,
    missing: &str,
    review: &mut Review<'_>,
    read: impl Fn(&str, T, &mut Review<'_>) -> Option<TargetRef>,
) -> Box<[PolicyTarget]> {
    if written.is_empty() {
        review.problem(FIELD, "missing", missing);
    } else if written.len() > TARGETS_MAX {
        let fix = format!("use at most {TARGETS_MAX}, or several policies");
        review.problem(FIELD, format!("{} targets", written.len()), fix);
    }
    let mut targets: Vec<PolicyTarget> = Vec::new();
    for (index, written) in written.into_iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        let Some(reference) = read(&field, written, review) else { continue };
        if targets.iter().any(|target| target.reference == reference) {
            review.problem(&field, "the same target as before", "remove one of the two");
        }
        let spot = Spot { mark: review.mark(&field), field: field.into() };
        targets.push(PolicyTarget { reference, spot });
    }
    targets.into()
}

/// Checks a name in a target; `part` is its field within the target.
pub(super) fn check_name(field: &str, part: &str, name: &str, review: &mut Review<'_>) {
    if !is_dns_subdomain(name) {
        review.problem(&format!("{field}.{part}"), format!("{} is not a name", quoted(name)), DNS_SUBDOMAIN_RULE);
    }
}
