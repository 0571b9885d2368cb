use std::net::Ipv4Addr;

use leno_admin::answer::not_found;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Starts an admin endpoint for these probes; returns its port.
async fn start(probes: &[TcpProbe]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let probes = TcpProbes::new(probes.to_vec());
    spawn_local(leno_admin::serve(listener, async move |request| {
        probes.answer(&request).await.unwrap_or_else(not_found)
    }));
    port
}

/// Requests the page of a port of the application, at `host`; returns the whole response.
async fn ask(admin: u16, host: Ipv4Addr, method: &str, path: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect((host, admin)).await?;
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    timeout(PATIENCE, exchange).await.expect("an answer in time").expect("an answer")
}

async fn get(admin: u16, path: &str) -> String {
    ask(admin, Ipv4Addr::LOCALHOST, "GET", path).await
}

fn path(port: u16) -> String {
    format!("{PATH}{port}")
}

fn probe(port: u16) -> TcpProbe {
    TcpProbe { port, timeout_s: 1 }
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    LocalSet::new().block_on(&runtime, test);
}

async fn application() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

#[test]
fn a_probe_succeeds_only_while_the_application_accepts_connections() {
    run(async {
        let (listener, port) = application().await;
        let admin = start(&[probe(port)]).await;
        let answer = get(admin, &path(port)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let head = ask(admin, Ipv4Addr::LOCALHOST, "HEAD", &path(port)).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        drop(listener);
        sleep(RESULT_AGE_MAX).await;
        let answer = get(admin, &format!("{}?name=http", path(port))).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let expected = format!("the application does not accept connections at 127.0.0.1:{port}: ");
        assert!(answer.contains(&expected) && answer.ends_with('\n'), "{answer}");
    });
}

#[test]
fn the_proxy_connects_to_the_address_at_which_the_kubelet_reached_it() {
    run(async {
        let (_listener, port) = application().await;
        let admin = start(&[probe(port)]).await;
        let elsewhere = Ipv4Addr::new(127, 0, 0, 7);
        let answer = ask(admin, elsewhere, "GET", &path(port)).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("at 127.0.0.7:"), "{answer}");
        // The result for one address is no result for another address.
        assert!(get(admin, &path(port)).await.starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_flood_of_requests_opens_few_connections_to_the_application_and_closes_them_at_once() {
    run(async {
        let (listener, port) = application().await;
        let admin = start(&[probe(port)]).await;
        let began = Instant::now();
        for _ in 0..100 {
            assert!(get(admin, &path(port)).await.starts_with("HTTP/1.1 200 "));
        }
        let most = 1 + began.elapsed().as_millis() / RESULT_AGE_MAX.as_millis();
        let mut accepted = 0;
        while let Ok(Ok((mut stream, _))) = timeout(Duration::from_millis(100), listener.accept()).await {
            accepted += 1;
            let read = timeout(PATIENCE, stream.read(&mut [0])).await.expect("it is closed");
            assert_eq!(read.ok(), Some(0));
        }
        assert!((1..=most).contains(&accepted), "{accepted} connections, and {most} is the most");
    });
}

/// The admin endpoint drops the answer of a request when the requester closes its connection.
#[test]
fn requests_whose_requester_does_not_wait_open_few_connections_to_the_application() {
    run(async {
        let (listener, port) = application().await;
        let admin = start(&[probe(port)]).await;
        let request = format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path(port));
        let began = Instant::now();
        for _ in 0..100 {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).await.expect("a connection");
            stream.write_all(request.as_bytes()).await.expect("it is sent");
        }
        let mut accepted = 0;
        while let Ok(Ok(_)) = timeout(Duration::from_millis(100), listener.accept()).await {
            accepted += 1;
        }
        let most = 1 + began.elapsed().as_millis() / RESULT_AGE_MAX.as_millis();
        assert!((1..=most).contains(&accepted), "{accepted} connections, and {most} is the most");
    });
}

#[test]
fn results_are_kept_for_a_limited_number_of_addresses() {
    let mut latest = Results::new();
    for last in 1..=100 {
        record(&mut latest, Ipv4Addr::new(127, 0, 0, last).into(), Ok(()));
        assert!(latest.len() <= ADDRESSES_MAX);
    }
    assert!(latest.contains_key(&IpAddr::from([127, 0, 0, 100])), "the latest result is kept");
}

#[test]
fn only_ports_that_the_pods_probes_name_are_probed() {
    run(async {
        let (_listener, port) = application().await;
        let admin = start(&[]).await;
        for path in [path(port), PATH.to_owned(), format!("{PATH}http"), format!("{PATH}{port}/")] {
            let answer = get(admin, &path).await;
            assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("--tcp-probe"), "{path}: {answer}");
        }
        assert!(get(admin, "/live").await.contains("there is no such page"));
        let admin = start(&[probe(port)]).await;
        let answer = ask(admin, Ipv4Addr::LOCALHOST, "POST", &path(port)).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    });
}

#[test]
fn the_time_to_connect_is_below_the_longest_timeout_of_a_ports_probes() {
    let probes = TcpProbes::new(vec![
        TcpProbe { port: 8080, timeout_s: 5 },
        TcpProbe { port: 8080, timeout_s: 2 },
        TcpProbe { port: 9090, timeout_s: 1 },
    ]);
    let times: Vec<u128> = probes.0.values().map(|port| port.connect_max.as_millis()).collect();
    assert_eq!(times, [4_800, 800]);
}
