//! No target: clients connect to the backends themselves, as gRPC clients without a balancer do behind a headless
//! Service.

use super::{Setting, Target};
use crate::experiment::record::TargetKind;

pub(super) const VERSION: &str = "no program";

/// Starts nothing. A connection may choose any backend's address.
pub(super) fn start(setting: &Setting<'_>) -> Target {
    Target {
        kind: TargetKind::Direct,
        addresses: setting.backends.to_vec(),
        processes: Vec::new(),
        services: Vec::new(),
        _rules: None,
    }
}
