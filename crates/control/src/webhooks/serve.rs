//! The webhooks' listener: HTTP/1.1 over TLS. Everybody in the cluster can reach it, and API servers show no certificate of
//! the mesh, so what callers may cost is bounded here.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::pending;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use leno_admin::answer::{Answer, text, typed, wrong_method};
use leno_install::webhook::{AdmissionResponse, AdmissionReview};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::counts::{Counts, Outcome};
use super::namespaces::NoNamespace;
use super::review::{NoAnswer, Reviewer, Webhook};
use crate::accept::{Clients, Connection, Tls, accept};

/// Most connections at once; more wait to be accepted. An API server keeps some dozens open while nothing happens.
const CONNECTIONS_MAX: usize = 512;
/// How long a connection may be without a request, or a request's header may take to come. API servers close theirs after
/// 90 seconds: whoever asks should not meet a connection that is being closed.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// How long a connection is used, so that API servers come to replicas that started later.
const CONNECTION_MAX: Duration = Duration::from_secs(10 * 60);
/// How long a request may take, its body and its answer included. API servers wait for 30 seconds at most.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Largest request header, in bytes; API servers send a tenth of it.
const HEADER_MAX_BYTES: usize = 16 << 10;
/// Largest review, in bytes: an object as it would be and as it was, each as large as a cluster can store.
const REVIEW_MAX_BYTES: usize = 4 << 20;
/// Bytes of reviews that are read and answered at once; more wait. Parsed they take several times as much memory.
const REVIEWS_MAX_BYTES: usize = 4 * REVIEW_MAX_BYTES;

/// What serves the webhooks' requests.
pub(super) struct Server {
    reviewer: Reviewer,
    counts: Arc<Counts>,
    /// Bytes of reviews that may come yet.
    room: Semaphore,
}

impl Server {
    pub(super) fn new(reviewer: Reviewer, counts: Arc<Counts>) -> Self {
        Self { reviewer, counts, room: Semaphore::new(REVIEWS_MAX_BYTES) }
    }

    /// Answers whoever connects, for ever; what `certificate` says last shows who we are.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        certificate: watch::Receiver<Arc<ServerConfig>>,
    ) -> Infallible {
        let server = Arc::new(self);
        let (sender, mut connections) = mpsc::channel(1);
        let tls: Tls = Box::new(move || certificate.borrow().clone());
        let answering = async {
            while let Some(Ok(connection)) = connections.recv().await {
                tokio::spawn(server.clone().answer_connection(connection));
            }
            // The sender lives as long as we do.
            pending().await
        };
        tokio::select! {
            never = accept(listener, Some(tls), Clients::Anybody, CONNECTIONS_MAX, sender) => match never {},
            never = answering => never,
        }
    }

    async fn answer_connection(self: Arc<Self>, connection: Connection) {
        let server = &*self;
        let service = service_fn(move |request| async move { Ok::<_, Infallible>(server.answer(request).await) });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_MAX)
            .max_buf_size(HEADER_MAX_BYTES)
            .serve_connection(TokioIo::new(connection), service);
        let mut serving = pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            () = sleep(CONNECTION_MAX) => {
                serving.as_mut().graceful_shutdown();
                timeout(REQUEST_MAX, serving).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "webhooks: a connection failed");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let Some(webhook) = Webhook::at(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "there is no such webhook; there are /inject and /validate\n");
        };
        let reviewed = timeout(REQUEST_MAX, self.review(webhook, request));
        let reviewed = reviewed.await.unwrap_or_else(|_| {
            let why = format!("the review took more than {} s; ask again", REQUEST_MAX.as_secs());
            Err(text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"))
        });
        match reviewed {
            Ok(response) => {
                self.counts.count(webhook, Outcome::of(webhook, &response));
                said(webhook, response)
            }
            Err(answer) => {
                self.counts.count(webhook, Outcome::Error);
                answer
            }
        }
    }

    async fn review(&self, webhook: Webhook, request: Request<Incoming>) -> Result<AdmissionResponse, Answer> {
        if *request.method() != Method::POST {
            return Err(wrong_method("POST"));
        }
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(is_json) {
            return Err(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the review as application/json\n"));
        }
        let body = request.into_body();
        let size = body.size_hint().upper().and_then(|bytes| bytes.try_into().ok()).unwrap_or(REVIEW_MAX_BYTES);
        if size > REVIEW_MAX_BYTES {
            return Err(too_large());
        }
        let size = u32::try_from(size).expect("at most REVIEW_MAX_BYTES");
        let _room = self.room.acquire_many(size).await.expect("nobody closes the semaphore");
        let review = read(body).await?;
        self.reviewer.answer(webhook, &review).await.map_err(|error| no_answer(webhook, &error))
    }
}

async fn read(body: Incoming) -> Result<Bytes, Answer> {
    match Limited::new(body, REVIEW_MAX_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(error) => Err(text(StatusCode::BAD_REQUEST, format!("the review ended too early: {error}\n"))),
    }
}

fn too_large() -> Answer {
    text(StatusCode::PAYLOAD_TOO_LARGE, format!("send reviews of at most {REVIEW_MAX_BYTES} bytes\n"))
}

/// Whether a content type is JSON, whatever parameters follow.
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn no_answer(webhook: Webhook, error: &NoAnswer) -> Answer {
    let status = match error {
        NoAnswer::Review(_) | NoAnswer::Namespace(NoNamespace::Name(_)) => StatusCode::BAD_REQUEST,
        NoAnswer::Namespace(NoNamespace::Api { .. }) => StatusCode::SERVICE_UNAVAILABLE,
    };
    if status == StatusCode::SERVICE_UNAVAILABLE {
        tracing::warn!(webhook = webhook.name(), %error, "a review was not answered");
    }
    text(status, format!("{error}\n"))
}

fn said(webhook: Webhook, response: AdmissionResponse) -> Answer {
    if let Some(status) = &response.status {
        tracing::debug!(webhook = webhook.name(), "refused: {}", status.message);
    }
    match serde_json::to_vec(&AdmissionReview::answer(response)) {
        Ok(json) => typed(StatusCode::OK, "application/json", json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
