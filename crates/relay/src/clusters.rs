//! The clusters of a worker, and how many of them are ports of its own application.

use crate::cluster::{ClusterId, ClusterState, TargetKey};
use crate::slots::Slots;

/// Invariant: `local` is the number of states whose target is [`TargetKey::Local`]; a state's target never changes.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    states: Slots<ClusterState>,
    local: usize,
}

impl Clusters {
    pub(crate) fn get(&self, id: impl Into<Option<ClusterId>>) -> Option<&ClusterState> {
        self.states.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: impl Into<Option<ClusterId>>) -> Option<&mut ClusterState> {
        self.states.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClusterId, &ClusterState)> {
        self.states.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ClusterId, &mut ClusterState)> {
        self.states.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns the number of clusters that are ports of our application. Callers choose these ports.
    pub(crate) fn local(&self) -> usize {
        self.local
    }

    pub(crate) fn insert(&mut self, state: ClusterState) -> ClusterId {
        self.local += usize::from(is_local(&state));
        self.states.insert(state)
    }

    pub(crate) fn remove(&mut self, id: ClusterId) -> Option<ClusterState> {
        let state = self.states.remove(id)?;
        self.local -= usize::from(is_local(&state));
        Some(state)
    }
}

fn is_local(state: &ClusterState) -> bool {
    matches!(state.target, TargetKey::Local(_))
}
