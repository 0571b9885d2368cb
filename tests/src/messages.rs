//! gRPC messages, and functions that send and read bodies with the flow control of the `h2` crate.

use std::future::poll_fn;

use bytes::{BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};

/// Returns `payload` with gRPC's prefix of five bytes: the flag "not compressed", and the length.
pub fn message(payload: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + payload.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(payload.len()).expect("a message's length fits"));
    framed.put_slice(payload);
    framed.freeze()
}

/// Returns the payloads of the complete messages in `body`.
pub fn payloads(mut body: Bytes) -> Vec<Bytes> {
    let mut found = Vec::new();
    while let Some(header) = body.get(1..5) {
        let length = u32::from_be_bytes(header.try_into().expect("four bytes")) as usize;
        if body.len() < 5 + length {
            break;
        }
        found.push(body.split_to(5 + length).slice(5..));
    }
    found
}

/// Sends `data` in pieces, each as large as the peer's flow-control windows allow. If `end` is true, also ends the
/// stream.
///
/// # Errors
/// Errors of the stream, such as a reset by the peer.
pub async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes, end: bool) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let room = match poll_fn(|context| stream.poll_capacity(context)).await {
            Some(room) => room?,
            None => return Err(h2::Reason::STREAM_CLOSED.into()),
        };
        let part = data.split_to(room.min(data.len()));
        stream.send_data(part, end && data.is_empty())?;
        if end && data.is_empty() {
            return Ok(());
        }
    }
    if end { stream.send_data(Bytes::new(), true) } else { Ok(()) }
}

/// Reads a body to its end. Releases flow-control capacity as data arrives.
///
/// # Errors
/// Errors of the stream, such as a reset by the peer.
pub async fn read(stream: &mut RecvStream) -> Result<Bytes, h2::Error> {
    let mut body = BytesMut::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        stream.flow_control().release_capacity(part.len())?;
        body.put(part);
    }
    Ok(body.freeze())
}
