//! What callers must know of a Pod's proxy, read back from the containers that this module made.

use leno_model::protocol::PortRanges;

use super::containers::{ADMIN_PORT, INBOUND_PORT, OPAQUE_PORTS, SKIP_INBOUND_PORTS};
use super::settings::Settings;
use crate::names::{INIT, PROXY};

/// How the ports of a Pod are treated by its proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundPorts {
    /// Connections to them do not come to the proxy, so nobody there answers a proxy's handshake. The proxy's own are among
    /// them: what listens there is not the application.
    pub skipped: PortRanges,
    /// Their bytes are carried unread.
    pub opaque: PortRanges,
}

/// Reads it from init containers, each given as its name and its arguments. Arguments that cannot be read say nothing.
pub fn inbound_ports<'a>(containers: impl IntoIterator<Item = (&'a str, &'a [String])>) -> InboundPorts {
    let mut told = InboundPorts::default();
    for (name, arguments) in containers {
        let value = |option: &str| {
            let value = |argument: &'a String| argument.strip_prefix(option)?.strip_prefix('=')?.parse().ok();
            arguments.iter().find_map(value).unwrap_or_default()
        };
        match name {
            INIT => {
                let own = [INBOUND_PORT, ADMIN_PORT].into_iter().filter_map(|option| port(arguments, option));
                told.skipped = own.chain([Settings::TUNNEL_PORT]).fold(value(SKIP_INBOUND_PORTS), PortRanges::with);
            }
            PROXY => told.opaque = value(OPAQUE_PORTS),
            _ => {}
        }
    }
    told
}

fn port(arguments: &[String], option: &str) -> Option<u16> {
    arguments.iter().find_map(|argument| argument.strip_prefix(option)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
