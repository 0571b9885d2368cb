//! No target at all: clients connect to the backends themselves, as gRPC clients do behind a headless Service
//! without a balancer of their own.

use super::{Setting, Target};
use crate::experiment::record::TargetKind;

/// There is no program.
pub(super) const VERSION: &str = "no program";

/// Nothing is started; every backend is an address that a connection may choose.
pub(super) fn start(setting: &Setting<'_>) -> Target {
    Target { kind: TargetKind::Direct, addresses: setting.backends.to_vec(), processes: Vec::new(), _rules: None }
}
