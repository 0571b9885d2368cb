//! Finds out from the Pods which endpoints have a proxy. Also lists the addresses of all Pods with a proxy, whether a
//! Service selects them or not.
//!
//! An endpoint stays unused until its Pod is known, because callers must not reach a Pod with a proxy unencrypted.
//! Slices and Pods arrive over different watches, milliseconds apart. An endpoint whose Pod has another address stays
//! unused, because a slice may contain any address, but must not direct calls to an address that the endpoint's Pod
//! does not have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use leno_model::mesh::{EndpointProxy, MeshedPod, MeshedPods};
use leno_model::object::{Address, EndpointSlice};
use leno_model::problem::{Mark, Notice, Place};
use leno_model::proxy;
use leno_model::spiffe::Workload;

use super::{Name, Pod};

/// The Pods with a proxy by address. If two Pods report one address, for example because a new Pod gets the address of
/// a deleted Pod, the Pod whose name sorts first wins.
pub(super) fn meshed(pods: &HashMap<Name, Pod>) -> MeshedPods {
    let mut meshed: BTreeMap<IpAddr, (&Name, &Pod, &str)> = BTreeMap::new();
    for (name, pod) in pods {
        let Some(service_account) = pod.injected_as.as_deref() else { continue };
        for ip in &pod.ips {
            let known = meshed.entry(*ip).or_insert((name, pod, service_account));
            if name < known.0 {
                *known = (name, pod, service_account);
            }
        }
    }
    let entry = |(ip, (name, pod, service_account)): (IpAddr, (&Name, &Pod, &str))| {
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
        (ip, meshed)
    };
    meshed.into_iter().map(entry).collect()
}

/// Returns whether an address in `slice` or `held` names one of `pods`.
pub(super) fn names_any(slice: &EndpointSlice, held: &[Address], pods: &HashSet<Name>) -> bool {
    let namespace = &slice.identity.namespace;
    let names = slice.addresses.iter().chain(held).filter_map(|address| address.pod.as_ref());
    names.into_iter().any(|name| pods.contains(&Name { namespace: namespace.clone(), name: name.clone() }))
}

/// Sets the proxy of each address from the address's Pod. Moves addresses of unknown Pods to `held`, and back to the
/// slice once their Pods are known.
pub(super) fn join(slice: &mut EndpointSlice, held: &mut Vec<Address>, pods: &HashMap<Name, Pod>) {
    let mut all = std::mem::take(&mut slice.addresses).into_vec();
    all.append(held);
    let namespace = &slice.identity.namespace;
    let mut usable = Vec::with_capacity(all.len());
    for mut address in all {
        let Some(name) = &address.pod else {
            usable.push(address);
            continue;
        };
        match pods.get(&Name { namespace: namespace.clone(), name: name.clone() }) {
            Some(pod) if pod.ips.contains(&address.ip.to_canonical()) => {
                address.proxy = pod.injected_as.as_ref().map(|service_account| proxy(namespace, service_account));
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
