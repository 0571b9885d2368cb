//! The Pods that differ between two meshes. A client may call a Pod at any port, and each port has a Listener and a
//! cluster with one endpoint. So a comparison cannot list all changed resources. A comparison only shows whether a
//! given resource may have changed.

use std::net::IpAddr;
use std::sync::Arc;

use leno_model::mesh::{MeshedPod, MeshedPods};
use leno_xds::Kind;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedPods {
    ips: Vec<IpAddr>,
    old: Arc<MeshedPods>,
    new: Arc<MeshedPods>,
}

impl ChangedPods {
    pub(super) fn between(old: &Arc<MeshedPods>, new: &Arc<MeshedPods>) -> Self {
        if Arc::ptr_eq(old, new) {
            return Self::default();
        }
        let gone_or_other = old.iter().filter(|(ip, pod)| new.get(*ip) != Some(*pod));
        let come = new.iter().filter(|(ip, _)| !old.contains_key(*ip));
        let ips = gone_or_other.chain(come).map(|(ip, _)| *ip).collect();
        Self { ips, old: old.clone(), new: new.clone() }
    }

    /// The addresses of Pods that were created, changed or removed.
    pub(super) fn ips(&self) -> &[IpAddr] {
        &self.ips
    }

    /// Returns whether the resource of `kind` for this port of the Pod may have changed.
    pub(super) fn concerns(&self, ip: &IpAddr, kind: Kind, port: u16) -> bool {
        let (Some(old), Some(new)) = (self.old.get(ip), self.new.get(ip)) else { return true };
        // If a field is added to `MeshedPod`, decide here which resources depend on it. Ignore `other_ip`:
        // `Changes::ports_of_both_families` compares it.
        let MeshedPod { namespace, name, controller, other_ip: _, proxy, skipped_ports, opaque_ports } = old;
        let has_other_name =
            *namespace != new.namespace || skipped_ports.contains(port) != new.skipped_ports.contains(port);
        let has_other_peer = *proxy != new.proxy || opaque_ports.contains(port) != new.opaque_ports.contains(port);
        let has_other_text = *name != new.name || *controller != new.controller;
        match kind {
            Kind::Listener => has_other_name,
            Kind::Cluster => has_other_name || has_other_peer,
            Kind::Endpoints => has_other_name || has_other_peer || has_other_text,
            Kind::Route => false,
        }
    }
}

#[cfg(test)]
#[path = "changed_pods_tests.rs"]
mod tests;
