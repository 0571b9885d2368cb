use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Allow;
use crate::policy::{Caller, Identities, Network, Rule};
use crate::spiffe::{SpiffeId, TrustDomain};

const IDENTITIES: [&str; 10] = [
    "*",
    "ns/shop/sa/web",
    "ns/shop/sa/*",
    "ns/*/sa/web",
    "ns/*/sa/*",
    "spiffe://own.org/ns/shop/sa/web",
    "spiffe://other.org/ns/shop/sa/web",
    "spiffe://other.org/ns/shop/sa/*",
    "spiffe://other.org/ns/*/sa/web",
    "spiffe://other.org/ns/*/sa/*",
];
const NETWORKS: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3",
    "::/0",
    "fd00::/8",
    "fd00::1",
    "192.168.0.0/24",
    "10.1.2.4/31",
];

fn own() -> TrustDomain {
    "own.org".parse().expect("a trust domain")
}

/// Computes the reference result: tries every rule, identity by identity and network by network.
fn scan(rules: &[Rule], caller: &Caller<'_>) -> bool {
    rules.iter().any(|rule| {
        let has = |all: &[Identities]| {
            caller.identity.is_some_and(|identity| all.iter().any(|some| some.contain(identity, &own())))
        };
        let is_from = |all: &[Network]| all.iter().any(|network| network.contains(caller.address));
        (rule.identities.is_some() || rule.networks.is_some())
            && rule.identities.as_deref().is_none_or(has)
            && rule.networks.as_deref().is_none_or(is_from)
    })
}

#[test]
fn the_index_decides_as_a_scan_of_all_rules() {
    let mut random = 7_u64;
    let mut next = |below: usize| {
        // A linear congruential generator (Knuth, MMIX), so that every run of the test uses the same rules.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let callers: Vec<Option<SpiffeId>> = ["own.org", "other.org", "third.org"]
        .iter()
        .flat_map(|domain| ["shop", "bank"].map(|namespace| (domain, namespace)))
        .flat_map(|(domain, namespace)| ["web", "batch"].map(|account| (domain, namespace, account)))
        .map(|(domain, namespace, account)| format!("spiffe://{domain}/ns/{namespace}/sa/{account}").parse().ok())
        .chain([None])
        .collect();
    let addresses = ["10.1.2.3", "10.1.2.5", "10.200.0.1", "192.168.0.9", "8.8.8.8", "fd00::1", "fd12::1", "2001::1"];
    for round in 0..2_000 {
        let rules: Vec<Rule> = (0..next(4))
            .map(|_| {
                let pick = |known: &[&'static str], count: usize, next: &mut dyn FnMut(usize) -> usize| {
                    (0..count).map(|_| known[next(known.len())]).collect::<Vec<_>>()
                };
                let identities = (next(3) > 0).then(|| pick(&IDENTITIES, next(4), &mut next));
                let networks = (next(3) == 0).then(|| pick(&NETWORKS, next(4), &mut next));
                Rule {
                    identities: identities
                        .map(|all| all.iter().map(|text| text.parse().expect("identities")).collect()),
                    networks: networks.map(|all| all.iter().map(|text| text.parse().expect("a network")).collect()),
                }
            })
            .collect();
        let allow = Allow::from(rules.clone());
        for identity in &callers {
            for address in addresses {
                let address: IpAddr = address.parse().expect("an address");
                let caller = Caller { identity: identity.as_ref(), address };
                let told = allow.allows(&caller, &own());
                assert_eq!(told, scan(&rules, &caller), "round {round}: {caller:?} of {rules:?}");
            }
        }
    }
}

#[test]
fn a_denied_caller_does_not_cost_a_look_at_every_identity() {
    let one = |name: &str| format!("ns/shop/sa/{name}").parse::<Identities>().expect("identities");
    let all: Vec<Identities> = (0..50_000).map(|number| one(&format!("web-{number}"))).collect();
    let rules = vec![Rule { identities: Some(all.into()), networks: None }];
    let allow = Allow::from(rules.clone());
    let identity: SpiffeId = "spiffe://own.org/ns/shop/sa/stranger".parse().expect("an id");
    let caller = Caller { identity: Some(&identity), address: IpAddr::from([10, 0, 0, 1]) };
    let took = |decide: &dyn Fn() -> bool| -> Duration {
        let begun = Instant::now();
        (0..100).for_each(|_| assert!(!std::hint::black_box(decide())));
        begun.elapsed()
    };
    // The index takes 16 steps, and the scan takes 50,000. The required factor of ten leaves a wide margin for noise.
    let (indexed, scanned) = (took(&|| allow.allows(&caller, &own())), took(&|| scan(&rules, &caller)));
    assert!(indexed * 10 < scanned, "{indexed:?} against {scanned:?}");
}
