use std::pin::Pin;
use std::sync::Mutex;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, ResourceError, ResourceName,
};
use envoy_types::pb::google::rpc;
use futures_util::Stream;
use leno_admin::logging::LogLevels;
use leno_config::Configuration;
use leno_model::proxy::CLUSTER_NETWORKS;
use leno_xds::Kind;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::*;
use crate::control::connect::Security;
use crate::control::fixtures;

const PATIENCE: Duration = Duration::from_secs(30);
/// The receive window of the control plane: number of bytes that the proxy may send before the control plane reads
/// them.
const WINDOW_BYTES: u32 = 65_535;

/// The names of Listeners that the proxy asked for, by stream and request.
type Asked = Arc<Mutex<Vec<Vec<Vec<String>>>>>;

/// A control plane that sends no resources, and refuses every name, with an error of about 1 kB. Reads no request while
/// the proxy reads no response.
struct FakeControl(Asked);

type Responses<R> = Pin<Box<dyn Stream<Item = Result<R, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for FakeControl {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("no test asks for it"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (asked, mut requests) = (self.0.clone(), request.into_inner());
        let (sender, mut responses) = mpsc::channel(1);
        tokio::spawn(async move {
            asked.lock().expect("no panic").push(Vec::new());
            while let Ok(Some(request)) = requests.message().await {
                let names = request.resource_names_subscribe;
                if names.is_empty() {
                    continue;
                }
                asked.lock().expect("no panic").last_mut().expect("a stream").push(names.clone());
                if sender.send(Ok(refusal(names))).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(poll_fn(move |cx| responses.poll_recv(cx)))))
    }
}

fn refusal(names: Vec<String>) -> DeltaDiscoveryResponse {
    let error = |name: String| ResourceError {
        resource_name: Some(ResourceName { name, ..Default::default() }),
        error_detail: Some(rpc::Status { code: 8, message: "too many names ".repeat(64), ..Default::default() }),
    };
    DeltaDiscoveryResponse {
        type_url: Kind::Listener.type_url().to_owned(),
        nonce: "1".to_owned(),
        resource_errors: names.into_iter().map(error).collect(),
        ..Default::default()
    }
}

/// Starts a control plane. Returns the names that proxies will ask it for, and its address.
async fn control_plane() -> (Asked, ControlPlane) {
    let asked = Asked::default();
    let service = AggregatedDiscoveryServiceServer::new(FakeControl(asked.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let builder = tonic::transport::Server::builder().initial_stream_window_size(WINDOW_BYTES);
    let server = builder.initial_connection_window_size(WINDOW_BYTES).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let workload = "ns/leno/sa/leno-control".parse().expect("a workload");
    (asked, ControlPlane { address, workload, security: Security::Clear })
}

/// The discovery of a proxy that asks for its own policies, and has room for `addresses` addresses. Also returns the
/// channel for questions.
fn discovery(control_plane: ControlPlane, addresses: u16) -> (Discovery, mpsc::Sender<Subject>) {
    let limits = RelayLimits { max_subjects: u32::from(addresses) + 1, ..RelayLimits::default() };
    let (questions, receiver) = mpsc::channel(QUESTIONS_MAX);
    (Discovery::new(control_plane, "shop", true, receiver, cluster_networks(), &limits), questions)
}

/// The state that a proxy with this discovery shares with its workers.
fn shared(discovery: &Discovery) -> Shared {
    let (log, _) = LogLevels::new("info".parse().expect("a level"));
    fixtures::shared(Configuration::of_mesh(discovery.mesh()), log)
}

fn cluster_networks() -> Vec<Network> {
    CLUSTER_NETWORKS.split(',').map(|network| network.parse().expect("a network")).collect()
}

fn subject(port: u16) -> Subject {
    Subject::Address(([10, 0, 0, 1], port).into())
}

/// Runs the proxy until `is_done`. Returns the names that the proxy asked for.
async fn run(
    discovery: Discovery,
    asked: &Asked,
    is_done: impl Fn(&[Vec<Vec<String>>]) -> bool,
) -> Vec<Vec<Vec<String>>> {
    let shared = shared(&discovery);
    let done = async {
        while !is_done(&asked.lock().expect("no panic")) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        never = discovery.run(&shared) => match never {},
        done = timeout(PATIENCE, done) => done.expect("it is done in time"),
    }
    asked.lock().expect("no panic").clone()
}

#[tokio::test]
async fn responses_are_read_while_requests_wait_to_be_sent() {
    const ADDRESSES: u16 = 30_000;
    let (asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, ADDRESSES);
    for port in 1..=ADDRESSES {
        assert!(discovery.knowledge.ask(&subject(port), Instant::now()));
    }
    let is_done = |asked: &[Vec<Vec<String>>]| {
        asked.first().is_some_and(|stream| stream.iter().flatten().count() > usize::from(ADDRESSES))
    };
    assert_eq!(run(discovery, &asked, is_done).await.len(), 1, "the stream goes on");
}

#[tokio::test]
async fn a_question_that_finds_no_room_is_asked_once_there_is_room() {
    let (asked, control_plane) = control_plane().await;
    let (mut discovery, questions) = discovery(control_plane, 1);
    for port in [1, 2] {
        questions.try_send(subject(port)).expect("room in the channel");
    }
    // Without a stream, no subject is forgotten, so the second question finds no room.
    let shared = shared(&discovery);
    let noting = timeout(Duration::from_millis(50), discovery.note_questions(&shared));
    noting.await.expect_err("it waits for further questions");
    assert_eq!(discovery.knowledge.subjects(), 2, "the policies, and the first address");

    let is_asked = |asked: &[Vec<Vec<String>>]| asked.iter().flatten().flatten().any(|name| name == "10.0.0.1:2");
    run(discovery, &asked, is_asked).await;
}

#[tokio::test]
async fn a_question_that_waits_for_room_for_too_long_is_dropped() {
    let (_asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, 0);
    discovery.wait_for_room(subject(1), Instant::now());
    assert_eq!(discovery.without_room.len(), 1);
    discovery.patience = Duration::ZERO;
    let shared = shared(&discovery);
    discovery.ask_waiting(&shared).await;
    assert!(discovery.without_room.is_empty());
}

/// The ports of the addresses whose questions wait for room, in the order in which they will get room.
fn waiting(discovery: &Discovery) -> Vec<u16> {
    let port = |subject: &Subject| match subject {
        Subject::Address(address) => address.port(),
        other => panic!("{other} waits, and no test asks about it"),
    };
    discovery.without_room.iter().map(|(subject, _)| port(subject)).collect()
}

#[tokio::test]
async fn only_the_newest_question_is_dropped_while_too_many_wait_for_room() {
    let (_asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, 0);
    discovery.patience = PATIENCE;
    let most = u16::try_from(QUESTIONS_MAX).expect("no more than there are ports");
    // All questions except the first arrive so late that they do not wait too long during the test.
    let (now, later) = (Instant::now(), Instant::now() + PATIENCE);
    for port in 1..=most + 1 {
        discovery.wait_for_room(subject(port), if port == 1 { now } else { later });
    }
    assert_eq!(waiting(&discovery), (1..=most).collect::<Vec<_>>());

    let shared = shared(&discovery);
    discovery.ask_waiting(&shared).await;
    assert_eq!(waiting(&discovery), (1..=most).collect::<Vec<_>>(), "there is still no room");

    // The first question has waited for too long, so another question may wait.
    sleep(Duration::from_millis(1)).await;
    discovery.patience = Duration::from_micros(1);
    discovery.wait_for_room(subject(most + 2), later);
    assert_eq!(waiting(&discovery), (2..=most).chain([most + 2]).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_questions_that_have_waited_longest_get_the_room_first() {
    let (_asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, 3);
    discovery.patience = PATIENCE;
    let now = Instant::now();
    for port in [1, 2, 3] {
        assert!(discovery.knowledge.ask(&subject(port), now));
    }
    for port in [9, 4, 7] {
        discovery.wait_for_room(subject(port), now);
    }
    // Do not make more room during the test.
    discovery.full_since = Some(now + PATIENCE);
    assert_eq!(discovery.knowledge.forget_least_recently_used(2, now + PATIENCE), 2);
    let shared = shared(&discovery);
    discovery.ask_waiting(&shared).await;
    assert_eq!(waiting(&discovery), [7]);
    let asked = discovery.knowledge.wanted(Kind::Listener);
    assert!(["10.0.0.1:9", "10.0.0.1:4"].iter().all(|name| asked.contains(*name)), "{asked:?}");
}

#[tokio::test]
async fn without_a_control_plane_only_addresses_outside_of_the_cluster_networks_need_no_answer() {
    let (_asked, mut control_plane) = control_plane().await;
    // Nothing listens on port 1.
    control_plane.address = "127.0.0.1:1".to_owned();
    let (discovery, questions) = discovery(control_plane, 10);
    let shared = shared(&discovery);
    let outside = SocketAddr::from(([192, 0, 2, 1], 443));
    for subject in [subject(1), Subject::Address(outside)] {
        questions.try_send(subject).expect("room in the channel");
    }
    let mesh = || shared.configuration.borrow().mesh.clone();
    let assumed = async {
        while mesh().unanswered_address(outside).is_some() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        never = discovery.run(&shared) => match never {},
        assumed = timeout(PATIENCE, assumed) => assumed.expect("it is assumed in time"),
    }
    let mesh = mesh();
    assert!(mesh.unanswered_address(([10, 0, 0, 1], 1).into()).is_some(), "it may be in the mesh");
    assert!(mesh.unanswered_authority(b"192.0.2.1:443").is_some(), "a call by authority stays in the mesh");
}

#[tokio::test]
async fn without_a_control_plane_more_addresses_than_there_is_room_for_work_one_after_another() {
    let (_asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, 2);
    let shared = shared(&discovery);
    // No question waits, as after a long absence of the control plane.
    discovery.outside = Outside::new(cluster_networks(), Duration::ZERO, Instant::now());
    for number in 1..=5 {
        let address = SocketAddr::from(([192, 0, 2, number], 443));
        discovery.ask_without_stream(Subject::Address(address), Instant::now(), &shared);
        discovery.assume_outside(&shared);
        let mesh = shared.configuration.borrow().mesh.clone();
        assert_eq!(mesh.unanswered_address(address), None, "{address}");
    }
    assert!(discovery.without_room.is_empty());
    assert!(discovery.knowledge.subjects() <= 3, "the policies and two addresses");
}

#[tokio::test]
async fn without_a_control_plane_a_question_that_waits_for_room_gets_it_after_an_assumption() {
    let (_asked, control_plane) = control_plane().await;
    let (mut discovery, _questions) = discovery(control_plane, 2);
    let shared = shared(&discovery);
    // Shorten the wait for an answer.
    discovery.outside = Outside::new(cluster_networks(), Duration::from_millis(100), Instant::now());
    let address = |number: u8| SocketAddr::from(([192, 0, 2, number], 443));
    for number in 1..=3 {
        discovery.ask_without_stream(Subject::Address(address(number)), Instant::now(), &shared);
    }
    assert_eq!(discovery.without_room.len(), 1, "the addresses before it are not assumed yet");
    let mesh = || shared.configuration.borrow().mesh.clone();
    let assumed = async {
        while mesh().unanswered_address(address(3)).is_some() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        never = discovery.note_questions(&shared) => match never {},
        assumed = timeout(PATIENCE, assumed) => assumed.expect("it is assumed in time"),
    }
    assert!(discovery.without_room.is_empty());
}

#[tokio::test]
async fn a_control_plane_that_refuses_a_name_can_be_reached_so_nothing_is_assumed() {
    let (asked, control_plane) = control_plane().await;
    let (mut discovery, questions) = discovery(control_plane, 10);
    let outside = Subject::Address(([192, 0, 2, 1], 443).into());
    let other = Subject::Address(([192, 0, 2, 2], 443).into());
    // Shorten the wait for an answer. The second question is asked long after the first would have waited long enough.
    discovery.outside = Outside::new(cluster_networks(), Duration::from_millis(100), Instant::now());
    questions.try_send(outside.clone()).expect("room in the channel");
    let shared = shared(&discovery);
    let has_asked = |name: &str| asked.lock().expect("no panic").iter().flatten().flatten().any(|asked| asked == name);
    let later = async {
        while !has_asked("192.0.2.1:443") {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_millis(500)).await;
        questions.try_send(other).expect("room in the channel");
        while !has_asked("192.0.2.2:443") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        never = discovery.run(&shared) => match never {},
        done = timeout(PATIENCE, later) => done.expect("it is asked in time"),
    }
    let mesh = shared.configuration.borrow().mesh.clone();
    assert!(mesh.unanswered_address(([192, 0, 2, 1], 443).into()).is_some());
    assert!(!mesh.answers(&outside));
}
