//! Whether a mesh is what it says: nothing is measured through one that lets strangers in.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, StreamOwned};

use super::config::{self, SUITE};
use super::{Credentials, SERVER};
use crate::error::{Error, Result};

/// How long a server may take to turn a stranger away.
const TIMEOUT: Duration = Duration::from_secs(2);

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Fails unless the server at `address` speaks TLS 1.3 with the suite of all meshes and `alpn`, shows the identity
/// [`SERVER`], and turns away who shows no certificate.
pub(crate) fn ensure_mutual_tls(
    address: SocketAddr,
    server_name: &str,
    client: &Credentials,
    alpn: Option<&str>,
) -> Result<()> {
    let is_not = |why: String| Error::Tls { what: format!("the proxy at {address} is no server of the mesh"), why };
    let known = connect(address, server_name, config::client(client, SERVER, alpn, false)?).map_err(is_not)?;
    let (version, suite) = (known.conn.protocol_version(), known.conn.negotiated_cipher_suite());
    let (suite, chosen) = (suite.map(|suite| suite.suite()), known.conn.alpn_protocol());
    if (version, suite) != (Some(ProtocolVersion::TLSv1_3), Some(SUITE)) {
        return Err(is_not(format!("it chose {version:?} with {suite:?}")));
    }
    if chosen != alpn.map(str::as_bytes) {
        return Err(is_not(format!("of ALPN {alpn:?} it chose {:?}", chosen.map(String::from_utf8_lossy))));
    }
    let anonymous = config::client(client, SERVER, alpn, true)?;
    // A client's handshake may be done before the server misses the certificate.
    let refused = connect(address, server_name, anonymous).and_then(|mut stream| wait_for_refusal(&mut stream));
    match refused {
        Ok(()) => Err(is_not("it lets in who shows no certificate".to_owned())),
        Err(_) => Ok(()),
    }
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

/// Ends well when the server keeps the connection open.
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
