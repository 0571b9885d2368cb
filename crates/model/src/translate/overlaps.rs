//! Finds an enforced policy that selects the same port of a workload as a policy in audit mode.
//!
//! The cost grows with the number of the policies and of their ports, not with the number of pairs of policies: a
//! namespace may have thousands of policies, and each may list a thousand ports.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::object::AuthorizationPolicy;

/// The enforced policies of one namespace, by what they select.
#[derive(Default)]
pub(super) struct Enforced<'a> {
    /// The policies that select all workloads of the namespace.
    of_namespace: Selecting<'a>,
    /// The policies that select the workloads of one service account, by its name.
    of_accounts: HashMap<&'a str, Selecting<'a>>,
    /// All policies of the namespace.
    all: Selecting<'a>,
    count: usize,
}

/// A policy, and its place in the order in which the policies were added.
type Placed<'a> = (usize, &'a AuthorizationPolicy);

/// The first policies that select a port, of all policies for the same workloads.
#[derive(Default)]
struct Selecting<'a> {
    /// The first policy of all.
    any: Option<Placed<'a>>,
    /// The first policy without a list of ports, which selects every port.
    every_port: Option<Placed<'a>>,
    /// The first policy that lists a port, by the port.
    by_port: FxHashMap<u16, Placed<'a>>,
}

impl<'a> Enforced<'a> {
    pub(super) fn add(&mut self, policy: &'a AuthorizationPolicy) {
        let placed = (self.count, policy);
        self.count += 1;
        let same_workloads = match policy.policy.service_account.as_deref() {
            Some(account) => self.of_accounts.entry(account).or_default(),
            None => &mut self.of_namespace,
        };
        same_workloads.add(placed);
        self.all.add(placed);
    }

    /// Returns the first policy that may select the same port of a workload as `audited`.
    pub(super) fn overlapping(&self, audited: &AuthorizationPolicy) -> Option<&'a AuthorizationPolicy> {
        let ports = audited.policy.ports.as_deref();
        let first = match audited.policy.service_account.as_deref() {
            Some(account) => {
                let of_account = self.of_accounts.get(account).and_then(|selecting| selecting.first(ports));
                of_account.into_iter().chain(self.of_namespace.first(ports)).min_by_key(|(place, _)| *place)
            }
            None => self.all.first(ports),
        };
        first.map(|(_, policy)| policy)
    }
}

impl<'a> Selecting<'a> {
    fn add(&mut self, placed: Placed<'a>) {
        self.any.get_or_insert(placed);
        let Some(ports) = placed.1.policy.ports.as_deref() else {
            self.every_port.get_or_insert(placed);
            return;
        };
        for port in ports {
            self.by_port.entry(*port).or_insert(placed);
        }
    }

    /// Returns the first policy that selects one of `ports`. If `ports` is `None`, every port fits.
    fn first(&self, ports: Option<&[u16]>) -> Option<Placed<'a>> {
        let Some(ports) = ports else { return self.any };
        let listed = ports.iter().filter_map(|port| self.by_port.get(port).copied());
        listed.chain(self.every_port).min_by_key(|(place, _)| *place)
    }
}

#[cfg(test)]
#[path = "overlaps_tests.rs"]
mod tests;
