use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use h2::Reason;
use prost::Message;

use super::scripted::{answer, head};
use super::*;
use crate::echo::UNARY_PATH;
use crate::echo::proto::EchoRequest;
use crate::echo::tests::start_server;

fn plan(addresses: &[SocketAddr], servers: &[&str]) -> Plan {
    Plan {
        clients: addresses.iter().map(client).collect(),
        servers: servers.iter().map(ToString::to_string).collect(),
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        // `max_in_flight` is above the total number of calls (110), so that a busy machine delays calls but makes no
        // call fail.
        pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 1_000 },
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(500),
        cpus: Vec::new(),
        seed: 0,
    }
}

fn client(&address: &SocketAddr) -> Client {
    Client { address, authority: "echo.default:50051".to_owned() }
}

/// Runs a load to its end while the test's servers run.
async fn run_to_end(plan: Plan) -> Result<Snapshot> {
    let end = tokio::task::spawn_blocking(|| Load::start(plan).finish());
    end.await.expect("the load does not panic")
}

#[tokio::test]
async fn clients_take_turns_and_every_server_is_timed_on_its_own() {
    let addresses = [start_server("fast", 0).await, start_server("slow", 1_500).await];
    let snapshot = run_to_end(plan(&addresses, &["fast", "slow"])).await.expect("servers that answer");
    assert_eq!(snapshot.failed, 0, "{snapshot:?}");
    let calls: Vec<u64> = snapshot.servers.iter().map(|server| server.calls).collect();
    assert_eq!(calls, [50, 50]);
    assert!(snapshot.servers[1].p50_ms >= 1_500.0, "{snapshot:?}");
    assert!(snapshot.servers[0].p50_ms < 1_500.0, "{snapshot:?}");
}

#[tokio::test]
async fn a_slow_server_does_not_slow_the_load_and_what_it_cannot_take_fails() {
    let addresses = [start_server("slow", 300).await];
    let plan = Plan { pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 10 }, ..plan(&addresses, &["slow"]) };
    let snapshot = run_to_end(plan).await.expect("a server that answers");
    let why = snapshot.first_failure.as_deref();
    assert_eq!(why, Some("too many calls wait for an answer"));
    // 110 calls were due in 0.55 s. Each takes 300 ms, and at most ten may be in flight, so about 20 succeed.
    assert!(snapshot.failed >= 80, "{snapshot:?}");
}

#[tokio::test]
async fn calls_that_fail_are_counted_with_the_first_reason() {
    let addresses = [start_server("unexpected", 0).await];
    let snapshot = run_to_end(plan(&addresses, &["s1"])).await.expect("a server that answers");
    assert_eq!(snapshot.total.calls, 0);
    let why = snapshot.first_failure.as_deref();
    assert_eq!(why, Some("an unknown server answered: \"unexpected\""));
}

#[test]
fn a_client_that_cannot_connect_ends_the_load_with_its_address() {
    let nobody = crate::child::free_address().expect("a free port");
    let load = Load::start(plan(&[nobody], &["s1"]));
    let text = load.finish().expect_err("nobody listens").to_string();
    assert!(text.contains(&nobody.to_string()), "{text}");
    assert!(text.contains("echo.default:50051"), "{text}");
}

/// Returns the reason of the first failure of a load whose server handles each call with `behave`.
async fn failure_of(behave: impl Fn(h2::server::SendResponse<bytes::Bytes>) + Clone + Send + 'static) -> String {
    let address = scripted::start(move |respond, _| {
        behave(respond);
        true
    });
    let snapshot = run_to_end(plan(&[address.await], &["s1"])).await.expect("a server that listens");
    assert_eq!(snapshot.total.calls, 0, "{snapshot:?}");
    // All 110 calls fail: the 100 of the measured time, and the 10 of the warm-up.
    assert_eq!(snapshot.failed, 110, "{snapshot:?}");
    snapshot.first_failure.unwrap_or_default()
}

fn respond_with(head: http::Response<()>) -> impl Fn(h2::server::SendResponse<bytes::Bytes>) + Clone + Send + 'static {
    move |mut respond| drop(respond.send_response(head.clone(), true).expect("a call that waits"))
}

#[tokio::test]
async fn an_answer_of_nothing_but_trailers_fails_with_its_status() {
    let why = failure_of(respond_with(head(200, "application/grpc", Some(14)))).await;
    assert_eq!(why, "Unavailable: ");
}

#[tokio::test]
async fn what_is_no_grpc_answer_fails() {
    let why = failure_of(respond_with(head(503, "text/plain", None))).await;
    assert_eq!(why, "HTTP status 503 Service Unavailable");
    let why = failure_of(respond_with(head(200, "text/html", None))).await;
    assert_eq!(why, "content-type \"text/html\", not application/grpc");
    let why = failure_of(respond_with(head(200, "application/grpc", None))).await;
    assert_eq!(why, "the answer ended without trailers");
}

#[tokio::test]
async fn a_call_that_is_reset_fails_with_the_reason() {
    let why = failure_of(|mut respond| respond.send_reset(Reason::REFUSED_STREAM)).await;
    assert!(why.contains("refused stream"), "{why}");
}

#[tokio::test]
async fn a_closed_loop_keeps_so_many_calls_in_flight_and_no_more() {
    let [now, most] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let (in_flight, highest) = (Arc::clone(&now), Arc::clone(&most));
    let address = scripted::start(move |mut respond, _| {
        let in_flight = Arc::clone(&in_flight);
        highest.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            answer(&mut respond);
        });
        true
    });
    let clients = [address.await; 3];
    let measured = Duration::from_secs(3);
    let plan = Plan { pattern: Pattern::Closed { in_flight: 10 }, measured, ..plan(&clients, &["s1"]) };
    let snapshot = run_to_end(plan).await.expect("a server that answers");
    assert_eq!(snapshot.failed, 0, "{snapshot:?}");
    assert_eq!(most.load(Ordering::SeqCst), 10);
    // Ten calls at a time, of 20 ms each, make 1,500 calls in 3 s. A slow machine makes fewer.
    assert!((10..=1_510).contains(&snapshot.total.calls), "{snapshot:?}");
    assert_eq!(snapshot.lateness.calls, 0);
}

#[tokio::test]
async fn calls_that_a_stalled_server_delays_are_timed_from_when_they_were_due() {
    const STALL: Duration = Duration::from_millis(200);
    let address = scripted::start(|mut respond, number| {
        if number == 50 {
            thread::sleep(STALL);
        }
        answer(&mut respond);
        true
    });
    let snapshot = run_to_end(plan(&[address.await], &["s1"])).await.expect("a server that answers");
    // At 200 calls/s, forty of the hundred calls became due during the stall. Twenty of these forty waited over 100 ms.
    assert_eq!((snapshot.total.calls, snapshot.failed), (100, 0), "{snapshot:?}");
    assert!(snapshot.total.p90_ms > 90.0, "{snapshot:?}");
    assert!(snapshot.total.max_ms > 190.0, "{snapshot:?}");
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate_in_every_part_of_the_measured_time() {
    let address = start_server("s1", 0).await;
    let snapshot = run_to_end(plan(&[address], &["s1"])).await.expect("a server that answers");
    let even = Slice { calls: vec![20], failed: 0 };
    assert_eq!(snapshot.timeline, vec![even; 5]);
    assert_eq!(snapshot.total.calls, 100);
    assert_eq!(snapshot.lateness.calls, 100);
    assert_eq!(snapshot.curve.last().map(|point| point.ms), Some(snapshot.total.max_ms));
}

#[tokio::test]
async fn an_open_loop_stays_connected_until_its_planned_end_although_no_further_call_is_due() {
    let address = start_server("s1", 0).await;
    let start = Instant::now();
    let pattern = Pattern::Open { rate_per_s: 1, max_in_flight: 1 };
    let (warm_up, measured) = (Duration::ZERO, Duration::from_secs(1));
    let plan = Plan { pattern, warm_up, measured, ..plan(&[address], &["s1"]) };
    let snapshot = run_to_end(plan).await.expect("a server that answers");
    assert!(start.elapsed() >= measured, "{:?}", start.elapsed());
    assert_eq!((snapshot.total.calls, snapshot.measured), (1, measured), "{snapshot:?}");
}

#[tokio::test]
async fn a_timeline_has_all_calls_of_a_closed_loop() {
    let address = start_server("s1", 0).await;
    let measured = Duration::from_secs(3);
    let plan = Plan { pattern: Pattern::Closed { in_flight: 4 }, measured, ..plan(&[address], &["s1"]) };
    let snapshot = run_to_end(plan).await.expect("a server that answers");
    let calls: u64 = snapshot.timeline.iter().map(|slice| slice.calls[0]).sum();
    assert!(calls > 0);
    assert_eq!((calls, snapshot.failed), (snapshot.total.calls, 0));
}

#[tokio::test]
async fn a_client_that_loses_its_connection_opens_another() {
    let address = scripted::start(|mut respond, number| {
        answer(&mut respond);
        number < 20
    });
    // Use a low rate, so that few calls are in flight on a connection when it is lost.
    let pattern = Pattern::Open { rate_per_s: 50, max_in_flight: 1_000 };
    let plan = Plan { pattern, measured: Duration::from_secs(2), ..plan(&[address.await], &["s1"]) };
    let snapshot = run_to_end(plan).await.expect("a server that listens");
    // The server closes each connection after its twentieth answer. Calls in flight on the connection fail; later
    // calls get a new connection.
    assert!(snapshot.total.calls > 20, "{snapshot:?}");
    assert!(snapshot.failed > 0, "{snapshot:?}");
    assert!(snapshot.first_failure.is_some());
}

/// Runs a load with this traffic on a new echo server.
async fn load_with(traffic: Traffic) -> Snapshot {
    let plan = Plan { traffic, ..plan(&[start_server("s1", 0).await], &["s1"]) };
    run_to_end(plan).await.expect("a server that answers")
}

#[tokio::test]
async fn every_shape_and_size_of_exchange_is_answered() {
    for shape in [Shape::Unary, Shape::ServerStream, Shape::BidiStream] {
        for (request_bytes, response_bytes) in [(0, 0), (1024, 1024), (10, 200_000), (200_000, 10)] {
            let traffic = Traffic { shape, messages: 3, request_bytes, response_bytes, ..Traffic::default() };
            let snapshot = load_with(traffic).await;
            assert_eq!((snapshot.total.calls, snapshot.failed), (100, 0), "{traffic:?}: {snapshot:?}");
        }
    }
}

#[tokio::test]
async fn a_long_bidirectional_stream_ends_with_the_load_and_counts_as_answered() {
    let traffic = Traffic { shape: Shape::BidiStream, messages: 1_000_000, ..Traffic::default() };
    let address = start_server("s1", 5).await;
    // Longer than a machine may stall before the streams begin.
    let measured = Duration::from_secs(3);
    let plan = Plan { traffic, pattern: Pattern::Closed { in_flight: 3 }, measured, ..plan(&[address], &["s1"]) };
    let start = Instant::now();
    let snapshot = run_to_end(Plan { warm_up: Duration::ZERO, ..plan }).await.expect("a server that answers");
    assert_eq!((snapshot.total.calls, snapshot.failed), (3, 0), "{snapshot:?}");
    assert!(snapshot.total.p50_ms >= 400.0, "{snapshot:?}");
    // All messages of a stream would take more than an hour.
    assert!(start.elapsed() < Duration::from_secs(60), "the streams did not end");
}

#[tokio::test]
async fn failures_are_counted_by_class() {
    let address = scripted::start(move |mut respond, number| {
        match number % 3 {
            0 => answer(&mut respond),
            1 => drop(respond.send_response(head(200, "application/grpc", Some(14)), true)),
            _ => respond.send_reset(Reason::REFUSED_STREAM),
        }
        true
    });
    let plan = Plan { warm_up: Duration::ZERO, ..plan(&[address.await], &["s1"]) };
    let classes = run_to_end(plan).await.expect("a server that listens").classes;
    let names: Vec<String> = classes.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["gRPC UNAVAILABLE", "reset REFUSED_STREAM"]);
    assert_eq!(classes.values().sum::<u64>(), 67, "{classes:?}");
}

#[tokio::test]
async fn any_ok_of_a_server_without_a_name_counts_as_an_answer() {
    let address = start_server("any", 0).await;
    let request = EchoRequest::default();
    let failing = EchoRequest { response_bytes: u32::MAX, ..request.clone() };
    for (request, has_failed) in [(request, false), (failing, true)] {
        let call = UnaryCall { path: UNARY_PATH.to_owned(), message: request.encode_to_vec() };
        let plan = Plan { exchange: Exchange::Call(call), ..plan(&[address], &[NAMELESS]) };
        let snapshot = run_to_end(plan).await.expect("a server that answers");
        let expected = if has_failed { (0, 100) } else { (100, 0) };
        assert_eq!((snapshot.total.calls, snapshot.errors()), expected, "{snapshot:?}");
        let classes: Vec<String> = snapshot.classes.keys().map(ToString::to_string).collect();
        assert_eq!(classes, if has_failed { vec!["gRPC INVALID_ARGUMENT"] } else { Vec::new() });
    }
}
