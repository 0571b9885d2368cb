use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use leno_model::balance::Policy;
use leno_model::mesh::{Cluster, ClusterKey, Endpoint, Mesh};
use leno_xds::limits::NAME_MAX_BYTES;
use leno_xds::{Dialect, Kind};
use tonic::Code;

use super::super::accounts::Account;
use super::super::delta::Delta;
use super::super::fixtures::{Client, ack, mesh, nack, names, service, state, state_with, subscribe, unsubscribe};
use super::super::limits::{
    Capacity, REASONS_MAX, RESPONSE_BYTES, SUBSCRIPTIONS_MAX, TEXT_MAX_BYTES, WHOLE_ROUTES_PAUSE,
};
use super::super::subject::Subject;
use super::super::variant::Exchange;
use super::{Answer, CHECK_EVERY, Refusal, Session, shortened};

#[test]
fn a_flood_of_subscriptions_is_refused() {
    let state = state("");
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let names: Vec<String> = (0..=SUBSCRIPTIONS_MAX).map(|number| format!("s{number}.default:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (most, one_more) = names.split_at(SUBSCRIPTIONS_MAX);
    client.send::<Delta>(&subscribe(Kind::Cluster, most)).expect("within limits");
    client.send::<Delta>(&subscribe(Kind::Cluster, most)).expect("they are there already");
    assert!(client.refusal::<Delta>().is_none());
    client.send::<Delta>(&subscribe(Kind::Cluster, one_more)).expect("the stream goes on");
    let (names, why) = refused(&client);
    assert_eq!(names, one_more);
    assert!(why.starts_with("more than 20000 subscriptions of one kind; "), "{why}");
    client.send::<Delta>(&subscribe(Kind::Listener, one_more)).expect("within limits");
    assert!(client.refusal::<Delta>().is_none(), "each kind has its own limit");

    let mut replaced = unsubscribe(Kind::Cluster, &most[..1]);
    replaced.resource_names_subscribe = vec![one_more[0].to_owned()];
    client.send::<Delta>(&replaced).expect("within limits");
    assert!(client.refusal::<Delta>().is_none(), "the name that is given up makes room");
}

/// The names that the client's last request may not subscribe to, and the reason.
fn refused(client: &Client<'_>) -> (Vec<String>, String) {
    let refusal = client.refusal::<Delta>().expect("names were refused");
    let (mut names, mut why) = (Vec::new(), String::new());
    for error in refusal.resource_errors {
        let status = error.error_detail.expect("a status");
        assert_eq!(status.code, i32::from(Code::ResourceExhausted));
        names.push(error.resource_name.expect("a name").name);
        why.push_str(&status.message);
    }
    (names, why)
}

#[test]
fn updates_of_other_names_go_on_after_a_name_is_refused() {
    const ECHO: &str = "echo.default:80";
    let state =
        state_with(&service("echo", &["10.1.0.1"]), Capacity { streams_max: 9, names_max: 1, bytes_max: 1_000 });
    let client = Client::held_by::<Delta>(&state, "web");
    let answer = client.send::<Delta>(&subscribe(Kind::Endpoints, &[ECHO, "other.default:80"])).expect("it goes on");
    assert_eq!((answer, refused(&client).0), (Answer::None, vec!["other.default:80".to_owned()]));
    let response = client.next::<Delta>().expect("the first name is taken");
    assert_eq!(names(&response), [ECHO]);
    client.send::<Delta>(&ack(&response)).expect("within limits");
    assert!(client.refusal::<Delta>().is_none());
    state.set_mesh(mesh(&service("echo", &["10.1.0.9"])));
    assert_eq!(names(&client.next::<Delta>().expect("an update")), [ECHO]);
}

#[test]
fn no_limit_refuses_the_policies_of_the_own_workload() {
    let state = state_with("", Capacity { streams_max: 100, names_max: 10, bytes_max: 1_000 });
    let web = [(); 2].map(|()| Client::held_by::<Delta>(&state, "web"));
    assert_eq!(wanted(&web[0], Kind::Cluster, &strangers("a", 10)), Ok(()));
    for client in &web {
        for _ in 0..2 {
            client.send::<Delta>(&subscribe(Kind::Listener, &["inbound"])).expect("within limits");
            assert!(client.refusal::<Delta>().is_none());
            assert_eq!(names(&client.next::<Delta>().expect("a response")), ["inbound"]);
            client.with_session(|session| session.acknowledge(Kind::Listener, "1", None));
            client.send::<Delta>(&unsubscribe(Kind::Listener, &["inbound"])).expect("within limits");
        }
    }
    web[0].close();
    assert_eq!(wanted(&web[1], Kind::Cluster, &strangers("b", 10)), Ok(()), "the policies do not count");
    assert!(wanted(&web[1], Kind::Cluster, &strangers("c", 1)).is_err());
}

/// Names without a resource.
fn strangers(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}.default:80")).collect()
}

/// Subscribes to names.
///
/// # Errors
/// If any name is refused, or the stream ends.
fn wanted(client: &Client<'_>, kind: Kind, names: &[String]) -> Result<(), String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    client.send::<Delta>(&subscribe(kind, &names)).map_err(|ended| ended.to_string())?;
    client.with_session(Session::take_refused).map_or(Ok(()), |(refused, _)| Err(refused.why.to_string()))
}

#[test]
fn an_identity_has_so_many_names_over_all_its_streams_and_kinds_and_others_have_room() {
    let state = state_with("", Capacity { streams_max: 100, names_max: 500, bytes_max: 1_000 });
    let web = [(); 2].map(|()| Client::held_by::<Delta>(&state, "web"));
    for kind in Kind::ALL {
        assert_eq!(wanted(&web[0], kind, &strangers("a", 100)), Ok(()));
    }
    assert_eq!(wanted(&web[0], Kind::Cluster, &strangers("a", 100)), Ok(()), "they are there already");
    assert_eq!(wanted(&web[1], Kind::Cluster, &strangers("b", 100)), Ok(()));
    let refused = wanted(&web[1], Kind::Cluster, &strangers("c", 1)).expect_err("it would be 501 of 500");
    let said = "spiffe://cluster.local/ns/shop/sa/web has 500 subscriptions over all its streams";
    assert!(refused.starts_with(said) && refused.contains("names_max = 500") && !refused.contains('\n'), "{refused}");

    let names = strangers("a", 100);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    web[0].send::<Delta>(&unsubscribe(Kind::Listener, &names)).expect("within limits");
    assert_eq!(wanted(&web[1], Kind::Cluster, &strangers("c", 100)), Ok(()), "what is given up is free");
    web[1].close();
    assert_eq!(wanted(&web[0], Kind::Route, &strangers("e", 200)), Ok(()));
    let cart = Client::held_by::<Delta>(&state, "cart");
    assert_eq!(wanted(&cart, Kind::Cluster, &strangers("d", 200)), Ok(()), "the stream of web is displaced");
}

/// The number of streams of the client's namespace.
fn streams(client: &Client<'_>) -> u32 {
    client.with_session(|session| session.account.as_ref().map_or(0, Account::streams_of_namespace))
}

#[test]
fn a_request_for_many_names_displaces_few_streams_while_the_mesh_uses_more_than_the_limit() {
    let state = state_with("", Capacity { streams_max: 100, names_max: 200, bytes_max: 64 << 20 });
    let web = [(); 10].map(|()| Client::held_by::<Delta>(&state, "web"));
    for client in &web {
        client.send::<Delta>(&subscribe(Kind::Cluster, &["*"])).expect("within limits");
    }
    let text: String = (0..100).map(|number| service(&format!("s{number}"), &[])).collect();
    state.set_mesh(mesh(&text));
    for client in &web {
        assert_eq!(client.next::<Delta>().expect("all clusters").resources.len(), 100);
    }
    // The client without a certificate is in a namespace of its own.
    let small = Client::new::<Delta>(&state, Dialect::Envoy);
    assert_eq!(wanted(&small, Kind::Cluster, &strangers("a", 50)), Ok(()));
    assert_eq!(streams(&web[0]), 9);
    let mut claims = subscribe(Kind::Listener, &["*"]);
    claims.initial_resource_versions =
        strangers("gone", 40).into_iter().map(|name| (name, "0123".to_owned())).collect();
    small.send::<Delta>(&claims).expect("within limits");
    assert_eq!(streams(&web[0]), 8);
}

#[test]
fn a_request_for_more_names_than_its_part_gets_its_part() {
    let state = state_with("", Capacity { streams_max: 100, names_max: 200, bytes_max: 1_000 });
    let web = [(); 2].map(|()| Client::held_by::<Delta>(&state, "web"));
    for client in &web {
        assert_eq!(wanted(client, Kind::Cluster, &strangers("a", 100)), Ok(()));
    }
    let other = Client::new::<Delta>(&state, Dialect::Envoy);
    let names = strangers("b", 150);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // A name that the request repeats counts once.
    let repeated = [names.as_slice(), &names[..10]].concat();
    other.send::<Delta>(&subscribe(Kind::Cluster, &repeated)).expect("the stream goes on");
    assert_eq!(refused(&other).0, names[100..]);
    assert_eq!(streams(&web[0]), 1);
}

#[test]
fn all_names_of_the_mesh_count_for_a_client_that_wants_all() {
    let text: String = (0..40).map(|number| service(&format!("s{number}"), &[])).collect();
    let state = state_with(&text, Capacity { streams_max: 100, names_max: 79, bytes_max: 1_000 });
    let first = Client::held_by::<Delta>(&state, "web");
    assert_eq!(wanted(&first, Kind::Cluster, &[]), Ok(()));
    let second = Client::held_by::<Delta>(&state, "web");
    let ended = second.send::<Delta>(&subscribe(Kind::Cluster, &[]));
    assert!(matches!(ended, Err(Refusal::Exhausted(_))));
    assert!(first.next::<Delta>().is_some());
    first.close();
    let third = Client::held_by::<Delta>(&state, "web");
    assert_eq!(wanted(&third, Kind::Cluster, &[]), Ok(()), "what the first had is free");
}

#[test]
fn a_name_that_a_client_has_from_an_earlier_stream_counts_once_among_all() {
    let text: String = (0..40).map(|number| service(&format!("s{number}"), &[])).collect();
    let state = state_with(&text, Capacity { streams_max: 100, names_max: 50, bytes_max: 1 << 20 });
    let all = subscribe(Kind::Cluster, &["*"]);
    let before = Client::held_by::<Delta>(&state, "web");
    before.send::<Delta>(&all).expect("within limits");
    let response = before.next::<Delta>().expect("a response");
    before.close();
    let versions = response.resources.into_iter().map(|resource| (resource.name, resource.version)).collect();

    let after = Client::held_by::<Delta>(&state, "web");
    let request = DeltaDiscoveryRequest { initial_resource_versions: versions, ..all };
    after.send::<Delta>(&request).expect("within limits");
    assert!(after.next::<Delta>().is_none(), "it has all clusters: 40 of 50 names");
}

#[test]
fn a_name_that_changes_counts_once_for_a_client_that_wants_all() {
    const SERVICES: usize = 5_000;
    let one = Cluster::clone(&mesh(&service("echo", &[])).clusters()[0]);
    let with_balancer = |balancer| {
        let renamed = |number| {
            let key = ClusterKey { service: format!("s{number}").into(), ..one.key.clone() };
            Arc::new(Cluster { key, balancer, ..one.clone() })
        };
        Arc::new(Mesh::new("default", (0..SERVICES).map(renamed).collect(), Vec::new(), Vec::new(), Vec::new()))
    };
    // The holder may have another 500 names.
    let capacity = Capacity { streams_max: 100, names_max: SERVICES + 500, bytes_max: 64 << 20 };
    let state = state_with("", capacity);
    state.set_mesh(with_balancer(Policy::Latency));
    let client = Client::held_by::<Delta>(&state, "web");
    client.send::<Delta>(&subscribe(Kind::Cluster, &["*"])).expect("within limits");
    while let Some(response) = client.next::<Delta>() {
        client.send::<Delta>(&ack(&response)).expect("within limits");
    }
    state.set_mesh(with_balancer(Policy::Random));
    let first = client.next::<Delta>().expect("the clusters have changed");
    assert!(first.resources.len() < SERVICES - 500, "{} clusters in one response", first.resources.len());
    let other_stream = Client::held_by::<Delta>(&state, "web");
    assert_eq!(wanted(&other_stream, Kind::Cluster, &strangers("a", 500)), Ok(()));
}

#[test]
fn a_mesh_that_changes_while_a_client_subscribes_to_all_is_sent_whole_and_once() {
    let state = state(&service("a", &[]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let changed = mesh(&(service("a", &[]) + &service("b", &[])));
    client
        .send_while::<Delta>(&subscribe(Kind::Cluster, &[]), || state.set_mesh(changed.clone()))
        .expect("within limits");
    let response = client.next::<Delta>().expect("a response");
    assert_eq!(names(&response), ["a.default:80", "b.default:80"]);
    client.send::<Delta>(&ack(&response)).expect("within limits");
    assert!(client.next::<Delta>().is_none());
}

/// Returns the resource bytes that were counted as requested since the last call.
fn unpaid_bytes(client: &Client<'_>) -> usize {
    client.with_session(|session| std::mem::take(&mut session.unpaid_bytes))
}

/// Sends a request and acknowledges the response. Returns the bytes of resources in the response, and the number of
/// those bytes that are counted as requested.
fn taken(client: &Client<'_>, request: &DeltaDiscoveryRequest) -> (usize, usize) {
    client.send::<Delta>(request).expect("within limits");
    let response = client.next_batch().expect("a response is due");
    let bytes = response.resources.iter().map(|(_, written)| written.any.value.len()).sum();
    client.send::<Delta>(&ack(&Delta::respond(response.clone()))).expect("within limits");
    (bytes, unpaid_bytes(client))
}

#[test]
fn what_a_client_asks_for_is_counted_and_what_the_mesh_changes_is_not() {
    let state = state(&(service("echo", &["10.1.0.1"]) + &service("other", &["10.1.0.2"])));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let (first, asked) = taken(&client, &subscribe(Kind::Endpoints, &["echo.default:80"]));
    assert!(first > 0 && asked == first, "{first} {asked}");
    assert_eq!(taken(&client, &subscribe(Kind::Endpoints, &["echo.default:80"])), (first, first));
    let (both, asked) = taken(&client, &subscribe(Kind::Endpoints, &["echo.default:80", "other.default:80"]));
    assert!(both > first && asked == both, "{both} {asked}");
    state.set_mesh(mesh(&service("echo", &["10.1.0.9"])));
    let changed = client.next_batch().expect("the mesh has changed");
    assert_eq!((changed.resources.len(), unpaid_bytes(&client)), (1, 0));
}

#[test]
fn a_resource_that_is_dropped_and_asked_for_again_is_counted_however_it_is_asked_for() {
    const ECHO: &str = "echo.default:80";
    let state = state(&service("echo", &["10.1.0.1"]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    for kind in Kind::ALL {
        let (bytes, _) = taken(&client, &subscribe(kind, &[ECHO]));
        client.send::<Delta>(&unsubscribe(kind, &[ECHO])).expect("within limits");
        assert_eq!(taken(&client, &subscribe(kind, &[ECHO])), (bytes, bytes), "{}", kind.name());
    }

    let (bytes, _) = taken(&client, &subscribe(Kind::Cluster, &[ECHO]));
    client.send::<Delta>(&subscribe(Kind::Cluster, &["*"])).expect("within limits");
    let no_longer_by_name = unsubscribe(Kind::Cluster, &[ECHO]);
    assert_eq!(taken(&client, &no_longer_by_name), (bytes, bytes), "it is still among all");
    client.send::<Delta>(&unsubscribe(Kind::Cluster, &["*"])).expect("within limits");
    assert_eq!(taken(&client, &subscribe(Kind::Cluster, &["*"])), (bytes, bytes));

    let other_stream = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut wrong_version = subscribe(Kind::Cluster, &[ECHO]);
    wrong_version.initial_resource_versions = [(ECHO.to_owned(), "0123".to_owned())].into();
    assert_eq!(taken(&other_stream, &wrong_version), (bytes, bytes));
}

#[test]
fn what_a_client_claims_to_have_costs_as_much_as_if_it_was_sent_and_its_change_costs_nothing() {
    const ECHO: &str = "echo.default:80";
    let state = state(&service("echo", &["10.1.0.1"]));
    let before = Client::new::<Delta>(&state, Dialect::Envoy);
    before.send::<Delta>(&subscribe(Kind::Endpoints, &[ECHO])).expect("within limits");
    let response = before.next::<Delta>().expect("a response is due");
    let bytes = unpaid_bytes(&before);
    let after = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut request = subscribe(Kind::Endpoints, &[ECHO]);
    request.initial_resource_versions = [(ECHO.to_owned(), response.resources[0].version.clone())].into();
    after.send::<Delta>(&request).expect("within limits");
    assert!(after.next::<Delta>().is_none(), "it has it");
    assert_eq!(unpaid_bytes(&after), bytes);
    state.set_mesh(mesh(&service("echo", &["10.1.0.9"])));
    assert!(after.next::<Delta>().is_some());
    assert_eq!(unpaid_bytes(&after), 0);
}

#[test]
fn what_a_client_claims_to_have_is_checked_in_turns() {
    const BIG: [&str; 3] = ["a.default:80", "b.default:80", "c.default:80"];
    let endpoint = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let pod = Some("p".repeat(200).into());
        let address = (std::net::Ipv4Addr::new(10, 0, high, low), 80).into();
        Endpoint { address, zone: None, hostname: None, pod, controller: None, proxy: None }
    };
    let one = Cluster::clone(&mesh(&service("echo", &[])).clusters()[0]);
    let endpoints: Vec<Endpoint> = (0..4_000).map(endpoint).collect();
    let big = |name: &str| {
        let key = leno_xds::name::cluster_key(name).expect("a cluster's name");
        Arc::new(Cluster { key, endpoints: endpoints.clone(), ..one.clone() })
    };
    let state = state("");
    state.set_mesh(Arc::new(Mesh::new("default", BIG.map(big).into(), Vec::new(), Vec::new(), Vec::new())));
    let before = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut versions = std::collections::HashMap::new();
    before.send::<Delta>(&subscribe(Kind::Endpoints, &BIG)).expect("within limits");
    while let Some(response) = before.next::<Delta>() {
        before.send::<Delta>(&ack(&response)).expect("within limits");
        versions.extend(response.resources.into_iter().map(|resource| (resource.name, resource.version)));
    }
    let after = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut request = subscribe(Kind::Endpoints, &BIG);
    request.initial_resource_versions = versions;
    after.send::<Delta>(&request).expect("within limits");
    let mut turns = 0;
    while after.with_session(|session| session.is_due()) {
        assert!(after.next::<Delta>().is_none(), "it has all of them");
        turns += 1;
    }
    assert!(turns > 1, "all of them are larger than a response should be");
}

#[test]
fn what_nobody_subscribes_to_any_more_is_forgotten() {
    let state = state(&(service("echo", &["10.1.0.1"]) + &service("other", &["10.1.0.2"])));
    let clients = [(); 2].map(|()| Client::new::<Delta>(&state, Dialect::Envoy));
    for (client, kind) in clients.iter().flat_map(|client| Kind::ALL.map(|kind| (client, kind))) {
        client.send::<Delta>(&subscribe(kind, &["echo.default:80"])).expect("within limits");
        let response = client.next::<Delta>().expect("a response is due");
        assert_eq!(names(&response), ["echo.default:80"]);
        client.send::<Delta>(&ack(&response)).expect("within limits");
    }
    let subject = Subject::of(Kind::Cluster, "echo.default:80", "default", "cluster.local").expect("a cluster's name");
    let is_kept = || (state.subscribers.has(&subject), state.catalog().has_written(&subject));
    for kind in Kind::ALL {
        clients[0].send::<Delta>(&unsubscribe(kind, &["echo.default:80"])).expect("within limits");
    }
    assert_eq!(is_kept(), (true, true), "the other client has it");
    clients[1].close();
    assert_eq!(is_kept(), (false, false));
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

#[test]
fn removals_that_are_held_back_are_looked_at_once_and_sent_when_nothing_names_them() {
    let state = state(&service("echo", &["10.1.0.1"]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    client.send::<Delta>(&subscribe(Kind::Listener, &["echo.default:80"])).expect("within limits");
    let listener = client.next::<Delta>().expect("a response is due");
    let gone = strangers("gone", 100);
    wanted(&client, Kind::Cluster, &gone).expect("within limits");
    assert!(client.next::<Delta>().is_none(), "the listener may lead there");
    let held = || {
        client.with_session(|session| {
            let state = &session.kinds[Kind::Cluster.index()];
            (state.pending.len(), state.held_back.len())
        })
    };
    assert_eq!(held(), (0, 100));

    // A new name does not make the session check the other names again.
    wanted(&client, Kind::Cluster, &strangers("new", 1)).expect("within limits");
    assert!(client.next::<Delta>().is_none());
    assert_eq!(held(), (0, 101));
    client.send::<Delta>(&unsubscribe(Kind::Cluster, &["gone0.default:80"])).expect("within limits");
    assert_eq!(held(), (0, 100));

    client.send::<Delta>(&ack(&listener)).expect("within limits");
    let removed = client.next::<Delta>().expect("nothing names them any more").removed_resources;
    assert_eq!(removed.len(), 100);
    assert_eq!(held(), (0, 0));
}

#[test]
fn a_subscription_to_all_costs_as_much_as_its_names() {
    let text: String = (0..40).map(|number| service(&format!("s{number}"), &[])).collect();
    let state = state(&text);
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let unpaid = || client.with_session(|session| session.unpaid_names);
    client.send::<Delta>(&subscribe(Kind::Cluster, &["*"])).expect("within limits");
    assert_eq!(unpaid(), 40);
    client.with_session(|session| session.has_read(0, std::time::Instant::now()));
    assert_eq!(unpaid(), 0);
}

#[test]
fn an_address_has_one_spelling() {
    let state = state(&service("echo", &["10.1.0.1"]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    client.send::<Delta>(&subscribe(Kind::Listener, &["10.1.0.1:8080", "10.1.0.1:08080"])).expect("within limits");
    assert_eq!(names(&client.next::<Delta>().expect("a response")), ["10.1.0.1:8080", "-10.1.0.1:08080"]);
}

#[test]
fn reasons_are_kept_of_the_latest_rejected_responses_however_many_resources_they_had() {
    let text: String = (0..=REASONS_MAX).map(|number| service(&format!("s{number}"), &[])).collect();
    let state = state(&text);
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    for number in 0..=REASONS_MAX {
        client.send::<Delta>(&subscribe(Kind::Cluster, &[&format!("s{number}.default:80")])).expect("within limits");
        let response = client.next::<Delta>().expect("a response is due");
        client.send::<Delta>(&nack(&response, &format!("reason {number}"))).expect("within limits");
    }
    let reasons: Vec<Option<String>> = client.with_session(|session| {
        let state = &session.kinds[Kind::Cluster.index()];
        let refused = state.entries.values().filter_map(|entry| entry.refused.as_ref());
        refused.map(|refused| state.reason(refused.response).map(str::to_owned)).collect()
    });
    let expected = (0..=REASONS_MAX).map(|number| (number > 0).then(|| format!("reason {number}")));
    assert_eq!(reasons, expected.collect::<Vec<_>>());
}

#[test]
fn only_a_stream_with_something_to_send_pauses_and_checks_less_often_beside_many_others() {
    let capacity = Capacity { streams_max: 4_000, names_max: 1_000, bytes_max: 1_000 };
    let state = state_with(&service("echo", &["10.1.0.1"]), capacity);
    let client = |number: usize| Client::held_by::<Delta>(&state, if number < 500 { "web" } else { "mail" });
    let clients: Vec<Client<'_>> = (0..1_000).map(client).collect();
    let now = std::time::Instant::now();
    let pause = |client: &Client<'_>| client.with_session(|session| session.must_pause(now));
    let unread = clients[0].with_session(|session| session.hold(600));
    assert_eq!(pause(&clients[1]), None, "nothing is due");
    wanted(&clients[1], Kind::Cluster, &["echo.default:80".to_owned()]).expect("within limits");
    assert_eq!(pause(&clients[1]), Some(1_000 * CHECK_EVERY));
    drop(unread);
    assert_eq!(pause(&clients[1]), None);
}

/// Acknowledges the next response. Returns its names.
fn acknowledged(client: &Client<'_>) -> Vec<String> {
    let response = client.next::<Delta>().expect("a response");
    client.send::<Delta>(&ack(&response)).expect("within limits");
    names(&response)
}

#[test]
fn changed_routes_of_the_whole_mesh_wait_and_the_clusters_that_they_name_stay_until_then() {
    const A: &str = "a.default:80";
    let (a, b) = (service("a", &[]), service("b", &[]));
    let state = state(&a);
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let answer = || acknowledged(&client);
    let start = Instant::now();
    client.send::<Delta>(&subscribe(Kind::Cluster, &[A])).expect("within limits");
    client.send::<Delta>(&subscribe(Kind::Route, &["mesh"])).expect("within limits");
    assert_eq!(client.pace_routes(start), None, "the first version does not wait");
    assert_eq!([answer(), answer()], [[A], ["mesh"]]);
    state.set_mesh(mesh(&format!("{a}{b}")));
    assert_eq!(client.pace_routes(Instant::now()), None, "there was no change before");
    assert_eq!(answer(), ["mesh"]);
    assert_eq!(client.pace_routes(start), None, "nothing is due");

    state.set_mesh(mesh(&b));
    let until = client.pace_routes(start).expect("the second change waits");
    assert!(until >= start + WHOLE_ROUTES_PAUSE);
    assert!(client.next::<Delta>().is_none(), "the routes that the client has may name the removed cluster");
    state.set_mesh(mesh(""));
    assert_eq!(client.pace_routes(start), Some(until), "a further change does not postpone the routes");
    assert!(client.next::<Delta>().is_none());
    assert_eq!(client.pace_routes(until), None);
    assert_eq!(answer(), ["mesh"]);
    assert_eq!(answer(), [format!("-{A}")]);
    assert!(client.next::<Delta>().is_none());
}

#[test]
fn the_routes_of_one_service_do_not_wait_for_those_of_the_whole_mesh() {
    const B: &str = "b.default:80";
    let [a, b, c] = ["a", "b", "c"].map(|name| service(name, &[]));
    let state = state(&a);
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let answer = || acknowledged(&client);
    let start = Instant::now();
    client.send::<Delta>(&subscribe(Kind::Route, &["mesh"])).expect("within limits");
    for services in [&a, &format!("{a}{b}")] {
        state.set_mesh(mesh(services));
        client.pace_routes(Instant::now());
        assert_eq!(answer(), ["mesh"]);
    }
    state.set_mesh(mesh(&format!("{a}{b}{c}")));
    let until = client.pace_routes(start).expect("the second change waits");
    client.send::<Delta>(&subscribe(Kind::Route, &[B])).expect("within limits");
    assert_eq!(client.pace_routes(start), Some(until));
    assert_eq!(answer(), [B]);
    assert!(client.next::<Delta>().is_none());
    assert_eq!(client.pace_routes(until), None);
    assert_eq!(answer(), ["mesh"]);
}

#[test]
fn clients_with_and_without_mutual_tls_share_their_routes() {
    let state = state(&service("echo", &["10.1.0.1"]));
    let clients = [Client::of::<Delta>(&state, Dialect::Envoy, "shop", None), Client::held_by::<Delta>(&state, "web")];
    for client in &clients {
        for kind in [Kind::Cluster, Kind::Route] {
            client.send::<Delta>(&subscribe(kind, &["echo.default:80"])).expect("within limits");
            acknowledged(client);
        }
    }
    let echo = Subject::Cluster(ClusterKey { namespace: "default".into(), service: "echo".into(), port: 80 });
    let forms = |kind| state.catalog().forms(kind, &echo);
    assert_eq!((forms(Kind::Cluster), forms(Kind::Route)), (2, 1));
}
