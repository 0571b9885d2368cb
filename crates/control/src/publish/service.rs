//! The gRPC service of aggregated discovery.
//!
//! The service frames messages itself. tonic's server would keep, for the life of a stream, a buffer for the largest
//! message that the stream has carried. Each proxy has such a stream, which stays open for days with little traffic.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_or_pending};
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::SERVICE_NAME;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use prost::Message;
use tokio::sync::mpsc;
use tonic::codec::{BufferSettings, Streaming};
use tonic::metadata::MetadataValue;
use tonic::server::NamedService;
use tonic::{Status, body};
use tonic_prost::ProstDecoder;

use super::accounts::Holder;
use super::delta::Delta;
use super::limits::REQUEST_MAX_BYTES;
use super::metered::Metered;
use super::sotw::StateOfTheWorld;
use super::state::State;
use super::stream::{self, Requests};
use super::variant::Exchange;
use crate::accept::Peer;

/// The header field that names the compression of a request's messages.
const GRPC_ENCODING: &str = "grpc-encoding";
/// The header field that lists the compressions that we accept.
const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// No compression.
const IDENTITY: &str = "identity";
/// Bytes before each message: the compressed flag and the length.
pub(crate) const PREFIX_BYTES: usize = 5;
/// Number of responses that the channel to the client holds. Each of the four kinds has at most one unacknowledged
/// response, so only additional answers about refused names can fill the channel.
const RESPONSES_MAX: usize = 4;

/// Serves both variants of aggregated discovery: incremental and state-of-the-world.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) state: Arc<State>,
}

impl NamedService for Service {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower_service::Service<Request<body::Body>> for Service {
    type Response = Response<body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<body::Body>) -> Self::Future {
        let answer = match request.uri().path().trim_start_matches('/').split_once('/') {
            Some((SERVICE_NAME, "DeltaAggregatedResources")) => self.answer::<Delta>(request),
            Some((SERVICE_NAME, "StreamAggregatedResources")) => self.answer::<StateOfTheWorld>(request),
            _ => Err(Status::unimplemented("no such method")),
        };
        ready(Ok(answer.unwrap_or_else(Status::into_http)))
    }
}

impl Service {
    fn answer<E: Exchange>(&self, request: Request<body::Body>) -> Result<Response<body::Body>, Status> {
        if request.headers().get(GRPC_ENCODING).is_some_and(|encoding| encoding != IDENTITY) {
            let mut status = Status::unimplemented("compressed requests are not supported; send them uncompressed");
            status.metadata_mut().insert(GRPC_ACCEPT_ENCODING, MetadataValue::from_static(IDENTITY));
            return Err(status);
        }
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.ok_or_else(|| Status::internal("a connection without a peer"))?;
        peer.presence.asked();
        peer.presence.settle();
        let opened = self.state.accounts.open(Holder::of(&peer), peer.address.ip().to_canonical(), Instant::now());
        let account = opened.map_err(|exhausted| {
            self.state.metrics.refused_stream();
            Status::resource_exhausted(exhausted.to_string())
        })?;
        // The decoder's buffer grows as needed, and stays at about twice the size of the largest request. Most requests
        // are short acknowledgements.
        let decoder = ProstDecoder::new(BufferSettings::new(0, 0));
        let body = Metered::new(request.into_body(), account.hold_requests());
        let meter = body.meter();
        let requests = Streaming::new_request(decoder, body, None, Some(REQUEST_MAX_BYTES));
        let (sender, messages) = mpsc::channel(RESPONSES_MAX);
        tokio::spawn(stream::serve::<E>(self.state.clone(), account, peer, Requests { requests, meter }, sender));
        let mut response = Response::new(body::Body::new(Responses { messages, has_ended: false }));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}

/// Encodes a message with its gRPC prefix.
pub(super) fn framed(message: &impl Message) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let prefix = u32::try_from(length).map_err(|_| Status::resource_exhausted("a response of over 4 GiB"))?;
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.push(0);
    bytes.extend(prefix.to_be_bytes());
    message.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.into())
}

/// The body of a response: a stream's messages, then its status.
struct Responses {
    messages: mpsc::Receiver<stream::Response>,
    has_ended: bool,
}

impl Body for Responses {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let status = match ready_or_pending!(self.messages.poll_recv(cx)).map(|response| *response) {
            Some(Ok(message)) => return Poll::Ready(Some(Ok(Frame::data(message)))),
            Some(Err(status)) => status,
            None => Status::internal("the stream ended without a status"),
        };
        self.has_ended = true;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
