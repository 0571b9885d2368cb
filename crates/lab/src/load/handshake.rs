//! Connections with mutual TLS that are made and left again, each from nothing: no session is resumed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Client;
use super::call::Answer;
use crate::error::{Error, Result};

/// The name of every server, whose greeting has none.
pub const NAMELESS: &str = "server";
/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What an HTTP/2 client says first: its preface and empty SETTINGS (RFC 9113 section 3.4). The server answers with
/// its own, which it does not before it has seen the client's certificate.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// How a server is greeted.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The client's certificate, and whom it trusts.
    pub config: Arc<ClientConfig>,
    /// Whom it asks for (SNI).
    pub name: ServerName<'static>,
}

impl Hello {
    /// A greeting to the server `name`.
    ///
    /// # Errors
    /// When that is no name.
    pub fn new(config: Arc<ClientConfig>, name: &str) -> Result<Self> {
        let parsed = ServerName::try_from(name.to_owned());
        let name = parsed.map_err(|error| Error::Tls { what: name.to_owned(), why: error.to_string() })?;
        Ok(Self { config, name })
    }
}

/// A client that connects again and again.
pub(super) struct Handshake {
    address: SocketAddr,
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Handshake {
    pub(super) fn new(client: &Client, hello: &Hello) -> Self {
        let connector = TlsConnector::from(Arc::clone(&hello.config));
        Self { address: client.address, connector, name: hello.name.clone() }
    }

    /// Connects, greets, waits for the server's greeting, and leaves.
    pub(super) async fn exchange(&mut self) -> Answer {
        match tokio::time::timeout(TIMEOUT, self.greet()).await {
            Ok(Ok(())) => Ok(Bytes::from_static(NAMELESS.as_bytes())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no handshake within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn greet(&self) -> std::io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        // Closed by a reset: ports that wait for late packets would run out.
        stream.set_zero_linger()?;
        let mut stream = self.connector.connect(self.name.clone(), stream).await?;
        stream.write_all(GREETING).await?;
        stream.flush().await?;
        stream.read_u8().await.map(|_| ())
    }
}
