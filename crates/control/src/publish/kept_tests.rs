use std::sync::Arc;

use leno_xds::{Dialect, Kind};

use super::super::catalog::{Audience, Found, Readers, Written};
use super::super::delta::Delta;
use super::super::fixtures::{
    Client, TOO_MANY, ack, mesh, names, service, state, state_keeping, subscribe, unsubscribe, with_endpoints,
};
use super::super::limits::KEPT_BYTES;
use super::super::state::State;
use super::super::subject::Subject;
use super::super::version::Version;
use super::{Kept, Place};

const VALUE_BYTES: usize = 100;
const FORM_BYTES: usize = KEPT_BYTES + VALUE_BYTES;

fn place(number: usize) -> Place {
    (
        Kind::Cluster,
        Subject::of(Kind::Cluster, &format!("s{number}.default:80"), "default", "cluster.local")
            .expect("a cluster's name"),
    )
}

fn readers() -> Readers {
    let namespace = Arc::default();
    let (dialect, cluster_domain) = (Dialect::Envoy, Arc::default());
    let audience = Audience { dialect, mutual_tls: false, namespace, cluster_domain, service_account: None, pod: None };
    Readers { audience, http_ports: Box::default() }
}

fn written(bytes: usize) -> Arc<Written> {
    let value = vec![0; bytes];
    let any = envoy_types::pb::google::protobuf::Any { value, ..Default::default() };
    Arc::new(Written { version: Version::of(&any.value), any })
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
fn the_last_versions_of_resources_that_are_too_large_stay_and_take_half_of_the_budget_at_most() {
    let mut kept = kept(6, 6 * FORM_BYTES);
    let mark = |kept: &mut Kept, number: usize| {
        kept.outdate(&place(number));
        assert!(kept.get(&place(number), &readers()).is_none(), "it must be written again");
        kept.mark_too_large(place(number), readers())
    };
    for number in 0..4 {
        assert!(mark(&mut kept, number));
        assert!(!mark(&mut kept, number), "it is no news any more");
    }
    for number in 10..20 {
        kept.keep(place(number), readers(), written(VALUE_BYTES));
    }
    let stays = [0, 1, 2].map(|number| kept.get(&place(number), &readers()));
    assert!(stays.iter().all(|found| matches!(found, Some(Found::Resource(_)))), "{stays:?}");
    assert_eq!(numbers(&kept, 20), [0, 1, 2, 17, 18, 19]);
    assert_eq!((kept.bytes, kept.last_bytes), (6 * FORM_BYTES, 3 * FORM_BYTES));

    kept.keep(place(0), readers(), written(VALUE_BYTES));
    kept.forget(&place(1).1);
    assert!(matches!(kept.get(&place(1), &readers()), Some(Found::TooLarge)), "only the mark is left");
    kept.remove_all(&place(2));
    assert_eq!((numbers(&kept, 3), kept.last_bytes), (vec![0, 1], 0));
    assert_eq!(kept.order.len(), numbers(&kept, 20).len(), "all of them may be dropped");
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
    let count = || (0..COUNT).filter(|number| state.catalog().has_written(&place(*number).1)).count();
    for (client, is_last) in clients.iter().zip([false, true]) {
        client.close();
        assert_eq!(count() == 0, is_last, "{}", count());
    }
}

const ECHO: &str = "echo.default:80";

/// Acknowledges the client's next response and returns the names in it; `None` without a response.
fn got(client: &Client<'_>) -> Option<Vec<String>> {
    let response = client.next::<Delta>()?;
    client.send::<Delta>(&ack(&response)).expect("within limits");
    Some(names(&response))
}

fn asking(state: &State) -> Client<'_> {
    let client = Client::new::<Delta>(state, Dialect::Envoy);
    client.send::<Delta>(&subscribe(Kind::Endpoints, &[ECHO])).expect("within limits");
    client
}

#[test]
fn a_resource_that_is_too_large_is_written_once_and_not_sent() {
    let state = state("");
    state.set_mesh(with_endpoints(TOO_MANY));
    let client = asking(&state);
    assert_eq!(got(&client), Some(vec![format!("-{ECHO}")]));
    let subject = Subject::of(Kind::Endpoints, ECHO, "default", "cluster.local").expect("a cluster's name");
    assert!(state.catalog().has_written(&subject), "the next client need not find it out again");
    client.send::<Delta>(&unsubscribe(Kind::Endpoints, &[ECHO])).expect("within limits");
    assert!(state.catalog().has_written(&subject), "nor a client that subscribes again");
    assert_eq!((state.metrics.written_so_far(), state.metrics.too_large_so_far()), (1, 1));
    state.set_mesh(mesh(""));
    assert!(!state.catalog().has_written(&subject));
}

#[test]
fn a_client_keeps_the_last_version_of_a_resource_that_becomes_too_large_and_new_clients_get_it() {
    let state = state("");
    state.set_mesh(with_endpoints(1));
    let first = asking(&state);
    assert_eq!(got(&first), Some(vec![ECHO.to_owned()]));
    for _ in 0..2 {
        state.set_mesh(with_endpoints(TOO_MANY));
        assert_eq!(got(&first), None);
        state.set_mesh(with_endpoints(TOO_MANY + 1));
        assert_eq!(got(&first), None);
        let second = asking(&state);
        assert_eq!(got(&second), Some(vec![ECHO.to_owned()]), "the last version is still in force");
        second.close();
    }
    assert_eq!(state.metrics.too_large_so_far(), 4, "each version counts");
    state.set_mesh(with_endpoints(2));
    assert_eq!(got(&first), Some(vec![ECHO.to_owned()]));
    state.set_mesh(mesh(""));
    assert_eq!(got(&first), Some(vec![format!("-{ECHO}")]));
}

#[test]
fn a_client_keeps_its_version_of_a_resource_that_becomes_too_large_even_if_nothing_is_kept() {
    let state = state_keeping("", 0);
    state.set_mesh(with_endpoints(1));
    let client = asking(&state);
    let response = client.next::<Delta>().expect("a response");
    client.send::<Delta>(&ack(&response)).expect("within limits");
    state.set_mesh(with_endpoints(TOO_MANY));
    assert_eq!(got(&client), None);
    let returned = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut request = subscribe(Kind::Endpoints, &[ECHO]);
    request.initial_resource_versions = [(ECHO.to_owned(), response.resources[0].version.clone())].into();
    returned.send::<Delta>(&request).expect("within limits");
    assert_eq!(got(&returned), None, "it has a version from an earlier stream");
    let new = asking(&state);
    assert_eq!(got(&new), Some(vec![format!("-{ECHO}")]));
    state.set_mesh(with_endpoints(1));
    assert_eq!([&client, &returned, &new].map(got), [None, None, Some(vec![ECHO.to_owned()])]);
}
