//! A supervised proxy: its restart after a crash, its drain, and the errors at its start.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::{self, text};
use leno_tests::proxy::{Pid, Proxy, Signal, free_address, wait_for};
use leno_tests::xds::Authority;
use rustix::process::kill_process;

/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Makes calls, each on a new connection, until one succeeds. Connections may break, but no connection may be refused:
/// a client whose connection is refused waits a second or longer before it retries (gRFC A6 and the connection backoff
/// protocol).
async fn call_until_it_succeeds(outbound: SocketAddr) {
    let succeeded = async {
        loop {
            let client = match Client::try_connect(outbound, ECHO).await {
                Ok(client) => client,
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::ConnectionRefused);
                    continue;
                }
            };
            if client.try_call(&Call::new("Echo"), b"hello").await.is_ok_and(|answer| answer.grpc_status() == Some(0)) {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, succeeded).await.expect("a call succeeds");
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).expect("it runs");
}

/// Returns whether a process runs. A zombie process does not run.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_killed_is_started_again_and_no_connection_is_refused_meanwhile() {
    let backend = Backend::start().await;
    let mut proxy = Proxy::start_supervised(&[Service::echo(&[backend.address()])], &["--workers", "2"]);
    let restarts = |proxy: &Proxy| proxy.scrape().sum("leno_proxy_restarts_total", &[]);
    call_until_it_succeeds(proxy.outbound()).await;
    assert_eq!(restarts(&proxy), 0.0);
    for times in 1..=3 {
        let killed = proxy.supervised().expect("it runs");
        kill(killed);
        call_until_it_succeeds(proxy.outbound()).await;
        assert_ne!(proxy.supervised(), Some(killed));
        proxy.wait_until_ready();
        assert_eq!(restarts(&proxy), f64::from(times));
        proxy.wait_for_log(&["WARN", "ended unexpectedly", "SIGKILL", &format!("restarts={times}")]);
    }

    let last = proxy.supervised().expect("it runs");
    proxy.signal(Signal::TERM);
    let status = proxy.wait(SOON).expect("it drains and ends");
    assert!(status.success(), "{status}");
    assert!(!is_running(last));
    let refused = TcpStream::connect(proxy.outbound()).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connections_are_refused_while_a_supervised_proxy_drains() {
    let backend = Backend::start().await;
    let mut proxy = Proxy::start_supervised(&[Service::echo(&[backend.address()])], &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let open = client.open(&Call::new("Echo")).await.expect("a stream");
    wait_for("the call has begun", SOON, || (proxy.scrape().sum("leno_requests_in_flight", &[]) > 0.0).then_some(()));
    proxy.signal(Signal::TERM);
    proxy.wait_for_log(&["draining"]);
    wait_for("connections are refused", SOON, || TcpStream::connect(proxy.outbound()).is_err().then_some(()));
    assert!(proxy.wait(Duration::ZERO).is_none(), "the open call may finish");
    drop(open);
    drop(client);
    let status = proxy.wait(SOON).expect("it ends after its last call");
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_ends_with_its_supervisor() {
    let backend = Backend::start().await;
    let proxy = Proxy::start_supervised(&[Service::echo(&[backend.address()])], &[]);
    let child = proxy.supervised().expect("it runs");
    proxy.signal(Signal::KILL);
    wait_for("the proxy ends", SOON, || (!is_running(child)).then_some(()));
}

#[test]
fn what_keeps_a_proxy_from_starting_is_said_once_and_is_not_tried_again() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("it is bound").to_string();
    let free = free_address().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().to_str().expect("a plain name");
    let supervise = |arguments: &[&str]| {
        let own = ["supervise", "--config", config, "--log", "error"];
        let output = programs::run("leno-proxy", &[&own[..], arguments].concat(), SOON);
        (output.status.code(), text(&output))
    };
    let (code, said) = supervise(&["--outbound", &taken, "--admin", &free]);
    assert!(code == Some(1) && said.contains(&format!("--outbound {taken}")), "{code:?}: {said}");
    let (code, said) = supervise(&["--outbound", &free, "--admin", &taken]);
    assert_eq!((code, said.matches(&format!("--admin {taken}")).count()), (Some(1), 1), "{said}");
    let (code, said) = supervise(&["--outbound", "here"]);
    assert!(code == Some(2) && said.contains("--outbound"), "{code:?}: {said}");
    // Give two listeners the same address.
    let (identity, authority) = (["--identity", "ns/shop/sa/web", "--issuer"], Authority::new());
    let doors = ["--inbound", &free, "--tunnel", &free, "--admin", "127.0.0.1:0"];
    let (code, said) = supervise(&[&identity[..], &[&authority.path("")], &doors].concat());
    assert!(code == Some(1) && said.contains(&format!("--tunnel {free}")), "{code:?}: {said}");
    // A user could type `--supervised` although no supervisor runs.
    let own = ["--config", config, "--supervised", "--outbound", &free];
    let output = programs::run("leno-proxy", &own, SOON);
    assert!(output.status.code() == Some(1) && text(&output).contains("leno-proxy supervise"), "{}", text(&output));
}
