//! Opens the state that the runs of one mesh share, and removes runs from this state.

use super::error::{Result, io};
use super::network::Network;
use super::options::Options;
use super::running::Running;
use super::state::State;
use super::{manifests, mirror};

/// A mesh of runs: the state that they share, and their network.
pub(super) struct Mesh {
    pub(super) state: State,
    pub(super) network: Network,
}

impl Mesh {
    /// Opens the mesh that the command line names; creates its directory if necessary.
    ///
    /// # Errors
    /// If the directory cannot be created. Also if the bridge belongs to another mesh, because the names of network
    /// namespaces derive from the bridge's name, and the runs of both meshes would use the same names.
    pub(super) fn open(options: &Options) -> Result<Self> {
        let state = State::open(&options.state)?;
        let (bridge, subnet) = (options.bridge.clone(), options.subnet);
        let network = Network { bridge, state: state.path().to_owned(), subnet };
        // Hold the lock, so that no other run is just creating the bridge. A new bridge has no alias at first, and
        // would seem to belong to another program.
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
            // Do not remove a bridge and namespaces of another mesh. It may use the same names if this run's bridge no
            // longer exists, for example after a restart of the machine.
            match self.network_of(*run).ensure_ours() {
                Ok(()) => self.remove(*run)?,
                Err(error) if error.is_foreign_bridge() => self.forget(*run)?,
                Err(error) => return Err(error),
            }
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

    /// Does the same as [`Mesh::remove`], but does not remove the run's network namespace. For a run that has not
    /// created one.
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
        // Ignore runs that have recorded no network: they are still starting, and create the bridge if it is missing.
        let uses_bridge = |other: u16| self.recorded_network(other).is_some_and(|its| its.bridge == network.bridge);
        if !others.into_iter().any(uses_bridge) {
            network.remove_bridge()?;
        }
        self.state.forget(run)
    }

    /// The network of a run. Its bridge may differ from the bridge that this command line names.
    fn network_of(&self, run: u16) -> Network {
        self.recorded_network(run).unwrap_or_else(|| self.network.clone())
    }

    /// The network that a run has recorded; `None` if the run is still starting and has recorded none.
    fn recorded_network(&self, run: u16) -> Option<Network> {
        let about = self.state.about(run)?;
        self.network.of_namespace(Running::network_name(&about)?, run)
    }
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
mod tests;
