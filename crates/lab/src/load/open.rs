//! Opens a connection: TCP, and HTTP/2 up to the server's SETTINGS.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use tokio::net::TcpStream;

use super::CONNECT_TIMEOUT;
use super::connect::connect;

/// Receive window of a connection: so large that no answer has to wait.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Maximum number of reset streams that h2 keeps for a connection. The load may cancel many calls at once.
const MAX_RESET_STREAMS: usize = 100_000;
/// Maximum number of bytes in small DATA frames that may wait to be read: enough for all frames in flight on a
/// connection.
const DATA_FRAME_BUDGET_BYTES: usize = 64 << 20;

/// Drives a connection's socket.
pub(super) type Driver = client::Connection<TcpStream, Bytes>;

/// Opens the connection of the client with this index, and waits for the server's limit on concurrent calls.
///
/// # Errors
/// The reason, in words.
pub(super) async fn open(address: SocketAddr, client: usize) -> Result<(SendRequest<Bytes>, Driver), String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, handshake(address, client)).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no HTTP/2 connection within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}

async fn handshake(address: SocketAddr, client: usize) -> Result<(SendRequest<Bytes>, Driver), String> {
    let stream = connect(address, client).await?;
    let (sender, mut driver) = client::Builder::new()
        .enable_push(false)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(None)
        .data_frame_budget(DATA_FRAME_BUDGET_BYTES)
        // Send no call before the server's SETTINGS arrive: an earlier call might exceed the limit in the SETTINGS.
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
