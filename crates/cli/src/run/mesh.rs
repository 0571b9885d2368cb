//! The state that the runs of one mesh share, and the removal of a run from it.

use super::error::{Result, io};
use super::network::Network;
use super::options::Options;
use super::running::Running;
use super::state::State;
use super::{manifests, mirror};

/// The mesh that a command line selects.
pub(super) struct Mesh {
    pub(super) state: State,
    pub(super) network: Network,
}

impl Mesh {
    /// Opens the mesh that the options name; creates its directory if necessary.
    ///
    /// # Errors
    /// If the directory cannot be created, or the bridge belongs to another mesh: runs of both meshes would use the
    /// same names of namespaces.
    pub(super) fn open(options: &Options) -> Result<Self> {
        let state = State::open(&options.state)?;
        let (bridge, subnet) = (options.bridge.clone(), options.subnet);
        let network = Network { bridge, state: state.path().to_owned(), subnet };
        // Hold the lock: another run may be making the bridge now. Such a bridge has no alias yet, and would seem
        // foreign.
        let lock = state.lock()?;
        network.ensure_ours()?;
        drop(lock);
        Ok(Self { state, network })
    }

    /// Removes what killed runs left behind, and the bridge if no run is left; returns the number of killed runs.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(super) fn clean(&self) -> Result<usize> {
        let _lock = self.state.lock()?;
        let dead: Vec<u16> = self.state.numbers()?.into_iter().filter(|run| self.state.is_dead(*run)).collect();
        for run in &dead {
            // Another mesh may have made a bridge of the same name, and namespaces of the same names, after the run's
            // bridge was deleted, for example by a restart of the machine.
            let is_ours = self.network_of(*run).ensure_ours().is_ok();
            if is_ours { self.remove(*run)? } else { self.forget(*run)? }
        }
        if self.state.numbers()?.is_empty() {
            self.network.remove_bridge()?;
        }
        Ok(dead.len())
    }

    /// Removes a run, and the shared manifests and the bridge if no other run uses them. The caller must hold the lock.
    ///
    /// # Errors
    /// If something cannot be removed; the call can be repeated.
    pub(super) fn remove(&self, run: u16) -> Result<()> {
        self.network_of(run).remove(run)?;
        self.forget(run)
    }

    /// Does the same as [`Mesh::remove`] for a run that has no network namespace of its own.
    ///
    /// # Errors
    /// If something cannot be removed; the call can be repeated.
    pub(super) fn forget(&self, run: u16) -> Result<()> {
        let manifests = self.state.manifests();
        manifests::remove_endpoint(&manifests, run)?;
        let others: Vec<u16> = self.state.numbers()?.into_iter().filter(|other| *other != run).collect();
        let removing = || io(format!("removing manifests from {}", manifests.display()));
        if let Some(prefix) = self.state.config_prefix(run) {
            let is_shared = others.iter().any(|other| self.state.config_prefix(*other).as_ref() == Some(&prefix));
            if !is_shared {
                mirror::remove(&manifests, &prefix, |_| true).map_err(removing())?;
            }
        }
        if others.is_empty() {
            mirror::remove(&manifests, manifests::SERVICE_PREFIX, |_| true).map_err(removing())?;
        }
        let network = self.network_of(run);
        // A run that has recorded no network is still starting. It makes the bridge again if the bridge is missing.
        let uses_bridge = |other: u16| self.recorded_network(other).is_some_and(|its| its.bridge == network.bridge);
        if !others.into_iter().any(uses_bridge) {
            network.remove_bridge()?;
        }
        self.state.forget(run)
    }

    /// The network of a run, which may have another bridge than this command line.
    fn network_of(&self, run: u16) -> Network {
        self.recorded_network(run).unwrap_or_else(|| self.network.clone())
    }

    /// The network that a run has recorded; `None` while the run starts.
    fn recorded_network(&self, run: u16) -> Option<Network> {
        let about = self.state.about(run)?;
        self.network.of_namespace(Running::network_name(&about)?, run)
    }
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
mod tests;
