use std::sync::Arc;

use leno_model::mesh::{Cluster, ClusterKey, Mesh};
use leno_wire::limits::NAME_MAX_BYTES;
use leno_wire::{Dialect, Kind};

use super::super::delta::Delta;
use super::super::fixtures::{Client, ack, mesh, service, state, subscribe};
use super::super::limits::{RESPONSE_BYTES, SUBSCRIPTIONS_MAX, TEXT_MAX_BYTES};
use super::{Refusal, shortened};

#[test]
fn a_flood_of_subscriptions_is_refused() {
    let state = state("");
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let names: Vec<String> = (0..=SUBSCRIPTIONS_MAX).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (most, one_more) = names.split_at(SUBSCRIPTIONS_MAX);
    client.send::<Delta>(&subscribe(Kind::Cluster, most)).expect("within limits");
    client.send::<Delta>(&subscribe(Kind::Cluster, most)).expect("they are there already");
    let refused = client.send::<Delta>(&subscribe(Kind::Cluster, one_more));
    assert_eq!(refused, Err(Refusal::Subscriptions));
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    let state = state("");
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let refused = client.send::<Delta>(&subscribe(Kind::Cluster, &[&"a".repeat(NAME_MAX_BYTES + 1)]));
    assert_eq!(refused, Err(Refusal::Name));
}

#[test]
fn what_does_not_fit_into_one_response_comes_in_the_next() {
    let services = 5_000;
    let one = Cluster::clone(&mesh(&service("echo", &[])).clusters()[0]);
    let state = state("");
    let renamed = |number| {
        let key = ClusterKey { service: format!("s{number}").into(), ..one.key.clone() };
        Arc::new(Cluster { key, ..one.clone() })
    };
    let clusters = (0..services).map(renamed).collect();
    state.set_mesh(Arc::new(Mesh::new("default", clusters, Vec::new(), Vec::new(), Vec::new())));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    client.send::<Delta>(&subscribe(Kind::Cluster, &[])).expect("within limits");
    let (mut responses, mut resources) = (0, 0);
    while let Some(response) = client.next::<Delta>() {
        responses += 1;
        resources += response.resources.len();
        let bytes: usize = response.resources.iter().filter_map(|r| Some(r.resource.as_ref()?.value.len())).sum();
        assert!(bytes < RESPONSE_BYTES + 4_096, "{bytes}");
        client.send::<Delta>(&ack(&response)).expect("within limits");
    }
    assert_eq!(resources, services);
    assert!(responses > 1);
}

#[test]
fn a_peers_text_is_cut_at_a_character() {
    assert_eq!(shortened("short"), "short");
    let long = "ä".repeat(TEXT_MAX_BYTES);
    assert_eq!(shortened(&long), "ä".repeat(TEXT_MAX_BYTES / 2));
}
