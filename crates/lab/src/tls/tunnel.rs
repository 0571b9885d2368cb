//! `leno lab tunnel`: a TLS tunnel with nothing in it but rustls, to compare meshes with. Not for people.
//!
//! Bytes that come in clear leave in TLS on the client's side, and the other way round on the server's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Credentials, SERVER, config};
use crate::error::{Error, Result, io};

/// Four TLS records.
const BUFFER_BYTES: usize = 64 << 10;
/// A mesh's names; the tunnel looks only at the identity.
const SERVER_NAME: &str = "tunnel.leno.internal";

/// Options of `leno lab tunnel`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Which end of the tunnel this is
    #[arg(long, value_enum)]
    pub side: Side,
    /// Where connections come in
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Where they go on; without it the server's side sends back what comes
    #[arg(long, value_name = "ADDR", required_if_eq("side", "client"))]
    pub connect: Option<SocketAddr>,
    /// The certificate of the authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub authority: PathBuf,
    /// The tunnel's own certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub certificate: PathBuf,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// An end of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// In clear in, TLS out.
    Client,
    /// TLS in, in clear out.
    Server,
}

/// Runs it until it is ended, on one thread.
///
/// # Errors
/// When a file is not what it should be, or the address cannot be listened on.
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
        // Both ends see how a connection ends.
        tokio::spawn(async move { end.carry(stream).await });
    }
}

/// One end, and what it does with each connection.
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
