use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;

use super::super::{Load, NAMELESS, Snapshot, Stats, Traffic};
use super::*;
use crate::echo::tests::start_http1_server;

/// Runs a load with `clients` clients to its end. Its server is a task of the test and runs meanwhile.
async fn run_to_end(address: SocketAddr, clients: usize, pattern: Pattern) -> Snapshot {
    run_with(address, clients, pattern, Traffic::default()).await
}

async fn run_with(address: SocketAddr, clients: usize, pattern: Pattern, traffic: Traffic) -> Snapshot {
    run_exchange(address, clients, pattern, (Exchange::Http1, traffic)).await
}

async fn run_exchange(
    address: SocketAddr,
    clients: usize,
    pattern: Pattern,
    (exchange, traffic): (Exchange, Traffic),
) -> Snapshot {
    finished(Plan { exchange, traffic, ..plan(address, clients, pattern) }).await
}

fn plan(address: SocketAddr, clients: usize, pattern: Pattern) -> Plan {
    let client = Client { address, authority: address.to_string() };
    Plan {
        clients: vec![client; clients],
        servers: vec!["s1".to_owned()],
        exchange: Exchange::Http1,
        traffic: Traffic::default(),
        pattern,
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(500),
        cpus: Vec::new(),
        seed: 0,
    }
}

async fn finished(plan: Plan) -> Snapshot {
    let end = tokio::task::spawn_blocking(|| Load::start(plan).finish());
    end.await.expect("the load does not panic").expect("a server that answers")
}

#[tokio::test]
async fn in_a_closed_loop_each_connection_has_one_request_at_a_time() {
    let address = start_http1_server("s1", 50).await;
    // The load lasts for longer than a machine may stall, so that each client makes at least one exchange.
    let measured = Duration::from_secs(4);
    let snapshot = finished(Plan { measured, ..plan(address, 4, Pattern::Closed { in_flight: 4 }) }).await;
    assert_eq!(snapshot.failed, 0, "{snapshot:?}");
    // Each exchange takes a little more than 50 ms, so each of the four clients makes at most 80 within 4 s.
    assert!((4..=320).contains(&snapshot.total.calls), "{snapshot:?}");
    assert!(snapshot.total.p50_ms >= 50.0, "{snapshot:?}");
}

#[tokio::test]
async fn in_an_open_loop_what_waits_for_a_connection_counts_from_when_it_was_due() {
    let address = start_http1_server("s1", 100).await;
    let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
    let snapshot = run_to_end(address, 2, pattern).await;
    // 50 exchanges are due within 500 ms. The two clients make only two exchanges in 100 ms, so the last exchanges wait
    // for over a second.
    assert_eq!((snapshot.total.calls, snapshot.failed), (50, 0), "{snapshot:?}");
    assert!(snapshot.total.max_ms > 1000.0, "{snapshot:?}");
    // The wait for the server is no lateness of the load: the load queued the exchanges in time. If the machine stalls,
    // the stall is lateness too, and lengthens the wait equally.
    let longest = Duration::from_secs_f64(snapshot.total.max_ms / 1000.0);
    assert!(snapshot.held_up + Duration::from_secs(1) < longest, "{snapshot:?}");
    assert_eq!(snapshot.lateness.calls, 50, "{snapshot:?}");
}

#[tokio::test]
async fn more_than_may_wait_fails() {
    let address = start_http1_server("s1", 200).await;
    let snapshot = run_to_end(address, 1, Pattern::Open { rate_per_s: 100, max_in_flight: 5 }).await;
    assert_eq!(snapshot.first_failure.as_deref(), Some("too many calls wait for an answer"));
    assert!(snapshot.failed > 30, "{snapshot:?}");
}

#[tokio::test]
async fn a_client_that_gives_up_leaves_its_queue_and_the_calls_in_it_were_not_sent() {
    // The kernel accepts the connection, but no server answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("a bound listener");
    let client = Client { address, authority: address.to_string() };
    let worker = Http1::new(&client, 0, &Exchange::Http1, &Traffic::default()).expect("a request");
    let end = Instant::now();
    let mut stats = Stats::new(1);
    stats.measure(end - Duration::from_secs(2), end - Duration::from_secs(1), end);
    let stats = Arc::new(Mutex::new(stats));
    let shared = Rc::new(Shared {
        recorder: RefCell::new(Recorder::new(&["s1".to_owned()], &stats)),
        due: RefCell::new(vec![end - Duration::from_millis(500); 100].into()),
        news: Notify::new(),
        end,
        // The client must begin its first call before this time, even on a machine that stalls.
        give_up: Instant::now() + Duration::from_secs(2),
    });
    let running = open(Worker::Http1(worker), Rc::clone(&shared));
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends at `give_up`");
    Rc::try_unwrap(shared).map_err(|_| ()).expect("the client has ended").finish();
    let snapshot = stats.lock().expect("no panic").snapshot(Instant::now());
    let classes = BTreeMap::from([(FailureClass::TimeOut, 1), (FailureClass::NotSent, 99)]);
    assert_eq!(snapshot.classes, classes, "{snapshot:?}");
    assert_eq!((snapshot.failed, snapshot.not_sent), (100, 99), "{snapshot:?}");
}

#[tokio::test]
async fn requests_and_answers_have_the_sizes_of_the_traffic() {
    let address = start_http1_server("s1", 0).await;
    for (request_bytes, response_bytes) in [(0, 0), (0, 11), (1024, 1024), (10, 200_000), (200_000, 10)] {
        let traffic = Traffic { request_bytes, response_bytes, ..Traffic::default() };
        let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
        for exchange in [Exchange::Http1, Exchange::Http2] {
            let snapshot = run_exchange(address, 2, pattern, (exchange, traffic)).await;
            assert_eq!((snapshot.total.calls, snapshot.failed), (50, 0), "{traffic:?}: {snapshot:?}");
        }
    }
}

#[tokio::test]
async fn any_success_of_a_server_without_a_name_counts_as_an_answer() {
    let address = start_http1_server("s1", 0).await;
    let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
    for exchange in [Exchange::Http1Get("/hello?x=1".to_owned()), Exchange::Http2Get("/hello?x=1".to_owned())] {
        let snapshot = run_nameless(address, pattern, exchange).await.expect("a server that answers");
        assert_eq!((snapshot.total.calls, snapshot.failed), (50, 0), "{snapshot:?}");
    }
}

/// Serves answers of kinds that the echo server never sends: chunked bodies, and the status 503 for every third
/// request.
async fn start_chunked_server() -> SocketAddr {
    start_numbered(|number, request| {
        assert!(request.starts_with("GET /hello?x=1 HTTP/1.1\r\n"), "{request}");
        let status = if number % 3 == 0 { "503 Unavailable" } else { "206 Partial Content" };
        format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    })
    .await
}

/// Serves one connection after the other. `answer` receives the number of a request (counted from 1) and its header
/// section. It returns the bytes of the answer.
async fn start_numbered(answer: impl Fn(u32, &str) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufStream::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|bytes| bytes > 0) {
                if line.ends_with("\r\n\r\n") {
                    number += 1;
                    stream.write_all(answer(number, &line).as_bytes()).await.expect("a client");
                    stream.flush().await.expect("a client");
                    line.clear();
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn answers_in_chunks_are_read_and_errors_are_counted_by_their_status() {
    let address = start_chunked_server().await;
    let get = Exchange::Http1Get("/hello?x=1".to_owned());
    let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
    let snapshot = run_nameless(address, pattern, get).await.expect("a server that answers");
    let classes: Vec<String> = snapshot.classes.keys().map(ToString::to_string).collect();
    assert_eq!(classes, ["HTTP 503"], "{snapshot:?}");
    assert_eq!(snapshot.total.calls + snapshot.errors(), 50, "{snapshot:?}");
    assert!((15..=18).contains(&snapshot.errors()), "{snapshot:?}");
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_named_at_the_start() {
    let address = start_scripted("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let error = run_nameless(address, Pattern::Closed { in_flight: 1 }, Exchange::Http1Get("/x".to_owned()))
        .await
        .expect_err("no success")
        .to_string();
    assert!(error.ends_with("HTTP status 404"), "{error}");
}

#[tokio::test]
async fn a_server_of_the_lab_that_fails_every_request_is_connected_and_is_called_without_a_pause() {
    let address = start_numbered(|_, _| "HTTP/1.1 503 Unavailable\r\ncontent-length: 4\r\n\r\nfail".to_owned()).await;
    let traffic = Traffic { request_bytes: 0, response_bytes: 0, ..Traffic::default() };
    let snapshot = run_with(address, 1, Pattern::Closed { in_flight: 1 }, traffic).await;
    // If the client paused for 100 ms after each answer, there would be at most 5 errors.
    assert!(snapshot.errors() > 20, "{snapshot:?}");
    assert_eq!(snapshot.first_failure.as_deref(), Some("HTTP status 503"));
}

#[tokio::test]
async fn a_load_on_a_users_servers_starts_if_one_client_has_an_answer_with_success() {
    let no_path = || start_numbered(|_, _| "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned());
    let (missing, also_missing) = (no_path().await, no_path().await);
    let found = start_numbered(|_, _| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let start = |addresses: &[SocketAddr]| {
        let plan = Plan {
            clients: addresses.iter().map(|&address| Client { address, authority: "a".to_owned() }).collect(),
            ..nameless(missing, Pattern::Closed { in_flight: 2 }, Exchange::Http1Get("/x".to_owned()))
        };
        tokio::task::spawn_blocking(|| Load::start(plan).finish())
    };
    let snapshot = start(&[missing, found]).await.expect("the load does not panic").expect("one has success");
    assert!(snapshot.total.calls > 0 && snapshot.errors() > 0, "{snapshot:?}");
    let error = start(&[missing, also_missing]).await.expect("the load does not panic").expect_err("none has success");
    assert!(error.to_string().ends_with("HTTP status 404"), "{error}");
}

/// Serves one answer on each connection, and then closes the connection without announcing it in the answer.
async fn start_scripted(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await;
            if read.is_ok_and(|bytes| bytes > 0) {
                // The write fails if the client has already closed the connection; ignore that.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    address
}

async fn run_nameless(address: SocketAddr, pattern: Pattern, exchange: Exchange) -> Result<Snapshot> {
    let plan = nameless(address, pattern, exchange);
    tokio::task::spawn_blocking(|| Load::start(plan).finish()).await.expect("the load does not panic")
}

/// A load of one client on a server without a name.
fn nameless(address: SocketAddr, pattern: Pattern, exchange: Exchange) -> Plan {
    Plan {
        clients: vec![Client { address, authority: address.to_string() }],
        servers: vec![NAMELESS.to_owned()],
        exchange,
        traffic: Traffic::default(),
        pattern,
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(500),
        cpus: Vec::new(),
        seed: 0,
    }
}
