//! The state that the runs of one mesh share, and the removal of a run from it.

use super::error::{Result, io};
use super::network::Network;
use super::options::Options;
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
        network.ensure_ours()?;
        Ok(Self { state, network })
    }

    /// Removes what killed runs left behind, and the bridge if no run is left; returns the number of killed runs.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(super) fn clean(&self) -> Result<usize> {
        let _lock = self.state.lock()?;
        let dead: Vec<u16> = self.state.numbers()?.into_iter().filter(|run| self.state.is_dead(*run)).collect();
        dead.iter().try_for_each(|run| self.remove(*run))?;
        if self.state.numbers()?.is_empty() {
            self.network.remove_bridge()?;
        }
        Ok(dead.len())
    }

    /// Removes a run and, with the last run, the shared parts. The caller must hold the lock.
    ///
    /// # Errors
    /// If something cannot be removed; the call can be repeated.
    pub(super) fn remove(&self, run: u16) -> Result<()> {
        manifests::remove_endpoint(&self.state.manifests(), run)?;
        self.network.remove(run)?;
        self.forget(run)
    }

    /// Does the same as [`Mesh::remove`] for a run that has no network namespace of its own.
    ///
    /// # Errors
    /// If something cannot be removed; the call can be repeated.
    pub(super) fn forget(&self, run: u16) -> Result<()> {
        let manifests = self.state.manifests();
        let others: Vec<u16> = self.state.numbers()?.into_iter().filter(|other| *other != run).collect();
        let removing = || io(format!("removing manifests from {}", manifests.display()));
        if let Some(prefix) = self.state.config_prefix(run) {
            let is_shared = others.iter().any(|other| self.state.config_prefix(*other).as_ref() == Some(&prefix));
            if !is_shared {
                mirror::remove(&manifests, &prefix, |_| true).map_err(removing())?;
            }
        }
        self.state.forget(run)?;
        if others.is_empty() {
            mirror::remove(&manifests, manifests::SERVICE_PREFIX, |_| true).map_err(removing())?;
            self.network.remove_bridge()?;
        }
        Ok(())
    }
}
