use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::*;
use crate::answer::text;

const PATIENCE: Duration = Duration::from_secs(20);
/// Limit for the median time in which the endpoint answers a kubelet's probe.
const PROBE_MAX: Duration = Duration::from_millis(100);
/// Default timeout of a kubelet's probe.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(1);
/// A request whose body never arrives, so that its connection stays open.
const ATTACK: &[u8] = b"PUT /log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";

/// Starts an admin endpoint on every address of this machine; returns its port.
async fn start() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    spawn_local(serve(listener, async |request: Request<Incoming>| match request.uri().path() {
        "/log-level" => {
            let (levels, _) = crate::logging::LogLevels::new("off".parse().expect("a level"));
            crate::answer::set_log_level(request, &levels).await
        }
        path => text(StatusCode::OK, format!("{path}\n")),
    }));
    port
}

/// Starts an admin endpoint whose metrics page is a number that grows with each scrape.
async fn start_counting() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let scrapes = std::cell::Cell::new(0);
    spawn_local(serve(listener, async move |_: Request<Incoming>| {
        scrapes.set(scrapes.get() + 1);
        text(StatusCode::OK, format!("scrape {}\n", scrapes.get()))
    }));
    port
}

async fn connect(from: IpAddr, to: IpAddr, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("an address of this machine");
    timeout(PATIENCE, socket.connect((to, port).into())).await.expect("it accepts").expect("it listens")
}

async fn get(from: IpAddr, to: IpAddr, port: u16, path: &str) -> String {
    get_with(from, to, port, path, "").await
}

/// Like [`get`], with additional header lines.
async fn get_with(from: IpAddr, to: IpAddr, port: u16, path: &str, lines: &str) -> String {
    ask("GET", from, to, port, path, lines).await
}

async fn ask(method: &str, from: IpAddr, to: IpAddr, port: u16, path: &str, lines: &str) -> String {
    let mut stream = connect(from, to, port).await;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
    let mut answer = String::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_string(&mut answer).await
    };
    // Ignore the result: a connection that was replaced gets no response.
    let _ = timeout(PATIENCE, exchange).await;
    answer
}

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Finds a non-loopback address of this machine; without such an address the test is skipped.
fn outer_address() -> Option<IpAddr> {
    let find = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        // Connecting a UDP socket sends nothing.
        socket.connect(("192.0.2.1", 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
    };
    let found = find();
    if found.is_none() {
        leno_testing::skipped("this machine has no address but loopback");
    }
    found
}

/// Runs a test in a `LocalSet`, whose tasks need not be `Send`.
fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    LocalSet::new().block_on(&runtime, test);
}

/// An attack: a thread that keeps opening connections from several addresses.
struct Attack {
    ends: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Attack {
    /// Starts to open connections from `sources` addresses in turn, and keeps the latest `sockets` connections open.
    fn start(port: u16, sources: u8, sockets: usize) -> Self {
        let (ends, opened) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_over, counter) = (ends.clone(), opened.clone());
        let attack = async move {
            let mut open = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = counter.fetch_add(1, Ordering::Relaxed) % usize::from(sources);
                let source = loopback(1 + u8::try_from(number).expect("less than the sources"));
                let mut stream = connect(source, loopback(1), port).await;
                let _ = stream.write_all(ATTACK).await;
                open.push_back(stream);
                if open.len() > sockets {
                    open.pop_front();
                }
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
        Self { ends, opened, thread: std::thread::spawn(move || runtime.block_on(attack)) }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic");
    }
}

/// Sends probes as a kubelet does, while attackers open connections from `sources` addresses. The probes come from
/// 127.0.0.1, which is also one of the attackers' addresses.
fn probe_under_attack(sources: u8) {
    run(async move {
        let port = start().await;
        let attack = Attack::start(port, sources, 250);
        while attack.opened() < 2 * CONNECTIONS_MAX {
            sleep(Duration::from_millis(1)).await;
        }
        let mut took = Vec::new();
        for _ in 0..20 {
            for path in ["/live", "/ready"] {
                sleep(Duration::from_millis(10)).await;
                let started = Instant::now();
                let answer = get(loopback(1), loopback(1), port, path).await;
                assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer:?}");
                took.push(started.elapsed());
            }
        }
        attack.end();
        took.sort_unstable();
        // Check only the median and the 90th percentile: on a busy machine, a thread may get no CPU for a second, so a
        // single probe may be slow.
        assert!(took[took.len() / 2] < PROBE_MAX && took[took.len() * 9 / 10] < KUBELET_TIMEOUT, "{took:?}");
    });
}

#[test]
fn a_flood_of_scrapes_from_elsewhere_is_written_once_a_second() {
    run(async {
        let Some(outer) = outer_address() else { return };
        let port = start_counting().await;
        let began = Instant::now();
        let mut written = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let answer = get(outer, outer, port, METRICS).await;
            // Compare only the bodies: the header `date` changes every second.
            written.insert(answer.split_once("\r\n\r\n").map(|(_, page)| page.to_owned()));
        }
        // At most one scrape at the beginning, and one for each second that the loop ran.
        let most = 1 + began.elapsed().as_secs() as usize;
        assert!(written.len() <= most, "{} scrapes in {:?}", written.len(), began.elapsed());
        let open_metrics = "Accept: application/openmetrics-text\r\n";
        let other = get_with(outer, outer, port, METRICS, open_metrics).await;
        let other = other.split_once("\r\n\r\n").map(|(_, page)| page.to_owned());
        assert!(!written.contains(&other), "a scrape in another form was answered with {other:?}");
        let local = async || get(loopback(1), loopback(1), port, METRICS).await;
        assert_ne!(local().await, local().await, "this machine gets the numbers of the moment");
        let number = async || {
            let page = local().await;
            page.rsplit_once("scrape ").and_then(|(_, number)| number.trim().parse::<usize>().ok()).expect("a number")
        };
        let (began, before) = (Instant::now(), number().await);
        for _ in 0..50 {
            let answer = ask("HEAD", outer, outer, port, METRICS, "").await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        }
        let most = 2 + began.elapsed().as_secs() as usize;
        assert!(number().await - before <= most, "HEAD costs as much as GET, so it is limited too");
    });
}

#[test]
fn probes_are_answered_while_sockets_of_the_same_address_fill_all_places() {
    probe_under_attack(1);
}

#[test]
fn probes_are_answered_while_sockets_of_many_addresses_fill_all_places() {
    probe_under_attack(100);
}

#[test]
fn callers_from_elsewhere_get_health_and_numbers_and_nothing_else() {
    run(async {
        let Some(outer) = outer_address() else { return };
        let port = start().await;
        for path in ["/live", "/ready", "/metrics", "/probe/tcp/8080"] {
            assert!(get(outer, outer, port, path).await.starts_with("HTTP/1.1 200 "), "{path}");
        }
        for path in ["/", "/config", "/clients", "/balancer", "/limits", "/log-level", "/nothing", "//live"] {
            let answer = get(outer, outer, port, path).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
            assert!(
                answer.contains("loopback only") && answer.ends_with("use leno or kubectl port-forward\n"),
                "{answer}"
            );
        }
        // The body never arrives. If the response waited for it, the server would close the connection after CONNECTION_MAX,
        // without a response.
        let mut stream = connect(outer, outer, port).await;
        stream.write_all(ATTACK).await.expect("it reads");
        let mut answer = String::new();
        let started = Instant::now();
        let _ = timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends");
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && started.elapsed() < CONNECTION_MAX / 2,
            "{:?}: {answer}",
            started.elapsed()
        );
    });
}

#[test]
fn a_page_learns_at_which_address_its_client_reached_the_endpoint() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        spawn_local(serve(listener, async |request: Request<Incoming>| {
            let ReachedAt(ip) = *request.extensions().get::<ReachedAt>().expect("every request has it");
            text(StatusCode::OK, format!("{ip}\n"))
        }));
        for last in [1, 7] {
            let answer = get(loopback(1), loopback(last), port, "/live").await;
            assert!(answer.ends_with(&format!("\r\n127.0.0.{last}\n")), "{answer}");
        }
    });
}

#[test]
fn a_mapped_loopback_address_is_this_machine() {
    run(async {
        let Ok(listener) = TcpListener::bind("[::]:0").await else {
            return leno_testing::skipped("this machine has no IPv6");
        };
        let port = listener.local_addr().expect("an address").port();
        spawn_local(serve(listener, async |_: Request<Incoming>| text(StatusCode::OK, "private\n")));
        assert!(get(loopback(1), loopback(1), port, "/config").await.ends_with("private\n"));
    });
}

#[test]
fn behind_a_proxy_only_connections_of_this_machines_own_addresses_are_answered() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        spawn_local(serve_behind_proxy("tap", listener, async |_: Request<Incoming>| {
            text(StatusCode::OK, "private\n")
        }));
        for path in ["/calls", "/live", "/metrics"] {
            assert!(get(loopback(1), loopback(1), port, path).await.ends_with("private\n"), "{path}");
            let answer = get(loopback(2), loopback(1), port, path).await;
            assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("the workload's proxy"), "{path}: {answer}");
        }
        // A page of a website whose name resolves to this machine may send requests from the user's browser.
        let mut stream = connect(loopback(1), loopback(1), port).await;
        stream.write_all(b"GET /calls HTTP/1.1\r\nHost: evil.example:4190\r\n\r\n").await.expect("it reads");
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("text");
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
        let Some(outer) = outer_address() else { return };
        assert!(get(outer, outer, port, "/calls").await.ends_with("private\n"), "the proxy of a Pod comes so");
    });
}

#[test]
fn a_caller_from_elsewhere_has_a_second_for_its_header() {
    run(async {
        let Some(outer) = outer_address() else { return };
        let port = start().await;
        let mut stream = connect(outer, outer, port).await;
        stream.write_all(b"GET /live HTTP/1.1\r\n").await.expect("it reads");
        let started = Instant::now();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends");
        assert!(started.elapsed() < LOCAL_HEADER_MAX, "{:?}", started.elapsed());
    });
}

#[test]
fn a_host_is_ours_if_it_is_an_address_or_no_name_of_a_site() {
    let is_own = |host: &'static str| is_own_host(&HeaderValue::from_static(host));
    for host in ["127.0.0.1:4191", "127.0.0.1", "[::1]:4191", "[::1]", "localhost:4191", "localhost", "10.0.0.7:4191"] {
        assert!(is_own(host), "{host}");
    }
    for host in ["evil.example:4191", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "a:b:c"] {
        assert!(!is_own(host), "{host}");
    }
}

#[tokio::test]
async fn a_page_for_this_machine_is_refused_under_the_name_of_a_site() {
    LocalSet::new()
        .run_until(async {
            let port = start().await;
            for (host, path, status) in [
                ("evil.example:4191", "/config", "421"),
                ("evil.example", "/metrics", "200"),
                ("localhost:4191", "/config", "200"),
            ] {
                let mut stream = connect(loopback(1), loopback(1), port).await;
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                stream.write_all(request.as_bytes()).await.expect("it reads");
                let mut answer = String::new();
                timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("text");
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host} {path}: {answer}");
            }
        })
        .await;
}

#[test]
fn a_malformed_body_is_not_reported_as_too_large() {
    run(async {
        let port = start().await;
        let put = async |rest: &str| {
            let mut stream = connect(loopback(1), loopback(1), port).await;
            let request = format!("PUT /log-level HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{rest}");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer").expect("text");
            answer
        };
        let answer = put("Transfer-Encoding: chunked\r\n\r\nno size\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("body cannot be read ("), "{answer}");
        let answer = put(&format!("Content-Length: 4097\r\n\r\n{}", "x".repeat(4_097))).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    });
}
