//! Derives from the Pods which endpoints have a proxy. Also lists the addresses of all Pods with a proxy, even of Pods
//! that no Service selects.
//!
//! - An endpoint stays unused until its Pod is known, because callers must not send unencrypted calls to a Pod with a
//!   proxy. EndpointSlices and Pods arrive over different watches, milliseconds apart.
//! - An endpoint whose Pod does not have the endpoint's address stays unused. An EndpointSlice may contain any address,
//!   but must not direct calls for a Pod elsewhere.
//! - An endpoint that names no Pod gets the proxy of the Pod at its address, if that Pod has one.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use leno_model::mesh::{EndpointProxy, MeshedPod, MeshedPods};
use leno_model::object::{Address, EndpointSlice};
use leno_model::problem::{Mark, Notice, Place};
use leno_model::proxy;
use leno_model::spiffe::Workload;

use super::{Name, Pod};

/// Returns the Pods with a proxy, by address.
///
/// Two Pods may report the same address, for example because a new Pod gets the address of a deleted Pod. The address
/// then belongs to the first Pod by these criteria, in this order: it still runs, it is newer, it has a proxy, its name
/// sorts first. If this Pod has no proxy, the result omits the address.
///
/// The result omits Pods on their node's network: their address is the node's, and never the address of a meshed Pod.
pub(super) fn meshed(pods: &HashMap<Name, Pod>) -> MeshedPods {
    fn rank<'a>(name: &'a Name, pod: &Pod) -> (bool, Reverse<Option<i64>>, bool, &'a Name) {
        (pod.is_leaving, Reverse(pod.created_s), pod.injected_as.is_none(), name)
    }
    let mut winners: HashMap<IpAddr, (&Name, &Pod)> = HashMap::new();
    for (name, pod) in pods.iter().filter(|(_, pod)| !pod.has_host_network) {
        for ip in &pod.ips {
            let known = winners.entry(*ip).or_insert((name, pod));
            if rank(name, pod) < rank(known.0, known.1) {
                *known = (name, pod);
            }
        }
    }
    let entry = |(ip, (name, pod)): (IpAddr, (&Name, &Pod))| {
        let service_account = pod.injected_as.as_deref()?;
        let other_ip = pod.ips.iter().find(|other| other.is_ipv4() != ip.is_ipv4()).copied();
        let meshed = MeshedPod {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            controller: pod.controller.clone(),
            other_ip,
            proxy: proxy(&name.namespace, service_account),
            skipped_ports: pod.ports.skipped.clone(),
            opaque_ports: pod.ports.opaque.clone(),
        };
        Some((ip, meshed))
    };
    winners.into_iter().filter_map(entry).collect()
}

/// Returns the addresses that have different Pods in the two tables, or a Pod in only one of them.
pub(super) fn differing(before: &MeshedPods, after: &MeshedPods) -> HashSet<IpAddr> {
    let differs = |ip: &&IpAddr| before.get(*ip) != after.get(*ip);
    before.keys().chain(after.keys()).filter(differs).copied().collect()
}

/// Returns whether a change of `pods` or `ips` concerns a slice. It does if an address in `slice` or `held` names one
/// of `pods`, or names no Pod but is one of `ips`.
pub(super) fn concerns_any(
    slice: &EndpointSlice,
    held: &[Address],
    pods: &HashSet<Name>,
    ips: &HashSet<IpAddr>,
) -> bool {
    slice.addresses.iter().chain(held).any(|address| match pod_of(slice, address) {
        Some(name) => pods.contains(&name),
        None => ips.contains(&address.ip.to_canonical()),
    })
}

/// Returns the name of the Pod that an address of a slice refers to; `None` if it names none.
fn pod_of(slice: &EndpointSlice, address: &Address) -> Option<Name> {
    let namespace = address.pod_namespace.as_ref().unwrap_or(&slice.identity.namespace);
    Some(Name { namespace: namespace.clone(), name: address.pod.clone()? })
}

/// Sets the proxy of each address to the one of its Pod. Moves an address to `held` if its Pod is unknown or does not
/// have the address, and back to the slice once the Pod has it. `meshed` has the Pods with a proxy, by address.
pub(super) fn join(slice: &mut EndpointSlice, held: &mut Vec<Address>, pods: &HashMap<Name, Pod>, meshed: &MeshedPods) {
    let mut all = std::mem::take(&mut slice.addresses).into_vec();
    all.append(held);
    let mut usable = Vec::with_capacity(all.len());
    for mut address in all {
        let ip = address.ip.to_canonical();
        let Some(name) = pod_of(slice, &address) else {
            // Look the Pod up by its address: users and controllers may write slices that name no Pod. If that Pod has
            // a proxy, calls to it must be encrypted.
            let pod = meshed.get(&ip);
            address.proxy = pod.map(|pod| pod.proxy.clone());
            address.controller = pod.and_then(|pod| pod.controller.clone());
            address.skipped_ports = pod.map(|pod| pod.skipped_ports.clone()).unwrap_or_default();
            address.opaque_ports = pod.map(|pod| pod.opaque_ports.clone()).unwrap_or_default();
            usable.push(address);
            continue;
        };
        match pods.get(&name) {
            Some(pod) if pod.ips.contains(&ip) => {
                let service_account = pod.injected_as.as_deref();
                address.proxy = service_account.map(|service_account| proxy(&name.namespace, service_account));
                address.controller = pod.controller.clone();
                address.skipped_ports = pod.ports.skipped.clone();
                address.opaque_ports = pod.ports.opaque.clone();
                usable.push(address);
            }
            _ => held.push(address),
        }
    }
    slice.addresses = usable.into();
}

/// Returns a notice about the addresses of a slice that stay unused; `None` if there are none.
pub(super) fn held_back(slice: &Name, held: &[Address]) -> Option<Notice> {
    let first = held.first()?;
    let (ip, pod) = (first.ip, first.pod.as_deref().unwrap_or_default());
    let what = match held.len() {
        1 => format!("{ip} is not used before Pod {pod} has that address"),
        many => format!("{ip} is not used before Pod {pod} has that address, nor are {} more", many - 1),
    };
    let place = Place {
        file: "".into(),
        mark: Mark::default(),
        field: "endpoints".to_owned(),
        object: format!("EndpointSlice {}/{}", slice.namespace, slice.name),
    };
    Some(Notice { place, what })
}

/// Returns the proxy of an injected Pod. It has no separate inbound port: callers connect to the application's ports,
/// and netfilter redirects these connections to the proxy.
fn proxy(namespace: &str, service_account: &str) -> EndpointProxy {
    EndpointProxy {
        identity: Workload { namespace: namespace.into(), service_account: service_account.into() },
        inbound_port: None,
        tunnel_port: proxy::TUNNEL_PORT,
    }
}
