//! The order of the runs.

use super::cases::Case;
use super::options::Settings;
use super::record::TargetKind;

/// One planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Number of the repeat, from 1.
    pub(super) repeat: u32,
    pub(super) case: Case,
    pub(super) target: TargetKind,
    /// Index of the slow or failing backend, the same for all targets of one case in one repeat.
    pub(super) troubled: usize,
    /// Seed of the run's random choices: the backends of the connections, and random arrivals of calls.
    pub(super) seed: u64,
}

/// Returns the runs in their order. Every repeat runs all cases, and every case runs with all targets that support its
/// condition. So if other programs disturb the machine for a minute, all targets are affected. The order of the targets
/// is random, so that no target always follows the same other target. The faulty backend is random too, because some
/// balancers prefer the first backend of a list.
pub(super) fn turns(settings: &Settings, targets: &[TargetKind], backends: usize) -> Vec<Turn> {
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut turns = Vec::new();
    for repeat in 1..=settings.repeat {
        for &case in &settings.cases {
            let mut order: Vec<TargetKind> =
                targets.iter().copied().filter(|&target| case.condition.fits(target)).collect();
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
