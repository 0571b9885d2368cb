//! Derives from the Pods which endpoints have a proxy. Also lists the addresses of all Pods with a proxy, even of Pods
//! that no Service selects.
//!
//! - An endpoint stays unused until its Pod is known, because callers must not send unencrypted calls to a Pod with a
//!   proxy. EndpointSlices and Pods arrive over different watches, milliseconds apart.
//! - An endpoint whose Pod does not own the endpoint's address stays unused. An EndpointSlice may contain any address,
//!   but must not direct calls for a Pod elsewhere.
//! - An endpoint that names no Pod gets the proxy of the Pod that owns its address, if that Pod has one.
//!
//! Two Pods may report the same address, for example because a finalizer keeps the old Pod while a new Pod already has
//! its address. Only one of them owns the address. It is the first Pod by these criteria, in this order: its [`Stage`]
//! is earlier, it is newer, it has a proxy, its name sorts first.
//!
//! A Pod on its node's network owns no address, because it shares the node's address with other Pods. An endpoint may
//! name such a Pod, unless the owner of the address precedes it by these criteria.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use leno_model::mesh::{EndpointProxy, MeshedPod, MeshedPods};
use leno_model::object::{Address, EndpointSlice};
use leno_model::problem::{Mark, Notice, Place};
use leno_model::proxy;
use leno_model::spiffe::Workload;

use super::{Name, Pod, Stage};

/// The cluster's Pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    all: HashMap<Name, Pod>,
    /// The Pods that report each address, except Pods on their node's network. One of them owns the address.
    reporting: HashMap<IpAddr, Vec<Name>>,
    /// The Pods with a proxy, by the addresses that they own. Shared with the mesh.
    meshed: Arc<MeshedPods>,
    /// The addresses of Pods that have changed since [`Pods::take_changed`]: the addresses before and after the change.
    changed: HashSet<IpAddr>,
}

impl Pods {
    /// Every Pod, by name.
    pub(super) fn all(&self) -> &HashMap<Name, Pod> {
        &self.all
    }

    /// The Pods with a proxy, by the addresses that they own, as of the last [`Pods::take_changed`].
    pub(super) fn meshed(&self) -> &Arc<MeshedPods> {
        &self.meshed
    }

    /// Inserts or replaces a Pod. Returns whether this is a change.
    pub(super) fn insert(&mut self, name: Name, pod: Pod) -> bool {
        if self.all.get(&name) == Some(&pod) {
            return false;
        }
        self.remove(&name);
        for ip in &pod.ips {
            self.changed.insert(*ip);
            if !pod.has_host_network {
                self.reporting.entry(*ip).or_default().push(name.clone());
            }
        }
        self.all.insert(name, pod);
        true
    }

    /// Removes a Pod. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &Name) -> bool {
        let Some(pod) = self.all.remove(name) else { return false };
        for ip in &pod.ips {
            self.changed.insert(*ip);
            if let Entry::Occupied(mut names) = self.reporting.entry(*ip) {
                names.get_mut().retain(|other| other != name);
                if names.get().is_empty() {
                    names.remove();
                }
            }
        }
        true
    }

    /// Updates [`Pods::meshed`]. Returns the addresses that may belong to other Pods than before, or to changed Pods.
    /// The cost grows with their number, not with the number of Pods, unless a Pod with a proxy has changed: the table
    /// is then copied, because the last mesh still uses it.
    pub(super) fn take_changed(&mut self) -> HashSet<IpAddr> {
        let changed = std::mem::take(&mut self.changed);
        for ip in &changed {
            let pod = self.meshed_at(ip);
            if self.meshed.get(ip) != pod.as_ref() {
                let meshed = Arc::make_mut(&mut self.meshed);
                match pod {
                    Some(pod) => meshed.insert(*ip, pod),
                    None => meshed.remove(ip),
                };
            }
        }
        changed
    }

    /// Sets the proxy of each address to the one of its Pod. Moves an address to `held` if its Pod is unknown, does not
    /// own the address or has ended, and back to the slice once the Pod owns it. The result for an address depends only
    /// on the Pods that report this address.
    pub(super) fn join(&self, slice: &mut EndpointSlice, held: &mut Vec<Address>) {
        let mut all = std::mem::take(&mut slice.addresses).into_vec();
        all.append(held);
        let mut usable = Vec::with_capacity(all.len());
        for mut address in all {
            let ip = address.ip.to_canonical();
            let named = pod_of(&slice.identity.namespace, &address);
            let found = match &named {
                Some(name) => self.at(name, &ip).map(|pod| (name, pod)),
                // Look the Pod up by its address: users and controllers may write slices that name no Pod. If that Pod
                // has a proxy, calls to it must be encrypted.
                None => self.owner(&ip).filter(|(_, pod)| pod.injected_as.is_some()),
            };
            if named.is_some() && found.is_none() {
                held.push(address);
                continue;
            }
            address.proxy = found.and_then(|(name, pod)| proxy(name, pod));
            address.controller = found.and_then(|(_, pod)| pod.controller.clone());
            address.skipped_ports = found.map(|(_, pod)| pod.ports.skipped.clone()).unwrap_or_default();
            address.opaque_ports = found.map(|(_, pod)| pod.ports.opaque.clone()).unwrap_or_default();
            usable.push(address);
        }
        slice.addresses = usable.into();
    }

    /// Returns a notice about the addresses of a slice that stay unused; `None` if there are none.
    pub(super) fn held_back(&self, slice: &Name, held: &[Address]) -> Option<Notice> {
        let first = held.first()?;
        let named = pod_of(&slice.namespace, first)?;
        let (ip, pod) = (first.ip, &named.name);
        let is_reported = self.all.get(&named).is_some_and(|pod| pod.ips.contains(&ip.to_canonical()));
        let why = match is_reported {
            true => format!("because another Pod has that address now, or Pod {pod} has ended"),
            false => format!("before Pod {pod} has that address"),
        };
        let what = match held.len() {
            1 => format!("{ip} is not used {why}"),
            many => format!("{ip} is not used {why}, nor are {} more", many - 1),
        };
        let place = Place {
            file: "".into(),
            mark: Mark::default(),
            field: "endpoints".to_owned(),
            object: format!("EndpointSlice {}/{}", slice.namespace, slice.name),
        };
        Some(Notice { place, what })
    }

    /// Returns the Pod with this name if an endpoint at `ip` may be this Pod.
    fn at(&self, name: &Name, ip: &IpAddr) -> Option<&Pod> {
        let pod = self.all.get(name).filter(|pod| pod.ips.contains(ip) && pod.stage != Stage::Ended)?;
        let is_first = self.owner(ip).is_none_or(|(owner, other)| rank(name, pod) <= rank(owner, other));
        is_first.then_some(pod)
    }

    /// Returns the Pod that owns an address.
    fn owner(&self, ip: &IpAddr) -> Option<(&Name, &Pod)> {
        let reporting = self.reporting.get(ip)?.iter().filter_map(|name| self.all.get_key_value(name));
        reporting.min_by_key(|&(name, pod)| rank(name, pod))
    }

    /// Returns the Pod with a proxy that owns an address.
    fn meshed_at(&self, ip: &IpAddr) -> Option<MeshedPod> {
        let (name, pod) = self.owner(ip)?;
        let proxy = proxy(name, pod)?;
        let other_ip = pod.ips.iter().find(|other| other.is_ipv4() != ip.is_ipv4()).copied();
        Some(MeshedPod {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            controller: pod.controller.clone(),
            other_ip,
            proxy,
            skipped_ports: pod.ports.skipped.clone(),
            opaque_ports: pod.ports.opaque.clone(),
        })
    }
}

/// Returns the place of a Pod among the Pods that report the same address; the least owns it.
fn rank<'a>(name: &'a Name, pod: &Pod) -> (Stage, Reverse<Option<i64>>, bool, &'a Name) {
    (pod.stage, Reverse(pod.created_s), pod.injected_as.is_none(), name)
}

/// Returns whether an address in `slice` or `held` is one of `ips`.
pub(super) fn has_any(slice: &EndpointSlice, held: &[Address], ips: &HashSet<IpAddr>) -> bool {
    slice.addresses.iter().chain(held).any(|address| ips.contains(&address.ip.to_canonical()))
}

/// Returns the name of the Pod that an address of a slice refers to; `None` if it names none. `namespace` is the
/// slice's namespace.
fn pod_of(namespace: &str, address: &Address) -> Option<Name> {
    Some(Name::new(address.pod_namespace.as_deref().unwrap_or(namespace), address.pod.as_deref()?))
}

/// Returns the proxy of a Pod; `None` if the Pod has none. The proxy has no separate inbound port: callers connect to
/// the application's ports, and netfilter redirects these connections to the proxy.
fn proxy(name: &Name, pod: &Pod) -> Option<EndpointProxy> {
    let service_account = pod.injected_as.clone()?;
    Some(EndpointProxy {
        identity: Workload { namespace: name.namespace.clone(), service_account },
        inbound_port: None,
        tunnel_port: proxy::TUNNEL_PORT,
    })
}
