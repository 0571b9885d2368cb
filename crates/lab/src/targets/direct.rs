//! No target: clients connect to the backends themselves, as gRPC clients without a balancer do behind a headless
//! Service.

use super::{Setting, Target};
use crate::experiment::record::TargetKind;

pub(super) const VERSION: &str = "no program";

/// Starts nothing. A connection may choose any backend's address.
pub(super) fn start(setting: &Setting<'_>) -> Target {
    Target { addresses: setting.backends.to_vec(), ..Target::of(TargetKind::Direct) }
}
