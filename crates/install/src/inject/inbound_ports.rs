//! Reads, from the injected containers of a Pod, the facts about the Pod's proxy that callers of the Pod need.

use leno_model::protocol::PortRanges;
use leno_model::proxy;

use super::containers::{ADMIN_PORT, HTTP_PORTS, INBOUND_PORT, OPAQUE_PORTS, SKIP_INBOUND_PORTS};
use super::settings::Settings;
use crate::names::{INIT, PROXY};

/// The ports of a Pod that the Pod's proxy does not serve, or serves without inspection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundPorts {
    /// Ports whose connections bypass the proxy, so that no proxy answers a TLS handshake there. The proxy's own ports
    /// are among them: the application does not listen there.
    pub skipped: PortRanges,
    /// Ports whose bytes are relayed without inspection.
    pub opaque: PortRanges,
    /// Ports that accept HTTP only, even if they are in `opaque` too.
    pub http: PortRanges,
}

impl InboundPorts {
    /// Returns the ports of a proxy with these settings. The proxy's own ports are not among them.
    pub(super) fn of(settings: &Settings) -> Self {
        let [skipped, opaque, http] = [&settings.skip_inbound_ports, &settings.opaque_ports, &settings.http_ports]
            .map(|ports| ports.parse::<PortRanges>().unwrap_or_default());
        Self { skipped, opaque, http }
    }
}

/// Reads the ports from init containers, each given as its name and its arguments. Unreadable arguments are ignored.
pub fn inbound_ports<'a>(containers: impl IntoIterator<Item = (&'a str, &'a [String])>) -> InboundPorts {
    let mut ports = InboundPorts::default();
    for (name, arguments) in containers {
        let value = |option: &str| {
            let value = |argument: &'a String| argument.strip_prefix(option)?.strip_prefix('=')?.parse().ok();
            arguments.iter().find_map(value).unwrap_or_default()
        };
        match name {
            INIT => {
                let own = [INBOUND_PORT, ADMIN_PORT].into_iter().filter_map(|option| port(arguments, option));
                ports.skipped = own.chain([proxy::TUNNEL_PORT]).fold(value(SKIP_INBOUND_PORTS), PortRanges::with);
            }
            PROXY => (ports.opaque, ports.http) = (value(OPAQUE_PORTS), value(HTTP_PORTS)),
            _ => {}
        }
    }
    ports
}

fn port(arguments: &[String], option: &str) -> Option<u16> {
    arguments.iter().find_map(|argument| argument.strip_prefix(option)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
#[path = "inbound_ports_tests.rs"]
mod tests;
