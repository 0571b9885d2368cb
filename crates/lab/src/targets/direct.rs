//! The target without a proxy: clients connect directly to the backends. In Kubernetes, gRPC clients do the same if
//! they call a headless Service and do not balance their calls.

use super::{Setting, Target};
use crate::experiment::record::TargetKind;

pub(super) const VERSION: &str = "no program";

/// Returns a target whose addresses are the backends' addresses; starts no program. A client connects to any one of
/// these addresses.
pub(super) fn start(setting: &Setting<'_>) -> Target {
    Target { addresses: setting.backends.to_vec(), ..Target::of(TargetKind::Direct) }
}
