use std::sync::Arc;

use leno_wire::{Dialect, Kind};

use super::super::catalog::{Audience, Readers, Written};
use super::super::delta::Delta;
use super::super::fixtures::{Client, ack, service, state_keeping, subscribe};
use super::super::limits::KEPT_BYTES;
use super::super::subject::Subject;
use super::super::version::Version;
use super::{Kept, Place};

const VALUE_BYTES: usize = 100;
const FORM_BYTES: usize = KEPT_BYTES + VALUE_BYTES;

fn place(number: usize) -> Place {
    (Kind::Cluster, Subject::of(Kind::Cluster, &format!("s{number}.default:80"), "default").expect("a cluster's name"))
}

fn readers() -> Readers {
    let namespace = Arc::default();
    let audience = Audience { dialect: Dialect::Envoy, mutual_tls: false, namespace, service_account: None, pod: None };
    Readers { audience, http_ports: Box::default() }
}

fn written(bytes: usize) -> Option<Arc<Written>> {
    let value = vec![0; bytes];
    let any = envoy_types::pb::google::protobuf::Any { value, ..Default::default() };
    Some(Arc::new(Written { version: Version::of(&any.value), any }))
}

fn kept(count: usize, budget: usize) -> Kept {
    let mut kept = Kept::new(budget);
    (0..count).for_each(|number| kept.keep(place(number), readers(), written(VALUE_BYTES)));
    kept
}

fn numbers(kept: &Kept, count: usize) -> Vec<usize> {
    (0..count).filter(|number| kept.forms(&place(*number)) > 0).collect()
}

#[test]
fn above_the_budget_the_least_recently_used_is_dropped() {
    let mut kept = kept(3, 3 * FORM_BYTES);
    assert_eq!((numbers(&kept, 3), kept.bytes), (vec![0, 1, 2], 3 * FORM_BYTES));
    assert!(kept.get(&place(0), &readers()).is_some());
    kept.keep(place(3), readers(), written(VALUE_BYTES));
    assert_eq!((numbers(&kept, 4), kept.bytes), (vec![0, 2, 3], 3 * FORM_BYTES));
    kept.keep(place(4), readers(), written(VALUE_BYTES + 1));
    assert_eq!((numbers(&kept, 5), kept.bytes), (vec![3, 4], 2 * FORM_BYTES + 1));
}

#[test]
fn a_resource_larger_than_the_budget_displaces_no_other() {
    let mut kept = kept(3, 3 * FORM_BYTES);
    kept.keep(place(3), readers(), written(3 * FORM_BYTES));
    assert_eq!(numbers(&kept, 4), [0, 1, 2]);
}

#[test]
fn dropped_and_replaced_resources_are_no_longer_counted() {
    let mut kept = kept(3, 10 * FORM_BYTES);
    kept.keep(place(0), readers(), written(VALUE_BYTES));
    assert_eq!(kept.bytes, 3 * FORM_BYTES, "it replaces the former one");
    kept.remove_all(&place(0));
    kept.forget(&place(1).1);
    kept.remove_all(&place(1));
    assert_eq!((numbers(&kept, 3), kept.bytes, kept.order.len()), (vec![2], FORM_BYTES, 1));
}

#[test]
fn clients_that_want_all_get_all_though_little_is_kept() {
    const COUNT: usize = 40;
    let text: String = (0..COUNT).map(|number| service(&format!("s{number}"), &[])).collect();
    let state = state_keeping(&text, 10 * FORM_BYTES);
    let clients = [(); 2].map(|()| Client::new::<Delta>(&state, Dialect::Envoy));
    for client in &clients {
        client.send::<Delta>(&subscribe(Kind::Cluster, &[])).expect("within limits");
        let response = client.next::<Delta>().expect("a response is due");
        assert_eq!(response.resources.len(), COUNT);
        client.send::<Delta>(&ack(&response)).expect("within limits");
        let subjects = (0..COUNT).map(|number| place(number).1);
        let kept = subjects.filter(|subject| state.catalog().forms(Kind::Cluster, subject) > 0).count();
        assert!((1..10).contains(&kept), "{kept}");
    }
    assert_eq!(state.metrics.written_so_far(), 2 * COUNT as u64, "what was dropped is written again");
}
