//! Well-behaved clients that put a heavy load on one connection: thousands of streams on one channel, and calls that
//! are cancelled soon after their start.

use std::collections::HashMap;
use std::net::TcpStream;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::mesh::skipped;
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{Proxy, free_address, wait_for};

/// Longest time for a program on a busy machine. The programs themselves wait 20 s for each call.
const PATIENCE: Duration = Duration::from_secs(150);

/// Starts a server on grpc-go, which grants each connection `max_streams` streams (0: no limit), and a proxy in front
/// of it.
fn grpc_go_behind_proxy(max_streams: u32) -> (Server, Proxy) {
    let address = free_address();
    let server = Server::start("streams", &["serve", &address.to_string(), &max_streams.to_string()]);
    wait_for("the server listens", Duration::from_secs(20), || TcpStream::connect(address).ok());
    (server, Proxy::start(&[Service::echo(&[address])]))
}

/// Runs a client on grpc-go (`streams`), grpcio (`streams-grpcio`), grpc-java (`streams-grpc-java`) or grpc-js
/// (`streams-grpc-js`); returns the numbers that it prints.
fn run(client: &str, order: &str, proxy: &Proxy, arguments: &[&str]) -> HashMap<String, u64> {
    let address = proxy.outbound().to_string();
    let printed = programs::run_well(client, &[&[order, &address, ECHO], arguments].concat(), PATIENCE);
    println!("{printed}");
    let words = printed.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[test]
fn five_thousand_streams_of_one_channel_are_answered_and_a_call_beside_them_does_not_wait() {
    let (_server, proxy) = grpc_go_behind_proxy(0);
    let went = run("streams", "open", &proxy, &["5000"]);
    assert_eq!((went["answered"], went["failed"], went["connections"]), (5_000, 0, 1));
    // Without the proxy, the slowest call takes 0.1 s. A call that waits for a free stream would fail after 20 s, the
    // client's time limit.
    assert!(went["slowest_ms"] < 5_000, "{went:?}");
}

fn open_streams(client: &str, count: u64) {
    let (_server, proxy) = grpc_go_behind_proxy(0);
    let went = run(client, "open", &proxy, &[&count.to_string()]);
    assert_eq!((went["answered"], went["failed"]), (count, 0));
    // While 5,000 streams are open, the slowest call without the proxy takes 0.5 s with grpcio, and 0.8 s with
    // grpc-java.
    assert!(went["slowest_ms"] < 5_000, "{went:?}");
}

#[test]
fn five_thousand_streams_of_a_grpcio_channel_are_answered_and_a_call_beside_them_does_not_wait() {
    open_streams("streams-grpcio", 5_000);
}

#[test]
fn five_thousand_streams_of_a_grpc_java_channel_are_answered_and_a_call_beside_them_does_not_wait() {
    if is_grpc_java_there() {
        open_streams("streams-grpc-java", 5_000);
    }
}

#[test]
fn two_thousand_streams_of_a_grpc_js_channel_are_answered_and_a_call_beside_them_does_not_wait() {
    if is_grpc_js_there() {
        // grpc-js alone needs seconds for 5,000 streams, on its one thread.
        open_streams("streams-grpc-js", 2_000);
    }
}

#[test]
fn every_kind_of_call_of_grpc_js_is_answered_and_its_deadline_is_kept() {
    if !is_grpc_js_there() {
        return;
    }
    let address = free_address();
    let _server = Server::start("leno", &["echo", "--listen", &address.to_string()]);
    wait_for("the server listens", Duration::from_secs(20), || TcpStream::connect(address).ok());
    let went = run("streams-grpc-js", "kinds", &Proxy::start(&[Service::echo(&[address])]), &[]);
    assert_eq!((went["unary"], went["server_stream"], went["bidi"], went["bidi_status"]), (1, 5, 3, 0), "{went:?}");
    // 4 is DEADLINE_EXCEEDED: the client's deadline is 300 ms.
    assert_eq!(went["late_status"], 4, "{went:?}");
    assert!((250..5_000).contains(&went["late_ms"]), "{went:?}");
}

/// Returns whether `./test install` made the client on grpc-js. If not, prints a message.
fn is_grpc_js_there() -> bool {
    let is_there = programs::program("streams-grpc-js").is_file();
    if !is_there {
        eprintln!("SKIPPED: there is no client on grpc-js; ./test install makes it where there is npm");
    }
    is_there
}

/// Returns whether `./test install` built the client on grpc-java. If not, prints a message.
pub(crate) fn is_grpc_java_there() -> bool {
    let is_there = programs::program("streams-grpc-java").is_file();
    if !is_there {
        skipped("there is no client on grpc-java; ./test install builds it where there are a JDK and Maven");
    }
    is_there
}

#[test]
fn streams_beyond_what_a_server_grants_are_opened_on_further_connections() {
    let (_server, proxy) = grpc_go_behind_proxy(100);
    let went = run("streams", "open", &proxy, &["1000"]);
    assert_eq!((went["answered"], went["failed"]), (1_000, 0));
}

#[test]
fn calls_that_wait_for_a_stream_of_their_server_are_counted_and_told() {
    let (_server, proxy) = grpc_go_behind_proxy(10);
    // The client gets 16 connections of its own and 16 shared connections, each with 10 streams: too few for its 1,000
    // calls, so calls wait.
    let address = proxy.outbound().to_string();
    let _client = Server::start("streams", &["open", &address, ECHO, "1000"]);
    proxy.wait_for_log(&["WARN", "echo.default:50051", "calls wait", "max-connections-per-endpoint"]);
    assert!(proxy.scrape().sum("leno_waiting_calls", &[]) > 100.0, "{}", proxy.get("/metrics").expect("an answer").1);
    let (_, balancer) = proxy.get("/balancer").expect("an answer");
    assert!(balancer.contains("\"waiting\""), "{balancer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_as_many_streams_as_it_may_have_is_counted_and_told_once() {
    let backend = Backend::start().await;
    let service = Service::echo(&[backend.address()]);
    let proxy = Proxy::start_with(free_address(), &[service], &["--limit", "max_concurrent_streams=10"]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let hang = Call::new("Hang");
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(client.open(&hang).await.expect("a stream"));
    }
    proxy.wait_for_log(&["WARN", "has 10 streams open", "as many as it may", "max_concurrent_streams"]);
    let full = || proxy.scrape().sum("leno_clients_full_total", &[]);
    assert_eq!(full(), 1.0);

    // When a second client uses all its streams, the proxy logs one line for it. The first client still uses all its
    // streams, but the proxy does not report it again.
    let other = Client::connect(proxy.outbound(), ECHO).await;
    for _ in 0..10 {
        streams.push(other.open(&hang).await.expect("a stream"));
    }
    wait_for("the other client is counted", Duration::from_secs(20), || (full() == 2.0).then_some(()));
    let told = proxy.log().lines().filter(|line| line.contains("streams open, as many as it may")).count();
    assert_eq!(told, 2, "{}", proxy.log());
}

/// Runs a client that cancels each call 1 to 3 ms after its start.
fn cancel_two_hundred_calls_a_second(client: &str, seconds: u64) -> HashMap<String, u64> {
    let (_server, proxy) = grpc_go_behind_proxy(0);
    let went = run(client, "cancel", &proxy, &["200", &seconds.to_string()]);
    // If the machine stalls, a few calls end before they are cancelled, and fewer calls begin.
    assert!(went["cancelled"] > 180 * seconds && went["others"] == 0, "{client}: {went:?}");
    assert_eq!((went["failed"], went["stream_failed"]), (0, 0));
    assert_eq!(proxy.scrape().sum("leno_abuse_closed_total", &[]), 0.0);
    went
}

/// The test takes a minute, because a proxy or a server may count cancelled calls for a while before it acts against
/// the client. The clients run side by side, each with its own proxy and its own server. Together they need less than
/// one core.
#[test]
fn two_hundred_quick_cancels_a_second_for_a_minute_cost_no_call_beside_them() {
    let mut clients = vec!["streams", "streams-grpcio"];
    if is_grpc_java_there() {
        clients.push("streams-grpc-java");
    }
    std::thread::scope(|scope| {
        let begin = |client| (client, scope.spawn(move || cancel_two_hundred_calls_a_second(client, 60)));
        for (client, running) in clients.into_iter().map(begin).collect::<Vec<_>>() {
            let went = running.join().unwrap_or_else(|_| panic!("{client} failed"));
            if client == "streams" {
                assert_eq!(went["connections"], 1, "{went:?}");
            }
        }
    });
}

#[test]
fn two_hundred_quick_cancels_a_second_of_a_grpc_js_channel_cost_no_call_beside_them() {
    if is_grpc_js_there() {
        cancel_two_hundred_calls_a_second("streams-grpc-js", 10);
    }
}
