//! Indexes the rules of a policy, so that a decision looks names up and does not scan the list.
//!
//! A policy may list tens of thousands of identities, and the proxy checks every request against the list. The cost of
//! a decision therefore grows with the logarithm of the list. Only rules with both identities and networks are tried
//! one by one.

use std::net::IpAddr;
use std::ops::Deref;

use serde::{Serialize, Serializer};

use super::{Caller, Identities, Network, Rule};
use crate::spiffe::{SpiffeId, TrustDomain};

/// The rules of a policy, in the order in which the policy lists them.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    rules: Box<[Rule]>,
    /// The identities of all rules without networks.
    identities: IdentityIndex,
    /// The networks of all rules without identities.
    networks: NetworkIndex,
    /// The identities and networks of each rule that has both.
    both: Box<[(IdentityIndex, NetworkIndex)]>,
}

/// The parts that an identity must equal: trust domain, namespace and service account. For the trust domain, `None`
/// means the workload's own trust domain; for the other parts, `None` matches anything.
type Key<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// The position of an [`Identities`] value: the index of its rule, and the index of the value within that rule.
#[derive(Clone, Copy, Debug)]
struct Place {
    rule: u32,
    member: u32,
}

/// An index of [`Identities`]: finds out quickly whether one of them contains a caller's identity.
#[derive(Clone, Debug, Default)]
struct IdentityIndex {
    /// Whether the index contains every identity, because a rule lists `*`.
    any: bool,
    /// A bit set: bit `n` is set if at least one key in `sorted` has the [`shape`] `n`.
    shapes: u8,
    /// All identities except `*`, sorted by [`key`].
    sorted: Box<[Place]>,
}

/// An index of [`Network`]s: finds the network that contains an address. The networks are sorted by their first
/// address, and no network contains another.
#[derive(Clone, Debug, Default)]
struct NetworkIndex(Box<[Network]>);

impl Allow {
    /// Returns whether a rule allows `caller`. `own` is the trust domain of the called workload.
    pub(super) fn allows(&self, caller: &Caller<'_>, own: &TrustDomain) -> bool {
        let has = |index: &IdentityIndex| caller.identity.is_some_and(|id| index.contains(&self.rules, id, own));
        has(&self.identities)
            || self.networks.contains(caller.address)
            || self.both.iter().any(|(identities, networks)| networks.contains(caller.address) && has(identities))
    }
}

impl<T: Into<Box<[Rule]>>> From<T> for Allow {
    fn from(rules: T) -> Self {
        let rules: Box<[Rule]> = rules.into();
        let places = |wanted: &dyn Fn(usize, &Rule) -> bool| {
            let of_rules = rules.iter().enumerate().filter(|(index, rule)| wanted(*index, rule));
            let of_rule = |(rule, named): (usize, &Rule)| {
                let members = named.identities.as_deref().map_or(0, <[_]>::len);
                (0..members).map(move |member| Place { rule: number(rule), member: number(member) })
            };
            of_rules.flat_map(of_rule).collect()
        };
        let identities = IdentityIndex::new(&rules, places(&|_, rule| rule.networks.is_none()));
        let alone = rules.iter().filter(|rule| rule.identities.is_none());
        let networks = NetworkIndex::new(alone.flat_map(|rule| rule.networks.iter().flatten()).copied().collect());
        let both =
            rules.iter().enumerate().filter(|(_, rule)| rule.identities.is_some()).filter_map(|(index, rule)| {
                let networks = NetworkIndex::new(rule.networks.as_deref()?.to_vec());
                Some((IdentityIndex::new(&rules, places(&|other, _| other == index)), networks))
            });
        let both = both.collect();
        Self { rules, identities, networks, both }
    }
}

/// Converts an index in the list of rules or identities to `u32`. The index always fits, because an object has at most
/// 1.5 MiB.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

impl Place {
    fn get(self, rules: &[Rule]) -> Option<&Identities> {
        rules.get(self.rule as usize)?.identities.as_deref()?.get(self.member as usize)
    }
}

impl IdentityIndex {
    fn new(rules: &[Rule], mut places: Vec<Place>) -> Self {
        let mut index = Self::default();
        places.retain(|place| match place.get(rules).and_then(key) {
            Some(key) => {
                index.shapes |= 1 << shape(key);
                true
            }
            None => {
                index.any = true;
                false
            }
        });
        places.sort_by(|a, b| a.get(rules).and_then(key).cmp(&b.get(rules).and_then(key)));
        Self { sorted: places.into(), ..index }
    }

    /// Returns whether the index contains `identity`. Makes one lookup for each [`shape`] of the keys: at most eight
    /// lookups, usually one.
    fn contains(&self, rules: &[Rule], identity: &SpiffeId, own: &TrustDomain) -> bool {
        let has = |shape: u8| {
            let part = |bit: u8, name| (shape & bit != 0).then_some(name);
            let wanted: Key<'_> = (
                part(TRUST_DOMAIN, identity.trust_domain.as_str()),
                part(NAMESPACE, &identity.workload.namespace),
                part(SERVICE_ACCOUNT, &identity.workload.service_account),
            );
            let is_meant = wanted.0.is_some() || identity.trust_domain == *own;
            let found = || self.sorted.binary_search_by(|place| place.get(rules).and_then(key).cmp(&Some(wanted)));
            is_meant && found().is_ok()
        };
        self.any || (0..8).filter(|shape| self.shapes & (1 << shape) != 0).any(has)
    }
}

const TRUST_DOMAIN: u8 = 4;
const NAMESPACE: u8 = 2;
const SERVICE_ACCOUNT: u8 = 1;

/// Returns a bit mask of the parts of a key that are not `None`: a number below 8.
fn shape((trust_domain, namespace, service_account): Key<'_>) -> u8 {
    let bit = |part: Option<&str>, bit: u8| if part.is_some() { bit } else { 0 };
    bit(trust_domain, TRUST_DOMAIN) | bit(namespace, NAMESPACE) | bit(service_account, SERVICE_ACCOUNT)
}

/// Returns the key of an [`Identities`]; `None` if it contains every identity.
fn key(identities: &Identities) -> Option<Key<'_>> {
    match identities {
        Identities::Any => None,
        Identities::Of { trust_domain, namespace, service_account } => {
            Some((trust_domain.as_ref().map(TrustDomain::as_str), namespace.as_deref(), service_account.as_deref()))
        }
    }
}

impl NetworkIndex {
    fn new(mut networks: Vec<Network>) -> Self {
        networks.sort_by_key(|network| (network.first(), network.prefix_bits()));
        // Drop each network within another network. If two networks overlap, one of them contains the other, and the
        // larger one sorts first.
        networks.dedup_by(|later, kept| kept.contains(later.first()));
        Self(networks.into())
    }

    fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let after = self.0.partition_point(|network| network.first() <= address);
        after.checked_sub(1).and_then(|last| self.0.get(last)).is_some_and(|network| network.contains(address))
    }
}

impl Deref for Allow {
    type Target = [Rule];

    fn deref(&self) -> &[Rule] {
        &self.rules
    }
}

impl PartialEq for Allow {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for Allow {}

impl Serialize for Allow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rules.serialize(serializer)
    }
}

#[cfg(test)]
#[path = "allow_tests.rs"]
mod tests;
