//! Ports: selects the ports of the application that metrics name.
//!
//! A peer that tries one port after another must not create a metric series for each port. Metrics name the ports on
//! which the application has accepted a connection, and a few others. Traffic to the remaining ports counts in one
//! series.

use std::collections::BTreeSet;

/// Maximum number of ports that metrics name because the application has accepted a connection there.
const SERVED_MAX: usize = 64;
/// Maximum number of ports that are named although the application has not accepted a connection there yet.
const UNPROVEN_MAX: usize = 16;

/// The named ports of one worker.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    served: BTreeSet<u16>,
    unproven: BTreeSet<u16>,
}

impl Ports {
    /// Names a port to which a peer wants to connect, if there is room for another name.
    pub(crate) fn name(&mut self, port: u16) {
        if !self.is_named(port) && self.unproven.len() < UNPROVEN_MAX {
            self.unproven.insert(port);
        }
    }

    /// Returns whether traffic to the port counts under the port's number.
    pub(crate) fn is_named(&self, port: u16) -> bool {
        self.served.contains(&port) || self.unproven.contains(&port)
    }

    /// Names a port on which the application has accepted a connection, if there is room. Returns whether the port was
    /// not named before and is now.
    pub(crate) fn serve(&mut self, port: u16) -> bool {
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
