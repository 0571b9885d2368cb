//! The h2 crate as the client of all calls.

use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use super::Received;
use super::their_server::{read, send_rest};
use super::traffic::{Call, Ending, Message, from_map, to_map};

pub(super) async fn call_all(io: DuplexStream, mut rng: fastrand::Rng, calls: Arc<Vec<Call>>, received: Received) {
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(rng.u32(100..100_000))
        .initial_connection_window_size(rng.u32(65_535..200_000))
        .max_frame_size(rng.u32(16_384..60_000))
        .header_table_size(rng.u32(0..10_000))
        .handshake::<_, Bytes>(io)
        .await
        .expect("a client");
    let connection = tokio::spawn(connection);
    let mut running = JoinSet::new();
    for number in 0..calls.len() {
        let client = client.clone().ready().await.expect("our engine keeps the rules");
        running.spawn(call(client, number, Arc::clone(&calls), Arc::clone(&received)));
        // Some calls start at once, others only after another call has ended.
        if rng.u8(0..4) == 0 {
            running.join_next().await;
        }
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no call panicked");
    }
    drop(client);
    connection.await.expect("nobody panicked").expect("our engine keeps the rules");
}

async fn call(mut client: SendRequest<Bytes>, number: usize, calls: Arc<Vec<Call>>, received: Received) {
    let call = &calls[number];
    let mut request = http::Request::post("http://b.a/a.B/C").body(()).expect("a request");
    *request.headers_mut() = to_map(&call.request.fields);
    let end_stream = call.request.body.is_empty() && call.request.trailers.is_none();
    let (response, mut stream) = client.send_request(request, end_stream).expect("the stream can be opened");
    if let Ending::ClientCancels { after_bytes: ..1_000 } = call.ending {
        return stream.send_reset(Reason::CANCEL);
    }
    if !end_stream {
        send_rest(stream, &call.request);
    }
    if let Some(message) = hear(response, call).await {
        received.lock().expect("nobody panicked").insert(number, message);
    }
}

/// Returns the received part of the response. Dropping the rest of the response cancels the call.
async fn hear(response: ResponseFuture, call: &Call) -> Option<Message> {
    let (parts, body) = response.await.ok()?.into_parts();
    let message = Message { fields: from_map(&parts.headers, &call.response.fields), ..Message::default() };
    let max_bytes = match call.ending {
        Ending::ClientCancels { after_bytes } => after_bytes,
        Ending::Whole | Ending::ServerResets { .. } => usize::MAX,
    };
    Some(read(body, &call.response, message, max_bytes).await)
}
