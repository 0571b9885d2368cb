//! The Services, endpoints and proxies, and the proxies' subscriptions.
//!
//! The address of a Service's first endpoint encodes the number of the Service's last change, so that proxies recognize
//! which change has arrived.

use std::net::Ipv4Addr;

use serde::Serialize;

/// The namespace of the Services and of all proxies.
pub(super) const NAMESPACE: &str = "leno-lab";
/// Number of Services and of proxies in a small mesh.
pub(super) const SMALL: u32 = 3;
/// The Services that a real proxy's workload calls.
pub(super) const CALLED: [u32; 2] = [0, 1];
/// The Service that every simulated proxy subscribes to.
pub(super) const COMMON: u32 = 2;
/// The port of every Service.
pub(super) const PORT: u16 = 80;
/// Port of endpoints that get no calls.
pub(super) const TARGET_PORT: u16 = 8080;

/// Start of the range of endpoint addresses: 10.64.0.0/10.
const ENDPOINTS: u32 = 10 << 24 | 64 << 16;
/// Start of the range of addresses that encode a change: 10.128.0.0/9.
const MARKERS: u32 = 10 << 24 | 128 << 16;
const MARKERS_MAX: u32 = 1 << 23;

/// The size of a mesh. Services, endpoints and proxies are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Plan {
    /// Number of Services, at least [`SMALL`].
    pub(super) services: u32,
    /// Number of endpoints of each Service.
    pub(super) endpoints: u32,
    pub(super) proxies: u32,
    /// Services to which each proxy subscribes: at least one, at most all.
    pub(super) subscriptions: u32,
}

impl Plan {
    /// Returns the small mesh, which consists of the first [`SMALL`] Services and proxies of this mesh.
    pub(super) fn small(&self) -> Self {
        Self { services: SMALL, proxies: SMALL, subscriptions: self.subscriptions.min(2), ..*self }
    }

    /// The addresses of a Service's endpoints before any change.
    pub(super) fn addresses(&self, service: u32) -> Vec<Ipv4Addr> {
        let first = ENDPOINTS + service * self.endpoints;
        (first..first + self.endpoints).map(Ipv4Addr::from).collect()
    }

    /// The addresses of a Service's endpoints after a change.
    pub(super) fn changed_addresses(&self, service: u32, serial: u32) -> Vec<Ipv4Addr> {
        let mut addresses = self.addresses(service);
        if let Some(first) = addresses.first_mut() {
            *first = Ipv4Addr::from(MARKERS + serial % MARKERS_MAX);
        }
        addresses
    }

    /// Returns the Services to which a proxy subscribes: [`COMMON`], and others assigned round-robin. So any two of the
    /// other Services have the same number of subscribers, give or take one.
    pub(super) fn subscriptions_of(&self, proxy: u32) -> Vec<u32> {
        let others = u64::from(self.services - 1);
        let own = u64::from(self.subscriptions - 1);
        let nth = |n: u64| {
            // The cast loses nothing: the remainder is less than the number of Services, a u32.
            let index = ((u64::from(proxy) * own + n) % others) as u32;
            if index < COMMON { index } else { index + 1 }
        };
        std::iter::once(COMMON).chain((0..own).map(nth)).collect()
    }

    /// The proxies that subscribe to each Service.
    pub(super) fn subscribers(&self) -> Vec<Vec<u32>> {
        let mut subscribers = vec![Vec::new(); self.services as usize];
        for proxy in 0..self.proxies {
            for service in self.subscriptions_of(proxy) {
                subscribers[service as usize].push(proxy);
            }
        }
        subscribers
    }
}

/// A Service's name.
pub(super) fn name(service: u32) -> String {
    format!("service-{service}")
}

/// The name of the Service's cluster in xDS.
pub(super) fn cluster(service: u32) -> String {
    format!("{}.{NAMESPACE}:{PORT}", name(service))
}

/// Returns the number of the Service whose cluster has this name; `None` if the name does not begin with `service-`, a
/// number and a dot.
pub(super) fn service_of(cluster: &str) -> Option<u32> {
    cluster.strip_prefix("service-")?.split_once('.')?.0.parse().ok()
}

/// Returns the number of the change that an endpoint's address encodes, if it encodes one.
pub(super) fn serial_of(address: Ipv4Addr) -> Option<u32> {
    u32::from(address).checked_sub(MARKERS).filter(|&serial| serial < MARKERS_MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
