use std::time::Instant;

use super::*;
use crate::target::cluster::single;

fn state_of(target: TargetKey) -> ClusterState {
    let (TargetKey::Address(address) | TargetKey::Local(address)) = target else { panic!("{target} has no address") };
    ClusterState::new(target, single(address, None), 1, Instant::now())
}

fn address(text: &str) -> TargetKey {
    TargetKey::Address(text.parse().expect("an address"))
}

#[test]
fn a_hidden_cluster_is_not_found_and_does_not_hide_its_successor() {
    let mut targets = Targets::new(Arc::new(Mesh::empty()), None);
    let target = address("10.0.0.1:80");
    let first = targets.insert(state_of(target.clone()));
    assert_eq!(targets.find(&target), Some(first));
    targets.hide(first);
    assert_eq!((targets.find(&target), targets.len()), (None, 1));

    let second = targets.insert(state_of(target.clone()));
    targets.hide(first);
    assert!(targets.remove(first).is_some() && targets.remove(first).is_none());
    assert_eq!((targets.find(&target), targets.len()), (Some(second), 1));
    assert!(targets.get(first).is_none() && targets.get(second).is_some());
    targets.remove(second);
    assert_eq!((targets.find(&target), targets.len()), (None, 0));
}

#[test]
fn ports_of_our_own_application_are_counted() {
    let mut targets = Targets::new(Arc::new(Mesh::empty()), None);
    targets.insert(state_of(address("10.0.0.1:80")));
    let port = |port| TargetKey::Local(([127, 0, 0, 1], port).into());
    let ports = [80, 81].map(|number| targets.insert(state_of(port(number))));
    assert_eq!((targets.local(), targets.len()), (2, 3));
    targets.hide(ports[0]);
    assert_eq!(targets.local(), 2, "it still exists");
    assert!(ports.into_iter().all(|id| targets.remove(id).is_some()));
    assert_eq!((targets.local(), targets.len()), (0, 1));
}
