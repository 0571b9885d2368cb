use std::net::Ipv4Addr;
use std::time::SystemTime;

use leno_accept::RoomSize;
use leno_identity::authority::Authority;
use leno_identity::bundle::TrustBundle;
use leno_identity::upkeep::Upkeep;
use leno_model::spiffe::Workload;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::*;
use crate::issuer::fixtures::signing;
use crate::issuer::{ClusterIssuer, Signing};

const PATIENCE: Duration = Duration::from_secs(20);
const PLACES: usize = 2;

/// A listener for clients of the mesh, the authority for the clients' certificates, and the accepted connections.
struct Door {
    address: SocketAddr,
    signing: watch::Receiver<Arc<Signing>>,
    connections: mpsc::Receiver<io::Result<Connection>>,
}

async fn identity(signing: &watch::Receiver<Arc<Signing>>, workload: &str) -> Upkeep {
    let workload: Workload = workload.parse().expect("a workload");
    let issuer = ClusterIssuer::new(signing.clone(), Vec::new());
    Upkeep::start(Box::new(issuer), workload, 7).await.expect("a certificate")
}

impl Door {
    async fn open() -> Self {
        let (_, signing) = watch::channel(signing());
        let own = identity(&signing, "ns/leno/sa/leno-control").await;
        Self::open_as(own.identity(), signing).await
    }

    /// Opens a listener that presents the identity `own`. `signing` is the authority for the clients' certificates.
    async fn open_as(own: watch::Receiver<Arc<TlsIdentity>>, signing: watch::Receiver<Arc<Signing>>) -> Self {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = socket.local_addr().expect("an address");
        let listener = Listener::new("test", socket, RoomSize { strangers: PLACES, identified: PLACES });
        let (sender, connections) = mpsc::channel(1);
        tokio::spawn(accept(listener, Some(Tls::Mesh(own)), Clients::Identified, sender));
        Self { address, signing, connections }
    }

    async fn stranger(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 2], 0).into()).expect("a loopback address");
        socket.connect(self.address).await.expect("it listens")
    }

    /// Connects a client with a certificate of the mesh, and returns the client's end and the listener's end of the
    /// connection.
    async fn meshed(&mut self, workload: &str) -> (client::TlsStream<TcpStream>, Connection) {
        let config = identity(&self.signing, workload).await.identity().borrow().client.clone();
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let name = "control.leno.internal".try_into().expect("a name");
        let stream = TlsConnector::from(config).connect(name, stream).await.expect("a handshake");
        let accepted = timeout(PATIENCE, self.connections.recv()).await.expect("it is let in").expect("it listens");
        (stream, accepted.expect("a connection"))
    }
}

/// Sends one byte from the client, and returns whether it arrives.
async fn is_open(client: &mut client::TlsStream<TcpStream>, connection: &mut Connection) -> bool {
    let exchange = async {
        client.write_u8(7).await?;
        client.flush().await?;
        connection.read_u8().await
    };
    matches!(timeout(PATIENCE, exchange).await, Ok(Ok(7)))
}

#[tokio::test]
async fn strangers_take_no_place_of_a_client_that_has_shown_its_certificate() {
    let mut door = Door::open().await;
    let mut silent = Vec::new();
    for _ in 0..5 * PLACES {
        silent.push(door.stranger().await);
    }
    let (mut client, mut connection) = door.meshed("ns/shop/sa/cart").await;
    assert_eq!(
        connection.peer().identity.as_ref().expect("an identity").to_string(),
        "spiffe://cluster.local/ns/shop/sa/cart"
    );
    for _ in 0..5 * PLACES {
        silent.push(door.stranger().await);
    }
    assert!(is_open(&mut client, &mut connection).await);
}

#[tokio::test]
async fn an_identity_with_many_connections_yields_to_another() {
    let mut door = Door::open().await;
    let mut many = Vec::new();
    for _ in 0..PLACES {
        let (client, connection) = door.meshed("ns/shop/sa/cart").await;
        connection.peer().presence.settle();
        many.push((client, connection));
    }
    let (mut client, mut connection) = door.meshed("ns/shop/sa/web").await;
    assert!(is_open(&mut client, &mut connection).await);
    let [(first, at_first), (second, at_second)] = many.first_chunk_mut().expect("two");
    assert!(!is_open(first, at_first).await, "the oldest");
    assert!(is_open(second, at_second).await);
}

#[tokio::test]
async fn a_connection_without_a_request_ends_and_one_with_a_request_stays() {
    let mut door = Door::open().await;
    let (_silent, mut connection) = door.meshed("ns/shop/sa/cart").await;
    let (mut client, mut asking) = door.meshed("ns/shop/sa/web").await;
    asking.peer().presence.asked();
    let ended = timeout(4 * FIRST_REQUEST_MAX, connection.read_u8()).await.expect("it ends");
    assert_eq!(ended.expect_err("nothing came").kind(), io::ErrorKind::TimedOut);
    assert!(is_open(&mut client, &mut asking).await);
}

#[tokio::test]
async fn a_handshake_of_many_bytes_ends_before_its_time_is_over() {
    let door = Door::open().await;
    let mut stranger = door.stranger().await;
    let started = Instant::now();
    // Send the first parts of a ClientHello of 60,000 bytes, in records of 16,384 bytes.
    let mut record = vec![7; 5 + (16 << 10)];
    record[..9].copy_from_slice(&[22, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60]);
    stranger.write_all(&record).await.expect("it reads");
    record[5..9].fill(7);
    // Ignore an error: the listener may close the connection before the second record is sent.
    let _ = stranger.write_all(&record).await;
    let ended = timeout(FIRST_REQUEST_MAX, stranger.read(&mut [0; 512])).await;
    assert!(started.elapsed() < FIRST_REQUEST_MAX / 2, "{ended:?} after {:?}", started.elapsed());
}

#[tokio::test]
async fn records_that_wait_together_are_all_read() {
    let mut door = Door::open().await;
    let (mut client, mut connection) = door.meshed("ns/shop/sa/cart").await;
    connection.peer().presence.asked();
    // Send three full records, which all fit into the buffer of a single read.
    let sent: Vec<u8> = (0..3 << 14).map(|at: u32| at.to_le_bytes()[1]).collect();
    let sending = async { client.write_all(&sent).await.and(client.flush().await) };
    timeout(PATIENCE, sending).await.expect("the sockets hold it").expect("it is sent");
    let (mut part, mut read) = (vec![0; sent.len()], Vec::new());
    while read.len() < sent.len() {
        let taken = timeout(PATIENCE, connection.read(&mut part)).await.expect("it has come").expect("it is read");
        read.extend_from_slice(&part[..taken]);
    }
    assert!(read == sent);
}

/// Writes until writing fails, and returns the reason. `act` runs once the sockets are full.
async fn end_of_writes(mut connection: Connection, act: impl AsyncFnOnce()) -> String {
    let bytes = vec![7; 1 << 16];
    while let Ok(written) = timeout(Duration::from_millis(300), connection.write_all(&bytes)).await {
        written.expect("the sockets have room");
    }
    act().await;
    let ended = timeout(PATIENCE, connection.write_all(&bytes)).await.expect("it ends");
    let flushed = timeout(PATIENCE, connection.flush()).await.expect("it ends");
    let [why, again] = [ended, flushed].map(|ended| ended.expect_err("nothing is read").to_string());
    assert_eq!(why, again);
    why
}

#[tokio::test]
async fn a_connection_is_closed_although_its_client_does_not_read() {
    let mut door = Door::open().await;
    let (_client, connection) = door.meshed("ns/shop/sa/cart").await;
    let presence = connection.peer().presence.clone();
    presence.asked();
    let why = end_of_writes(connection, async || presence.close("the stream was displaced".to_owned())).await;
    assert_eq!(why, "the stream was displaced");
}

#[tokio::test]
async fn a_connection_yields_its_place_although_its_client_does_not_read() {
    let mut door = Door::open().await;
    let (_client, connection) = door.meshed("ns/shop/sa/cart").await;
    let second = door.meshed("ns/shop/sa/cart").await;
    for connection in [&connection, &second.1] {
        connection.peer().presence.asked();
    }
    let mut other = None;
    let why = end_of_writes(connection, async || other = Some(door.meshed("ns/bank/sa/a").await)).await;
    assert_eq!(why, Replaced.to_string());
}

/// Waits until reading the connection fails, and returns the reason.
async fn end(connection: &mut Connection) -> String {
    timeout(PATIENCE, connection.read_u8()).await.expect("it ends").expect_err("the client sends nothing").to_string()
}

#[tokio::test]
async fn a_connection_ends_when_the_anchor_of_its_clients_certificate_is_no_longer_trusted() {
    let (old, new) = (signing(), signing());
    let (authority, receiver) = watch::channel(old.clone());
    let own = identity(&receiver, "ns/leno/sa/leno-control").await;
    let both = [old.trust().bundle.anchors(), new.trust().bundle.anchors()].concat();
    let both = TrustBundle::new(both).expect("a bundle");
    let svid = own.identity().borrow().svid().clone();
    let (identities, known) = watch::channel(Arc::new(TlsIdentity::new(&svid, &both)));
    let mut door = Door::open_as(known, receiver.clone()).await;
    let (mut client, mut connection) = door.meshed("ns/shop/sa/cart").await;
    assert!(is_open(&mut client, &mut connection).await);
    // A renewal of our own certificate closes no connection.
    identities.send_replace(Arc::new(TlsIdentity::new(&svid, &both)));
    assert!(is_open(&mut client, &mut connection).await);
    identities.send_replace(Arc::new(TlsIdentity::new(&svid, &new.trust().bundle)));
    let why = end(&mut connection).await;
    assert!(why.starts_with("the client's certificate is no longer valid: "), "{why}");
    drop(authority);
}

#[tokio::test]
async fn a_connection_ends_when_its_clients_certificate_expires() {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("cluster.local".parse().expect("a trust domain"), now).expect("an anchor");
    let brief = Duration::from_secs(3);
    let issuing = anchor.delegate(now, brief).expect("an authority");
    let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("a bundle");
    let (_authority, receiver) = watch::channel(Arc::new(Signing::new(Arc::new(issuing), bundle)));
    let own = identity(&receiver, "ns/leno/sa/leno-control").await;
    let mut door = Door::open_as(own.identity(), receiver).await;
    let (mut client, mut connection) = door.meshed("ns/shop/sa/cart").await;
    assert!(is_open(&mut client, &mut connection).await);
    connection.first_request = None;
    let why = end(&mut connection).await;
    assert!(why.contains("no longer valid"), "{why}");
    assert!(now.elapsed().expect("time goes on") >= brief);
}
