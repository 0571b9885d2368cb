//! The webhooks' server: HTTP/1.1 over TLS. Every client in the cluster can reach it, and API servers present no
//! certificate of the mesh. So the server cannot tell API servers from other clients, and limits what all clients
//! together may use.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::pending;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use leno_accept::{Listener, Overload, Place, Queue, Room, RoomSize, Source};
use leno_admin::answer::{Answer, text, typed};
use leno_identity::innermost;
use leno_install::webhook::{AdmissionResponse, AdmissionReview};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::counts::{Counts, Outcome};
use super::refusal::Refusal;
use super::review::{Reviewer, Webhook};
use super::weight::{WEIGHT_MAX_BYTES, weight};
use crate::accept::{Clients, Connection, Peer, Tls, accept};
use crate::budget::{CONNECTION_BYTES, SMALL, WEBHOOKS, at_most, process_memory};
use crate::drain::Phase;

/// Limit on concurrent connections. [`Door::of_memory`] lowers it if the process has little memory. An API server keeps
/// up to 25 idle connections open.
const CONNECTIONS_MAX: usize = 256;
/// Longest time that a connection may be idle between requests, or a request's header may take to arrive. API servers
/// close idle connections after 90 seconds, so they never send a request on a connection that we are closing.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// Longest life of a connection. The limit makes API servers connect again, so that they also reach replicas that
/// started later.
const CONNECTION_MAX: Duration = Duration::from_secs(10 * 60);
/// Time after which an ending replica closes its idle connections. Until then, it closes each connection after the
/// connection's next answer. So API servers soon move to other replicas, which may also have newer options for new
/// proxies. And the replica hardly ever closes a connection on which an API server is sending a request.
const IDLE_AT_END: Duration = Duration::from_secs(1);
/// Longest time for a request, from the end of its header to its answer. API servers wait for at most 30 seconds.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a request's header, in bytes; API servers send a tenth of that.
const HEADER_MAX_BYTES: usize = 16 << 10;
/// Maximum size of a review, in bytes: a new and an old object, each as large as a cluster can store.
pub(super) const REVIEW_MAX_BYTES: u32 = 4 << 20;
/// Reviews up to this size, in bytes, are not limited by [`LARGE_REVIEWS_MAX`]. Nearly all reviews are this small.
const SMALL_MAX_BYTES: u32 = 32 << 10;
/// Limit on concurrent large reviews: reviews that are being read, and reviews that wait to be parsed.
/// [`Door::of_memory`] lowers this limit if the process has little memory. At the limit, a new large review replaces an
/// incomplete one, so that a slow sender delays no other client. It replaces the oldest incomplete review of the source
/// that has the most large reviews.
const LARGE_REVIEWS_MAX: usize = 6;
/// Time that a large review waits for a free place before it replaces an incomplete review. API servers send several
/// reviews at once when Pods are created in a burst. Each arrives within milliseconds, so its place is free again
/// before this time ends.
const LARGE_PATIENCE: Duration = Duration::from_millis(500);
/// Longest time from the arrival of a large review until it gets a place, [`LARGE_PATIENCE`] included. After this time,
/// the review is rejected.
const LARGE_WAIT_MAX: Duration = Duration::from_secs(4);
/// Interval at which a waiting large review checks for a free place.
const LARGE_LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Limit on reviews that are parsed and answered at the same time. Parsing takes many times a review's size in memory.
const PARSED_AT_ONCE_MAX: usize = 1;
/// Memory of a review that is parsed and answered, in bytes: the parsed objects, and a copy and a text of the new one
/// that the validation makes.
const PARSED_BYTES: usize = 2 * WEIGHT_MAX_BYTES + REVIEW_MAX_BYTES as usize;
/// Memory of a connection with a small review, in bytes.
const CLIENT_BYTES: usize = CONNECTION_BYTES + HEADER_MAX_BYTES + SMALL_MAX_BYTES as usize;

/// Limits on what all clients of the webhooks together may use. The memory for parsing reviews is subtracted first from
/// the webhooks' share of the process's memory. Large reviews get up to three fifths of the difference. Connections get
/// the remainder.
#[derive(Clone, Copy)]
struct Door {
    connections: usize,
    large_reviews: usize,
}

impl Door {
    /// Derives the limits from the process's memory, in bytes. With less than 256 MiB, the limits are the same as with
    /// 256 MiB, because one review must always fit.
    const fn of_memory(memory: usize) -> Self {
        let memory = if memory < SMALL { SMALL } else { memory };
        let free = WEBHOOKS.of(memory) - PARSED_AT_ONCE_MAX * PARSED_BYTES;
        let large_reviews = at_most(free / 5 * 3 / REVIEW_MAX_BYTES as usize, LARGE_REVIEWS_MAX);
        let connections = (free - large_reviews * REVIEW_MAX_BYTES as usize) / CLIENT_BYTES;
        Self { connections: at_most(connections, CONNECTIONS_MAX), large_reviews }
    }
}

// If the process may use 256 MiB, the limits allow the idle connections of two API servers, and two large reviews.
const LEAST: Door = Door::of_memory(SMALL);
const _: () = assert!(LEAST.connections >= 2 * 25 && LEAST.large_reviews >= 2);

pub(super) struct Server {
    reviewer: Reviewer,
    counts: Arc<Counts>,
    door: Door,
    large: Room,
    /// Limits the number of reviews that are parsed at the same time. The source addresses of reviews take turns.
    turns: Queue<Source>,
}

impl Server {
    pub(super) fn new(reviewer: Reviewer, counts: Arc<Counts>) -> Self {
        let door = Door::of_memory(process_memory());
        Self {
            reviewer,
            counts,
            door,
            large: Room::new(RoomSize::of_strangers(door.large_reviews)),
            turns: Queue::new(PARSED_AT_ONCE_MAX, door.connections),
        }
    }

    /// Serves every connection, for ever. New connections use the latest value of `certificate`. In the phase
    /// [`Phase::Ending`], closes each connection after its next answer, or after [`IDLE_AT_END`].
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        certificate: watch::Receiver<Arc<ServerConfig>>,
        phases: watch::Receiver<Phase>,
    ) -> Infallible {
        let server = Arc::new(self);
        let (sender, mut connections) = mpsc::channel(1);
        let listener = Listener::new("webhooks", listener, RoomSize::of_strangers(server.door.connections));
        let answering = async {
            while let Some(Ok(connection)) = connections.recv().await {
                tokio::spawn(server.clone().answer_connection(connection, phases.clone()));
            }
            // `accept` holds the sender for ever, so the loop above does not end.
            pending().await
        };
        tokio::select! {
            never = accept(listener, Some(Tls::Server(certificate)), Clients::Anybody, sender) => match never {},
            never = answering => never,
        }
    }

    async fn answer_connection(self: Arc<Self>, connection: Connection, phases: watch::Receiver<Phase>) {
        let (server, peer) = (&*self, connection.peer().clone());
        let (peer, phase) = (&peer, &phases.clone());
        let service = service_fn(move |request| async move {
            let mut answer = server.answer(request, peer).await;
            if *phase.borrow() == Phase::Ending {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_MAX)
            .max_buf_size(HEADER_MAX_BYTES)
            .serve_connection(TokioIo::new(connection), service);
        let mut serving = pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            () = must_close(phases) => {
                serving.as_mut().graceful_shutdown();
                timeout(REQUEST_MAX, serving).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "webhooks: a connection failed");
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        peer.presence.asked();
        let Some(webhook) = Webhook::at(request.uri().path()) else {
            return Refusal::Path.answer();
        };
        match timeout(REQUEST_MAX, self.review(webhook, request, peer)).await.unwrap_or(Err(Refusal::TooSlow)) {
            Ok(response) => {
                self.counts.count(webhook, Outcome::of(webhook, &response));
                said(response)
            }
            Err(refusal) => {
                tracing::debug!(webhook = webhook.name(), error = %refusal, "a request was not answered");
                self.counts.count(webhook, Outcome::Error);
                refusal.answer()
            }
        }
    }

    async fn review(
        &self,
        webhook: Webhook,
        request: Request<Incoming>,
        peer: &Peer,
    ) -> Result<AdmissionResponse, Refusal> {
        if *request.method() != Method::POST {
            return Err(Refusal::Method);
        }
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(is_json) {
            return Err(Refusal::ContentType);
        }
        let body = request.into_body();
        let size = body.size_hint().upper().unwrap_or(u64::from(REVIEW_MAX_BYTES));
        let size = u32::try_from(size).ok().filter(|size| *size <= REVIEW_MAX_BYTES).ok_or(Refusal::TooLarge)?;
        let source = peer.source();
        if size <= SMALL_MAX_BYTES {
            let review = read(body, size).await?;
            return self.answer_review(webhook, &review, peer).await;
        }
        let mut place = self.large_place(source).await?;
        let standing = place.standing();
        let reading = async {
            let review = read(body, size).await?;
            standing.settle();
            self.answer_review(webhook, &review, peer).await
        };
        place.hold(reading).await.unwrap_or(Err(Refusal::Replaced))
    }

    /// Waits for a place for a large review. After [`LARGE_PATIENCE`] without a free place, takes the place of an
    /// incomplete review. The review is not read before it has a place, so only its connection takes memory.
    async fn large_place(&self, source: Source) -> Result<Place, Refusal> {
        let since = Instant::now();
        // The time from which the review may take the place of another review.
        let mut could_enter = since + LARGE_PATIENCE;
        loop {
            let now = Instant::now();
            let may_enter = self.large.len() < self.door.large_reviews || now >= could_enter;
            // After a stall of the process, many waits end at once, and the reviews enter in any order. Count the age of
            // each review from the time at which it could enter. Then a review that arrived earlier does not replace a
            // later one that has just entered.
            if may_enter && let Some(place) = self.large.enter_as_since(source, now.min(could_enter).into_std()) {
                return Ok(place);
            }
            if now - since >= LARGE_WAIT_MAX {
                return Err(Refusal::Busy(Overload));
            }
            // The review could not enter until now, so it is not older than a review that enters now.
            could_enter = could_enter.max(now);
            sleep(LARGE_LOOK_INTERVAL).await;
        }
    }

    /// Answers a complete review.
    async fn answer_review(&self, webhook: Webhook, review: &[u8], peer: &Peer) -> Result<AdmissionResponse, Refusal> {
        if weight(review) > WEIGHT_MAX_BYTES {
            return Err(Refusal::TooHeavy);
        }
        // Find the namespace before parsing: while the API server is asked, a review takes only its own size in memory.
        let namespace = match webhook {
            Webhook::Inject => {
                let namespace = self.reviewer.namespace(review, peer.source()).await?;
                // Protect the connection from being replaced, but not earlier: any client can send bytes that are no
                // review. This is a review for an existing namespace.
                peer.presence.settle();
                Some(namespace)
            }
            Webhook::Validate => None,
        };
        let _turn = self.turns.permit(peer.source()).await.map_err(Refusal::Busy)?;
        let response = self.reviewer.answer(review, namespace.as_ref())?;
        peer.presence.settle();
        Ok(response)
    }
}

/// Waits until a connection must be closed, because the connection is old or the replica is ending.
async fn must_close(mut phases: watch::Receiver<Phase>) {
    let ending = async {
        // Ignore an error: the sender of the phases has been dropped because the process ends.
        let _ = phases.wait_for(|phase| *phase == Phase::Ending).await;
        sleep(IDLE_AT_END).await;
    };
    // A timeout means that the connection is old.
    let _ = timeout(CONNECTION_MAX, ending).await;
}

/// Reads a body of up to `size` bytes into one buffer. Collecting the parts first would take twice the memory.
async fn read(body: Incoming, size: u32) -> Result<Vec<u8>, Refusal> {
    let mut review = Vec::with_capacity(size as usize);
    let mut body = Limited::new(body, size as usize);
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => review.extend_from_slice(&data),
            // Ignore trailers.
            Ok(Err(_)) => {}
            Err(error) if error.is::<LengthLimitError>() => return Err(Refusal::TooLarge),
            // The error's own message only names a layer of the library; its innermost source contains the reason.
            Err(error) => return Err(Refusal::CutOff(innermost(&*error))),
        }
    }
    Ok(review)
}

/// Whether a content type is JSON, with any parameters.
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn said(response: AdmissionResponse) -> Answer {
    match serde_json::to_vec(&AdmissionReview::answer(response)) {
        Ok(json) => typed(StatusCode::OK, "application/json", json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
