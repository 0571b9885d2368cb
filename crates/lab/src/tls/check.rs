//! Checks a mesh's security, so that the lab never measures a mesh that accepts certificates of another authority.

use std::io::{ErrorKind, Read};
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

/// Longest time for a server to reject a certificate of another authority.
const TIMEOUT: Duration = Duration::from_secs(2);

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Checks that the server at `address`
/// - negotiates TLS 1.3 with the cipher suite of all meshes, and the ALPN protocol `alpn`,
/// - presents the identity [`SERVER`],
/// - requests the client's certificate, and
/// - rejects a certificate of another authority.
pub(crate) fn ensure_mutual_tls(
    address: SocketAddr,
    server_name: &str,
    client: &Credentials,
    alpn: Option<&str>,
) -> Result<()> {
    ensure_mutual_tls_of(SERVER, address, server_name, client, alpn)
}

/// As [`ensure_mutual_tls`], with the identity `server` in place of [`SERVER`].
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
    let known = connect(address, server_name, config.into()).map_err(is_not)?;
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
    // A client may complete its handshake before the server has verified the certificate. Therefore also wait for the
    // server to close the connection.
    match connect(address, server_name, stranger).and_then(|mut stream| wait_for_refusal(&mut stream)) {
        Ok(()) => Err(is_not("it accepts a certificate of another authority".to_owned())),
        Err(_) => Ok(()),
    }
}

/// The client's own certificate, and whether a server requested a certificate.
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

/// Credentials with the identity [`CLIENT`], from a second authority that has the same name as the authority of
/// `client`. These credentials trust the authority of `client`, so that the handshake does not fail on the client's
/// side.
fn stranger(client: &Credentials) -> Result<Credentials> {
    let dir = client.authority.with_file_name("stranger");
    let credentials = Authority::create(&dir)?.issue(CLIENT)?;
    Ok(Credentials { authority: client.authority.clone(), ..credentials })
}

fn connect(address: SocketAddr, server_name: &str, config: Arc<ClientConfig>) -> std::result::Result<Stream, String> {
    let name = ServerName::try_from(server_name.to_owned()).map_err(|error| error.to_string())?;
    let mut connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    let mut handshake = || {
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok::<_, std::io::Error>(socket)
    };
    let socket = handshake().map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(connection, socket))
}

/// Fails if the server closes the connection, as a server does to reject a client. Succeeds if the server sends data,
/// or keeps the connection open for [`TIMEOUT`].
fn wait_for_refusal(stream: &mut Stream) -> std::result::Result<(), String> {
    match stream.read(&mut [0; 1]) {
        Ok(0) => Err("closed".to_owned()),
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
