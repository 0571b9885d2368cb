//! Limits the time and the memory of requests to the identity service while they arrive.
//!
//! tonic calls a method only once the request is complete, and waits for the rest of a request without a time limit.
//! Any client in the cluster can send a part of a request and stop. So a request that is not complete in time fails,
//! and its connection is closed.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame};
use hyper::{Request, Response};
use leno_xds::identity::REQUEST_MAX_BYTES;
use leno_xds::identity::v1::identity_server::IdentityServer;
use tokio::time::{Sleep, sleep};
use tonic::server::NamedService;
use tonic::{Status, body};

use super::service::Service;
use crate::accept::{Peer, Presence, WHOLE_REQUEST_MAX};
use crate::publish::accounts::{Accounts, Held, Holder};
use crate::publish::service::PREFIX_BYTES;

/// Maximum size of a small request, in bytes. The memory that is counted for each connection covers a small request;
/// only the memory of longer requests is counted separately. Requests with tokens of Kubernetes have about 2,000 bytes.
pub(super) const SMALL_BYTES: usize = 8 << 10;
/// Bytes of memory for each byte of a longer request: up to two in the decoder's buffer, which grows by doubling, and
/// one in the decoded message.
const COPIES: usize = 3;

/// The identity service, wrapped in the limits on requests.
#[derive(Clone)]
pub(super) struct Intake {
    service: IdentityServer<Service>,
    /// Counts the memory of requests longer than [`SMALL_BYTES`] until they are answered.
    accounts: Arc<Accounts>,
}

impl Intake {
    pub(super) fn new(service: IdentityServer<Service>, accounts: Arc<Accounts>) -> Self {
        Self { service, accounts }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<body::Body>, Infallible>> + Send>>;

/// Answers a call with an error, without passing it on to the service.
fn refused(status: Status) -> Answering {
    let response: Response<body::Body> = status.into_http();
    Box::pin(ready(Ok(response)))
}

impl NamedService for Intake {
    const NAME: &'static str = <IdentityServer<Service> as NamedService>::NAME;
}

impl tower_service::Service<Request<body::Body>> for Intake {
    type Response = Response<body::Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<body::Body>) -> Answering {
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            return refused(Status::internal("a connection without a peer"));
        };
        let address = peer.address.ip().to_canonical();
        let mut account = match self.accounts.open(Holder::of(&peer), address, Instant::now()) {
            Ok(account) => account,
            Err(exhausted) => return refused(Status::resource_exhausted(exhausted.to_string())),
        };
        let mut displacement = account.displacement();
        let held = Arc::new(Mutex::new(account.hold(0)));
        let request = request.map(|body| Arriving::new(body, held.clone(), peer.presence));
        let answering = self.service.call(request);
        Box::pin(async move {
            let answer = tokio::select! {
                answer = answering => answer,
                displaced = displacement.wait() => Ok(Status::resource_exhausted(displaced.to_string()).into_http()),
            };
            // Count the memory until the call is answered, because the request keeps it while the API server reviews
            // the token.
            drop(held);
            drop(account);
            answer
        })
    }
}

/// The body of one request while it arrives.
struct Arriving {
    body: body::Body,
    latest: Pin<Box<Sleep>>,
    /// Bytes received so far.
    bytes: usize,
    held: Arc<Mutex<Held>>,
    presence: Presence,
    has_ended: bool,
}

impl Arriving {
    fn new(body: body::Body, held: Arc<Mutex<Held>>, presence: Presence) -> Self {
        Self { body, latest: Box::pin(sleep(WHOLE_REQUEST_MAX)), bytes: 0, held, presence, has_ended: false }
    }

    fn count(&mut self, more: usize) -> Result<(), Status> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > REQUEST_MAX_BYTES + PREFIX_BYTES {
            return Err(Status::out_of_range(format!("send one request of at most {REQUEST_MAX_BYTES} bytes")));
        }
        if self.bytes <= SMALL_BYTES {
            return Ok(());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.grow(self.bytes * COPIES).map_err(|exhausted| Status::resource_exhausted(exhausted.to_string()))
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        // Check the time limit first, so that frames without bytes cannot delay it.
        if this.latest.as_mut().poll(cx).is_ready() {
            this.has_ended = true;
            this.presence.stalled();
            let told = format!("the request was not whole within {} s; send it again", WHOLE_REQUEST_MAX.as_secs());
            return Poll::Ready(Some(Err(Status::deadline_exceeded(told))));
        }
        let arrived = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Some(this.count(bytes).map(|()| frame))
            }
            Poll::Ready(end) => end,
            Poll::Pending => return Poll::Pending,
        };
        this.has_ended = !matches!(arrived, Some(Ok(_)));
        Poll::Ready(arrived)
    }
}
