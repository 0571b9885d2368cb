//! Ports: which ports of the application are named in metrics.
//!
//! A peer that asks for one port after another must not make a series of each. All ports on which the application has taken a
//! connection are named, and a few that nobody knows yet; what goes to the others counts together.

use std::collections::BTreeSet;

/// Most ports that are named because the application has taken a connection there.
const SERVED_MAX: usize = 64;
/// Most ports that are named although the application has taken none there yet.
const UNPROVEN_MAX: usize = 16;

/// The named ports of one worker.
#[derive(Debug, Default)]
pub(super) struct Ports {
    served: BTreeSet<u16>,
    unproven: BTreeSet<u16>,
}

impl Ports {
    /// Names a port that a peer asks for, if there is room for its name.
    pub(super) fn name(&mut self, port: u16) {
        if !self.is_named(port) && self.unproven.len() < UNPROVEN_MAX {
            self.unproven.insert(port);
        }
    }

    /// Whether what goes to the port counts under its number.
    pub(super) fn is_named(&self, port: u16) -> bool {
        self.served.contains(&port) || self.unproven.contains(&port)
    }

    /// The application has taken a connection on the port; says whether it was not named before and is now.
    pub(super) fn serve(&mut self, port: u16) -> bool {
        if self.served.contains(&port) || self.served.len() >= SERVED_MAX {
            return false;
        }
        self.served.insert(port);
        !self.unproven.remove(&port)
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
