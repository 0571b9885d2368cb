//! `leno lab tunnel`: a TLS tunnel that uses only rustls, as the baseline for meshes. The lab starts this command;
//! users do not run it themselves.
//!
//! The client's side encrypts the bytes that it receives; the server's side decrypts them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Credentials, SERVER, config};
use crate::error::{Error, Result, io};

/// Size of a buffer, in bytes: room for four TLS records.
const BUFFER_BYTES: usize = 64 << 10;
/// The server name (SNI) that the tunnel's client sends, similar to the names in a mesh. The client verifies only the
/// server's identity, not this name.
const SERVER_NAME: &str = "tunnel.leno.internal";

/// Options of `leno lab tunnel`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// End of the tunnel
    #[arg(long, value_enum)]
    pub side: Side,
    /// Address for incoming connections
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Address for outgoing connections; without this option, the server's side echoes the bytes
    #[arg(long, value_name = "ADDR", required_if_eq("side", "client"))]
    pub connect: Option<SocketAddr>,
    /// Certificate of the authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub authority: PathBuf,
    /// Certificate of the tunnel, in PEM
    #[arg(long, value_name = "FILE")]
    pub certificate: PathBuf,
    /// Key of that certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// An end of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// Accepts unencrypted bytes, and sends TLS.
    Client,
    /// Accepts TLS, and sends unencrypted bytes.
    Server,
}

/// Runs one end of the tunnel on one thread until the process is ended.
///
/// # Errors
/// If a file is invalid, or the program cannot listen on the address.
pub fn run(options: &Options) -> Result<()> {
    let end = End::new(options)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("starting the tunnel"))?;
    runtime.block_on(async {
        let cannot_listen = || format!("--listen {}", options.listen);
        let listener = TcpListener::bind(options.listen).await.map_err(io(cannot_listen()))?;
        carry_all(&listener, end).await.map_err(io(cannot_listen()))
    })
}

async fn carry_all(listener: &TcpListener, end: End) -> std::io::Result<()> {
    let end = Arc::new(end);
    loop {
        let (stream, _) = listener.accept().await?;
        let end = Arc::clone(&end);
        // Ignore the result: both peers see the connection end, so an error needs no report.
        tokio::spawn(async move { end.carry(stream).await });
    }
}

/// One end of the tunnel, with the parameters of its connections.
enum End {
    Client(TlsConnector, ServerName<'static>, SocketAddr),
    Server(TlsAcceptor, Option<SocketAddr>),
}

impl End {
    fn new(options: &Options) -> Result<Self> {
        let Options { side, connect, authority, certificate, key, .. } = options.clone();
        let credentials = Credentials { authority, certificate, both: key.clone(), key };
        match (side, connect) {
            (Side::Server, connect) => Ok(Self::Server(config::server(&credentials)?.into(), connect)),
            (Side::Client, Some(connect)) => {
                let name = ServerName::try_from(SERVER_NAME)
                    .map_err(|error| Error::Tls { what: SERVER_NAME.to_owned(), why: error.to_string() })?;
                Ok(Self::Client(config::client(&credentials, SERVER, None)?.into(), name, connect))
            }
            (Side::Client, None) => Err(Error::Usage("--connect is needed on the client's side".to_owned())),
        }
    }

    async fn carry(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        match self {
            Self::Client(connector, name, address) => {
                let secure = connector.connect(name.clone(), connect(*address).await?).await?;
                join(stream, secure).await
            }
            Self::Server(acceptor, Some(address)) => {
                let secure = acceptor.accept(stream).await?;
                join(connect(*address).await?, secure).await
            }
            Self::Server(acceptor, None) => send_back(acceptor.accept(stream).await?).await,
        }
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn join(mut plain: TcpStream, mut secure: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    copy_bidirectional_with_sizes(&mut plain, &mut secure, BUFFER_BYTES, BUFFER_BYTES).await.map(|_| ())
}

async fn send_back(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut buffer = vec![0; 1024];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&buffer[..count]).await?;
        stream.flush().await?;
    }
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
