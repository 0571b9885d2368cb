//! The proxy asks the control plane about a destination when the first call to it arrives. The call waits for the
//! answer.

use std::time::Duration;

use leno_http2::frame::kind;
use leno_model::discovery::Subject;
use leno_model::mesh::Draft;
use tokio::sync::mpsc;

use crate::peer::{CALL, Server, answer, call, call_with, frame, headers, rst_stream};
use crate::proxy::{Proxy, answer_to, eventually};

const CANCEL: u32 = 8;

/// Waits for the proxy's next question to the control plane.
fn question(asked: &mut mpsc::Receiver<Subject>) -> Subject {
    let mut next = None;
    eventually("a question", || {
        next = asked.try_recv().ok();
        next.is_some()
    });
    next.expect("a question")
}

#[test]
fn calls_wait_until_the_control_plane_says_what_they_are_for_and_ask_once() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&[call(1), call(3)].concat());
    let subject = question(&mut asked);
    assert_eq!(subject.to_string(), "echo.default:80");

    proxy.set_mesh(answer_to(&[subject], "echo", &[server.address()]));
    let mut endpoint = server.accept();
    for _ in 0..2 {
        let stream = endpoint.expect(kind::HEADERS).stream;
        endpoint.send(&answer(stream, "echo"));
        assert_eq!(client.expect(kind::HEADERS).field("from"), "echo");
    }
    // The proxy does not repeat an answered question.
    client.send(&call(5));
    endpoint.expect(kind::HEADERS);
    assert!(asked.try_recv().is_err());
}

#[test]
fn a_service_that_is_not_there_is_no_route_once_that_is_known() {
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let subject = question(&mut asked);
    proxy.set_mesh(answer_to(&[subject], "another", &[]));
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("12", "no-route"));
}

#[test]
fn a_call_fails_when_the_control_plane_says_nothing_and_the_next_one_asks_again() {
    let (proxy, mut asked) = Proxy::start_asking(&[("discovery_timeout_ms", "50")]);
    let mut client = proxy.connect();
    for stream in [1, 3] {
        client.send(&call(stream));
        question(&mut asked);
        let error = client.expect(kind::HEADERS);
        assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("14", "unanswered"));
    }
}

#[test]
fn each_call_waits_for_the_answer_for_its_own_time() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[("discovery_timeout_ms", "3000")]);
    let mut client = proxy.connect();
    client.send(&call(1));
    question(&mut asked);
    std::thread::sleep(Duration::from_secs(2));
    client.send(&call(3));
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.stream, error.field("leno-proxy-error")), (1, "unanswered"));
    // The second call has waited for a second.
    let subject = question(&mut asked);
    proxy.set_mesh(answer_to(&[subject], "echo", &[server.address()]));
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&answer(stream, "echo"));
    assert_eq!(client.expect(kind::HEADERS).field("from"), "echo");
}

#[test]
fn a_calls_deadline_runs_while_it_waits_for_the_answer() {
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call_with(1, "grpc-timeout", "50m"));
    question(&mut asked);
    assert_eq!(client.expect(kind::HEADERS).field("grpc-status"), "4");
}

#[test]
fn a_call_that_was_cancelled_meanwhile_is_not_sent() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&[call_with(1, "who", "cancelled"), call_with(3, "who", "kept")].concat());
    let subject = question(&mut asked);
    client.send(&rst_stream(1, CANCEL));
    client.send(&frame(kind::PING, 0, 0, &[0; 8]));
    client.expect(kind::PING);
    proxy.set_mesh(answer_to(&[subject], "echo", &[server.address()]));
    let mut endpoint = server.accept();
    assert_eq!(endpoint.expect(kind::HEADERS).field("who"), "kept");
}

#[test]
fn there_are_no_more_questions_than_the_limit() {
    let (proxy, mut asked) = Proxy::start_asking(&[("max_questions", "1")]);
    let mut client = proxy.connect();
    client.send(&call(1));
    question(&mut asked);
    let to_another = CALL.map(|(name, value)| (name, if name == ":authority" { "other.default:80" } else { value }));
    client.send(&headers(3, &to_another, true));
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.stream, error.field("leno-proxy-error")), (3, "too-many-targets"));
    assert!(asked.try_recv().is_err());
}

#[test]
fn nobody_is_let_in_before_it_is_known_who_may_call() {
    let (proxy, mut asked) = Proxy::start_called(&[("discovery_timeout_ms", "50")]);
    let mut client = proxy.connect();
    for stream in [1, 3] {
        client.send(&call(stream));
        assert_eq!(question(&mut asked), Subject::Inbound);
        let error = client.expect(kind::HEADERS);
        assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("14", "policies-unknown"));
    }
}

#[test]
fn who_calls_waits_until_it_is_known_who_may() {
    let (proxy, mut asked) = Proxy::start_called(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let subject = question(&mut asked);
    proxy.set_mesh(answer_to(&[subject], "echo", &[]));
    // The call passes the policies, which are known now. It fails at the next check: its connection was not redirected,
    // so the call has no destination port.
    assert_eq!(client.expect(kind::HEADERS).field("leno-proxy-error"), "no-route");
}

/// Waits for the question about `echo` and answers it. Returns the subject of the question, and the draft of the mesh
/// with the answer.
fn known_echo(proxy: &Proxy, asked: &mut mpsc::Receiver<Subject>, server: &Server) -> (Subject, Draft) {
    let subject = question(asked);
    let mesh = answer_to(&[], "echo", &[server.address()]);
    let cluster = &mesh.clusters()[0];
    let mut draft = Draft::new("default");
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    draft.set_answered(&subject, true);
    proxy.change_mesh(&mut draft);
    (subject, draft)
}

fn forget(proxy: &Proxy, draft: &mut Draft, subject: &Subject) {
    let Subject::Service(key) = subject else { panic!("{subject} is no Service") };
    draft.forget(subject);
    draft.forget_cluster(key);
    proxy.change_mesh(draft);
}

#[test]
fn a_call_in_flight_goes_on_when_its_service_is_forgotten_and_the_next_one_asks_again() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let (subject, mut draft) = known_echo(&proxy, &mut asked, &server);
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;

    forget(&proxy, &mut draft, &subject);
    client.send(&call(3));
    assert_eq!(question(&mut asked), subject, "it is asked about like any other");
    endpoint.send(&answer(stream, "echo"));
    assert_eq!(client.expect(kind::HEADERS).field("from"), "echo");

    let mesh = answer_to(&[], "echo", &[server.address()]);
    let cluster = &mesh.clusters()[0];
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    draft.set_answered(&subject, true);
    proxy.change_mesh(&mut draft);
    let mut again = server.accept();
    let stream = again.expect(kind::HEADERS).stream;
    again.send(&answer(stream, "again"));
    assert_eq!(client.expect(kind::HEADERS).field("from"), "again");
}

#[test]
fn a_call_that_waits_for_a_connection_is_sent_though_its_service_is_forgotten_meanwhile() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let (subject, mut draft) = known_echo(&proxy, &mut asked, &server);
    // The kernel has accepted the connection, but the endpoint has not sent its SETTINGS yet, so the call waits.
    forget(&proxy, &mut draft, &subject);
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&answer(stream, "echo"));
    assert_eq!(client.expect(kind::HEADERS).field("from"), "echo");
}

#[test]
fn a_service_that_is_gone_is_no_route_though_calls_waited_for_its_endpoint() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let (subject, mut draft) = known_echo(&proxy, &mut asked, &server);
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&answer(stream, "echo"));
    client.expect(kind::HEADERS);
    let Subject::Service(key) = &subject else { panic!("{subject} is no Service") };
    draft.set_cluster(key, None);
    draft.look_again(&subject);
    proxy.change_mesh(&mut draft);
    client.send(&call(3));
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("12", "no-route"));
}

#[test]
fn a_subject_is_in_use_while_a_call_waits_or_is_in_flight_and_was_used_after_that() {
    let server = Server::start();
    let (proxy, mut asked) = Proxy::start_asking(&[]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let waiting = question(&mut asked);
    assert!(proxy.usage().in_use.contains(&waiting));
    // Do not use `known_echo` here: it waits for a question, and this test has already taken the only question.
    let mesh = answer_to(&[], "echo", &[server.address()]);
    let cluster = &mesh.clusters()[0];
    let mut draft = Draft::new("default");
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    draft.set_answered(&waiting, true);
    proxy.change_mesh(&mut draft);
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    let usage = proxy.usage();
    assert!(usage.in_use.contains(&waiting), "{usage:?}");
    assert_eq!(usage.clusters.iter().map(ToString::to_string).collect::<Vec<_>>(), ["echo.default:80"]);

    endpoint.send(&answer(stream, "echo"));
    client.expect(kind::HEADERS);
    let mut usage = proxy.usage();
    eventually("the call is over", || {
        usage = proxy.usage();
        usage.in_use.is_empty() && usage.clusters.is_empty()
    });
    assert!(usage.used.iter().any(|(subject, _)| *subject == waiting), "{usage:?}");
    drop(client);
    eventually("the client is gone", || proxy.usage().used.is_empty());
}
