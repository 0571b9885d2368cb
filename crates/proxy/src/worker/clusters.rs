//! The clusters of a worker, and how many of them are ports of its own application.

use slab::Slab;

use super::cluster::{ClusterState, TargetKey};

/// Invariant: `local` is the number of states whose target is [`TargetKey::Local`]; a state's target never changes.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    states: Slab<ClusterState>,
    local: usize,
}

impl Clusters {
    pub(super) fn get(&self, index: usize) -> Option<&ClusterState> {
        self.states.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut ClusterState> {
        self.states.get_mut(index)
    }

    pub(super) fn iter(&self) -> slab::Iter<'_, ClusterState> {
        self.states.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns the number of clusters that are ports of our application. Callers choose these ports.
    pub(super) fn local(&self) -> usize {
        self.local
    }

    pub(super) fn insert(&mut self, state: ClusterState) -> usize {
        self.local += usize::from(is_local(&state));
        self.states.insert(state)
    }

    pub(super) fn try_remove(&mut self, index: usize) -> Option<ClusterState> {
        let state = self.states.try_remove(index)?;
        self.local -= usize::from(is_local(&state));
        Some(state)
    }
}

fn is_local(state: &ClusterState) -> bool {
    matches!(state.target, TargetKey::Local(_))
}
