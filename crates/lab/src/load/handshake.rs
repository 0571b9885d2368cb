//! Connections with mutual TLS that open and close, without session resumption.

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
use super::exchange::NAMELESS;
use super::failure::{Failure, FailureClass};
use crate::error::{Error, Result};

/// Longest time for one exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The client's HTTP/2 preface and empty SETTINGS (RFC 9113 section 3.4). The server sends its own SETTINGS only after
/// it has seen the client's certificate. So the server's SETTINGS show that the handshake is complete on both sides.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The parameters of a TLS handshake.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The client's certificate, and its trust anchors.
    pub config: Arc<ClientConfig>,
    /// The server name (SNI).
    pub name: ServerName<'static>,
}

impl Hello {
    /// A handshake with the server `name`.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn new(config: Arc<ClientConfig>, name: &str) -> Result<Self> {
        let parsed = ServerName::try_from(name.to_owned());
        let name = parsed.map_err(|error| Error::Tls { what: name.to_owned(), why: error.to_string() })?;
        Ok(Self { config, name })
    }
}

/// A client that connects repeatedly.
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

    /// Connects, sends [`GREETING`], waits for the server's SETTINGS, and closes the connection.
    pub(super) async fn exchange(&mut self) -> Answer {
        match tokio::time::timeout(TIMEOUT, self.greet()).await {
            Ok(Ok(())) => Ok(Bytes::from_static(NAMELESS.as_bytes())),
            Ok(Err(error)) => Err(Failure::connection(error)),
            Err(_) => {
                let why = format!("no handshake within {} s", TIMEOUT.as_secs());
                Err(Failure::new(FailureClass::TimeOut, why))
            }
        }
    }

    async fn greet(&self) -> std::io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        // Close with a reset. Otherwise, each closed connection would keep its local port in TIME_WAIT, and no free
        // ports would be left.
        stream.set_zero_linger()?;
        let mut stream = self.connector.connect(self.name.clone(), stream).await?;
        stream.write_all(GREETING).await?;
        stream.flush().await?;
        stream.read_u8().await.map(|_| ())
    }
}
