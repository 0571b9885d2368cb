//! What the runs of one mesh share, and how a run is taken from it.

use super::error::{Result, io};
use super::network::Network;
use super::options::Options;
use super::state::State;
use super::{manifests, mirror};

/// The mesh of a command line.
pub(super) struct Mesh {
    /// Its files.
    pub(super) state: State,
    /// Its bridge and addresses.
    pub(super) network: Network,
}

impl Mesh {
    /// The mesh that the options name; its directory is made if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(options: &Options) -> Result<Self> {
        let network = Network { bridge: options.bridge.clone(), subnet: options.subnet };
        Ok(Self { state: State::open(&options.state)?, network })
    }

    /// Removes what runs left behind that were killed; returns how many they were.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub(super) fn clean(&self) -> Result<usize> {
        let _lock = self.state.lock()?;
        let dead: Vec<u16> = self.state.numbers()?.into_iter().filter(|run| self.state.is_dead(*run)).collect();
        dead.iter().try_for_each(|run| self.remove(*run))?;
        Ok(dead.len())
    }

    /// Removes a run, and with the last one what all share; whoever calls it holds the lock.
    ///
    /// # Errors
    /// When something cannot be removed; it can be tried again.
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
