//! Finds out from the Pods which endpoints have a proxy. Also lists the addresses of all Pods with a proxy, whether a
//! Service selects them or not.
//!
//! An endpoint stays unused until its Pod is known, because callers must not reach a Pod with a proxy unencrypted.
//! Slices and Pods arrive over different watches, milliseconds apart. An endpoint whose Pod has another address stays
//! unused: a slice may contain any address, but must not direct calls to an address that the endpoint's Pod does not
//! have. An endpoint that names no Pod has the proxy of the Pod at its address, if that Pod has one.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use leno_model::mesh::{EndpointProxy, MeshedPod, MeshedPods};
use leno_model::object::{Address, EndpointSlice};
use leno_model::problem::{Mark, Notice, Place};
use leno_model::proxy;
use leno_model::spiffe::Workload;

use super::{Name, Pod};

/// The Pods with a proxy by address. Two Pods may report one address, for example because a new Pod gets the address of
/// a deleted Pod. Then the first rule that distinguishes the two Pods selects one of them: a Pod that still runs, the
/// newer Pod, a Pod with a proxy, the Pod whose name sorts first. If the selected Pod has no proxy, its address is not
/// in the result.
///
/// Pods on their node's network are left out: their address is the node's, and never the address of a meshed Pod.
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

/// Returns the addresses at which the Pods of two tables differ.
pub(super) fn differing(before: &MeshedPods, after: &MeshedPods) -> HashSet<IpAddr> {
    let differs = |ip: &&IpAddr| before.get(*ip) != after.get(*ip);
    before.keys().chain(after.keys()).filter(differs).copied().collect()
}

/// Returns whether an address in `slice` or `held` names one of `pods`, or names no Pod and is one of `ips`.
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

/// The Pod that an address names.
fn pod_of(slice: &EndpointSlice, address: &Address) -> Option<Name> {
    let namespace = address.pod_namespace.as_ref().unwrap_or(&slice.identity.namespace);
    Some(Name { namespace: namespace.clone(), name: address.pod.clone()? })
}

/// Sets the proxy of each address from the address's Pod. Moves addresses of unknown Pods to `held`, and back to the
/// slice once their Pods are known. `meshed` has the Pods with a proxy, by address.
pub(super) fn join(slice: &mut EndpointSlice, held: &mut Vec<Address>, pods: &HashMap<Name, Pod>, meshed: &MeshedPods) {
    let mut all = std::mem::take(&mut slice.addresses).into_vec();
    all.append(held);
    let mut usable = Vec::with_capacity(all.len());
    for mut address in all {
        let ip = address.ip.to_canonical();
        let Some(name) = pod_of(slice, &address) else {
            // Users and controllers may write slices that name no Pod. If the Pod at such an address has a proxy, calls
            // to the Pod must not be sent in clear.
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

/// Makes the notice for a slice's unused addresses, if there are any.
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

/// The proxy of an injected Pod. Callers connect to the Pod's own ports, and netfilter redirects their connections to
/// the proxy.
fn proxy(namespace: &str, service_account: &str) -> EndpointProxy {
    EndpointProxy {
        identity: Workload { namespace: namespace.into(), service_account: service_account.into() },
        inbound_port: None,
        tunnel_port: proxy::TUNNEL_PORT,
    }
}
