//! Ports: selects the ports of the application that metrics name.
//!
//! A peer that tries one port after another must not create a metric series for each port. So metrics name only the
//! ports on which the application has accepted a connection (at most 64), and at most 16 other ports that peers tried.
//! Traffic to all other ports counts in one series.

use std::collections::BTreeSet;

/// Maximum number of named ports on which the application has accepted a connection.
const SERVED_MAX: usize = 64;
/// Maximum number of named ports on which the application has not accepted a connection yet.
const UNPROVEN_MAX: usize = 16;

/// The named ports of one worker.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    served: BTreeSet<u16>,
    unproven: BTreeSet<u16>,
}

impl Ports {
    /// Adds a port to the named ports, if there is room for another port. Called when a peer wants to connect to this
    /// port.
    pub(crate) fn name(&mut self, port: u16) {
        if !self.is_named(port) && self.unproven.len() < UNPROVEN_MAX {
            self.unproven.insert(port);
        }
    }

    /// Returns whether traffic to the port counts under the port's number.
    pub(crate) fn is_named(&self, port: u16) -> bool {
        self.served.contains(&port) || self.unproven.contains(&port)
    }

    /// Adds a port to the named ports, if there is room. Called when the application has accepted a connection on this
    /// port.
    pub(crate) fn serve(&mut self, port: u16) {
        if self.served.contains(&port) || self.served.len() >= SERVED_MAX {
            return;
        }
        self.served.insert(port);
        self.unproven.remove(&port);
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
