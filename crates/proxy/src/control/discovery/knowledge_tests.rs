use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use leno_model::mesh::{Cluster, ClusterKey, Mesh};
use leno_relay::Usage;
use leno_xds::{Dialect, Kind, Unreadable, View, cluster, endpoints, listener, routes};
use prost::Message;

use super::super::fixtures::{ECHO, Server, service};
use super::{Knowledge, Resource};

/// Default room for subjects in tests.
const SUBJECTS_MAX: usize = 100;

/// Applies all wanted resources of a server, kind by kind, until nothing changes any more.
fn learn(knowledge: &mut Knowledge, server: &Server) {
    loop {
        let mut news = false;
        for kind in Kind::ALL {
            for name in knowledge.wanted(kind) {
                let before = format!("{knowledge:?}");
                let resource = server.resource(kind, &name);
                take(knowledge, kind, &name, resource.as_deref()).expect("a resource of the server's");
                news |= format!("{knowledge:?}") != before;
            }
        }
        if !news {
            return;
        }
    }
}

fn take(knowledge: &mut Knowledge, kind: Kind, name: &str, bytes: Option<&[u8]>) -> Result<(), Unreadable> {
    let taken = knowledge.take(kind, name, bytes.map(|bytes| Resource { version: "1", bytes }));
    knowledge.settle();
    taken
}

fn subject(mesh: &Mesh, authority: &str) -> Option<Subject> {
    mesh.unanswered_authority(authority.as_bytes())
}

/// Knowledge of a client in the namespace `default` that has asked about these authorities.
fn asked(authorities: &[&str]) -> Knowledge {
    let mut knowledge = Knowledge::new("default", SUBJECTS_MAX);
    for authority in authorities {
        let subject = subject(knowledge.mesh(), authority).expect("a question");
        assert!(knowledge.ask(&subject, Instant::now()));
    }
    knowledge
}

fn addresses(mesh: &Mesh, authority: &str) -> Vec<String> {
    let cluster = mesh.cluster_by_authority(authority.as_bytes()).expect("a Service");
    cluster.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect()
}

#[test]
fn a_service_is_answered_when_its_cluster_endpoints_and_routes_are_there() {
    let server = Server::new(&[ECHO]);
    let mut knowledge = asked(&["echo:50051"]);
    let steps = [Kind::Listener, Kind::Cluster, Kind::Endpoints, Kind::Route];
    for kind in steps {
        assert!(subject(knowledge.mesh(), "echo:50051").is_some(), "before {kind:?}");
        let wanted = knowledge.wanted(kind);
        assert_eq!(Vec::from_iter(&wanted), ["echo.default:50051"]);
        let resource = server.resource(kind, "echo.default:50051").expect("the server has it");
        take(&mut knowledge, kind, "echo.default:50051", Some(&resource)).expect("it can be read");
    }
    let mesh = knowledge.mesh();
    assert_eq!(subject(mesh, "echo:50051"), None);
    assert_eq!(addresses(mesh, "echo:50051"), ["127.0.0.1:50061", "127.0.0.2:50061"]);
}

#[test]
fn an_address_leads_to_its_service_and_an_endpoints_own_to_that_endpoint() {
    let server = Server::new(&[ECHO]);
    let mut knowledge = asked(&["10.96.0.10:50051", "127.0.0.2:50061", "192.0.2.1:443"]);
    learn(&mut knowledge, &server);
    let mesh = knowledge.mesh();
    let address = |text: &str| text.parse().expect("an address");
    assert_eq!(
        mesh.cluster_by_address(address("10.96.0.10:50051")).map(|c| c.key.to_string()).as_deref(),
        Some("echo.default:50051")
    );
    assert!(mesh.cluster_by_address(address("127.0.0.2:50061")).is_none());
    assert!(mesh.endpoint_by_address(address("127.0.0.2:50061")).is_some());
    // The answer that an address does not exist is an answer, too. Only 192.0.2.2:443 has no answer.
    assert_eq!(mesh.unanswered_address(address("192.0.2.1:443")), None);
    assert!(mesh.unanswered_address(address("192.0.2.2:443")).is_some());
}

/// Asks about the clusterIP of `echo`, and assumes that it is outside of the mesh.
fn assumed() -> (Knowledge, SocketAddr) {
    let mut knowledge = asked(&["10.96.0.10:50051"]);
    let address = "10.96.0.10:50051".parse().expect("an address");
    assert!(knowledge.assume_outside(address));
    let (mesh, changes) = knowledge.take_mesh();
    assert_eq!(mesh.unanswered_address(address), None);
    assert!(changes.answered.contains(&Subject::Address(address)));
    (knowledge, address)
}

#[test]
fn only_addresses_that_are_assumed_to_be_outside_make_room_without_a_stream() {
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &Server::new(&[ECHO]));
    let began = Instant::now();
    let outside = |number: u8| SocketAddr::from(([192, 0, 2, number], 443));
    for number in 1..=3 {
        let at = began + Duration::from_secs(number.into());
        assert!(knowledge.ask(&Subject::Address(outside(number)), at));
    }
    assert!(knowledge.assume_outside(outside(1)) && knowledge.assume_outside(outside(2)));
    assert_eq!(knowledge.forget_assumed(1), 1);
    let is_asked = |knowledge: &Knowledge, number| asked_names(knowledge).contains(&outside(number).to_string());
    assert_eq!([1, 2, 3].map(|number| is_asked(&knowledge, number)), [false, true, true], "the first use was earliest");
    assert_eq!(knowledge.forget_assumed(10), 1);
    assert!(is_asked(&knowledge, 3), "it may be answered");
    let (_, unsubscribe) = knowledge.take_wishes(Kind::Listener);
    assert!(unsubscribe.is_empty(), "a long absence of the control plane takes no memory: {unsubscribe:?}");
    assert_eq!(subject(knowledge.mesh(), "echo:50051"), None, "it is still known");
}

#[test]
fn an_answer_replaces_the_assumption_that_an_address_is_outside_of_the_mesh() {
    let (mut knowledge, address) = assumed();
    assert!(knowledge.wanted(Kind::Listener).contains("10.96.0.10:50051"), "a new stream asks for it");
    let server = Server::new(&[ECHO]);
    let listener = server.resource(Kind::Listener, "10.96.0.10:50051").expect("the server has it");
    take(&mut knowledge, Kind::Listener, "10.96.0.10:50051", Some(&listener)).expect("it can be read");
    // The address is in the mesh, and its endpoints are not known yet. So calls wait, and do not go in clear.
    let (mesh, changes) = knowledge.take_mesh();
    assert!(mesh.unanswered_address(address).is_some());
    assert!(changes.changed_answers.contains(&Subject::Address(address)));
    assert!(!knowledge.assume_outside(address));
    assert!(knowledge.mesh().unanswered_address(address).is_some());
    learn(&mut knowledge, &server);
    assert!(knowledge.mesh().cluster_by_address(address).is_some());
    assert_eq!(knowledge.mesh().unanswered_address(address), None);
}

#[test]
fn an_answer_may_confirm_the_assumption_that_an_address_is_outside_of_the_mesh() {
    let (mut knowledge, address) = assumed();
    take(&mut knowledge, Kind::Listener, "10.96.0.10:50051", None).expect("nothing to read");
    assert!(knowledge.mesh().answers(&Subject::Address(address)));
}

#[test]
fn an_address_whose_answer_cannot_be_read_may_be_in_the_mesh() {
    let (mut knowledge, address) = assumed();
    take(&mut knowledge, Kind::Listener, "10.96.0.10:50051", Some(&[0xff])).expect_err("it cannot be read");
    assert!(knowledge.mesh().unanswered_address(address).is_some());
    assert!(!knowledge.assume_outside(address));
}

#[test]
fn only_an_address_that_was_asked_about_is_assumed_to_be_outside() {
    let mut knowledge = asked(&[]);
    let address = "192.0.2.1:443".parse().expect("an address");
    assert!(!knowledge.assume_outside(address));
    assert!(knowledge.mesh().unanswered_address(address).is_some());
}

/// The application may dial an endpoint's own address, about which the control plane was never asked.
#[test]
fn an_address_of_a_known_service_is_not_assumed_to_be_outside() {
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &Server::new(&[ECHO]));
    let assumes = |knowledge: &mut Knowledge, at: &str| {
        let address: SocketAddr = at.parse().expect("an address");
        assert!(knowledge.ask(&Subject::Address(address), Instant::now()));
        knowledge.assume_outside(address)
    };
    for of_echo in ["127.0.0.2:50061", "[::ffff:127.0.0.1]:50061", "127.0.0.2:9090", "10.96.0.10:50051"] {
        assert!(!assumes(&mut knowledge, of_echo), "{of_echo}");
    }
    assert!(assumes(&mut knowledge, "192.0.2.1:50061"));
}

/// An EndpointSlice may list any address, for example a node's. The control plane then answers that the address leads
/// nowhere.
#[test]
fn an_address_leads_to_no_endpoint_of_a_known_service_that_its_answer_does_not_name() {
    let server = Server::new(&[ECHO]);
    let at = "127.0.0.2:50061";
    let mut knowledge = asked(&["echo:50051", at]);
    learn(&mut knowledge, &server);
    let address = at.parse().expect("an address");
    assert!(knowledge.mesh().endpoint_by_address(address).is_some());
    take(&mut knowledge, Kind::Listener, at, None).expect("nothing to read");
    assert_eq!(addresses(knowledge.mesh(), "echo:50051"), ["127.0.0.1:50061", at]);
    assert_eq!(subject(knowledge.mesh(), at), None, "it is answered");
    assert!(knowledge.mesh().endpoint_by_address(address).is_none());
}

/// Calls must not go in clear because the proxy of their endpoint is no longer known.
#[test]
fn an_endpoints_own_address_is_unanswered_between_the_loss_of_the_endpoint_and_the_new_answer() {
    for manifests in [ECHO.to_owned(), ECHO.replace("10.96.0.10", "None")] {
        let own = "127.0.0.2:50061";
        let before = Server::new(&[&manifests]);
        let after = Server::new(&[&manifests.replace(", {addresses: [127.0.0.2]}", "")]);
        let mut knowledge = asked(&[own]);
        learn(&mut knowledge, &before);
        assert_eq!(subject(knowledge.mesh(), own), None);
        let endpoints = after.resource(Kind::Endpoints, "echo.default:50051").expect("endpoints");
        take(&mut knowledge, Kind::Endpoints, "echo.default:50051", Some(&endpoints)).expect("they can be read");
        assert!(subject(knowledge.mesh(), own).is_some(), "{manifests}");
        take(&mut knowledge, Kind::Listener, own, None).expect("it leads nowhere");
        assert_eq!(subject(knowledge.mesh(), own), None);
    }
}

#[test]
fn a_route_takes_effect_when_all_its_backends_are_known() {
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: canary, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: echo}]
  rules:
  - backendRefs: [{name: v1, port: 80, weight: 9}, {name: v2, port: 80, weight: 1}]
";
    let (v1, v2) = (service("v1", "10.96.0.11", "127.0.1.1"), service("v2", "10.96.0.12", "127.0.1.2"));
    let before = Server::new(&[ECHO]);
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &before);
    let table = |knowledge: &Knowledge| {
        let mesh = knowledge.mesh();
        assert_eq!(subject(mesh, "echo:50051"), None, "what has been answered stays answered");
        let cluster = mesh.cluster_by_authority(b"echo:50051").expect("a Service").key.clone();
        mesh.routes(&cluster, "default").map(Arc::clone)
    };
    assert!(table(&knowledge).is_none());

    let after = Server::new(&[ECHO, route, &v1, &v2]);
    let resource = after.resource(Kind::Route, "echo.default:50051").expect("routes");
    take(&mut knowledge, Kind::Route, "echo.default:50051", Some(&resource)).expect("they can be read");
    assert!(table(&knowledge).is_none(), "its backends are not known yet");
    assert_eq!(
        Vec::from_iter(knowledge.wanted(Kind::Cluster)),
        ["echo.default:50051", "v1.default:80", "v2.default:80"]
    );
    learn(&mut knowledge, &after);
    assert_eq!(table(&knowledge).map(|table| table.entries().len()), Some(1));
    assert_eq!(addresses(knowledge.mesh(), "v2.default:80"), ["127.0.1.2:8080"]);

    learn(&mut knowledge, &before);
    assert!(table(&knowledge).is_none(), "the route has gone");
    assert_eq!(Vec::from_iter(knowledge.wanted(Kind::Cluster)), ["echo.default:50051"]);
}

/// A route for `echo` that sends all calls to one backend.
fn route_to(backend: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: all, namespace: default}}
spec:
  parentRefs: [{{group: '', kind: Service, name: echo}}]
  rules: [{{backendRefs: [{{name: {backend}, port: 80}}]}}]
"
    )
}

/// A server on which the calls of `echo` go to `v1`, and the server after `v2` has replaced `v1`.
fn before_and_after() -> [Server; 2] {
    let (v1, v2) = (service("v1", "10.96.0.11", "127.0.1.1"), service("v2", "10.96.0.12", "127.0.1.2"));
    [Server::new(&[ECHO, &route_to("v1"), &v1]), Server::new(&[ECHO, &route_to("v2"), &v2])]
}

/// Returns the only backend of the routes of `echo`. The mesh must have its endpoints.
fn backend(knowledge: &Knowledge) -> String {
    let key = leno_xds::name::cluster_key("echo.default:50051").expect("a cluster's name");
    let table = knowledge.mesh().routes(&key, "default").expect("a table");
    let backend = table.destinations().next().expect("a backend");
    assert!(knowledge.mesh().cluster(backend).is_some_and(|cluster| !cluster.endpoints.is_empty()), "{backend}");
    backend.to_string()
}

/// The control plane removes a Service once the proxy has acknowledged the new routes. At this time, the proxy may
/// still wait for the new backends.
#[test]
fn a_removed_backend_stays_until_the_routes_without_it_take_effect() {
    let [before, after] = before_and_after();
    for order in [[Kind::Cluster, Kind::Endpoints], [Kind::Endpoints, Kind::Cluster]] {
        let mut knowledge = asked(&["echo:50051"]);
        learn(&mut knowledge, &before);
        let routes = after.resource(Kind::Route, "echo.default:50051").expect("routes");
        take(&mut knowledge, Kind::Route, "echo.default:50051", Some(&routes)).expect("they can be read");
        for kind in order {
            take(&mut knowledge, kind, "v1.default:80", None).expect("nothing to read");
            assert_eq!(backend(&knowledge), "v1.default:80", "{kind:?}");
        }
        learn(&mut knowledge, &after);
        assert_eq!(backend(&knowledge), "v2.default:80");
        assert_eq!(Vec::from_iter(knowledge.wanted(Kind::Cluster)), ["echo.default:50051", "v2.default:80"]);
    }
}

#[test]
fn a_removed_backend_that_is_called_directly_is_gone_when_the_routes_without_it_take_effect() {
    let [before, after] = before_and_after();
    let mut knowledge = asked(&["echo:50051", "v1:80"]);
    learn(&mut knowledge, &before);
    let routes = after.resource(Kind::Route, "echo.default:50051").expect("routes");
    take(&mut knowledge, Kind::Route, "echo.default:50051", Some(&routes)).expect("they can be read");
    take(&mut knowledge, Kind::Cluster, "v1.default:80", None).expect("nothing to read");
    let v1 = leno_xds::name::cluster_key("v1.default:80").expect("a cluster's name");
    assert!(knowledge.mesh().cluster(&v1).is_some());
    for kind in [Kind::Cluster, Kind::Endpoints] {
        let resource = after.resource(kind, "v2.default:80").expect("the server has it");
        take(&mut knowledge, kind, "v2.default:80", Some(&resource)).expect("it can be read");
    }
    assert_eq!(backend(&knowledge), "v2.default:80");
    assert!(knowledge.mesh().cluster(&v1).is_none());
    assert!(knowledge.wants(Kind::Cluster, "v1.default:80"), "a subject still leads to it");
}

/// The control plane may refuse the names of the new backends.
#[test]
fn a_removed_backend_is_dropped_if_the_routes_without_it_wait_too_long() {
    const MOST: Duration = Duration::from_secs(60);
    const V1: &str = "v1.default:80";
    let [before, after] = before_and_after();
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &before);
    let start = Instant::now();
    let key = leno_xds::name::cluster_key(V1).expect("a cluster's name");
    let has_backend = |knowledge: &Knowledge| knowledge.mesh().cluster(&key).is_some();
    let routes = after.resource(Kind::Route, "echo.default:50051").expect("routes");
    take(&mut knowledge, Kind::Route, "echo.default:50051", Some(&routes)).expect("they can be read");
    assert_eq!(knowledge.drop_overdue(start, MOST), None);
    take(&mut knowledge, Kind::Cluster, V1, None).expect("nothing to read");
    for waited in [Duration::ZERO, MOST - Duration::from_millis(1)] {
        assert_eq!(knowledge.drop_overdue(start + waited, MOST), Some(start + MOST));
        assert!(has_backend(&knowledge));
    }
    knowledge.take_mesh();
    assert_eq!(knowledge.drop_overdue(start + MOST, MOST), None);
    assert!(!has_backend(&knowledge) && knowledge.take_mesh().1.clusters.contains(&key));

    // If the control plane adds the backend again, the time begins again at the next removal.
    let cluster = before.resource(Kind::Cluster, V1).expect("a cluster");
    take(&mut knowledge, Kind::Cluster, V1, Some(&cluster)).expect("it can be read");
    assert!(has_backend(&knowledge));
    take(&mut knowledge, Kind::Cluster, V1, None).expect("nothing to read");
    assert_eq!(knowledge.drop_overdue(start + MOST * 2, MOST), Some(start + MOST * 3));
    knowledge.restart_kept();
    assert_eq!(knowledge.drop_overdue(start + MOST * 3, MOST), Some(start + MOST * 4), "there was no stream");
    learn(&mut knowledge, &after);
    assert_eq!(backend(&knowledge), "v2.default:80");
    assert_eq!(knowledge.drop_overdue(start + MOST * 9, MOST), None);
}

/// A connection waits until the proxy knows whether it may parse the connection's bytes.
#[test]
fn an_address_is_answered_when_the_routes_of_its_connections_are_known() {
    for kind in ["TCPRoute", "TLSRoute"] {
        let route = format!(
            "\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: r, namespace: default}}\nspec:\n  parentRefs: \
             [{{group: '', kind: Service, name: echo}}]\n  rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]\n"
        );
        let server = Server::new(&[ECHO, &route, &service("v1", "10.96.0.11", "127.0.1.1")]);
        let mut knowledge = asked(&["10.96.0.10:50051"]);
        learn(&mut knowledge, &server);
        let mesh = knowledge.mesh();
        let cluster = mesh.cluster_by_address("10.96.0.10:50051".parse().expect("an address")).expect("echo");
        let table = mesh.routes(&cluster.key, "default").expect("a table");
        assert_eq!(table.kind().name(), kind);
        assert_eq!(addresses(mesh, "v1.default:80"), ["127.0.1.1:8080"], "{kind}");
    }
}

#[test]
fn a_resource_that_cannot_be_read_leaves_what_was_known() {
    let server = Server::new(&[ECHO]);
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &server);
    for kind in Kind::ALL {
        assert!(take(&mut knowledge, kind, "echo.default:50051", Some(b"\xff\xff")).is_err(), "{kind:?}");
    }
    assert!(knowledge.take(Kind::Cluster, "no cluster's name", None).is_err());
    assert_eq!(addresses(knowledge.mesh(), "echo:50051").len(), 2);
}

#[test]
fn a_service_that_is_gone_is_no_longer_known() {
    let server = Server::new(&[ECHO]);
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &server);
    learn(&mut knowledge, &Server::new(&[]));
    let mesh = knowledge.mesh();
    assert_eq!(subject(mesh, "echo:50051"), None);
    assert!(mesh.cluster_by_authority(b"echo:50051").is_err());
}

#[test]
fn what_nothing_leads_to_any_more_is_forgotten_with_its_version() {
    let mut knowledge = asked(&["echo:50051"]);
    learn(&mut knowledge, &Server::new(&[ECHO]));
    // The control plane first removes the resources that refer to other resources.
    take(&mut knowledge, Kind::Listener, "echo.default:50051", None).expect("nothing to read");
    assert!(knowledge.versions.iter().all(BTreeMap::is_empty));
    assert!(knowledge.mesh().clusters().is_empty());
}

fn address(number: usize) -> Subject {
    Subject::Address(([10, 0, (number >> 8) as u8, number as u8], 80).into())
}

/// Returns the usage report of one worker.
fn usage(in_use: &[Subject], used: &[(Subject, Instant)], clusters: &[&str]) -> Usage {
    let key = |text: &&str| leno_xds::name::cluster_key(text).expect("a cluster's key");
    let (in_use, used) = (in_use.iter().cloned().collect(), used.to_vec());
    Usage { in_use, used, clusters: clusters.iter().map(key).collect() }
}

fn asked_names(knowledge: &Knowledge) -> Vec<String> {
    knowledge.wanted(Kind::Listener).into_iter().collect()
}

#[test]
fn a_question_has_no_room_only_while_every_other_subject_is_in_use() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut knowledge = Knowledge::new("default", 3);
    assert!(knowledge.ask(&Subject::Inbound, at(0)));
    assert!(knowledge.ask(&address(1), at(1)) && knowledge.ask(&address(2), at(2)));
    assert!(!knowledge.ask(&address(3), at(3)));
    assert!(knowledge.ask(&address(1), at(4)), "it was asked before");

    knowledge.take_usage(&usage(&[address(1), address(2)], &[], &[]), at(5));
    assert_eq!(knowledge.forget_least_recently_used(9, at(5)), 0, "both are in use, and policies always are");
    knowledge.take_usage(&usage(&[address(1)], &[(address(2), at(6))], &[]), at(7));
    assert_eq!(knowledge.forget_least_recently_used(9, at(7)), 1);
    assert!(knowledge.ask(&address(3), at(8)));
    assert_eq!(asked_names(&knowledge), ["10.0.0.1:80", "10.0.0.3:80", "inbound"]);
}

#[test]
fn the_least_recently_used_subject_is_forgotten_first() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut knowledge = Knowledge::new("default", 10);
    for number in 0..10 {
        assert!(knowledge.ask(&address(number), at(number as u64)));
    }
    knowledge.take_usage(&usage(&[], &[(address(0), at(20)), (address(2), at(21))], &[]), at(30));
    assert_eq!(knowledge.forget_least_recently_used(7, at(30)), 7);
    assert_eq!(asked_names(&knowledge), ["10.0.0.0:80", "10.0.0.2:80", "10.0.0.9:80"]);
}

#[test]
fn room_for_refused_names_is_made_by_subjects_that_no_call_can_use_and_then_by_unused_subjects() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let server = Server::new(&[&service("a", "10.96.0.9", "10.1.0.1")]);
    let mut knowledge = asked(&["a:80", "b:80"]);
    for (kind, name) in
        [(Kind::Listener, "a.default:80"), (Kind::Cluster, "a.default:80"), (Kind::Endpoints, "a.default:80")]
    {
        take(&mut knowledge, kind, name, server.resource(kind, name).as_deref()).expect("a resource of the server's");
    }
    for number in 0..3 {
        assert!(knowledge.ask(&address(number), at(number as u64)));
    }
    let refused = [(Kind::Route, "a.default:80"), (Kind::Listener, "b.default:80"), (Kind::Listener, "10.0.0.0:80")];
    let is_refused = |kind: Kind, name: &str| refused.contains(&(kind, name));
    assert_eq!(knowledge.make_room(1, at(2), is_refused), 1);
    assert_eq!(asked_names(&knowledge), ["10.0.0.0:80", "10.0.0.1:80", "10.0.0.2:80", "b.default:80"]);
    assert_eq!(knowledge.make_room(9, at(2), is_refused), 1, "not what was used, or is refused itself");
    assert_eq!(asked_names(&knowledge), ["10.0.0.0:80", "10.0.0.2:80", "b.default:80"]);
}

#[test]
fn what_no_call_uses_is_forgotten_with_its_cluster_and_asked_again_when_it_is_called_again() {
    const IDLE: Duration = Duration::from_secs(300);
    let server = Server::new(&[ECHO]);
    let mut knowledge = asked(&["echo:50051", "10.96.0.10:50051", "192.0.2.1:443"]);
    assert!(knowledge.ask(&Subject::Inbound, Instant::now()));
    learn(&mut knowledge, &server);
    for kind in Kind::ALL {
        knowledge.take_wishes(kind);
    }
    let (before, _) = knowledge.take_mesh();
    let start = Instant::now();
    let service = subject(&Mesh::empty().answering([]), "echo:50051").expect("a question");
    knowledge.take_usage(&usage(std::slice::from_ref(&service), &[], &[]), start + IDLE);
    assert_eq!(knowledge.forget_idle(start + IDLE, IDLE), 2);
    assert_eq!(asked_names(&knowledge), ["echo.default:50051", "inbound"]);
    assert_eq!(addresses(knowledge.mesh(), "echo:50051").len(), 2, "the Service is in use");
    let gone = vec!["10.96.0.10:50051".to_owned(), "192.0.2.1:443".to_owned()];
    assert_eq!(knowledge.take_wishes(Kind::Listener), (Vec::new(), gone));

    assert_eq!(knowledge.forget_idle(start + IDLE * 2, IDLE), 1);
    let name = "echo.default:50051".to_owned();
    for kind in Kind::ALL {
        assert_eq!(knowledge.take_wishes(kind), (Vec::new(), vec![name.clone()]), "{kind:?}");
    }
    let (mesh, changes) = knowledge.take_mesh();
    assert!(mesh.clusters().is_empty() && !mesh.answers(&service) && mesh.answers(&Subject::Inbound));
    assert!(changes.forgotten.contains(&service) && changes.forgotten_clusters.len() == 1);
    assert_eq!(addresses(&before, "echo:50051").len(), 2, "a mesh that is in use somewhere does not change");
    assert!(knowledge.versions[Kind::Cluster.index()].is_empty());

    assert!(knowledge.ask(&service, start));
    assert_eq!(knowledge.take_wishes(Kind::Listener), (vec![name], Vec::new()));
    learn(&mut knowledge, &server);
    assert_eq!(addresses(knowledge.mesh(), "echo:50051").len(), 2);
}

#[test]
fn a_call_in_flight_keeps_its_cluster_known_and_a_backends_keeps_its_parents() {
    const IDLE: Duration = Duration::from_secs(300);
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: canary, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: echo}]
  rules: [{backendRefs: [{name: v1, port: 80}]}]
";
    let server = Server::new(&[ECHO, route, &service("v1", "10.96.0.11", "127.0.1.1")]);
    let mut knowledge = asked(&["echo:50051", "10.96.0.10:50051"]);
    learn(&mut knowledge, &server);
    for round in 1..5 {
        let now = Instant::now() + IDLE * round;
        knowledge.take_usage(&usage(&[], &[], &["v1.default:80"]), now);
        knowledge.forget_idle(now, IDLE);
        assert_eq!(asked_names(&knowledge).len(), 1, "one question leads there, and is enough");
        assert_eq!(addresses(knowledge.mesh(), "v1.default:80"), ["127.0.1.1:8080"]);
    }
    let now = Instant::now() + IDLE * 6;
    assert_eq!(knowledge.forget_idle(now, IDLE), 1);
    assert!(knowledge.mesh().clusters().is_empty());
}

#[test]
fn a_service_is_not_forgotten_while_its_methods_or_those_of_its_backends_have_objectives() {
    const IDLE: Duration = Duration::from_secs(300);
    let with_objective = |service: &str, name: &str| {
        let annotations = "annotations: {leno.dev/objective: success 99.9 %}";
        let whole = service.replacen(&format!("{{name: {name}}}"), &format!("{{name: {name}, {annotations}}}"), 1);
        assert_ne!(whole, service);
        whole
    };
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: canary, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules: [{backendRefs: [{name: v1, port: 80}]}]
";
    let others =
        [("web", "10.96.0.11", "127.0.1.1"), ("v1", "10.96.0.12", "127.0.1.2"), ("plain", "10.96.0.13", "127.0.1.3")];
    let [web, v1, plain] = others.map(|(name, cluster_ip, endpoint)| service(name, cluster_ip, endpoint));
    let (echo, v1) = (with_objective(ECHO, "echo"), with_objective(&v1, "v1"));
    let server = Server::new(&[&echo, &web, &v1, &plain, route]);
    // 127.0.0.2:50061 is an endpoint of echo. Calls to this address do not count for echo's objective.
    let mut knowledge = asked(&["echo:50051", "web:80", "plain:80", "127.0.0.2:50061"]);
    learn(&mut knowledge, &server);
    let now = Instant::now() + IDLE;
    assert_eq!(knowledge.forget_idle(now, IDLE), 2);
    assert_eq!(asked_names(&knowledge), ["echo.default:50051", "web.default:80"]);

    learn(&mut knowledge, &Server::new(&[ECHO, &web, &v1, &plain, route]));
    assert_eq!(knowledge.forget_idle(now, IDLE), 1, "the objective was removed");
    assert_eq!(knowledge.forget_least_recently_used(1, now), 1, "room for others is more important");
    assert!(knowledge.mesh().clusters().is_empty());
}

#[test]
fn an_answer_changes_its_own_part_of_the_mesh_only() {
    let server = Server::new(&[ECHO, &service("other", "10.96.0.11", "127.0.1.1")]);
    let mut knowledge = asked(&["other:80"]);
    learn(&mut knowledge, &server);
    knowledge.take_mesh();
    let question = subject(knowledge.mesh(), "echo:50051").expect("a question");
    assert!(knowledge.ask(&question, Instant::now()));
    learn(&mut knowledge, &server);
    let (_, changes) = knowledge.take_mesh();
    let clusters: Vec<_> = changes.clusters.iter().map(ToString::to_string).collect();
    assert_eq!((clusters, changes.answered.len()), (vec!["echo.default:50051".to_owned()], 1));
    assert!(changes.changed_answers.is_empty() && changes.routes.is_empty() && !changes.policies, "{changes:?}");
}

fn policy(name: &str) -> String {
    let kind = "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy";
    format!("\n{kind}\nmetadata: {{name: {name}}}\nspec: {{allow: []}}\n")
}

fn policies(knowledge: &Knowledge) -> Option<Vec<String>> {
    let mesh = knowledge.mesh();
    let names = mesh.policies().iter().map(|policy| policy.name.to_string()).collect();
    mesh.answers(&Subject::Inbound).then_some(names)
}

#[test]
fn it_is_not_known_who_may_call_until_the_control_plane_has_said_so_and_then_it_is_followed() {
    let mut knowledge = asked(&["echo:50051"]);
    assert!(knowledge.ask(&Subject::Inbound, Instant::now()));
    assert!(knowledge.wanted(Kind::Listener).contains("inbound"));
    let server = Server::new(&[ECHO, &policy("a"), &policy("b")]);
    let listener = server.resource(Kind::Listener, "echo.default:50051").expect("a Service");
    take(&mut knowledge, Kind::Listener, "echo.default:50051", Some(&listener)).expect("it can be read");
    assert_eq!(policies(&knowledge), None, "other news says nothing of policies");
    learn(&mut knowledge, &server);
    assert_eq!(policies(&knowledge), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert!(knowledge.version(Kind::Listener, "inbound").is_some(), "a new stream need not bring it");
    learn(&mut knowledge, &Server::new(&[ECHO, &policy("b")]));
    assert_eq!(policies(&knowledge), Some(vec!["b".to_owned()]));
    learn(&mut knowledge, &Server::new(&[ECHO]));
    assert_eq!(policies(&knowledge), Some(Vec::new()), "there are none, and that is known");
}

#[test]
fn policies_that_cannot_be_read_or_are_taken_away_leave_those_in_force() {
    let mut knowledge = asked(&[]);
    knowledge.ask(&Subject::Inbound, Instant::now());
    assert!(take(&mut knowledge, Kind::Listener, "inbound", None).is_err());
    assert_eq!(policies(&knowledge), None, "a control plane without policies is none that has said who may call");
    learn(&mut knowledge, &Server::new(&[&policy("a")]));
    let of_a_service = Server::new(&[ECHO]).resource(Kind::Listener, "echo.default:50051");
    for bytes in [None, Some(b"\xff\xff".to_vec()), Some(Vec::new()), of_a_service] {
        assert!(take(&mut knowledge, Kind::Listener, "inbound", bytes.as_deref()).is_err(), "{bytes:?}");
        assert_eq!(policies(&knowledge), Some(vec!["a".to_owned()]));
    }
}

/// Asks about the Service `s<number>` and applies the answer. Returns the duration of this work, which the control
/// thread does in a proxy.
fn learn_renamed(knowledge: &mut Knowledge, number: usize, like: &Cluster) -> Duration {
    let key = ClusterKey { namespace: "default".into(), service: format!("s{number}").into(), port: 80 };
    let cluster = Cluster { key: key.clone(), ..like.clone() };
    let view = View { dialect: Dialect::Envoy, mutual_tls: None };
    let name = key.to_string();
    let resources = [
        (Kind::Listener, listener::write(&name, None, &cluster, None).encode_to_vec()),
        (Kind::Cluster, cluster::write(&cluster, view).encode_to_vec()),
        (Kind::Endpoints, endpoints::write(&cluster, view).encode_to_vec()),
        (Kind::Route, routes::write(&key, None, Dialect::Envoy).encode_to_vec()),
    ];
    let began = Instant::now();
    knowledge.ask(&Subject::Service(key), began);
    for (kind, bytes) in resources {
        assert!(knowledge.wants(kind, &name));
        take(knowledge, kind, &name, Some(&bytes)).expect("it can be read");
        knowledge.take_wishes(kind);
        let (mesh, changes) = knowledge.take_mesh();
        assert!(mesh.clusters().len() <= number + 1 && changes.clusters.len() <= 1);
    }
    began.elapsed()
}

/// Compares the cost with 200 and with 5,000 known Services. If the cost grew with their number, it would be 25 times
/// as high.
#[test]
fn what_an_answer_costs_does_not_grow_with_what_is_known() {
    let mesh = Server::new(&[ECHO]);
    let like = mesh.cluster("echo.default:50051");
    let mut knowledge = Knowledge::new("default", 20_000);
    let mut median_of_next = |from: usize| {
        let mut costs: Vec<_> = (from..from + 100).map(|number| learn_renamed(&mut knowledge, number, &like)).collect();
        costs.sort();
        costs[50]
    };
    let medians: Vec<_> = (0..5_000).step_by(100).map(&mut median_of_next).collect();
    let (early, late) = (medians[1], medians[medians.len() - 1]);
    assert!(late < 10 * early, "{early:?} with 200 Services, {late:?} with 5,000");
}
