use std::sync::Arc;

use leno_model::mesh::{Cluster, ClusterKey, Mesh};

use super::super::changes::Changes;
use super::super::fixtures::{mesh, service, with_endpoints};
use super::{CLUSTERS_MAX, Departed, ENDPOINTS_MAX};

/// Applies a sequence of meshes.
fn after(meshes: &[&Mesh]) -> Departed {
    let step = |departed: Departed, pair: &[&Mesh]| {
        let [old, new] = pair else { panic!("not a pair") };
        departed.next(&Changes::between(old, new), old, new)
    };
    meshes.windows(2).fold(Departed::default(), step)
}

fn key(service: &str) -> ClusterKey {
    ClusterKey { namespace: "default".into(), service: service.into(), port: 80 }
}

#[test]
fn a_removed_cluster_is_kept_as_it_was_until_it_comes_back() {
    let (without, with) = (mesh(&service("b", &[])), mesh(&(service("a", &["10.1.0.1"]) + &service("b", &[]))));
    assert!(after(&[&without, &with]).find(&key("a")).is_none());
    let departed = after(&[&without, &with, &without]);
    assert_eq!(departed.find(&key("a")), with.cluster(&key("a")).map(Arc::as_ref));
    assert!(departed.find(&key("b")).is_none());
    assert!(after(&[&with, &without, &with]).find(&key("a")).is_none());
    assert!(after(&[&with, &without, &with, &without]).find(&key("a")).is_some());
}

#[test]
fn the_clusters_that_were_removed_first_are_dropped_first() {
    let one = Cluster::clone(&mesh(&service("one", &[])).clusters()[0]);
    let renamed = |number: usize| Arc::new(Cluster { key: key(&format!("s{number}")), ..one.clone() });
    let many = Mesh::new("default", (0..CLUSTERS_MAX).map(renamed).collect(), Vec::new(), Vec::new(), Vec::new());
    let (first, none) = (mesh(&service("first", &[])), mesh(""));
    assert!(after(&[&first, &none]).find(&key("first")).is_some());
    let departed = after(&[&first, &many, &none]);
    assert!(departed.find(&key("first")).is_none());
    assert!(departed.find(&key("s0")).is_some() && departed.find(&key("s255")).is_some());
}

#[test]
fn clusters_with_many_endpoints_are_not_kept() {
    let count = u16::try_from(ENDPOINTS_MAX).expect("it fits");
    let none = mesh("");
    assert!(after(&[&with_endpoints(count), &none]).find(&key("echo")).is_some());
    assert!(after(&[&with_endpoints(count + 1), &none]).find(&key("echo")).is_none());
}
