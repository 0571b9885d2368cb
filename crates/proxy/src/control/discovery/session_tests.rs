use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource, ResourceError, ResourceName,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status;
use leno_model::discovery::Subject;
use leno_xds::Kind;
use prost::Message;

use super::super::fixtures::{ECHO, Server};
use super::super::knowledge::Knowledge;
use super::Session;

const ECHO_PORT: &str = "echo.default:50051";

fn knowledge() -> Knowledge {
    let mut knowledge = Knowledge::new("default", 100);
    let question = knowledge.mesh().unanswered_authority(b"echo:50051").expect("a question");
    knowledge.ask(&question, Instant::now());
    knowledge
}

fn response(kind: Kind, name: &str, value: Vec<u8>) -> DeltaDiscoveryResponse {
    let resource = Some(Any { type_url: kind.type_url().to_owned(), value });
    DeltaDiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        nonce: "7".to_owned(),
        resources: vec![Resource { name: name.to_owned(), version: "v1".to_owned(), resource, ..Default::default() }],
        ..Default::default()
    }
}

/// Runs a whole exchange with a server; returns the kinds in the order of the requests.
fn exchange(session: &mut Session, knowledge: &mut Knowledge, server: &Server) -> Vec<Kind> {
    let mut asked = Vec::new();
    loop {
        let requests = session.requests(knowledge);
        if requests.is_empty() {
            return asked;
        }
        for request in requests {
            let kind = Kind::from_type_url(&request.type_url).expect("a kind");
            asked.push(kind);
            for name in &request.resource_names_subscribe {
                let value = server.resource(kind, name).expect("the server has it");
                let answer = session.respond(&response(kind, name, value), knowledge);
                assert_eq!((answer.response_nonce.as_str(), &answer.error_detail), ("7", &None));
            }
        }
    }
}

#[test]
fn each_kind_is_asked_for_once_its_names_are_known_and_nothing_twice() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    let server = Server::new(&[ECHO]);
    let asked = exchange(&mut session, &mut knowledge, &server);
    assert_eq!(asked, [Kind::Listener, Kind::Cluster, Kind::Endpoints, Kind::Route]);
    assert_eq!(knowledge.mesh().unanswered_authority(b"echo:50051"), None);
    assert!(session.requests(&mut knowledge).is_empty());
}

#[test]
fn only_the_first_request_of_a_stream_says_who_we_are() {
    let node = super::Node { id: "cart-1".to_owned(), ..Default::default() };
    let (mut session, mut knowledge) = (Session::new(node), knowledge());
    let first = session.requests(&mut knowledge);
    assert_eq!(first[0].node.as_ref().map(|node| node.id.as_str()), Some("cart-1"));
    knowledge.ask(&Subject::Address(([10, 0, 0, 1], 80).into()), Instant::now());
    let second = session.requests(&mut knowledge);
    assert_eq!(
        (&second[0].node, second[0].resource_names_subscribe.as_slice()),
        (&None, &["10.0.0.1:80".to_owned()][..])
    );
}

#[test]
fn a_new_stream_says_what_is_there_from_the_one_before() {
    let mut knowledge = knowledge();
    let server = Server::new(&[ECHO]);
    exchange(&mut Session::new(Default::default()), &mut knowledge, &server);
    let requests = Session::new(Default::default()).requests(&mut knowledge);
    assert_eq!(requests.len(), 4);
    for request in requests {
        assert_eq!(request.resource_names_subscribe, [ECHO_PORT]);
        assert_eq!(request.initial_resource_versions.get(ECHO_PORT).map(String::as_str), Some("v1"));
    }
}

#[test]
fn a_subject_that_is_forgotten_is_unsubscribed_from_and_subscribed_to_again_when_it_is_asked_for_again() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    let server = Server::new(&[ECHO]);
    exchange(&mut session, &mut knowledge, &server);
    let later = Instant::now() + Duration::from_secs(3_600);
    assert_eq!(knowledge.forget_idle(later, Duration::from_secs(60)), 1);
    let requests = session.requests(&mut knowledge);
    assert_eq!(requests.len(), Kind::ALL.len());
    for request in &requests {
        assert_eq!(request.resource_names_unsubscribe, [ECHO_PORT]);
        assert!(request.resource_names_subscribe.is_empty() && request.initial_resource_versions.is_empty());
    }
    // A response that was in transit when the subject was forgotten has no effect any more.
    let late = response(Kind::Listener, ECHO_PORT, server.resource(Kind::Listener, ECHO_PORT).expect("it has it"));
    assert_eq!(session.respond(&late, &mut knowledge).error_detail, None);
    assert_eq!(knowledge.version(Kind::Listener, ECHO_PORT), None);

    let question = knowledge.mesh().unanswered_authority(b"echo:50051").expect("a question");
    knowledge.ask(&question, later);
    let asked = exchange(&mut session, &mut knowledge, &server);
    assert_eq!(asked, [Kind::Listener, Kind::Cluster, Kind::Endpoints, Kind::Route]);
    assert_eq!(knowledge.mesh().unanswered_authority(b"echo:50051"), None);
}

#[test]
fn many_names_are_asked_for_in_requests_that_a_control_plane_takes() {
    const NAMES: u16 = 2_345;
    let mut knowledge = Knowledge::new("default", NAMES.into());
    for port in 1..=NAMES {
        assert!(knowledge.ask(&Subject::Address(([10, 0, 0, 1], port).into()), Instant::now()));
    }
    let mut session = Session::new(Default::default());
    let requests = session.requests(&mut knowledge);
    assert!(requests.len() > 2 && requests.iter().all(|request| request.encoded_len() <= 1 << 20));
    let names: usize = requests.iter().map(|request| request.resource_names_subscribe.len()).sum();
    assert_eq!(names, usize::from(NAMES));

    let key = leno_xds::name::cluster_key(ECHO_PORT).expect("a cluster");
    for name in requests.iter().flat_map(|request| &request.resource_names_subscribe) {
        let value = leno_xds::listener::write_endpoint(name, &key).encode_to_vec();
        session.respond(&response(Kind::Listener, name, value), &mut knowledge);
    }
    let again = Session::new(Default::default()).requests(&mut knowledge);
    let is_of_listeners = |request: &&DeltaDiscoveryRequest| request.type_url == Kind::Listener.type_url();
    for request in again.iter().filter(is_of_listeners) {
        assert!(request.encoded_len() <= 1 << 20);
        let known = &request.initial_resource_versions;
        assert!(request.resource_names_subscribe.iter().all(|name| known.contains_key(name)), "all are known");
    }
    assert_eq!(knowledge.forget_idle(Instant::now() + Duration::from_secs(9), Duration::from_secs(1)), names);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason_and_what_nobody_asked_for_is_passed_over() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    session.requests(&mut knowledge);
    let bad = response(Kind::Listener, ECHO_PORT, b"\xff\xff".to_vec());
    let refusal = session.respond(&bad, &mut knowledge).error_detail.expect("a refusal");
    assert_eq!(refusal.code, 3);
    assert!(refusal.message.contains("Listener"), "{}", refusal.message);

    let stranger = response(Kind::Listener, "other.default:1", b"\xff\xff".to_vec());
    assert_eq!(session.respond(&stranger, &mut knowledge).error_detail, None);
    assert_eq!(knowledge.version(Kind::Listener, ECHO_PORT), None);

    let unknown = DeltaDiscoveryResponse { type_url: "x/y".to_owned(), nonce: "8".to_owned(), ..Default::default() };
    assert!(session.respond(&unknown, &mut knowledge).error_detail.is_some());
}

#[test]
fn a_resource_that_is_removed_is_forgotten_with_its_version() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    exchange(&mut session, &mut knowledge, &Server::new(&[ECHO]));
    let gone = DeltaDiscoveryResponse {
        type_url: Kind::Cluster.type_url().to_owned(),
        removed_resources: vec![ECHO_PORT.to_owned()],
        ..Default::default()
    };
    assert_eq!(session.respond(&gone, &mut knowledge).error_detail, None);
    assert_eq!(knowledge.version(Kind::Cluster, ECHO_PORT), None);
    assert!(knowledge.mesh().cluster_by_authority(b"echo:50051").is_err());
}

#[test]
fn policies_that_are_taken_away_are_refused() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), Knowledge::new("default", 100));
    knowledge.ask(&Subject::Inbound, Instant::now());
    assert_eq!(exchange(&mut session, &mut knowledge, &Server::new(&[])), [Kind::Listener]);
    let gone = DeltaDiscoveryResponse {
        type_url: Kind::Listener.type_url().to_owned(),
        removed_resources: vec!["inbound".to_owned()],
        ..Default::default()
    };
    let refusal = session.respond(&gone, &mut knowledge).error_detail.expect("a refusal");
    assert_eq!(refusal.message, "inbound: removed_resources: every workload has this one");
    assert!(knowledge.mesh().answers(&Subject::Inbound), "what was known holds");
}

#[test]
fn policies_that_are_not_understood_let_nobody_in_before_there_were_others() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), Knowledge::new("default", 100));
    knowledge.ask(&Subject::Inbound, Instant::now());
    let server = Server::new(&[ECHO]);
    let good = server.resource(Kind::Listener, "inbound").expect("every workload has it");
    let answer = session.respond(&response(Kind::Listener, "inbound", b"no Listener".to_vec()), &mut knowledge);
    assert!(answer.error_detail.is_some());
    assert_eq!(knowledge.mesh().unanswered_inbound(), Some(Subject::Inbound));

    session.respond(&response(Kind::Listener, "inbound", good), &mut knowledge);
    assert_eq!(knowledge.mesh().unanswered_inbound(), None);
}

/// The answer of a control plane that refuses these names because of a limit.
fn refusal(kind: Kind, names: &[&str]) -> DeltaDiscoveryResponse {
    let error = |name: &&str| ResourceError {
        resource_name: Some(ResourceName { name: (*name).to_owned(), ..Default::default() }),
        error_detail: Some(Status { code: 8, message: "too many names".to_owned(), ..Default::default() }),
    };
    DeltaDiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        nonce: "9".to_owned(),
        resource_errors: names.iter().map(error).collect(),
        ..Default::default()
    }
}

#[test]
fn a_refused_name_stays_unanswered_and_is_asked_for_again_with_the_version_that_is_known() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    let server = Server::new(&[ECHO]);
    session.requests(&mut knowledge);
    let refused = refusal(Kind::Listener, &[ECHO_PORT, "other.default:1"]);
    assert_eq!(session.respond(&refused, &mut knowledge).error_detail, None, "an acknowledgement");
    assert_eq!(session.refuse(&refused, &knowledge), Some("too many names".to_owned()));
    assert_eq!(session.refused(), 1, "only names that are wanted count");
    assert!(knowledge.mesh().unanswered_authority(b"echo:50051").is_some(), "calls must not go past the mesh");
    assert!(session.requests(&mut knowledge).is_empty(), "not before the pause is over");

    session.ask_again(&mut knowledge);
    assert_eq!(exchange(&mut session, &mut knowledge, &server).first(), Some(&Kind::Listener));
    assert_eq!(session.refused(), 0);

    // A control plane that has restarted may refuse names that are known.
    let mut session = Session::new(Default::default());
    session.requests(&mut knowledge);
    session.refuse(&refusal(Kind::Endpoints, &[ECHO_PORT]), &knowledge);
    assert_eq!(knowledge.mesh().unanswered_authority(b"echo:50051"), None, "what is known holds");
    session.ask_again(&mut knowledge);
    let again = session.requests(&mut knowledge);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].initial_resource_versions.get(ECHO_PORT).map(String::as_str), Some("v1"));
}

#[test]
fn a_refused_address_is_no_longer_assumed_to_be_outside_of_the_mesh() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    let address = ([192, 0, 2, 1], 443).into();
    assert!(knowledge.ask(&Subject::Address(address), Instant::now()));
    assert!(knowledge.assume_outside(address));
    session.respond(&refusal(Kind::Listener, &["192.0.2.1:443"]), &mut knowledge);
    assert!(knowledge.mesh().unanswered_address(address).is_some());
    assert!(!knowledge.assume_outside(address));
}

#[test]
fn a_refused_name_that_is_forgotten_is_not_asked_for_again() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    session.requests(&mut knowledge);
    session.refuse(&refusal(Kind::Listener, &[ECHO_PORT]), &knowledge);
    let later = Instant::now() + Duration::from_secs(3_600);
    assert_eq!(knowledge.forget_least_recently_used(1, later), 1);
    session.ask_again(&mut knowledge);
    let requests = session.requests(&mut knowledge);
    assert!(requests.iter().all(|request| request.resource_names_subscribe.is_empty()), "{requests:?}");
    assert_eq!(session.refused(), 0);
}

#[test]
fn subjects_that_have_a_listener_get_the_room_for_their_other_names_first() {
    let (mut session, mut knowledge) = (Session::new(Default::default()), knowledge());
    exchange(&mut session, &mut knowledge, &Server::new(&[ECHO]));
    let late = knowledge.mesh().unanswered_authority(b"late:80").expect("a question");
    assert!(knowledge.ask(&late, Instant::now()));
    session.requests(&mut knowledge);
    session.refuse(&refusal(Kind::Listener, &["late.default:80"]), &knowledge);
    session.refuse(&refusal(Kind::Route, &[ECHO_PORT]), &knowledge);
    let mut asked_again = || {
        session.ask_again(&mut knowledge);
        let requests = session.requests(&mut knowledge);
        requests.into_iter().flat_map(|request| request.resource_names_subscribe).collect::<Vec<_>>()
    };
    assert_eq!(asked_again(), [ECHO_PORT]);
    assert_eq!(asked_again(), ["late.default:80"]);
}

#[test]
fn a_stream_begins_with_the_policies_of_our_own_workload() {
    let mut knowledge = knowledge();
    knowledge.ask(&Subject::Inbound, Instant::now());
    let server = Server::new(&[ECHO]);
    exchange(&mut Session::new(Default::default()), &mut knowledge, &server);
    let node = super::Node { id: "cart-1".to_owned(), ..Default::default() };
    let requests = Session::new(node).requests(&mut knowledge);
    let first = requests.first().expect("a request");
    assert_eq!(
        (first.type_url.as_str(), first.resource_names_subscribe.as_slice()),
        (Kind::Listener.type_url(), &["inbound".to_owned()][..])
    );
    assert!(first.node.is_some() && first.initial_resource_versions.contains_key("inbound"));
    let times = requests.iter().flat_map(|request| &request.resource_names_subscribe).filter(|name| *name == "inbound");
    assert_eq!(times.count(), 1);
}
