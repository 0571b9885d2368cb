//! Many connections for which the kernel holds much memory, because a client or a server does not read. This memory
//! counts against the memory limit of the proxy's container, as the proxy's own memory does.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::sockets::kernel_bytes;
use leno_tests::wire::{self, call_block, flag};

const INITIAL_WINDOW_SIZE: u16 = 4;
/// Memory of the container. The proxy's budget is half of this memory.
const CONTAINER_BYTES: u64 = 64 << 20;
const BUDGET: &str = "memory_budget_kib=32768";
/// `:authority` of the second Service, whose server the test controls.
const SINK: &str = "sink.default:50051";

/// Longest time for a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two connections. The proxy measures a connection only once a second. The time is short, so that many
/// connections are open before the proxy measures the first one.
const PACE: Duration = Duration::from_millis(15);
/// Time for which the memory is observed after the last connection.
const AFTERMATH: Duration = Duration::from_secs(3);

/// A proxy in a small container with the Services `echo` and `sink`, and a client that calls `echo`.
struct Container {
    _backend: Backend,
    sink: SocketAddr,
    proxy: Proxy,
    good: Client,
    /// Maximum sum of the proxy's resident memory and the kernel's memory for the proxy's sockets, in bytes.
    peak_bytes: u64,
}

impl Container {
    /// Starts the proxy. A listener must exist at `sink`.
    async fn start(sink: SocketAddr) -> Self {
        let backend = Backend::start().await;
        let services = [Service::echo(&[backend.address()]), Service::new("sink", &[sink])];
        let proxy = Proxy::start_with(free_address(), &services, &["--limit", BUDGET]);
        let good = Client::connect(proxy.outbound(), ECHO).await;
        Self { _backend: backend, sink, proxy, good, peak_bytes: 0 }
    }

    /// Makes a call of the well-behaved client. Then measures the proxy's memory, and the kernel's memory for the
    /// proxy's sockets.
    async fn observe(&mut self) {
        let answer = self.good.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "a client that holds little loses nothing: {answer:?}");
        let (listener, sink) = (self.proxy.outbound().port(), self.sink.port());
        let kernel = kernel_bytes(&format!("( sport = :{listener} or dport = :{sink} )"));
        self.peak_bytes = self.peak_bytes.max(self.proxy.resident_kib() * 1_024 + kernel);
    }

    /// Connects `count` attackers one after another, and observes the memory. Asserts that the proxy closed the
    /// heaviest connections, and that the memory stayed below the container's limit.
    async fn besiege<T>(mut self, count: usize, mut connect: impl FnMut(&Proxy) -> Option<T>) {
        let mut attackers = Vec::new();
        for number in 0..count {
            attackers.extend(connect(&self.proxy));
            thread::sleep(PACE);
            if number % 10 == 0 {
                self.observe().await;
            }
        }
        let until = Instant::now() + AFTERMATH;
        while Instant::now() < until {
            self.observe().await;
            thread::sleep(10 * PACE);
        }
        println!("{} MiB at most", self.peak_bytes >> 20);
        assert!(self.peak_bytes <= CONTAINER_BYTES, "{} of {CONTAINER_BYTES} bytes", self.peak_bytes);
        assert!(self.closed() > 0.0 && !self.good.is_closed());
        self.proxy.wait_for_log(&["among those that hold the most memory", "in the kernel's socket buffers"]);
    }

    /// Returns the number of connections that the proxy has closed because it exceeded its memory budget.
    fn closed(&self) -> f64 {
        self.proxy.scrape().sum("leno_abuse_closed_total", &[r#"kind="memory_budget""#])
    }
}

/// Opens an HTTP/2 connection, requests `messages` messages of 64 KiB on it, and never reads. `None` if the connection
/// fails.
fn deaf_reader(proxy: &Proxy, messages: &str) -> Option<Attacker> {
    let mut attacker = Attacker::connect_deaf(proxy.outbound(), Instant::now() + PATIENCE).ok()?;
    let block = call_block(ECHO, "Many", &[("reply-bytes", "65536"), ("reply-messages", messages)]);
    let call = [wire::window_update(0, 1 << 30), wire::headers(1, flag::END_STREAM, &block)].concat();
    // The proxy may close the connection at any moment.
    let _ = attacker.greet(&[(INITIAL_WINDOW_SIZE, 1 << 30)]).and_then(|()| attacker.send(&call));
    Some(attacker)
}

/// A response of 320 KiB fits into the kernel's buffers, even if the client does not read. So the proxy itself holds
/// nothing for this client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_that_fit_into_the_kernel_count_in_the_budget() {
    let sink = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let container = Container::start(sink.local_addr().expect("bound")).await;
    container.besiege(400, |proxy| deaf_reader(proxy, "5")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_that_block_their_sockets_count_in_the_budget() {
    let sink = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let container = Container::start(sink.local_addr().expect("bound")).await;
    container.besiege(400, |proxy| deaf_reader(proxy, "6")).await;
}

/// Connects, and sends the head of an HTTP/1 request with a body of `bytes` bytes.
fn begin_upload(proxy: &Proxy, bytes: usize) -> std::io::Result<TcpStream> {
    let mut client = TcpStream::connect(proxy.outbound())?;
    client.write_all(format!("POST / HTTP/1.1\r\nhost: {SINK}\r\ncontent-length: {bytes}\r\n\r\n").as_bytes())?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_http1_that_the_server_does_not_read_count_in_the_budget() {
    let sink = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let container = Container::start(sink.local_addr().expect("bound")).await;
    // The server never accepts a connection. The kernel completes the handshakes, and buffers as many bytes as fit.
    container
        .besiege(300, |proxy| {
            let mut client = begin_upload(proxy, 1 << 30).ok()?;
            client.set_nonblocking(true).ok()?;
            let uploader = thread::spawn(move || {
                let until = Instant::now() + Duration::from_secs(2);
                while Instant::now() < until {
                    match client.write(&[b'x'; 16 << 10]) {
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PACE),
                        Err(_) => break,
                    }
                }
                client
            });
            Some(uploader)
        })
        .await;
}

/// A server for HTTP/1 that reads each request in steps with pauses, and then answers it.
struct SlowServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl SlowServer {
    fn start(step: usize, pause: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let (address, is_over) = (listener.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let accepting = thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                thread::spawn(move || serve(connection, step, pause));
            }
        });
        Self { address, is_over, accepting: Some(accepting) }
    }
}

impl Drop for SlowServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        TcpStream::connect(self.address).ok();
        self.accepting.take().map(JoinHandle::join);
    }
}

/// Reads one request with a body, and answers it. `None` if the connection fails or the request is invalid.
fn serve(mut connection: TcpStream, step: usize, pause: Duration) -> Option<()> {
    let (mut head, mut buffer) = (Vec::new(), vec![0; step]);
    let (mut left, mut begun) = (0, false);
    while !begun || left > 0 {
        thread::sleep(pause);
        let length = connection.read(&mut buffer).ok().filter(|length| *length > 0)?;
        let bytes = buffer.get(..length)?;
        if begun {
            left -= length;
            continue;
        }
        head.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        if let Some(end) = text.find("\r\n\r\n") {
            let body: usize = text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
            (left, begun) = ((end + 4 + body).checked_sub(head.len())?, true);
        }
    }
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()
}

/// Uploads `bytes` on each of `count` connections at once. Returns how many uploads the server has answered.
fn upload(proxy: &Proxy, count: usize, bytes: usize) -> u64 {
    let answered = AtomicU64::new(0);
    let upload_one = || -> std::io::Result<()> {
        let mut client = begin_upload(proxy, bytes)?;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(64 << 10);
            client.write_all(&vec![b'x'; part])?;
            left -= part;
        }
        let mut answer = [0; 12];
        client.read_exact(&mut answer)?;
        answered.fetch_add(u64::from(&answer == b"HTTP/1.1 200"), Ordering::Relaxed);
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(upload_one);
        }
    });
    answered.into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_costs_its_clients_no_connection() {
    let server = SlowServer::start(16 << 10, Duration::from_millis(300));
    let mut container = Container::start(server.address).await;
    assert_eq!(upload(&container.proxy, 200, 40 << 10), 200);
    container.observe().await;
    assert_eq!(container.closed(), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_uploads_faster_than_its_server_reads_keeps_its_connections() {
    let server = SlowServer::start(64 << 10, Duration::from_millis(15));
    let container = Container::start(server.address).await;
    assert_eq!(upload(&container.proxy, 10, 8 << 20), 10);
    let held = wait_for("the uploads are over", PATIENCE, || {
        let held = container.proxy.scrape().sum("leno_held_bytes", &[]);
        (held < 1_000_000.0).then_some(held)
    });
    println!("{held} bytes afterwards");
    assert_eq!(container.closed(), 0.0);
}
