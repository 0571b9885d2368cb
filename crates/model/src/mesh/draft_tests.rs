use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Changes, Draft};
use crate::discovery::Subject;
use crate::fixtures::{echo_with, translated};
use crate::mesh::{Cluster, ClusterKey, Mesh};

/// Returns the cluster of `echo`. Two of its three endpoints have these addresses.
fn echo(first: &str, second: &str) -> Arc<Cluster> {
    let manifests = echo_with("127.0.0.1", first).replace("127.0.0.2", second);
    let mesh = translated(&[("a.yaml", &manifests)]).mesh;
    Arc::clone(&mesh.clusters()[0])
}

fn key(number: usize) -> ClusterKey {
    ClusterKey { namespace: "default".into(), service: format!("s{number}").into(), port: 80 }
}

fn keys(keys: &BTreeSet<ClusterKey>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// Formats all clusters of a mesh, and the addresses that lead to them.
fn shown(mesh: &Mesh) -> String {
    let clusters: Vec<_> = mesh.clusters().iter().collect();
    let addresses: Vec<_> = mesh.addresses().map(|(address, cluster)| (address, &cluster.key)).collect();
    format!("{clusters:?} {addresses:?}")
}

#[test]
fn a_mesh_that_was_changed_step_by_step_is_the_mesh_that_was_made_at_once() {
    let mut draft = Draft::new("default");
    let mut expected = Vec::new();
    for number in 0..300 {
        let cluster = echo(&format!("10.0.0.{}", number % 7 + 1), &format!("10.0.1.{}", number % 5 + 1));
        let named = Arc::new(Cluster { key: key(number), ..Cluster::clone(&cluster) });
        draft.set_cluster(&key(number), Some(named.clone()));
        draft.set_address(([10, 96, 0, (number % 250) as u8], 80).into(), Some(&key(number)), true);
        expected.push(named);
        if number % 3 == 0 {
            draft.set_cluster(&key(number / 2), None);
            expected.retain(|cluster| cluster.key != key(number / 2));
        }
    }
    let addresses = (0..300).rev().map(|number| (([10, 96, 0, (number % 250) as u8], 80).into(), key(number)));
    let latest: Vec<_> = addresses.fold(Vec::new(), |mut latest: Vec<(_, _)>, (address, key)| {
        if latest.iter().all(|(other, _)| *other != address) {
            latest.push((address, key));
        }
        latest
    });
    let whole = Mesh::new("default", expected, latest, Vec::new(), Vec::new());
    let (mesh, _) = draft.take();
    assert_eq!(shown(&mesh), shown(&whole));
}

/// An EndpointSlice may list any address, for example the address of another namespace's Pod.
#[test]
fn an_endpoint_is_found_only_in_the_cluster_that_the_answer_about_its_address_names() {
    let mut draft = Draft::new("default");
    let address: SocketAddr = "10.0.0.1:50061".parse().expect("an address");
    let echo = echo("10.0.0.1", "10.0.0.2");
    draft.set_cluster(&echo.key, Some(echo.clone()));
    draft.set_cluster(&key(0), Some(Arc::new(Cluster { key: key(0), ..Cluster::clone(&echo) })));
    draft.set_answered(&Subject::Address(address), true);
    let found = |draft: &Draft| draft.mesh().endpoint_by_address(address).map(|(cluster, _)| cluster.key.to_string());
    assert_eq!(found(&draft), None, "the answer names no cluster");
    draft.take();

    draft.set_address(address, Some(&key(0)), false);
    assert_eq!(found(&draft).as_deref(), Some("s0.default:80"));
    assert!(draft.mesh().cluster_by_address(address).is_none(), "the address is an endpoint's own");
    assert!(draft.take().1.changed_answers.contains(&Subject::Address(address)));
    draft.set_address(address, Some(&key(0)), false);
    assert!(draft.take().1.is_empty(), "it is the same as before");

    draft.set_address(address, Some(&echo.key), true);
    assert_eq!(found(&draft).as_deref(), Some("echo.default:50051"));
    assert!(draft.mesh().cluster_by_address(address).is_some());
    draft.set_cluster(&echo.key, None);
    assert_eq!(found(&draft), None, "the other cluster with the address has no effect");
    draft.set_cluster(&echo.key, Some(echo.clone()));
    draft.forget(&Subject::Address(address));
    assert_eq!(found(&draft), None);
    assert!(draft.mesh().cluster_by_address(address).is_none());
}

#[test]
fn a_change_names_what_is_different_and_nothing_else() {
    let mut draft = Draft::new("default");
    let cluster = echo("10.0.0.1", "10.0.0.2");
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    let own = "10.0.0.1:50061".parse().expect("an address");
    draft.set_address(own, Some(&cluster.key), false);
    let subject = Subject::Service(cluster.key.clone());
    draft.set_answered(&subject, true);
    let (before, changes) = draft.take();
    assert_eq!(keys(&changes.clusters), ["echo.default:50051"]);
    assert!(changes.answered.contains(&subject) && changes.changed_answers.is_empty());

    draft.set_cluster(&cluster.key, Some(Arc::new(Cluster::clone(&cluster))));
    draft.set_answered(&subject, true);
    assert!(draft.take().1.is_empty(), "it is the same as before");

    draft.set_cluster(&cluster.key, None);
    draft.look_again(&subject);
    let (gone, changes) = draft.take();
    assert!(changes.clusters.contains(&cluster.key) && !changes.forgotten_clusters.contains(&cluster.key));
    assert!(changes.changed_answers.contains(&subject));
    assert!(before.cluster(&cluster.key).is_some() && gone.cluster(&cluster.key).is_none());
    assert!(before.endpoint_by_address(own).is_some() && gone.endpoint_by_address(own).is_none());
}

#[test]
fn an_assumption_lets_calls_continue_and_its_end_makes_them_look_again() {
    let mut draft = Draft::new("default");
    let address: SocketAddr = "192.0.2.1:443".parse().expect("an address");
    let subject = Subject::Address(address);
    draft.set_assumed_outside(address, true);
    let (mesh, changes) = draft.take();
    assert_eq!(mesh.unanswered_address(address), None);
    assert!(changes.answered.contains(&subject) && changes.changed_answers.is_empty());
    draft.set_assumed_outside(address, true);
    assert!(draft.take().1.is_empty(), "it is the same as before");

    draft.set_assumed_outside(address, false);
    let (mesh, changes) = draft.take();
    assert_eq!(mesh.unanswered_address(address), Some(subject.clone()));
    assert!(changes.changed_answers.contains(&subject) && changes.answered.is_empty());

    draft.set_assumed_outside(address, true);
    draft.forget(&subject);
    let (mesh, changes) = draft.take();
    assert_eq!(mesh.unanswered_address(address), Some(subject.clone()));
    assert!(changes.forgotten.contains(&subject));
}

#[test]
fn what_is_forgotten_is_told_from_what_is_gone() {
    let mut draft = Draft::new("default");
    let cluster = echo("10.0.0.1", "10.0.0.2");
    let address = "10.96.0.10:50051".parse().expect("an address");
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    draft.set_address(address, Some(&cluster.key), true);
    draft.set_answered(&Subject::Address(address), true);
    draft.take();

    draft.forget(&Subject::Address(address));
    draft.forget_cluster(&cluster.key);
    let (mesh, changes) = draft.take();
    assert_eq!(mesh.unanswered_address(address), Some(Subject::Address(address)));
    assert!(mesh.cluster_by_address(address).is_none());
    assert_eq!(keys(&changes.forgotten_clusters), ["echo.default:50051"]);
    assert!(changes.forgotten.contains(&Subject::Address(address)));

    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    let Changes { forgotten_clusters, .. } = draft.take().1;
    assert!(forgotten_clusters.is_empty(), "it was asked about again");
}
