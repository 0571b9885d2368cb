//! The order of the runs.

use super::cases::Case;
use super::options::Settings;
use super::record::TargetKind;

/// One run to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Number of the repeat, from 1.
    pub(super) repeat: u32,
    /// What is done.
    pub(super) case: Case,
    /// To which target.
    pub(super) target: TargetKind,
    /// Index of the backend that is slow or fails, the same for all targets of one case in one repeat.
    pub(super) troubled: usize,
    /// Chooses the backends of connections that choose.
    pub(super) seed: u64,
}

/// Every repeat goes through all cases, and every case through all targets: a noisy minute of the machine hits all
/// of them. The targets come in another order each time, so that none always follows the same one; the troubled
/// backend is another each time, because some balancers like the first of a list.
pub(super) fn turns(settings: &Settings, targets: &[TargetKind], backends: usize) -> Vec<Turn> {
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut turns = Vec::new();
    for repeat in 1..=settings.repeat {
        for &case in &settings.cases {
            let mut order = targets.to_vec();
            random.shuffle(&mut order);
            let troubled = random.usize(..backends);
            for target in order {
                turns.push(Turn { repeat, case, target, troubled, seed: random.u64(..) });
            }
        }
    }
    turns
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
