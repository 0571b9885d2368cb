use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use leno_xds::{Dialect, Kind};
use prost::Message;

use super::super::fixtures::{
    Client, TOO_MANY, error, mesh, service, state, state_keeping, state_with, want, with_endpoints,
};
use super::super::limits::Capacity;
use super::super::session::{Answer, Batch, Refusal};
use super::super::state::State;
use super::super::variant::Exchange;
use super::StateOfTheWorld;

const ECHO: &str = "echo.default:80";
const OTHER: &str = "other.default:80";

fn two() -> String {
    service("echo", &["10.1.0.1"]) + &service("other", &["10.1.0.9"])
}

fn clusters(response: &DiscoveryResponse) -> Vec<String> {
    let name = |any: &envoy_types::pb::google::protobuf::Any| Cluster::decode(&*any.value).expect("a cluster").name;
    response.resources.iter().map(name).collect()
}

fn ask(client: &Client<'_>, kind: Kind, names: &[&str], last: Option<&DiscoveryResponse>) -> Answer {
    client.send::<StateOfTheWorld>(&want(kind, names, last)).expect("within limits")
}

#[test]
fn each_response_has_all_clusters_that_are_wanted() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Cluster, &[ECHO], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(clusters(&first), [ECHO]);
    assert_eq!(ask(&client, Kind::Cluster, &[ECHO, OTHER], Some(&first)), Answer::Ack);
    let second = client.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(clusters(&second), [ECHO, OTHER]);
    assert_ne!(first.version_info, second.version_info);
    ask(&client, Kind::Cluster, &[ECHO, OTHER], Some(&second));
    assert!(client.next::<StateOfTheWorld>().is_none(), "nothing changed");

    state.set_mesh(mesh(&service("other", &[])));
    let third = client.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(clusters(&third), [OTHER]);
}

#[test]
fn of_endpoints_only_those_are_sent_that_changed() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Endpoints, &[ECHO, OTHER], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(first.resources.len(), 2);
    ask(&client, Kind::Endpoints, &[ECHO, OTHER], Some(&first));
    state.set_mesh(mesh(&(service("echo", &["10.1.0.2"]) + &service("other", &["10.1.0.9"]))));
    assert_eq!(client.next::<StateOfTheWorld>().expect("a response").resources.len(), 1);
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let state = state("");
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Listener, &[ECHO], None);
    let first = client.next::<StateOfTheWorld>().expect("an empty response");
    assert!(first.resources.is_empty());
    ask(&client, Kind::Listener, &[ECHO], Some(&first));
    state.set_mesh(mesh(&two()));
    assert_eq!(client.next::<StateOfTheWorld>().expect("a response").resources.len(), 1);
}

#[test]
fn an_answer_to_an_older_response_says_nothing() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Endpoints, &[ECHO], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    ask(&client, Kind::Endpoints, &[ECHO], Some(&first));
    state.set_mesh(mesh(&service("echo", &["10.1.0.2"])));
    let second = client.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(ask(&client, Kind::Endpoints, &[OTHER], Some(&first)), Answer::None);
    assert_eq!(ask(&client, Kind::Endpoints, &[ECHO], Some(&second)), Answer::Ack);
}

#[test]
fn a_refused_response_is_not_sent_again_until_something_changes() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Cluster, &[], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    let mut refusal = want(Kind::Cluster, &[], Some(&first));
    refusal.error_detail = Some(error("no such balancer"));
    let answer = client.send::<StateOfTheWorld>(&refusal).expect("within limits");
    assert!(matches!(answer, Answer::Nack { names, .. } if names.len() == 2));
    assert!(client.next::<StateOfTheWorld>().is_none());
    state.set_mesh(mesh(&service("echo", &[])));
    assert_eq!(clusters(&client.next::<StateOfTheWorld>().expect("a response")), [ECHO]);
}

#[test]
fn clusters_that_are_repeated_with_a_change_count_as_asked_for_and_the_change_does_not() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    ask(&client, Kind::Cluster, &[ECHO], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    ask(&client, Kind::Cluster, &[ECHO, OTHER], Some(&first));
    let bytes = |batch: &Batch, name: &str| {
        let named = batch.resources.iter().filter(|(of, _)| &**of == name);
        named.map(|(_, written)| written.any.value.len()).sum::<usize>()
    };
    let asked_bytes = || client.with_session(|session| std::mem::take(&mut session.unpaid_bytes));
    assert!(asked_bytes() > 0);
    let second = client.next_batch().expect("a response");
    assert!(bytes(&second, ECHO) > 0 && bytes(&second, OTHER) > 0);
    assert_eq!(asked_bytes(), bytes(&second, ECHO) + bytes(&second, OTHER));
    ask(&client, Kind::Cluster, &[ECHO, OTHER], Some(&StateOfTheWorld::respond(second)));
    let slower =
        two().replacen("metadata: {name: echo}", "metadata: {name: echo, annotations: {leno.dev/balancer: random}}", 1);
    state.set_mesh(mesh(&slower));
    let third = client.next_batch().expect("a response");
    assert_eq!(asked_bytes(), bytes(&third, OTHER));
}

#[test]
fn envoy_gets_the_endpoints_of_a_cluster_again_after_each_update_of_the_cluster() {
    let state = state(&two());
    let envoy = Client::envoy::<StateOfTheWorld>(&state);
    ask(&envoy, Kind::Cluster, &[], None);
    let clusters = envoy.next::<StateOfTheWorld>().expect("the Clusters");
    ask(&envoy, Kind::Cluster, &[], Some(&clusters));
    ask(&envoy, Kind::Endpoints, &[ECHO, OTHER], None);
    let endpoints = envoy.next::<StateOfTheWorld>().expect("their endpoints");
    ask(&envoy, Kind::Endpoints, &[ECHO, OTHER], Some(&endpoints));
    assert!(envoy.next::<StateOfTheWorld>().is_none());

    let annotated = "metadata: {name: echo, annotations: {leno.dev/balancer: random}}";
    state.set_mesh(mesh(&two().replacen("metadata: {name: echo}", annotated, 1)));
    let changed = envoy.next::<StateOfTheWorld>().expect("the Clusters");
    assert_eq!(self::clusters(&changed), [ECHO, OTHER]);
    let again = envoy.next::<StateOfTheWorld>().expect("the endpoints of the Cluster that changed");
    assert_eq!((again.type_url.as_str(), again.resources.len()), (Kind::Endpoints.type_url(), 1));
    assert_eq!(again.resources[0].value, endpoints.resources[0].value);
    ask(&envoy, Kind::Endpoints, &[ECHO, OTHER], Some(&again));
    ask(&envoy, Kind::Cluster, &[], Some(&changed));
    assert!(envoy.next::<StateOfTheWorld>().is_none());
}

#[test]
fn endpoints_that_are_dropped_and_asked_for_again_count_as_asked_for() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
    let mut last: Option<DiscoveryResponse> = None;
    for names in [&[ECHO][..], &[OTHER], &[ECHO]] {
        ask(&client, Kind::Endpoints, names, last.as_ref());
        let batch = client.next_batch().expect("a response");
        let bytes: usize = batch.resources.iter().map(|(_, written)| written.any.value.len()).sum();
        let asked_bytes = client.with_session(|session| std::mem::take(&mut session.unpaid_bytes));
        assert_eq!((batch.resources.len(), asked_bytes), (1, bytes), "{names:?}");
        last = Some(StateOfTheWorld::respond(batch));
    }
}

#[test]
fn a_request_that_drops_no_name_does_not_go_through_all_that_the_client_has() {
    let state = state(&two());
    let client = Client::new::<StateOfTheWorld>(&state, Dialect::Envoy);
    ask(&client, Kind::Cluster, &["*", ECHO], None);
    let first = client.next::<StateOfTheWorld>().expect("a response");
    let looked_at = || client.with_session(|session| std::mem::take(&mut session.unpaid_names));
    assert!(looked_at() > 0, "all clusters");
    ask(&client, Kind::Cluster, &["*", ECHO], Some(&first));
    assert_eq!(looked_at(), 0);
    ask(&client, Kind::Cluster, &["*", OTHER], Some(&first));
    assert_eq!(looked_at(), 2);
}

/// A client with a certificate. Each cluster that it gets grows with the endpoints' identities, and so may become too
/// large.
fn certified(state: &State) -> Client<'_> {
    Client::held_by::<StateOfTheWorld>(state, "web")
}

#[test]
fn a_client_keeps_the_last_version_of_a_resource_that_becomes_too_large() {
    let state = state("");
    state.set_mesh(with_endpoints(1));
    let [client, other] = [(); 2].map(|()| certified(&state));
    for (client, kind, names) in
        [(&client, Kind::Cluster, &["*"]), (&other, Kind::Cluster, &["*"]), (&other, Kind::Endpoints, &[ECHO])]
    {
        ask(client, kind, names, None);
        let response = client.next::<StateOfTheWorld>().expect("a response");
        assert_eq!(response.resources.len(), 1);
        ask(client, kind, names, Some(&response));
    }

    state.set_mesh(with_endpoints(TOO_MANY));
    for client in [&client, &other] {
        assert!(client.next::<StateOfTheWorld>().is_none(), "nothing has changed for it");
    }
    assert_eq!(state.metrics.too_large_so_far(), 2, "its cluster and its endpoints");
    other.close();
    let again = certified(&state);
    ask(&again, Kind::Cluster, &["*", OTHER], None);
    let response = again.next::<StateOfTheWorld>().expect("a response");
    assert_eq!(clusters(&response), [ECHO], "the last version is kept although the other client is gone");

    state.set_mesh(with_endpoints(2));
    assert_eq!(clusters(&client.next::<StateOfTheWorld>().expect("a response")), [ECHO]);
}

#[test]
fn a_cluster_that_is_too_large_to_be_repeated_is_gone_until_it_is_smaller() {
    let state = state_keeping("", 0);
    state.set_mesh(with_endpoints(1));
    let client = certified(&state);
    ask(&client, Kind::Cluster, &[ECHO], None);
    for count in [TOO_MANY, 1, TOO_MANY, 1] {
        let response = client.next::<StateOfTheWorld>().expect("a response");
        ask(&client, Kind::Cluster, &[ECHO], Some(&response));
        let expected: &[&str] = if count == 1 { &[] } else { &[ECHO] };
        assert_eq!(clusters(&response), expected);
        state.set_mesh(with_endpoints(count));
    }
}

#[test]
fn names_of_clusters_above_a_limit_end_the_stream_because_a_response_without_them_would_delete_them() {
    let capacity = Capacity { streams_max: 9, names_max: 1, bytes_max: 1_000 };
    let state = state_with(&service("a", &["10.1.0.1"]), capacity);
    let client = Client::held_by::<StateOfTheWorld>(&state, "web");
    let ended = client.send::<StateOfTheWorld>(&want(Kind::Cluster, &["a.default:80", "b.default:80"], None));
    assert!(matches!(ended, Err(Refusal::OverLimit(_))), "{ended:?}");
}

#[test]
fn a_name_above_a_limit_is_refused_without_an_answer_and_taken_once_there_is_room() {
    const NAMES: [&str; 2] = ["a.default:80", "b.default:80"];
    let text = service("a", &["10.1.0.1"]) + &service("b", &["10.1.0.2"]);
    let state = state_with(&text, Capacity { streams_max: 9, names_max: 1, bytes_max: 1_000 });
    let client = Client::held_by::<StateOfTheWorld>(&state, "web");
    client.send::<StateOfTheWorld>(&want(Kind::Endpoints, &NAMES, None)).expect("the stream goes on");
    assert!(client.refusal::<StateOfTheWorld>().is_none());
    let first = client.next::<StateOfTheWorld>().expect("the first name is taken");
    assert_eq!(first.resources.len(), 1);
    client.send::<StateOfTheWorld>(&want(Kind::Endpoints, &NAMES, Some(&first))).expect("the stream goes on");
    assert!(client.refusal::<StateOfTheWorld>().is_none());
    assert!(client.next::<StateOfTheWorld>().is_none(), "an answer would be acknowledged, and so on for ever");

    client.send::<StateOfTheWorld>(&want(Kind::Endpoints, &NAMES[1..], Some(&first))).expect("within limits");
    let second = client.next::<StateOfTheWorld>().expect("the name that is given up makes room");
    assert_eq!(second.resources.len(), 1);
}

/// A Service `front` whose calls a route sends to `backend`.
fn front_to(backend: &str) -> String {
    service("front", &["10.1.0.3"])
        + &format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: front}}\nspec:\n  \
             parentRefs: [{{group: '', kind: Service, name: front}}]\n  \
             rules: [{{backendRefs: [{{name: {backend}, port: 80}}]}}]\n---\n"
        )
        + &service(backend, &["10.1.0.4"])
}

#[test]
fn a_list_that_adds_a_cluster_repeats_a_removed_one_until_the_routes_have_changed() {
    const FRONT: &str = "front.default:80";
    let state = state(&front_to("echo"));
    let client = Client::envoy::<StateOfTheWorld>(&state);
    ask(&client, Kind::Cluster, &[], None);
    let first = client.next::<StateOfTheWorld>().expect("the Clusters");
    assert_eq!(clusters(&first), [ECHO, FRONT]);
    ask(&client, Kind::Cluster, &[], Some(&first));
    ask(&client, Kind::Route, &[FRONT], None);
    let route = client.next::<StateOfTheWorld>().expect("the routes");
    ask(&client, Kind::Route, &[FRONT], Some(&route));

    state.set_mesh(mesh(&front_to("other")));
    let both = client.next::<StateOfTheWorld>().expect("the Clusters");
    assert_eq!(clusters(&both), [ECHO, FRONT, OTHER]);
    assert_eq!(both.resources[0], first.resources[0]);
    assert!(client.next::<StateOfTheWorld>().is_none());
    ask(&client, Kind::Cluster, &[], Some(&both));
    let route = client.next::<StateOfTheWorld>().expect("the routes");
    assert_eq!(route.type_url, Kind::Route.type_url());
    assert!(client.next::<StateOfTheWorld>().is_none(), "the client may still have the old routes");
    ask(&client, Kind::Route, &[FRONT], Some(&route));
    let without = client.next::<StateOfTheWorld>().expect("the Clusters");
    assert_eq!(clusters(&without), [FRONT, OTHER]);
    ask(&client, Kind::Cluster, &[], Some(&without));
    assert!(client.next::<StateOfTheWorld>().is_none());
}

/// The removal waits for the client's answer about its routes. Meanwhile, no work for the session may be due: its stream
/// would repeat this work for ever, and never read the client's answer.
#[test]
fn a_removal_that_waits_leaves_nothing_due() {
    let state = state(&two());
    for kind in [Kind::Cluster, Kind::Endpoints] {
        let client = Client::new::<StateOfTheWorld>(&state, Dialect::Grpc);
        ask(&client, Kind::Route, &[ECHO], None);
        client.next::<StateOfTheWorld>().expect("the route");
        ask(&client, kind, &["absent.default:80"], None);
        let mut rounds = 0;
        while client.with_session(|session| session.is_due()) {
            client.next::<StateOfTheWorld>();
            rounds += 1;
            assert!(rounds < 10, "{kind:?}");
        }
    }
}
