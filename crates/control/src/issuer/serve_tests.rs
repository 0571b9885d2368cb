use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use leno_identity::svid;
use leno_identity::tls::anonymous_client;
use leno_identity::upkeep::Upkeep;
use leno_xds::identity::v1::CertifyRequest;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::accept::WHOLE_REQUEST_MAX;
use crate::issuer::ClusterIssuer;
use crate::issuer::fixtures::{ApiServer, good_token, signing};

const PATIENCE: Duration = Duration::from_secs(20);
/// Time that the tests' API server takes to review a token.
const REVIEW: Duration = Duration::from_millis(20);
const SLOW_CLIENTS: usize = 50;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Default limit of a frame's length in HTTP/2.
const FRAME_BYTES: usize = 16_384;

/// The identity service on loopback.
struct Served {
    address: SocketAddr,
    signing: watch::Sender<Arc<Signing>>,
    _own: Upkeep,
}

impl Served {
    async fn start() -> Self {
        let (sender, signing) = watch::channel(signing());
        let workload = "ns/leno/sa/leno-control".parse().expect("a workload");
        let own = Upkeep::start(Box::new(ClusterIssuer::new(signing.clone(), Vec::new())), workload, 7).await;
        let own = own.expect("a certificate");
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = socket.local_addr().expect("an address");
        let client = ApiServer::new(REVIEW).client();
        tokio::spawn(serve(socket, client, own.identity(), signing));
        Self { address, signing: sender, _own: own }
    }

    /// A client without a certificate at 127.0.0.`last`.
    async fn connect(&self, last: u8) -> Client {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, last], 0).into()).expect("a loopback address");
        let stream = socket.connect(self.address).await.expect("it listens");
        let signing = self.signing.borrow().clone();
        let config = anonymous_client(signing.trust_domain(), &signing.trust().bundle);
        let name = "control.leno.internal".try_into().expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])[..]].concat()).await.expect("it reads");
        Client(stream)
    }
}

struct Client(TlsStream<TcpStream>);

impl Client {
    /// Begins a request whose message has `length` bytes, and sends `message`, the first part of it.
    async fn send(&mut self, stream: u32, method: &str, length: usize, message: &[u8]) {
        let length_bytes = u32::try_from(length).expect("a short message").to_be_bytes();
        let content = [&[0][..], &length_bytes[..], message].concat();
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &head(method));
        let mut parts = content.chunks(FRAME_BYTES).peekable();
        while let Some(part) = parts.next() {
            let is_end = parts.peek().is_none() && message.len() == length;
            bytes.extend(frame(DATA, if is_end { END_STREAM } else { 0 }, stream, part));
        }
        self.0.write_all(&bytes).await.expect("it reads");
        self.0.flush().await.expect("it reads");
    }

    /// The first message of a response; `None` if the call failed or the connection ended.
    async fn response(&mut self, stream: u32) -> Option<Vec<u8>> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let [a, b, c, kind, flags, on @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            match (kind, u32::from_be_bytes(on) == stream) {
                (DATA, true) => return Some(payload),
                (HEADERS, true) if flags & END_STREAM != 0 => return None,
                _ => {}
            }
        }
    }

    /// Waits until the server closes the connection.
    async fn closed(mut self) {
        while self.0.read(&mut [0; 512]).await.is_ok_and(|length| length > 0) {}
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags][..], &stream.to_be_bytes()[..], payload].concat()
}

/// A request's headers, without compression (RFC 7541 section 6.2.2).
fn head(method: &str) -> Vec<u8> {
    let path = format!("/leno.identity.v1.Identity/{method}");
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path.as_str()),
        (":authority", "leno"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields.into_iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("a short text")][..], text.as_bytes()].concat()
}

fn request() -> Vec<u8> {
    let id = "spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id");
    let csr = svid::Request::new(id).expect("random numbers").csr().to_vec();
    CertifyRequest { csr, token: good_token("https://kubernetes.default.svc") }.encode_to_vec()
}

#[tokio::test]
async fn connections_with_unfinished_requests_end_within_seconds_and_others_are_answered() {
    let served = Served::start().await;
    let mut slow = Vec::new();
    for _ in 0..SLOW_CLIENTS {
        let mut client = served.connect(1).await;
        // Send a complete request first: after it, the time limit for the first request no longer applies.
        client.send(1, "WatchTrust", 0, &[]).await;
        assert!(timeout(PATIENCE, client.response(1)).await.expect("an answer").is_some());
        client.send(3, "Certify", REQUEST_MAX_BYTES, &vec![7; REQUEST_MAX_BYTES - 1]).await;
        slow.push(client);
    }
    let started = Instant::now();
    let request = request();
    let mut good = served.connect(2).await;
    good.send(1, "Certify", request.len(), &request).await;
    let answer = timeout(PATIENCE, good.response(1)).await.expect("an answer").expect("a certificate");
    assert!(answer.len() > 500 && started.elapsed() < WHOLE_REQUEST_MAX, "{} bytes", answer.len());
    let all_closed = async {
        for client in slow {
            client.closed().await;
        }
    };
    timeout(3 * WHOLE_REQUEST_MAX, all_closed).await.expect("they end");
    // The connection without an unfinished request stays open.
    good.send(3, "Certify", request.len(), &request).await;
    assert!(timeout(PATIENCE, good.response(3)).await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_connection_has_two_open_requests_and_a_third_is_refused() {
    let served = Served::start().await;
    let mut client = served.connect(1).await;
    for stream in [1, 3] {
        client.send(stream, "WatchTrust", 0, &[]).await;
        assert!(timeout(PATIENCE, client.response(stream)).await.expect("an answer").is_some());
    }
    client.send(5, "WatchTrust", 0, &[]).await;
    let refused = timeout(PATIENCE, async {
        loop {
            let mut head = [0; 9];
            client.0.read_exact(&mut head).await.expect("the connection stays");
            let [a, b, c, kind, _, on @ ..] = head;
            client.0.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize]).await.expect("a frame");
            if u32::from_be_bytes(on) == 5 {
                return kind;
            }
        }
    });
    // The frame type of RST_STREAM.
    assert_eq!(refused.await.expect("an answer"), 3);
}
