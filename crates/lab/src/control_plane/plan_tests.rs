use std::collections::BTreeSet;

use super::*;

const FULL: Plan = Plan { services: 1_000, endpoints: 10, proxies: 1_000, subscriptions: 10 };

#[test]
fn no_two_services_share_an_endpoint() {
    let all: BTreeSet<Ipv4Addr> = (0..FULL.services).flat_map(|service| FULL.addresses(service)).collect();
    assert_eq!(all.len(), 10_000);
    assert!(all.iter().all(|&address| serial_of(address).is_none()), "none of them tells of a change");
}

#[test]
fn the_largest_mesh_that_may_be_asked_for_has_addresses_for_all_endpoints() {
    let largest = Plan { services: 5_000, endpoints: 100, ..FULL };
    let last = largest.addresses(4_999).last().copied().expect("it has 100 endpoints");
    assert!(last < Ipv4Addr::new(10, 128, 0, 0), "{last}");
}

#[test]
fn a_change_is_told_by_the_first_endpoint_and_the_others_stay() {
    let (before, after) = (FULL.addresses(7), FULL.changed_addresses(7, 70_000));
    assert_eq!(serial_of(after[0]), Some(70_000));
    assert_eq!(after[1..], before[1..]);
}

#[test]
fn every_proxy_subscribes_to_the_common_service_and_to_as_many_different_ones_as_asked() {
    for proxy in 0..FULL.proxies {
        let subscriptions: BTreeSet<u32> = FULL.subscriptions_of(proxy).into_iter().collect();
        assert_eq!(subscriptions.len(), 10, "proxy {proxy}");
        assert!(subscriptions.contains(&COMMON) && subscriptions.iter().all(|&service| service < 1_000));
    }
}

#[test]
fn the_other_services_have_equal_numbers_of_subscribers() {
    let subscribers = FULL.subscribers();
    let counts = subscribers.iter().enumerate().filter(|(service, _)| *service != COMMON as usize);
    assert!(counts.map(|(_, proxies)| proxies.len()).all(|count| (9..=10).contains(&count)));
    assert_eq!(subscribers[COMMON as usize].len(), 1_000);
}

#[test]
fn a_small_mesh_is_the_beginning_of_the_large_one() {
    let small = FULL.small();
    assert_eq!((small.services, small.proxies), (SMALL, SMALL));
    assert!((0..SMALL).all(|service| small.addresses(service) == FULL.addresses(service)));
    assert!((0..SMALL).all(|proxy| small.subscriptions_of(proxy).iter().all(|&service| service < SMALL)));
}

#[test]
fn a_cluster_leads_back_to_its_service() {
    assert_eq!(service_of(&cluster(42)), Some(42));
    assert_eq!(service_of("kubernetes.default:443"), None);
}
