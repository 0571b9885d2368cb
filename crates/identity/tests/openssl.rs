//! Handshakes with OpenSSL, an independent implementation of TLS and X.509.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use leno_identity::authority::{Authority, SVID_LIFETIME};
use leno_identity::directory::{read_bundle, write_authority, write_key_pair};
use leno_identity::svid::Request;
use leno_identity::{PeerIdError, TlsIdentity, Validity, explain, peer_id};
use leno_model::spiffe::SpiffeId;
use rustls::{ClientConnection, ServerConnection, Stream};
use tempfile::TempDir;

/// Maximum silence of a peer before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of a handshake. The outer error means that the handshake failed. Otherwise, the value is the client's
/// SPIFFE id, or the reason why the client has none.
type Came = Result<Result<SpiffeId, PeerIdError>, String>;

fn id(workload: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{workload}").parse().expect("an id")
}

/// Returns the identity of `web`, and a directory with the trust bundle and the key pair of `cart` for openssl.
fn mesh() -> (TempDir, TlsIdentity) {
    let (directory, now) = (tempfile::tempdir().expect("a directory"), SystemTime::now());
    let authority = Authority::create("example.org".parse().expect("a trust domain"), now).expect("an authority");
    write_authority(directory.path(), &authority).expect("written");
    let day = Validity::starting(now, SVID_LIFETIME);
    let pair = authority.issue_key_pair(&id("cart"), day, now).expect("a key pair");
    write_key_pair(directory.path(), &pair).expect("written");
    let request = Request::new(id("web")).expect("a request");
    let certificate = authority.sign(request.id(), request.csr(), day, now).expect("a certificate");
    let bundle = read_bundle(directory.path()).expect("a bundle");
    let svid = request.accept(vec![certificate], &bundle, now).expect("an SVID");
    (directory, TlsIdentity::new(&svid, &bundle))
}

fn openssl(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(directory).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Serves one connection.
fn serve(identity: &TlsIdentity) -> (SocketAddr, JoinHandle<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    let mut connection = ServerConnection::new(identity.server.clone()).expect("a connection");
    let served = thread::spawn(move || {
        let mut socket = listener.accept().expect("a client").0;
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut socket) {
                let error = error.get_ref().and_then(|error| error.downcast_ref()).map(explain);
                return Err(error.unwrap_or_else(|| "the client left".to_owned()));
            }
        }
        Ok(peer_id(connection.peer_certificates().unwrap_or_default()))
    });
    (address, served)
}

/// Connects openssl to our server; returns its output and the server's result.
fn connect(arguments: &str) -> (String, Came) {
    let (directory, identity) = mesh();
    let (address, served) = serve(&identity);
    let arguments = format!("s_client -connect {address} -servername 8080.leno.internal {arguments}");
    let Output { stdout, stderr, .. } = openssl(directory.path(), &arguments).output().expect("openssl is installed");
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    (said, served.join().expect("the server ends"))
}

#[test]
fn openssl_with_a_certificate_of_ours_is_known_by_its_id_and_trusts_us() {
    let (said, came) = connect("-alpn h2 -cert tls.crt -key tls.key -CAfile trust-bundle.pem -verify_return_error");
    assert_eq!(came, Ok(Ok(id("cart"))), "{said}");
    for part in ["Verification: OK", "New, TLSv1.3,", "ALPN protocol: h2", "Server Temp Key: X25519"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn openssl_without_a_certificate_is_let_in_and_nobody() {
    let (said, came) = connect("-alpn h2 -CAfile trust-bundle.pem");
    assert_eq!(came, Ok(Err(PeerIdError::NoCertificate)), "{said}");
}

#[test]
fn openssl_that_speaks_tls12_is_refused_with_the_right_alert() {
    let (said, came) = connect("-tls1_2 -CAfile trust-bundle.pem");
    let line = came.expect_err("it is refused");
    assert!(line.starts_with("the peer does not speak TLS 1.3;"), "{line}");
    assert!(said.contains("alert protocol version"), "{said}");
}

#[test]
fn openssl_that_offers_another_protocol_is_refused() {
    let (said, came) = connect("-alpn http/1.1 -CAfile trust-bundle.pem");
    assert!(came.expect_err("it is refused").starts_with("the peer does not offer HTTP/2 by ALPN;"), "{said}");
    assert!(said.contains("no application protocol"), "{said}");
}

/// A program that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_openssl_server_is_known_by_its_id_and_verifies_us() {
    let (directory, identity) = mesh();
    let arguments = "s_server -accept 127.0.0.1:0 -naccept 1 -alpn h2 -cert tls.crt -key tls.key \
                     -CAfile trust-bundle.pem -Verify 1 -verify_return_error";
    // Keep openssl's standard input open: openssl closes the connection when its input ends.
    let mut command = openssl(directory.path(), arguments);
    let mut server = Running(command.stdin(Stdio::piped()).spawn().expect("openssl is installed"));
    let mut stdout = server.0.stdout.take().expect("it is piped");
    let address: SocketAddr = line_after(&mut stdout, "ACCEPT ").parse().expect("an address");

    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let name = "8080.leno.internal".try_into().expect("a server name");
    let mut connection = ClientConnection::new(identity.client, name).expect("a connection");
    Stream::new(&mut connection, &mut socket).write_all(b"a line from web\n").expect("the handshake is good");
    assert_eq!(peer_id(connection.peer_certificates().unwrap_or_default()), Ok(id("cart")));
    assert_eq!(line_after(&mut stdout, "a line from "), "web");
}

/// Returns the text that follows `mark` on its line of a program's output.
fn line_after(output: &mut impl Read, mark: &str) -> String {
    let mut text = String::new();
    loop {
        if let Some((line, _)) = text.split_once(mark).and_then(|(_, rest)| rest.split_once('\n')) {
            return line.to_owned();
        }
        let mut bytes = [0; 1_024];
        let count = output.read(&mut bytes).expect("its output can be read");
        assert!(count > 0, "it ended without {mark:?}: {text}");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
}
