//! Checks the mutual TLS of a mesh before the lab measures the mesh.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, SignatureScheme, StreamOwned};

use super::config::{self, SUITE};
use super::{Authority, CLIENT, Credentials, SERVER};
use crate::error::{Error, Result};

/// Maximum time for a server to reject a certificate of another authority, and for a TCP connection.
const TIMEOUT: Duration = Duration::from_secs(2);

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Checks that a server uses mutual TLS as all meshes of the lab must.
///
/// The server at `address` must
///
/// - negotiate TLS 1.3 with the cipher suite of all meshes, and the ALPN protocol `alpn`,
/// - present the identity [`SERVER`],
/// - request the client's certificate, and
/// - reject a certificate of another authority.
pub(crate) fn ensure_mutual_tls(
    address: SocketAddr,
    server_name: &str,
    client: &Credentials,
    alpn: Option<&str>,
) -> Result<()> {
    ensure_mutual_tls_of(SERVER, address, server_name, client, alpn)
}

/// Like [`ensure_mutual_tls`], but expects the identity `server` instead of [`SERVER`].
pub(crate) fn ensure_mutual_tls_of(
    server: &str,
    address: SocketAddr,
    server_name: &str,
    client: &Credentials,
    alpn: Option<&str>,
) -> Result<()> {
    let is_not = |why: String| Error::Tls { what: format!("the proxy at {address} is no server of the mesh"), why };
    let mut config = Arc::unwrap_or_clone(config::client(client, server, alpn)?);
    let asked = Arc::new(Asked { own: config.client_auth_cert_resolver, asked: AtomicBool::new(false) });
    config.client_auth_cert_resolver = asked.clone();
    let known = connect(address, server_name, config.into()).map_err(|error| is_not(error.to_string()))?;
    let (version, suite) = (known.conn.protocol_version(), known.conn.negotiated_cipher_suite());
    let (suite, chosen) = (suite.map(|suite| suite.suite()), known.conn.alpn_protocol());
    if (version, suite) != (Some(ProtocolVersion::TLSv1_3), Some(SUITE)) {
        return Err(is_not(format!("it chose {version:?} with {suite:?}")));
    }
    if chosen != alpn.map(str::as_bytes) {
        return Err(is_not(format!("of ALPN {alpn:?} it chose {:?}", chosen.map(String::from_utf8_lossy))));
    }
    if !asked.asked.load(Ordering::Relaxed) {
        return Err(is_not("it does not request a client certificate".to_owned()));
    }
    let stranger = config::client(&stranger(client)?, server, alpn)?;
    match is_rejected(address, server_name, stranger) {
        Ok(true) => Ok(()),
        Ok(false) => Err(is_not("it accepts a certificate of another authority".to_owned())),
        Err(error) => Err(Error::Tls {
            what: format!("cannot check whether the proxy at {address} rejects a certificate of another authority"),
            why: error.to_string(),
        }),
    }
}

/// Returns whether the server rejects the client certificate in `config`: it sends a TLS alert, or closes the
/// connection after the handshake. Returns `false` if the server sends data, or keeps the connection open for
/// [`TIMEOUT`].
///
/// # Errors
/// If the server refuses the connection, does not complete the handshake without a TLS alert, or sends data that is not
/// TLS. Such a failure does not show what the server thinks of the certificate.
fn is_rejected(address: SocketAddr, server_name: &str, config: Arc<ClientConfig>) -> io::Result<bool> {
    let mut stream = match connect(address, server_name, config) {
        Ok(stream) => stream,
        Err(error) if is_alert(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    // In TLS 1.3, the client may complete its handshake before the server has verified the client's certificate.
    // Therefore, also wait for the server to close the connection.
    match stream.read(&mut [0; 1]) {
        Ok(bytes) => Ok(bytes == 0),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(false),
            // The server closed the connection without a TLS alert.
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(true),
            _ if is_alert(&error) => Ok(true),
            _ => Err(error),
        },
    }
}

/// Returns whether an error is a TLS alert of the server.
fn is_alert(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::AlertReceived(_)))
}

/// Supplies the client's own certificate, and records whether the server requested it.
#[derive(Debug)]
struct Asked {
    own: Arc<dyn ResolvesClientCert>,
    asked: AtomicBool,
}

impl ResolvesClientCert for Asked {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.own.resolve(authorities, schemes)
    }

    fn has_certs(&self) -> bool {
        self.own.has_certs()
    }
}

/// Credentials that the server must reject. They have the identity [`CLIENT`], but come from a second authority with
/// the same name as the authority of `client`. They trust the authority of `client`, so that the handshake does not
/// fail on the client's side.
fn stranger(client: &Credentials) -> Result<Credentials> {
    let dir = client.authority.with_file_name("stranger");
    let credentials = Authority::create(&dir)?.issue(CLIENT)?;
    Ok(Credentials { authority: client.authority.clone(), ..credentials })
}

fn connect(address: SocketAddr, server_name: &str, config: Arc<ClientConfig>) -> io::Result<Stream> {
    let name = ServerName::try_from(server_name.to_owned()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
