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
    /// If the directory cannot be created.
    pub(super) fn open(options: &Options) -> Result<Self> {
        let network = Network { bridge: options.bridge.clone(), subnet: options.subnet };
        Ok(Self { state: State::open(&options.state)?, network })
    }

    /// Removes what killed runs left behind; returns the number of such runs.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(super) fn clean(&self) -> Result<usize> {
        let _lock = self.state.lock()?;
        let dead: Vec<u16> = self.state.numbers()?.into_iter().filter(|run| self.state.is_dead(*run)).collect();
        dead.iter().try_for_each(|run| self.remove(*run))?;
        Ok(dead.len())
    }

    /// Removes a run and, with the last run, the shared parts. The caller must hold the lock.
    ///
    /// # Errors
    /// If something cannot be removed; the call can be repeated.
    pub(super) fn remove(&self, run: u16) -> Result<()> {
        let manifests = self.state.manifests();
        manifests::remove_endpoint(&manifests, run)?;
        self.network.remove(run)?;
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
