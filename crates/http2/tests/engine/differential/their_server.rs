//! The h2 crate as the server of all calls.

use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use tokio::io::DuplexStream;

use super::Received;
use super::traffic::{Call, Ending, Fields, Message, call_number, from_map, to_map};

pub(super) async fn serve(io: DuplexStream, mut rng: fastrand::Rng, calls: Arc<Vec<Call>>, received: Received) {
    let mut connection = h2::server::Builder::new()
        .initial_window_size(rng.u32(100..100_000))
        .initial_connection_window_size(rng.u32(65_535..200_000))
        .max_frame_size(rng.u32(16_384..60_000))
        .max_concurrent_streams(rng.u32(1..20))
        .handshake::<_, Bytes>(io)
        .await
        .expect("our preface and settings are fine");
    while let Some(accepted) = connection.accept().await {
        match accepted {
            Ok((request, respond)) => {
                tokio::spawn(answer(request, respond, Arc::clone(&calls), Arc::clone(&received)));
            }
            // Tolerate an I/O error: the client closes the connection once it has all responses, even if the server has
            // more to send.
            Err(error) => return assert!(error.is_io(), "our engine keeps the rules: {error}"),
        }
    }
}

async fn answer(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    calls: Arc<Vec<Call>>,
    received: Received,
) {
    let number = call_number(&from_map(request.headers(), &Fields::new()));
    let call = &calls[number];
    let (parts, body) = request.into_parts();
    let message = Message { fields: from_map(&parts.headers, &call.request.fields), ..Message::default() };
    let store = |message: Message| received.lock().expect("nobody panicked").insert(number, message);
    if let Ending::ServerResets { after_bytes } = call.ending {
        store(read(body, &call.request, message, after_bytes).await);
        return respond.send_reset(Reason::INTERNAL_ERROR);
    }
    if call.answers_early {
        send(respond, &call.response);
        store(read(body, &call.request, message, usize::MAX).await);
    } else {
        store(read(body, &call.request, message, usize::MAX).await);
        send(respond, &call.response);
    }
}

/// Reads until the end, an error, or more than `max_bytes`.
pub(super) async fn read(mut body: RecvStream, sent: &Message, mut message: Message, max_bytes: usize) -> Message {
    while let Some(piece) = body.data().await {
        let Ok(piece) = piece else { return message };
        body.flow_control().release_capacity(piece.len()).expect("so much was received");
        message.body.extend_from_slice(&piece);
        if message.body.len() > max_bytes {
            return message;
        }
    }
    let Ok(trailers) = body.trailers().await else { return message };
    message.trailers = trailers.map(|map| from_map(&map, sent.trailers.as_ref().unwrap_or(&Fields::new())));
    message.complete = true;
    message
}

fn send(mut respond: SendResponse<Bytes>, message: &Message) {
    let mut response = http::Response::new(());
    *response.headers_mut() = to_map(&message.fields);
    let end_stream = message.body.is_empty() && message.trailers.is_none();
    // If the client has cancelled the call, sending fails, and that is fine.
    if let Ok(stream) = respond.send_response(response, end_stream)
        && !end_stream
    {
        send_rest(stream, message);
    }
}

pub(super) fn send_rest(mut stream: h2::SendStream<Bytes>, message: &Message) {
    let body = Bytes::copy_from_slice(&message.body);
    let sent = match &message.trailers {
        Some(trailers) => stream.send_data(body, false).and_then(|()| stream.send_trailers(to_map(trailers))),
        None => stream.send_data(body, true),
    };
    drop(sent);
}
