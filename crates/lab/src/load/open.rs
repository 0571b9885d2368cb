//! Opening a connection: TCP, and HTTP/2 up to the server's SETTINGS.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use tokio::net::TcpStream;

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Never the reason why an answer waits.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Calls given up may be as many as these without the connection noticing.
const MAX_RESET_STREAMS: usize = 100_000;
/// Frames of small answers that may wait to be read: all that a connection has in flight.
const DATA_FRAME_BUDGET_BYTES: usize = 64 << 20;

/// Drives a connection's socket.
pub(super) type Driver = client::Connection<TcpStream, Bytes>;

/// Opens a connection and waits until the server has said how many calls it takes at a time.
///
/// # Errors
/// Why it cannot be opened, in words.
pub(super) async fn open(address: SocketAddr) -> Result<(SendRequest<Bytes>, Driver), String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, handshake(address)).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no HTTP/2 connection within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}

async fn handshake(address: SocketAddr) -> Result<(SendRequest<Bytes>, Driver), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (sender, mut driver) = client::Builder::new()
        .enable_push(false)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(None)
        .data_frame_budget(DATA_FRAME_BUDGET_BYTES)
        // None until its SETTINGS are here: a call before them might be one more than it takes.
        .initial_max_send_streams(0)
        .handshake(stream)
        .await
        .map_err(|error| error.to_string())?;
    poll_fn(|cx| match Pin::new(&mut driver).poll(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(Err(error.to_string())),
        Poll::Ready(Ok(())) => Poll::Ready(Err("closed before HTTP/2 SETTINGS came".to_owned())),
        Poll::Pending if driver.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    Ok((sender, driver))
}
