//! Reads the targets of a policy: the objects that the policy selects (GEP-713).

use super::route::Spot;
use super::{DNS_SUBDOMAIN_RULE, is_dns_subdomain};
use crate::manifest::Review;
use crate::problem::quoted;
use crate::traffic::status::TargetRef;

/// Maximum number of targets of a policy.
const TARGETS_MAX: usize = 16;
/// The field of a policy that lists its targets.
const FIELD: &str = "spec.targetRefs";

/// An object that a policy selects.
#[derive(Clone, Debug)]
pub struct PolicyTarget {
    pub reference: TargetRef,
    /// The field of the policy that contains the reference.
    pub spot: Spot,
}

/// Reads the targets of a policy. `read` reads one target; its first argument is the path of the target's field.
/// `missing` is the fix that the report names if the policy has no targets.
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

/// Checks a name in a target. `field` is the path of the target, and `part` is the name's field in the target.
pub(super) fn check_name(field: &str, part: &str, name: &str, review: &mut Review<'_>) {
    if !is_dns_subdomain(name) {
        review.problem(&format!("{field}.{part}"), format!("{} is not a name", quoted(name)), DNS_SUBDOMAIN_RULE);
    }
}
